//! What writes may say in their query: who they are, and how seriously they mean it.

use client::cause_from_header;
use http::header::USER_AGENT;
use object::{DeleteOptions, Object, Status, Value, View, from_json, quote::quote};
use schema::{ErrorType, Errors, Path};

use crate::{
    Call, Delete, Query, Request, Server, audit,
    body::read,
    cbor,
    codec::{media_type, other_than_object, replaced},
    registry::revision,
};

const META: &str = "meta.k8s.io";
/// Options of deletions have no version of their own where they are told of.
const INNER: &str = "meta.k8s.io/__internal";
const UNREAD: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";
const LONGEST_MANAGER: usize = 128;
const PROPAGATIONS: &[&str] = &["Foreground", "Background", "Orphan"];

/// Who asks, in whose name, and how seriously.
pub(crate) fn call(request: &Request) -> Result<Call, Status> {
    let kind = match &*request.info.verb {
        "create" => "CreateOptions",
        "update" => "UpdateOptions",
        "patch" => "PatchOptions",
        "delete" | "deletecollection" => "DeleteOptions",
        _ => "",
    };
    let writes = !matches!(kind, "" | "DeleteOptions");
    let query = &request.query;
    let mut errs = Errors::default();
    let dry_run = !kind.is_empty() && dry_run(&query.all("dryRun"), &mut errs);
    let manager = query.get("fieldManager").filter(|name| !name.is_empty());
    let field = Path::Root.field("fieldManager");
    if let Some(name) = manager.filter(|_| writes) {
        if name.len() > LONGEST_MANAGER {
            errs.too_long(&field, LONGEST_MANAGER);
        }
        // What has no sign of its own is quoted by a number.
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
        let at = Path::Root.field("fieldValidation");
        errs.not_supported(&at, validation, &["", "Ignore", "Strict", "Warn"]);
    }
    if !errs.is_empty() {
        return Err(errs.status(META, kind, ""));
    }
    let agent = request.head.headers.get(USER_AGENT).and_then(|value| value.to_str().ok());
    let agent = agent.unwrap_or_default().split('/').next().unwrap_or_default();
    let cause = request.head.headers.get(client::CAUSE_HEADER).and_then(cause_from_header);
    Ok(Call {
        user: request.user.clone(),
        manager: manager.unwrap_or(agent).into(),
        options: crate::Options {
            field_manager: manager.unwrap_or_default().into(),
            field_validation: validation.into(),
        },
        dry_run,
        cause,
        ..Call::default()
    })
}

/// How a deletion is meant: what the body says, else what the query says.
pub(crate) async fn delete(
    server: &Server,
    request: Request,
    call: &mut Call,
) -> Result<Delete, Status> {
    let Request { head, body, query, .. } = request;
    let bytes = read(body, server.config.limits.body).await?;
    let mut given = options(media_type(&head.headers), query.cbor, &bytes)?;
    let kind = given.get("kind").as_str().unwrap_or_default();
    if !matches!(kind, "" | "DeleteOptions") {
        let version = given.get("apiVersion").as_str().unwrap_or_default();
        return Err(Status::bad_request(format!(
            "no kind {kind:?} is registered for version {version:?} in scheme \
             \"pkg/runtime/scheme.go:111\""
        )));
    }
    let shape = <DeleteOptions as object::Lens>::SHAPE;
    schema::conform(shape, &mut given, &mut schema::Unknown::new()).map_err(Status::bad_request)?;
    if !bytes.is_empty() {
        audit::note_sent(|| {
            let sent = Object::from(given.clone()).with_api_version(INNER);
            sent.with_kind("DeleteOptions").into()
        });
    }
    let options = DeleteOptions::view(&given);
    let unread = options.ignore_store_read_error_with_cluster_breaking_potential();
    let unread = unread.unwrap_or_else(|| bytes.is_empty() && query.flag(UNREAD));
    let grace = match options.grace_period_seconds() {
        None => query.integer("gracePeriodSeconds")?,
        some => some,
    };
    let mut errs = Errors::default();
    let said: Vec<&str> = options.dry_run().iter().collect();
    call.dry_run |= dry_run(&said, &mut errs);
    let propagation = propagation(options, &query, &mut errs);
    if unread {
        alone(options, &query, &mut errs);
    }
    if !errs.is_empty() {
        return Err(errs.status(META, "DeleteOptions", ""));
    }
    let preconditions = options.preconditions();
    let uid = preconditions.and_then(object::Preconditions::uid).unwrap_or_default();
    let version = preconditions.and_then(object::Preconditions::resource_version);
    Ok(Delete {
        grace_seconds: grace,
        uid: uid.into(),
        revision: revision(version.unwrap_or_default())?,
        propagation: propagation.into(),
        unread,
        many: false,
    })
}

