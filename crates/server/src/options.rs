//! Options of writes: fieldManager, dryRun, fieldValidation and DeleteOptions.

use client::cause_from_header;
use http::header::USER_AGENT;
use object::{
    DeleteOptions, Object, Preconditions, Status, Text, Value, View, from_json,
    from_json_preserving_source, quote::quote,
};
use schema::{ErrorList, FieldPath};

use crate::{
    DeleteRequest, Query, Request, RequestContext, Server, audit,
    body::read,
    cbor,
    codec::{envelope_error, media_type, replace_invalid_utf8, typed, unsupported},
};

const META: &str = "meta.k8s.io";
/// Audit events have DeleteOptions in the internal version.
const INNER: &str = "meta.k8s.io/__internal";
const UNREAD: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";
const LONGEST_MANAGER: usize = 128;
const PROPAGATIONS: &[&str] = &["Foreground", "Background", "Orphan"];

/// Parses and validates the options of a write: user, field manager, dry run, cause.
pub(crate) fn request_context(request: &Request) -> Result<RequestContext, Status> {
    let kind = match &*request.info.verb {
        "create" => "CreateOptions",
        "update" => "UpdateOptions",
        "patch" => "PatchOptions",
        _ => "", // the options of a deletion are in its body
    };
    let writes = !kind.is_empty();
    let query = &request.query;
    let mut errs = ErrorList::default();
    let dry_run = writes && dry_run(&query.all("dryRun"), &mut errs);
    let manager = query.get("fieldManager").filter(|name| !name.is_empty());
    let field = FieldPath::Root.field("fieldManager");
    if let Some(name) = manager.filter(|_| writes) {
        if name.len() > LONGEST_MANAGER {
            errs.too_long(&field, LONGEST_MANAGER);
        }
        // Go's quoting escapes characters that are not printable.
        let odd =
            |c: char| !matches!(c, '"' | '\\') && quote(c.encode_utf8(&mut [0; 4])).contains('\\');
        for (at, c) in name.char_indices().filter(|(_, c)| odd(*c)) {
            let number = u32::from(c);
            errs.invalid(
                &field,
                name,
                format!("invalid character U+{number:04X} (at position {at})"),
            );
        }
    }
    let validation = query.get("fieldValidation").unwrap_or_default();
    if writes && !matches!(validation, "" | "Ignore" | "Warn" | "Strict") {
        let at = FieldPath::Root.field("fieldValidation");
        errs.not_supported(&at, validation, &["", "Ignore", "Strict", "Warn"]);
    }
    if !errs.is_empty() {
        return Err(errs.into_status(META, kind, ""));
    }
    let agent = request.head.headers.get(USER_AGENT).and_then(|value| value.to_str().ok());
    let agent = agent.unwrap_or_default().split('/').next().unwrap_or_default();
    let cause = request.head.headers.get(client::CAUSE_HEADER).and_then(cause_from_header);
    Ok(RequestContext {
        user: request.user.clone(),
        manager: manager.unwrap_or(agent).into(),
        options: crate::WriteOptions {
            field_manager: manager.unwrap_or_default().into(),
            field_validation: validation.into(),
        },
        dry_run,
        cause,
        ..RequestContext::default()
    })
}

/// The options of a deletion: from the body, or from the query if the body is empty.
pub(crate) async fn delete(
    server: &Server,
    request: Request,
    call: &mut RequestContext,
) -> Result<DeleteRequest, Status> {
    let Request { head, body, query, .. } = request;
    let bytes = read(body, server.config.limits.body).await?;
    let mut given = match bytes.is_empty() {
        true => delete_options_from_query(&query)?,
        false => delete_options_from_body(media_type(&head.headers), &query, &bytes)?,
    };
    let shape = <DeleteOptions as object::Lens>::SHAPE;
    let misfit =
        |mut tree: Value| schema::coerce_to_schema(shape, &mut tree, &mut Vec::new()).err();
    schema::coerce_to_schema(shape, &mut given, &mut Vec::new()).map_err(|why| {
        let written = from_json_preserving_source(&bytes).ok().and_then(misfit);
        Status::bad_request(written.unwrap_or(why))
    })?;
    if !bytes.is_empty() {
        audit::log_request_object(|| {
            let sent = Object::from(given.clone()).with_api_version(INNER);
            sent.with_kind("DeleteOptions").into()
        });
    }
    let options = DeleteOptions::view(&given);
    call.dry_run = !options.dry_run().is_empty();
    parse_delete_options(options)
}

