//! From a request that has passed the filters to the function that answers it.

use std::{fmt, future::Future, pin::Pin, sync::Arc};

use http::Method;
use object::{Object, Status, StatusDetails, Text, Value, View};
use schema::{Errors, Path};
use store::Version;

use crate::{
    Attributes, Call, Delete, Deleted, Reply, Request, Served, Server, User, aggregate, audit,
    body::read,
    cbor,
    codec::{
        Validation, body_type, decode_body, media_type, same_version, unsupported_patch, validation,
    },
    expensive,
    filters::{authorize, decide},
    list_options::{deleted_page, fresh, newest, page, selection, watch},
    negotiate::{Form, Offer, choose, include},
    options::{self, call},
    plain::plain,
    registry::{Applied, Patch, PatchType, corrupt, revision},
    respond::{many, no_method, no_page, one, status_as, stored},
    socket::Socket,
};

pub type Handling<'a> = Pin<Box<dyn Future<Output = Result<Reply, Status>> + Send + 'a>>;

/// Answers what is no plain object: reviews, logs, scale, token, proxies.
pub trait Handle: fmt::Debug + Send + Sync {
    fn handle<'a>(&'a self, server: &'a Arc<Server>, request: Request) -> Handling<'a>;
}

pub type Handler = Arc<dyn Handle>;

/// Longer lists that are encoded as a whole, and larger bodies, are read and written beside the workers.
const LONG_LIST: usize = 500;
const LARGE_BODY: usize = 256 << 10;

/// Parts of objects that are written as objects; the others have handlers.
const PARTS: [&str; 5] = ["status", "finalize", "approval", "resize", "ephemeralcontainers"];

/// Parts that are connected to, and so done in earnest.
const CONNECTS: [&str; 4] = ["attach", "exec", "portforward", "proxy"];
/// The methods that a proxy passes on.
const PASSED: [&str; 7] = ["DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"];