/// What cannot be read has nothing that could be asked for.
fn alone(options: &DeleteOptions, query: &Query, errs: &mut Errors) {
    let said = |name: &str| query.get(name).is_some();
    for (name, is_said) in [
        ("propagationPolicy", options.propagation_policy().is_some() || said("propagationPolicy")),
        ("orphanDependents", options.orphan_dependents().is_some() || said("orphanDependents")),
        (
            "gracePeriodSeconds",
            options.grace_period_seconds().is_some() || said("gracePeriodSeconds"),
        ),
        ("preconditions", options.preconditions().is_some()),
    ] {
        if is_said {
            let why = format!("cannot be set together with .{name}");
            errs.invalid(&Path::Root.field(UNREAD), true, why);
        }
    }
}

/// All at once is too much.
pub(crate) fn no_collection(delete: &Delete) -> Result<(), Status> {
    if !delete.unread {
        return Ok(());
    }
    let mut errs = Errors::default();
    let why = "is not allowed with DELETECOLLECTION, try again after removing the option";
    errs.invalid(&Path::Root.field(UNREAD), true, why);
    Err(errs.status(META, "DeleteOptions", ""))
}

fn options(media_type: &str, cbor: bool, bytes: &[u8]) -> Result<Value, Status> {
    let malformed = |error: &dyn std::fmt::Display| Status::bad_request(error.to_string());
    match media_type {
        _ if bytes.is_empty() => Ok(Value::object()),
        "application/vnd.kubernetes.protobuf" => {
            let opened = schema::protobuf::open(bytes).map_err(|error| malformed(&error))?;
            let shape = <DeleteOptions as object::Lens>::SHAPE;
            schema::protobuf::decode(shape, opened.message).map_err(|error| malformed(&error))
        }
        "application/cbor" if cbor => {
            let shape = <DeleteOptions as object::Lens>::SHAPE;
            let read = cbor::read(Some(shape), bytes).map_err(|error| malformed(&error))?;
            Ok(read.tree)
        }
        "application/yaml" => {
            let text = std::str::from_utf8(bytes).map_err(|error| malformed(&error))?;
            object::yaml::from_yaml(text).map_err(|error| malformed(&error))
        }
        _ => {
            let unreadable = |error: &dyn std::fmt::Display| {
                malformed(&format_args!("couldn't get version/kind; json parse error: {error}"))
            };
            let read = from_json(&replaced(bytes)).map_err(|error| unreadable(&error))?;
            match other_than_object(&read).filter(|_| !read.is_null()) {
                None if read.is_null() => Ok(Value::object()),
                None => Ok(read),
                Some(what) => Err(unreadable(&format_args!(
                    "json: cannot unmarshal {what} into Go value of type struct {{ APIVersion \
                     string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \
                     \"json:\\\"kind,omitempty\\\"\" }}"
                ))),
            }
        }
    }
}

fn dry_run(said: &[&str], errs: &mut Errors) -> bool {
    if said.iter().any(|mode| *mode != "All") {
        let bad: Value = said.iter().copied().collect();
        errs.not_supported(&Path::Root.field("dryRun"), bad, &["All"]);
    }
    !said.is_empty()
}

fn propagation(options: &DeleteOptions, query: &Query, errs: &mut Errors) -> String {
    let old = options.orphan_dependents();
    let old = old.or_else(|| query.get("orphanDependents").map(|_| query.flag("orphanDependents")));
    let asked = options.propagation_policy().or(query.get("propagationPolicy"));
    let at = Path::Root.field("propagationPolicy");
    match (asked, old) {
        (Some(_), Some(_)) => {
            let why = "orphanDependents and deletionPropagation cannot be both set";
            errs.push(ErrorType::Invalid, &at, asked.unwrap_or_default().into(), why);
        }
        (Some(asked), None) if !PROPAGATIONS.contains(&asked) => {
            let allowed = ["Foreground", "Background", "Orphan", "nil"];
            errs.not_supported(&at, asked, &allowed);
        }
        _ => {}
    }
    let old = old.map(|orphan| if orphan { "Orphan" } else { "Background" });
    asked.or(old).unwrap_or_default().to_owned()
}