/// Validates DeleteOptions and extracts their values.
pub fn parse_delete_options(options: &DeleteOptions) -> Result<DeleteRequest, Status> {
    let mut errs = ErrorList::default();
    let propagation = propagation(options, &mut errs);
    let said: Vec<&str> = options.dry_run().iter().collect();
    dry_run(&said, &mut errs);
    let unread = options.ignore_store_read_error_with_cluster_breaking_potential() == Some(true);
    if unread {
        alone(options, &mut errs);
    }
    if !errs.is_empty() {
        return Err(errs.into_status(META, "DeleteOptions", ""));
    }
    let preconditions = options.preconditions();
    Ok(DeleteRequest {
        grace_seconds: options.grace_period_seconds(),
        uid: preconditions.and_then(Preconditions::uid).map(Text::from),
        revision: preconditions.and_then(Preconditions::resource_version).map(Text::from),
        propagation: propagation.into(),
        orphan_dependents_false: options.orphan_dependents() == Some(false),
        ignore_read_errors: unread,
        is_collection: false,
    })
}

/// Reads DeleteOptions from the query.
fn delete_options_from_query(query: &Query) -> Result<Value, Status> {
    let mut options = Value::object();
    if let Some(grace) = query.integer("gracePeriodSeconds")? {
        options["gracePeriodSeconds"] = grace.into();
    }
    if let Some(policy) = query.get("propagationPolicy") {
        options["propagationPolicy"] = policy.into();
    }
    for name in ["orphanDependents", UNREAD] {
        if query.get(name).is_some() {
            options[name] = query.flag(name).into();
        }
    }
    for name in ["uid", "resourceVersion"] {
        if let Some(wanted) = query.get(name).filter(|wanted| !wanted.is_empty()) {
            options["preconditions"][name] = wanted.into();
        }
    }
    let dry_run = query.all("dryRun");
    if !dry_run.is_empty() {
        options["dryRun"] = dry_run.into_iter().collect();
    }
    Ok(options)
}

/// Checks that no other option is combined with deleting an undecodable object, because they would
/// need its content.
fn alone(options: &DeleteOptions, errs: &mut ErrorList) {
    for (name, is_said) in [
        ("propagationPolicy", options.propagation_policy().is_some()),
        ("orphanDependents", options.orphan_dependents().is_some()),
        ("gracePeriodSeconds", options.grace_period_seconds().is_some()),
        ("preconditions", options.preconditions().is_some()),
    ] {
        if is_said {
            let why = format!("cannot be set together with .{name}");
            errs.invalid(&FieldPath::Root.field(UNREAD), true, why);
        }
    }
}

/// Rejects the deletion of a collection with the option to ignore read errors.
pub(crate) fn no_collection(delete: &DeleteRequest) -> Result<(), Status> {
    if !delete.ignore_read_errors {
        return Ok(());
    }
    let mut errs = ErrorList::default();
    let why = "is not allowed with DELETECOLLECTION, try again after removing the option";
    errs.invalid(&FieldPath::Root.field(UNREAD), true, why);
    Err(errs.into_status(META, "DeleteOptions", ""))
}

/// Decodes DeleteOptions from the body; any apiVersion is accepted.
fn delete_options_from_body(
    media_type: &str,
    query: &Query,
    bytes: &[u8],
) -> Result<Value, Status> {
    let malformed = |error: &dyn std::fmt::Display| Status::bad_request(error.to_string());
    let unreadable = |error: &dyn std::fmt::Display| {
        malformed(&format_args!("couldn't get version/kind; json parse error: {error}"))
    };
    let shape = <DeleteOptions as object::Lens>::SHAPE;
    let read = match media_type {
        "application/vnd.kubernetes.protobuf" => {
            let opened = schema::protobuf::decode_envelope(bytes)
                .map_err(|_| malformed(&envelope_error(bytes)))?;
            return schema::protobuf::decode(shape, opened.message)
                .map_err(|error| malformed(&error));
        }
        "application/cbor" if query.cbor => {
            let read = cbor::read(Some(shape), bytes).map_err(|error| malformed(&error))?;
            return Ok(read.tree);
        }
        "application/yaml" => {
            let text = std::str::from_utf8(bytes).map_err(|error| malformed(&error))?;
            object::yaml::from_yaml(text).map_err(|error| malformed(&error))?
        }
        "" | "application/json" => {
            from_json(&replace_invalid_utf8(bytes)).map_err(|error| unreadable(&error))?
        }
        _ => return Err(unsupported(query)),
    };
    let read = if read.is_null() { Value::object() } else { read };
    typed(&read).map_err(|why| unreadable(&why))?;
    let version = read.get("apiVersion").as_str().unwrap_or_default();
    let version = if version.is_empty() { "meta.k8s.io/v1" } else { version };
    if version.matches('/').count() > 1 {
        return Err(malformed(&format_args!("unexpected GroupVersion string: {version}")));
    }
    match read.get("kind").as_str().unwrap_or_default() {
        "" | "DeleteOptions" => Ok(read),
        kind => Err(malformed(&format_args!(
            "no kind {kind:?} is registered for version {version:?} in scheme \
             \"pkg/runtime/scheme.go:111\""
        ))),
    }
}