pub(crate) async fn route(
    server: &Arc<Server>,
    request: Request,
    warnings: &mut Vec<String>,
) -> Result<Reply, Status> {
    if let (Some(others), Some((group, version))) =
        (&server.aggregate, aggregate::place(&request.info.path))
        && others.has(group, version)
    {
        return others.handle(server, request).await;
    }
    if !request.info.is_resource {
        return plain(server, request).await;
    }
    let info = &request.info;
    let kinds = server.registry.kinds();
    let Some(served) = kinds.get(&info.group, &info.version, &info.resource) else {
        return if kinds.has_group(&info.group) {
            Err(Status::no_resource())
        } else {
            Ok(no_page())
        };
    };
    let custom = served.definition.custom.as_ref();
    if custom.is_some() && place(&served, &request).is_err() {
        return Ok(no_page());
    }
    warnings.extend(custom.and_then(|custom| custom.deprecated.clone()));
    // Behind a subresource there is nothing, but for what it passes on to.
    if !info.rest.is_empty() && info.subresource != "proxy" {
        return if custom.is_some() { Ok(no_page()) } else { Err(Status::no_resource()) };
    }
    let declared = served.definition.subresource(&info.subresource);
    let verbs = match (&*info.subresource, declared) {
        ("", _) => served.definition.verbs,
        (_, Some(declared)) => declared.verbs,
        (_, None) if custom.is_some() => return Err(Status::not_found(served.subject(&info.name))),
        (_, None) => return Err(Status::no_resource()),
    };
    let named = !info.name.is_empty();
    let elsewhere = served.definition.is_namespaced() && info.namespace.is_empty();
    let only_made = verbs == ["create"] && info.subresource.is_empty();
    if elsewhere && (named || only_made) || only_made && named {
        return Err(Status::no_resource());
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
    if CONNECTS.contains(&&*info.subresource) && request.query.get("dryRun").is_some() {
        return Err(Status::bad_request("dryRun is not supported"));
    }
    // Before anybody handles it: what was authorized is what the path says, in that scope.
    place(&served, &request)?;
    warnings.extend(served.definition.warning());
    server.metrics.asked_for_deprecated(&served.definition, &request.info.subresource);
    let handler = server.handlers.iter().find(|((group, resource, subresource), _)| {
        (*group == "*" || *group == info.group)
            && (*resource == "*" || *resource == info.resource)
            && *subresource == info.subresource
    });
    if let Some((_, handler)) = handler {
        if info.subresource.is_empty() && info.verb == "create" {
            choose(&request.head.headers, &request.query, Offer::Part)?;
            body_type(&request.head.headers, &request.query)?;
            call(&request)?;
        }
        return handler.handle(server, request).await;
    } else if !info.subresource.is_empty() && !PARTS.contains(&&*info.subresource) {
        return Err(Status::no_resource());
    }
    object(server, served, request, warnings).await
}

/// Objects live where their kind says: in a namespace, or in none.
fn place(served: &Served, request: &Request) -> Result<(), Status> {
    let info = &request.info;
    let namespaced = served.definition.is_namespaced();
    let own = info.resource == "namespaces" && info.namespace == info.name;
    let given = !info.namespace.is_empty() && !own;
    let all = matches!(&*info.verb, "list" | "watch");
    match (namespaced, given) {
        (true, false) if !all && info.name.is_empty() => Err(no_method()),
        (true, false) if !all => Err(Status::no_resource()),
        (false, true) => Err(Status::no_resource()),
        _ => Ok(()),
    }
}

/// Whether a name and a namespace can be parts of a key.
fn nameable(served: &Served, (namespace, name): (&str, &str)) -> Result<(), Status> {
    if matches!(namespace, "." | "..") {
        let prefix = served.hub.storage.prefix;
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

/// What was noticed on the way is said, however it ends.
async fn object(
    server: &Arc<Server>,
    served: Served,
    request: Request,
    warnings: &mut Vec<String>,
) -> Result<Reply, Status> {
    let form = form(&served, &request)?;
    if request.info.verb == "create" {
        body_type(&request.head.headers, &request.query)?;
    }
    let mut call = call(&request)?;
    let reply = answer(server, served, request, form, &mut call).await;
    warnings.append(&mut call.warnings);
    reply
}

/// The groups whose status makes no tables.
const TABLELESS: [&str; 3] = ["apiextensions.k8s.io", "apiregistration.k8s.io", "resource.k8s.io"];

fn form(served: &Served, request: &Request) -> Result<Form, Status> {
    let offer = match (&*request.info.verb, &*request.info.subresource) {
        ("watch", _) => Offer::Watch,
        ("list", "") => Offer::List,
        (_, "status") if TABLELESS.contains(&&*request.info.group) => Offer::Part,
        (_, "" | "status") => Offer::Object,
        _ => Offer::Part,
    };
    Ok(choose(&request.head.headers, &request.query, offer)?.for_kind(served))
}

async fn answer(
    server: &Arc<Server>,
    served: Served,
    mut request: Request,
    form: Form,
    call: &mut Call,
) -> Result<Reply, Status> {
    // What is done is done before anybody looks at how it shall be shown.
    let rows = include(form, &request.query);
    let form = Form { include: rows.clone().unwrap_or(form.include), ..form };
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
            newest(registry, &served, &request.query).await?;
            let wanted = request.query.get("resourceVersion").unwrap_or_default();
            fresh(&served, revision(wanted)?).await?;
            let found = registry.read(&served, key.0, key.1).await?;
            stored(&server.encodings, &served, &found, form, now)?
        }
        "list" => {
            let selection = selection(&served, &request)?;
            newest(registry, &served, &request.query).await?;
            let page = page(&served, &selection, &request.query).await?;
            let list = registry.list_shown(&served, &selection, &page).await?;
            let is_long = !form.is_streamed() && list.items.len() > LONG_LIST;
            expensive::run(is_long, || many(&server.encodings, &served, list, form, now)).await?
        }
        "watch" => {
            let socket = Socket::take(&mut request)?;
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
            one(&served, 201, &made, form, now)?
        }
        "update" => {
            let made = update(server, &served, request, call).await?;
            one(&served, made.0, &made.1, form, now)?
        }
        "patch" => {
            let made = patch(server, &served, request, call).await?;
            one(&served, made.0, &made.1, form, now)?
        }
        "delete" => delete(server, &served, request, (form, now), call).await?,
        "deletecollection" => {
            let selection = selection(&served, &request)?;
            let query = request.query.clone();
            let delete = options::delete(server, request, call).await?;
            options::no_collection(&delete)?;
            call.warnings.extend(preserved(&served, &delete));
            newest(registry, &served, &query).await?;
            let page = deleted_page(&served, &selection, &query).await?;
            let how = (&delete, server.config.limits.deletions);
            let which = (&selection, &page);
            let list = registry.delete_collection(call, &served, which, how).await?;
            many(&server.encodings, &served, list, form, now)?
        }
        _ => return Err(no_method()),
    };
    rows.and(Ok(reply))
}

async fn delete(
    server: &Arc<Server>,
    served: &Served,
    request: Request,
    (form, now): (Form, i64),
    call: &mut Call,
) -> Result<Reply, Status> {
    let info = request.info.clone();
    let asked = info.attributes(&request.query);
    let delete = options::delete(server, request, call).await?;
    if delete.unread {
        unsafely(server, served, &call.user, asked).await?;
    }
    call.warnings.extend(preserved(served, &delete));
    let namespace = if served.definition.is_namespaced() { &*info.namespace } else { "" };
    match server.registry.delete(call, served, (namespace, &info.name), &delete).await? {
        Deleted::Terminating(marked) => {
            one(served, if delete.cascades { 202 } else { 200 }, &marked, form, now)
        }
        Deleted::Gone(gone) => gone_reply(served, &gone, form, now),
        Deleted::Unread => Ok(status_as(&corrupt::deleted(served, &info.name), form)),
    }
}

/// What is said of dependents that stay because nothing was said of them.
fn preserved(served: &Served, delete: &Delete) -> Option<String> {
    let said = served.definition.orphans.filter(|said| !said.is_empty())?;
    delete.propagation.is_empty().then(|| said.to_owned())
}

/// Whether somebody may delete what cannot be read.
async fn unsafely(
    server: &Server,
    served: &Served,
    user: &User,
    asked: Attributes,
) -> Result<(), Status> {
    let key = "apiserver.k8s.io/unsafe-delete-ignore-read-error";
    audit::note(key, String::new());
    let verb = "unsafe-delete-ignore-read-errors";
    let may = Attributes { verb: verb.into(), ..asked };
    let Err(reason) = decide(server, user, &may).await else { return Ok(()) };
    let why = format!("not permitted to do {verb:?}, reason: {reason}");
    Err(Status::forbidden(served.subject(&may.name), &why))
}

fn gone_reply(
    served: &Served,
    gone: &Version<Value>,
    form: Form,
    now: i64,
) -> Result<Reply, Status> {
    let names = &served.definition.names;
    let meta = Object::view(&gone.object).metadata();
    if served.definition.shows_deleted {
        return one(served, 200, gone, form, now);
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
    served: &Served,
    request: Request,
    call: &mut Call,
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
    let missing = served.hub.created_by_update
        && info.subresource.is_empty()
        && registry.get(served, key.0, key.1).is_err_and(|status| status.code() == 404);
    if missing {
        authorize(server, &call.user, &create).await?;
        return registry.create_by_update(call, served, key, object).await;
    }
    Ok((200, registry.update(call, served, key, &info.subresource, object).await?))
}

async fn body(
    server: &Server,
    served: &Served,
    request: Request,
    call: &mut Call,
) -> Result<Value, Status> {
    let bytes = read(request.body, server.config.limits.body).await?;
    let (kinds, headers) = (server.registry.kinds(), &request.head.headers);
    let decode = || decode_body(kinds, &served.definition, headers, &request.query, &bytes);
    let read = expensive::run(bytes.len() > LARGE_BODY, decode).await?;
    call.warnings = read.warnings;
    same_version(&read.object, &served.definition)?;
    Ok(read.object)
}

/// The names in the body must be those of the path, where they are there at all.
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
    served: &Served,
    request: Request,
    call: &mut Call,
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
        audit::note_sent(|| applied.clone());
        if query.get("fieldManager").unwrap_or_default().is_empty() {
            let mut errs = Errors::default();
            errs.required(&Path::Root.field("fieldManager"), "is required for apply patch");
            return Err(errs.status("meta.k8s.io", "PatchOptions", ""));
        }
        let missing = server.registry.get(served, key.0, key.1);
        let creates = missing.is_err_and(|status| status.code() == 404);
        if creates && info.subresource.is_empty() {
            authorize(server, &call.user, &create).await?;
        }
        let applied = Applied { object: &applied, force, creates };
        match validation(&query) {
            Validation::Strict if !twice.is_empty() => {
                let lines = twice.join("\n  ");
                return Err(Status::bad_request(format!(
                    "error strict decoding patch: error converting YAML to JSON: yaml: unmarshal \
                     errors:\n  {lines}"
                )));
            }
            Validation::Warn => call.warnings.extend(twice),
            _ => {}
        }
        return server.registry.apply(call, served, key, &info.subresource, applied).await;
    }
    let ty = PatchType::of(&media_type);
    let ty = ty.ok_or_else(|| unsupported_patch(&served.definition, &query))?;
    if ty == PatchType::Strategic && served.definition.custom.is_some() {
        return Err(unsupported_patch(&served.definition, &query));
    }
    if query.get("force").is_some() {
        let mut errs = Errors::default();
        errs.forbidden(&Path::Root.field("force"), "may not be specified for non-apply patch");
        return Err(errs.status("meta.k8s.io", "PatchOptions", ""));
    }
    let patch = Patch::read(ty, &bytes, &query)?;
    let made = server.registry.patch(call, served, key, &info.subresource, &patch).await?;
    Ok((200, made))
}

/// What is applied, and what of it is there twice.
fn applied_yaml(bytes: &[u8]) -> Result<(Value, Vec<String>), Status> {
    let text = std::str::from_utf8(bytes)
        .map_err(|error| Status::bad_request(format!("error encoding patch: {error}")))?;
    let (applied, twice) = object::yaml::from_yaml_noting(text)
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

/// The same in CBOR, where nothing may be there twice.
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
