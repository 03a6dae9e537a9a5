//! Routing: from a request that has passed the filters to its handler.

use std::{fmt, future::Future, pin::Pin, sync::Arc};

use http::Method;
use object::{Object, Status, StatusDetails, Text, Value, View};
use schema::{ErrorList, FieldPath};
use store::Version;

use crate::{
    Attributes, DeleteOutcome, DeleteRequest, Reply, Request, RequestContext, ServedResource,
    Server, UserInfo, aggregator, audit,
    body::read,
    cbor,
    codec::{
        FieldValidation, body_type, decode_body, media_type, same_version, unsupported_patch,
        validation,
    },
    filters::{authorization_decision, authorize},
    list_options::{deleted_page, page, selection, wait_for_latest, wait_until_fresh, watch},
    negotiate::{EndpointRestrictions, MediaTypeOptions, include, negotiate_media_type},
    non_resource::serve_non_resource,
    options::{self, request_context},
    registry::{ApplyRequest, Patch, PatchType, revision, unreadable},
    respond::{
        cached_object_response, list_response, no_method, object_response, page_not_found,
        status_as,
    },
    socket::WebSocketUpgrade,
};

/// The response of a handler; an error is sent as Status.
pub type ResponseFuture<'a> = Pin<Box<dyn Future<Output = Result<Reply, Status>> + Send + 'a>>;

/// Handles a resource or subresource that is not a plain object: reviews, logs, scale, token,
/// proxies.
pub trait EndpointHandler: fmt::Debug + Send + Sync {
    fn handle<'a>(&'a self, server: &'a Arc<Server>, request: Request) -> ResponseFuture<'a>;
}

/// A shared handler.
pub type HandlerRef = Arc<dyn EndpointHandler>;

/// Subresources that are written as objects; the others have handlers.
const OBJECT_SUBRESOURCES: [&str; 5] =
    ["status", "finalize", "approval", "resize", "ephemeralcontainers"];

/// Subresources for connect requests, which do not support dry runs.
const CONNECT_SUBRESOURCES: [&str; 4] = ["attach", "exec", "portforward", "proxy"];
/// The HTTP methods that proxies forward.
const PASSED: [&str; 7] = ["DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"];

/// Routes a request to its handler.
#[expect(clippy::too_many_lines, reason = "the kinds of paths, one after the other")]
pub(crate) async fn route(
    server: &Arc<Server>,
    request: Request,
    warnings: &mut Vec<String>,
) -> Result<Reply, Status> {
    if let (Some(others), Some((group, version))) =
        (&server.aggregate, aggregator::group_version_of_path(&request.info.path))
        && others.has(group, version)
    {
        return others.handle(server, request).await;
    }
    if !request.info.is_resource {
        return serve_non_resource(server, request).await;
    }
    let info = &request.info;
    let kinds = server.registry.kinds();
    let Some(served) = kinds.get(&info.group, &info.version, &info.resource) else {
        return if kinds.has_group(&info.group) {
            Err(Status::unknown_resource())
        } else {
            Ok(page_not_found())
        };
    };
    let custom = served.definition.custom_resource.as_ref();
    if custom.is_some() && check_scope(&served, &request).is_err() {
        return Ok(page_not_found());
    }
    warnings.extend(custom.and_then(|custom| custom.deprecated.clone()));
    // Nothing follows a subresource in a path, except for proxies.
    if !info.rest.is_empty() && info.subresource != "proxy" {
        return if custom.is_some() {
            Ok(page_not_found())
        } else {
            Err(Status::unknown_resource())
        };
    }
    let declared = served.definition.subresource(&info.subresource);
    let verbs = match (&*info.subresource, declared) {
        ("", _) => served.definition.verbs,
        (_, Some(declared)) => declared.verbs,
        (_, None) if custom.is_some() => return Err(Status::not_found(served.subject(&info.name))),
        (_, None) => return Err(Status::unknown_resource()),
    };
    let named = !info.name.is_empty();
    let elsewhere = served.definition.is_namespaced() && info.namespace.is_empty();
    let only_made = verbs == ["create"] && info.subresource.is_empty();
    if elsewhere && (named || only_made) || only_made && named {
        return Err(Status::unknown_resource());
    }
    let unnamed = info.name.is_empty() && matches!(&*info.verb, "update" | "patch");
    let named = named && info.verb == "create" && info.subresource.is_empty();
    let reads = request.head.method == Method::GET;
    let allowed = verbs.contains(&&*info.verb)
        && request.head.method != Method::HEAD
        && (info.verb != "watch" || reads);
    let passes = info.subresource == "proxy" && PASSED.contains(&request.head.method.as_str());
    if !passes && (unnamed || named || !allowed) {
        return Err(no_method());
    }
    if CONNECT_SUBRESOURCES.contains(&&*info.subresource) && request.query.get("dryRun").is_some() {
        return Err(Status::bad_request("dryRun is not supported"));
    }
    // Checked before any handler: the authorization was for the path in this scope.
    check_scope(&served, &request)?;
    warnings.extend(served.definition.deprecation_warning());
    server.metrics.mark_deprecated_requested(&served.definition, &request.info.subresource);
    let handler = server.handlers.iter().find(|((group, resource, subresource), _)| {
        (*group == "*" || *group == info.group)
            && (*resource == "*" || *resource == info.resource)
            && *subresource == info.subresource
    });
    if let Some((_, handler)) = handler {
        if info.subresource.is_empty() && info.verb == "create" {
            negotiate_media_type(
                &request.head.headers,
                &request.query,
                EndpointRestrictions::Part,
            )?;
            body_type(&request.head.headers, &request.query)?;
            request_context(&request)?;
        }
        return handler.handle(server, request).await;
    } else if !info.subresource.is_empty() && !OBJECT_SUBRESOURCES.contains(&&*info.subresource) {
        return Err(Status::unknown_resource());
    }
    object(server, served, request, warnings).await
}