fn dry_run(said: &[&str], errs: &mut ErrorList) -> bool {
    if said.iter().any(|mode| *mode != "All") {
        let bad: Value = said.iter().copied().collect();
        errs.not_supported(&FieldPath::Root.field("dryRun"), bad, &["All"]);
    }
    !said.is_empty()
}

fn propagation(options: &DeleteOptions, errs: &mut ErrorList) -> String {
    let (asked, old) = (options.propagation_policy(), options.orphan_dependents());
    let at = FieldPath::Root.field("propagationPolicy");
    if let Some(asked) = asked.filter(|_| old.is_some()) {
        errs.invalid(&at, asked, "orphanDependents and deletionPropagation cannot be both set");
    }
    if let Some(asked) = asked.filter(|asked| !PROPAGATIONS.contains(asked)) {
        errs.not_supported(&at, asked, &["Foreground", "Background", "Orphan", "nil"]);
    }
    let old = old.map(|orphan| if orphan { "Orphan" } else { "Background" });
    asked.or(old).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked_as_json(query: &str) -> String {
        let options = delete_options_from_query(&Query::parse(query)).expect("numbers");
        String::from_utf8(object::to_json(&options)).expect("text")
    }

    #[test]
    fn a_query_says_how_to_delete() {
        assert_eq!(asked_as_json("uid=&resourceVersion=&nope=1"), "{}");
        assert_eq!(
            asked_as_json("gracePeriodSeconds=5&uid=u&dryRun=All&orphanDependents=false"),
            r#"{"dryRun":["All"],"gracePeriodSeconds":5,"orphanDependents":false,"preconditions":{"uid":"u"}}"#
        );
        let wrong = delete_options_from_query(&Query::parse("gracePeriodSeconds=x"))
            .expect_err("no number");
        assert_eq!(wrong.message(), "strconv.ParseInt: parsing \"x\": invalid syntax");
    }

    #[test]
    fn dependents_go_one_way_or_the_other() {
        let judge = |text: &str| {
            let mut errs = ErrorList::default();
            let tree = from_json(text.as_bytes()).expect("JSON");
            let said = propagation(DeleteOptions::view(&tree), &mut errs);
            (
                said,
                errs.into_status(META, "DeleteOptions", "").message().to_owned(),
                errs.is_empty(),
            )
        };
        assert_eq!(judge(r#"{"orphanDependents":true}"#).0, "Orphan");
        assert_eq!(judge(r#"{"orphanDependents":false}"#).0, "Background");
        assert!(judge(r#"{"propagationPolicy":"Foreground"}"#).2);
        let both = judge(r#"{"propagationPolicy":"Orphan","orphanDependents":true}"#);
        assert!(!both.2 && both.1.contains("cannot be both set"), "{}", both.1);
        let wrong = judge(r#"{"propagationPolicy":""}"#);
        assert!(!wrong.2 && wrong.1.contains("Unsupported value: \"\""), "{}", wrong.1);
    }

    #[test]
    fn a_dry_run_is_for_all_stages() {
        for (said, dry, wrong) in
            [(&[][..], false, false), (&["All", "All"], true, false), (&["All", "x"], true, true)]
        {
            let mut errs = ErrorList::default();
            assert_eq!((dry_run(said, &mut errs), !errs.is_empty()), (dry, wrong), "{said:?}");
        }
    }
}
