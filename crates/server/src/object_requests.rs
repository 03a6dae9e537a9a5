//! Requests for plain objects: get, list, watch, create, update, patch and delete.

use std::sync::Arc;

use object::{Object, Status, StatusDetails, Text, Value, View};
use store::Version;

use crate::{
    Attributes, DeleteOutcome, DeleteRequest, Reply, Request, RequestContext, ServedResource,
    Server, UserInfo, audit,
    body::read,
    codec::{body_type, decode_body, same_version},
    filters::{authorization_decision, authorize},
    list_options::{deleted_page, page, selection, wait_for_latest, wait_until_fresh, watch},
    negotiate::{EndpointRestrictions, MediaTypeOptions, include, negotiate_media_type},
    options::{self, request_context},
    patch_request::patch,
    registry::{revision, unreadable},
    rejection::Rejection,
    respond::{cached_object_response, list_response, no_method, object_response, status_as},
    socket::WebSocketUpgrade,
};

/// Handles a request for an object. Warnings are returned even if it fails.
pub(crate) async fn serve_object(
    server: &Arc<Server>,
    served: ServedResource,
    request: Request,
    warnings: &mut Vec<String>,
) -> Result<Reply, Rejection> {
    let form = form(&served, &request)?;
    if request.info.verb == "create" {
        body_type(&request.head.headers, &request.query)?;
    }
    let mut call = request_context(&request)?;
    let reply = answer(server, served, request, form, &mut call).await;
    warnings.append(&mut call.warnings);
    reply
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

/// Negotiates the form of the response.
pub(crate) fn form(
    served: &ServedResource,
    request: &Request,
) -> Result<MediaTypeOptions, Rejection> {
    let declared = served.definition.subresource(&request.info.subresource);
    let offer = match (&*request.info.verb, declared) {
        ("watch", _) => EndpointRestrictions::Watch,
        ("list", None) => EndpointRestrictions::List,
        (_, Some(declared)) if !declared.table => EndpointRestrictions::Part,
        _ => EndpointRestrictions::Object,
    };
    Ok(negotiate_media_type(&request.head.headers, &request.query, offer)?.for_kind(served))
}

async fn answer(
    server: &Arc<Server>,
    served: ServedResource,
    mut request: Request,
    form: MediaTypeOptions,
    call: &mut RequestContext,
) -> Result<Reply, Rejection> {
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
                return Err(Status::bad_request(why).into());
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
        _ => return Err(no_method().into()),
    };
    rows?;
    Ok(reply)
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