/// Checks that the path has a namespace exactly if the kind is namespaced.
fn check_scope(served: &ServedResource, request: &Request) -> Result<(), Status> {
    let info = &request.info;
    let namespaced = served.definition.is_namespaced();
    let own = info.resource == "namespaces" && info.namespace == info.name;
    let given = !info.namespace.is_empty() && !own;
    let all = matches!(&*info.verb, "list" | "watch");
    match (namespaced, given) {
        (true, false) if !all && info.name.is_empty() => Err(no_method()),
        (true, false) if !all => Err(Status::unknown_resource()),
        (false, true) => Err(Status::unknown_resource()),
        _ => Ok(()),
    }
}

/// Checks that a name and a namespace can be parts of a storage key.
fn nameable(served: &ServedResource, (namespace, name): (&str, &str)) -> Result<(), Status> {
    if matches!(namespace, "." | "..") {
        let prefix = served.internal.storage.prefix;
        return Err(Status::failure(500, "", format!("invalid key: \"/{prefix}/{namespace}\"")));
    }
    let why = match name {
        "." => "may not be '.'",
        ".." => "may not be '..'",
        name if name.contains('/') => "may not contain '/'",
        name if name.contains('%') => "may not contain '%'",
        _ => return Ok(()),
    };
    Err(Status::bad_request(format!("Name parameter invalid: {name:?}: {why}")))
}

/// Handles a request for an object. Warnings are returned even if it fails.
async fn object(
    server: &Arc<Server>,
    served: ServedResource,
    request: Request,
    warnings: &mut Vec<String>,
) -> Result<Reply, Status> {
    let form = form(&served, &request)?;
    if request.info.verb == "create" {
        body_type(&request.head.headers, &request.query)?;
    }
    let mut call = request_context(&request)?;
    let reply = answer(server, served, request, form, &mut call).await;
    warnings.append(&mut call.warnings);
    reply
}

/// Groups whose status subresource has no table.
const TABLELESS: [&str; 3] = ["apiextensions.k8s.io", "apiregistration.k8s.io", "resource.k8s.io"];

fn form(served: &ServedResource, request: &Request) -> Result<MediaTypeOptions, Status> {
    let offer = match (&*request.info.verb, &*request.info.subresource) {
        ("watch", _) => EndpointRestrictions::Watch,
        ("list", "") => EndpointRestrictions::List,
        (_, "status") if TABLELESS.contains(&&*request.info.group) => EndpointRestrictions::Part,
        (_, "" | "status") => EndpointRestrictions::Object,
        _ => EndpointRestrictions::Part,
    };
    Ok(negotiate_media_type(&request.head.headers, &request.query, offer)?.for_kind(served))
}

async fn answer(
    server: &Arc<Server>,
    served: ServedResource,
    mut request: Request,
    form: MediaTypeOptions,
    call: &mut RequestContext,
) -> Result<Reply, Status> {
    // An invalid `includeObject` is reported after the write was done, as upstream does.
    let rows = include(form, &request.query);
    let form = MediaTypeOptions { include: rows.clone().unwrap_or(form.include), ..form };
    let now = server.registry.clock().now();
    let registry = &server.registry;
    let verb = request.info.verb.clone();
    let namespace = if served.definition.is_namespaced() {
        request.info.namespace.clone()
    } else {
        Text::default()
    };
    let name = request.info.name.clone();
    let key = (&*namespace, &*name);
    nameable(&served, key)?;
    let reply = match &*verb {
        "get" => {
            if request.query.flag("export") {
                let why = "the export parameter, deprecated since v1.14, is no longer supported";
                return Err(Status::bad_request(why));
            }
            wait_for_latest(registry, &served, &request.query).await?;
            let wanted = request.query.get("resourceVersion").unwrap_or_default();
            wait_until_fresh(&served, revision(wanted)?).await?;
            let found = registry.get_converted(&served, key.0, key.1).await?;
            cached_object_response(&server.encodings, &served, &found, form, now)?
        }
        "list" => {
            let selection = selection(&served, &request)?;
            wait_for_latest(registry, &served, &request.query).await?;
            let page = page(&served, &selection, &request.query).await?;
            let list = registry.list_converted(&served, &selection, &page).await?;
            list_response(&server.encodings, &served, list, form, now)?
        }
        "watch" => {
            let socket = WebSocketUpgrade::take(&mut request)?;
            let reply = watch(server, &served, &request).await?;
            match socket {
                Some(socket) => socket.watch(server, reply),
                None => reply,
            }
        }
        "create" => {
            let object = body(server, &served, request, call).await?;
            named(&object, &namespace, &name)?;
            let made = registry.create(call, &served, &namespace, object).await?;
            object_response(&served, 201, &made, form, now)?
        }
        "update" => {
            let made = update(server, &served, request, call).await?;
            object_response(&served, made.0, &made.1, form, now)?
        }
        "patch" => {
            let made = patch(server, &served, request, call).await?;
            object_response(&served, made.0, &made.1, form, now)?
        }
        "delete" => delete(server, &served, request, (form, now), call).await?,
        "deletecollection" => {
            let selection = selection(&served, &request)?;
            let query = request.query.clone();
            let delete = options::delete(server, request, call).await?;
            options::no_collection(&delete)?;
            call.warnings.extend(preserved(&served, &delete));
            wait_for_latest(registry, &served, &query).await?;
            let page = deleted_page(&served, &selection, &query).await?;
            let how = (&delete, server.config.limits.deletions);
            let which = (&selection, &page);
            let list = registry.delete_collection(call, &served, which, how).await?;
            list_response(&server.encodings, &served, list, form, now)?
        }
        _ => return Err(no_method()),
    };
    rows.and(Ok(reply))
}

async fn delete(
    server: &Arc<Server>,
    served: &ServedResource,
    request: Request,
    (form, now): (MediaTypeOptions, i64),
    call: &mut RequestContext,
) -> Result<Reply, Status> {
    let info = request.info.clone();
    let asked = info.attributes(&request.query);
    let delete = options::delete(server, request, call).await?;
    if delete.ignore_read_errors {
        authorize_unsafe_delete(server, served, &call.user, asked).await?;
    }
    call.warnings.extend(preserved(served, &delete));
    let namespace = if served.definition.is_namespaced() { &*info.namespace } else { "" };
    match server.registry.delete(call, served, (namespace, &info.name), &delete).await? {
        DeleteOutcome::Terminating(marked) => object_response(
            served,
            if delete.orphan_dependents_false { 202 } else { 200 },
            &marked,
            form,
            now,
        ),
        DeleteOutcome::Gone(gone) => gone_reply(served, &gone, form, now),
        DeleteOutcome::GoneUnreadable => {
            Ok(status_as(&unreadable::deleted(served, &info.name), form))
        }
    }
}

/// The warning for dependents that are orphaned because no propagation policy was set.
fn preserved(served: &ServedResource, delete: &DeleteRequest) -> Option<String> {
    let said = served.definition.orphan_by_default.filter(|said| !said.is_empty())?;
    delete.propagation.is_empty().then(|| said.to_owned())
}

/// Checks that the user may delete an object that cannot be decoded.
async fn authorize_unsafe_delete(
    server: &Server,
    served: &ServedResource,
    user: &UserInfo,
    asked: Attributes,
) -> Result<(), Status> {
    let key = "apiserver.k8s.io/unsafe-delete-ignore-read-error";
    audit::add_audit_annotation(key, String::new());
    let verb = "unsafe-delete-ignore-read-errors";
    let may = Attributes { verb: verb.into(), ..asked };
    let Err(reason) = authorization_decision(server, user, &may).await else { return Ok(()) };
    let why = format!("not permitted to do {verb:?}, reason: {reason}");
    Err(Status::forbidden(served.subject(&may.name), &why))
}

fn gone_reply(
    served: &ServedResource,
    gone: &Version<Value>,
    form: MediaTypeOptions,
    now: i64,
) -> Result<Reply, Status> {
    let names = &served.definition.names;
    let meta = Object::view(&gone.object).metadata();
    if served.definition.return_deleted_object {
        return object_response(served, 200, gone, form, now);
    }
    let details = StatusDetails::new()
        .with_name(meta.name())
        .with_group(names.group)
        .with_kind(names.plural)
        .with_uid(meta.uid());
    Ok(status_as(&Status::success().with_details(details), form))
}

async fn update(
    server: &Server,
    served: &ServedResource,
    request: Request,
    call: &mut RequestContext,
) -> Result<(u16, Version<Value>), Status> {
    let info = request.info.clone();
    let create = Attributes { verb: "create".into(), ..info.attributes(&request.query) };
    let object = body(server, served, request, call).await?;
    let namespace = if served.definition.is_namespaced() { &*info.namespace } else { "" };
    let key = (namespace, &*info.name);
    named(&object, namespace, &info.name)?;
    if Object::view(&object).metadata().name().is_empty() {
        return Err(Status::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            info.name
        )));
    }
    let registry = &server.registry;
    let missing = served.internal.allow_create_on_update
        && info.subresource.is_empty()
        && registry.get(served, key.0, key.1).is_err_and(|status| status.code() == 404);
    if missing {
        authorize(server, &call.user, &create).await?;
        return registry.create_on_update(call, served, key, object).await;
    }
    Ok((200, registry.update(call, served, key, &info.subresource, object).await?))
}

async fn body(
    server: &Server,
    served: &ServedResource,
    request: Request,
    call: &mut RequestContext,
) -> Result<Value, Status> {
    let bytes = read(request.body, server.config.limits.body).await?;
    let (kinds, headers) = (server.registry.kinds(), &request.head.headers);
    let read = decode_body(kinds, &served.definition, headers, &request.query, &bytes)?;
    call.warnings = read.warnings;
    same_version(&read.object, &served.definition)?;
    Ok(read.object)
}

/// Checks that name and namespace of the body match the path, if they are set.
fn named(object: &Value, namespace: &str, name: &str) -> Result<(), Status> {
    let meta = Object::view(object).metadata();
    if !(namespace.is_empty() || meta.namespace().is_empty()) && meta.namespace() != namespace {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    if !name.is_empty() && !meta.name().is_empty() && meta.name() != name {
        return Err(Status::bad_request(format!(
            "the name of the object ({}) does not match the name on the URL ({name})",
            meta.name()
        )));
    }
    Ok(())
}

async fn patch(
    server: &Server,
    served: &ServedResource,
    request: Request,
    call: &mut RequestContext,
) -> Result<(u16, Version<Value>), Status> {
    let create = Attributes { verb: "create".into(), ..request.info.attributes(&request.query) };
    let Request { head, body, info, query, .. } = request;
    let media_type = media_type(&head.headers).to_owned();
    let bytes = read(body, server.config.limits.body).await?;
    let namespace = if served.definition.is_namespaced() { &*info.namespace } else { "" };
    let key = (namespace, &*info.name);
    let in_cbor = media_type == "application/apply-patch+cbor" && query.cbor;
    if in_cbor || media_type == "application/apply-patch+yaml" {
        let force = query.flag("force");
        let (applied, twice) = match in_cbor {
            true => (applied_cbor(&bytes)?, Vec::new()),
            false => applied_yaml(&bytes)?,
        };
        audit::log_request_object(|| applied.clone());
        if query.get("fieldManager").unwrap_or_default().is_empty() {
            let mut errs = ErrorList::default();
            errs.required(&FieldPath::Root.field("fieldManager"), "is required for apply patch");
            return Err(errs.into_status("meta.k8s.io", "PatchOptions", ""));
        }
        let missing = server.registry.get(served, key.0, key.1);
        let creates = missing.is_err_and(|status| status.code() == 404);
        if creates && info.subresource.is_empty() {
            authorize(server, &call.user, &create).await?;
        }
        let applied = ApplyRequest { object: &applied, force, creates };
        match validation(&query) {
            FieldValidation::Strict if !twice.is_empty() => {
                let lines = twice.join("\n  ");
                return Err(Status::bad_request(format!(
                    "error strict decoding patch: error converting YAML to JSON: yaml: unmarshal \
                     errors:\n  {lines}"
                )));
            }
            FieldValidation::Warn => call.warnings.extend(twice),
            _ => {}
        }
        return server.registry.apply(call, served, key, &info.subresource, applied).await;
    }
    let ty = PatchType::of(&media_type);
    let ty = ty.ok_or_else(|| unsupported_patch(&served.definition, &query))?;
    if ty == PatchType::Strategic && served.definition.custom_resource.is_some() {
        return Err(unsupported_patch(&served.definition, &query));
    }
    if query.get("force").is_some() {
        let mut errs = ErrorList::default();
        errs.forbidden(&FieldPath::Root.field("force"), "may not be specified for non-apply patch");
        return Err(errs.into_status("meta.k8s.io", "PatchOptions", ""));
    }
    let patch = Patch::read(ty, &bytes, &query)?;
    let made = server.registry.patch(call, served, key, &info.subresource, &patch).await?;
    Ok((200, made))
}

/// Decodes an apply configuration in YAML, and its duplicate fields.
fn applied_yaml(bytes: &[u8]) -> Result<(Value, Vec<String>), Status> {
    let text = std::str::from_utf8(bytes)
        .map_err(|error| Status::bad_request(format!("error encoding patch: {error}")))?;
    let (applied, twice) = object::yaml::from_yaml_with_duplicates(text)
        .map_err(|error| Status::bad_request(format!("error encoding patch: {error}")))?;
    if applied.is_null() {
        return Err(Status::bad_request("invalid object type: /, Kind="));
    } else if !applied.is_object() {
        return Err(Status::bad_request(format!(
            "error decoding patch: error unmarshaling JSON: while decoding JSON: {}",
            schema::patch::not_an_object(&applied)
        )));
    }
    Ok((applied, twice))
}

/// Decodes an apply configuration in CBOR, where duplicates are an error.
fn applied_cbor(bytes: &[u8]) -> Result<Value, Status> {
    let read = cbor::read(None, bytes).map_err(|error| {
        let why = match error {
            cbor::Error::NoMap(ty) => format!(
                "cbor: cannot unmarshal {ty} into Go value of type map[string]interface {{}}"
            ),
            other => other.to_string(),
        };
        Status::bad_request(format!("error decoding patch: {why}"))
    })?;
    match read.tree {
        Value::Null => Err(Status::bad_request("invalid object type: /, Kind=")),
        applied => Ok(applied),
    }
}
