//! Subresources and kinds that are no plain objects, each in a file of its own.

mod about;
mod binding;
mod component_statuses;
mod connect;
mod custom_scale;
mod debug;
mod eviction;
mod issuer;
mod kubelet;
mod kubelet_error;
mod links;
mod logs;
mod review;
mod scale;
mod targets;
mod token;
mod why;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use http::HeaderMap;
use object::{Lens, Object, Status, Struct, Time, Value, View};
use schema::{
    Definition, Names,
    apply::{self, Write},
};
use server::{
    Asking, Call, Decoded, Handler, Operation, Options, Query, Reply, Request, RequestInfo, Served,
    Server, decode_body, reply_as, status_reply_as,
};

pub(crate) use self::{
    debug::Debug,
    issuer::Issuer,
    kubelet::{Kubelets, LogTally},
    logs::Logs,
    token::{TokenSigner, Tokens},
};
use crate::{authn::ServiceAccounts, authz::Rbac};

type Handlers = HashMap<(&'static str, &'static str, &'static str), Handler>;

/// What the handlers work with.
#[derive(Clone, Debug)]
pub(crate) struct Tools {
    pub(crate) accounts: Arc<ServiceAccounts>,
    pub(crate) tokens: Tokens,
    pub(crate) rbac: Rbac,
    pub(crate) kubelets: Kubelets,
    /// The ports of the scheduler and the controller manager, where they are known.
    pub(crate) component_ports: Option<(u16, u16)>,
}

/// By group, resource and subresource.
pub(crate) fn handlers(tools: &Tools) -> Handlers {
    let Tools { accounts, tokens, rbac, kubelets, component_ports } = tools;
    let mut all: Handlers = HashMap::new();
    let mut add = |group, resource, subresource, handler: Handler| {
        all.insert((group, resource, subresource), handler);
    };
    let binding: Handler = Arc::new(binding::Bindings);
    add("", "pods", "binding", binding.clone());
    add("", "bindings", "", binding);
    add(
        "",
        "componentstatuses",
        "",
        Arc::new(component_statuses::ComponentStatuses::new(*component_ports)),
    );
    add("", "pods", "eviction", Arc::new(eviction::Evictions));
    add("", "serviceaccounts", "token", Arc::new(tokens.clone()));
    add("*", "*", "scale", Arc::new(scale::Scales));
    for verb in ["log", "exec", "attach", "portforward", "proxy"] {
        add("", "pods", verb, Arc::new(kubelets.pods(verb)));
    }
    add("", "nodes", "proxy", Arc::new(kubelets.nodes()));
    add("", "services", "proxy", Arc::new(kubelets.services()));
    let reviews = Arc::new(review::Reviews { accounts: accounts.clone(), rbac: rbac.clone() });
    for kind in ["tokenreviews", "selfsubjectreviews"] {
        add("authentication.k8s.io", kind, "", reviews.clone());
    }
    for kind in [
        "subjectaccessreviews",
        "selfsubjectaccessreviews",
        "localsubjectaccessreviews",
        "selfsubjectrulesreviews",
    ] {
        add("authorization.k8s.io", kind, "", reviews.clone());
    }
    all
}

/// By the first part of the path.
pub(crate) fn paths(
    issuer: Issuer,
    since: i64,
    flags: BTreeMap<String, String>,
) -> HashMap<&'static str, Handler> {
    let issuer: Handler = Arc::new(issuer);
    let why: Handler = Arc::new(why::Why);
    let about: Handler = Arc::new(about::Statusz { since });
    let flags: Handler = Arc::new(about::Flagz { flags });
    HashMap::from([
        ("tiphys", why),
        (".well-known", issuer.clone()),
        ("openid", issuer),
        ("statusz", about),
        ("flagz", flags),
    ])
}

/// The kind that a request is about.
fn served(server: &Server, request: &Request) -> Result<Served, Status> {
    let info = &request.info;
    let found = server.registry.kinds().get(&info.group, &info.version, &info.resource);
    found.ok_or_else(Status::no_resource)
}

/// How an answer shall look.
struct Asked {
    headers: HeaderMap,
    query: Query,
}

impl Asked {
    fn of(request: &Request) -> Self {
        Self { headers: request.head.headers.clone(), query: request.query.clone() }
    }

    fn reply(
        &self,
        server: &Server,
        kind: &Definition,
        answer: (u16, &Value),
    ) -> Result<Reply, Status> {
        reply_as(&self.headers, &self.query, kind, answer, server.registry.clock().now())
    }

    /// That it is done, and nothing more.
    fn made(&self, call: &Call) -> Reply {
        let done = Status::success().with_code(201);
        warned(status_reply_as(&self.headers, &self.query, &done), call)
    }

    /// That it is not done, and what else there is to tell.
    fn refused(&self, why: &Status, call: &Call) -> Reply {
        warned(status_reply_as(&self.headers, &self.query, why), call)
    }
}

/// An answer with what else there is to tell.
fn warned(mut reply: Reply, call: &Call) -> Reply {
    server::warn(reply.headers_mut(), &call.warnings);
    reply
}

/// A kind that only subresources take and give.
fn part(group: &'static str, kind: &'static str, shape: &'static Struct) -> Definition {
    let names =
        Names { group, version: "v1", kind, plural: "", singular: "", short: &[], categories: &[] };
    Definition::bare(names, shape)
}

/// What the subresources here take and give.
pub(crate) fn parts() -> Vec<Definition> {
    vec![
        Definition::of::<api::autoscaling::v1::Scale>(),
        part("policy", "Eviction", api::policy::Eviction::SHAPE),
        part("authentication.k8s.io", "TokenRequest", api::authentication::TokenRequest::SHAPE),
    ]
}

/// Reads the body as an object of this kind, whatever kind the path is about. The call hears
/// what is odd about it.
async fn body_of(
    server: &Server,
    call: &mut Call,
    request: Request,
    kind: &Definition,
) -> Result<Value, Status> {
    let read = noted(server, request, kind).await?;
    call.warnings.extend(read.warnings);
    Ok(read.object)
}

/// What is sent, with who set which fields of it.
fn booked(
    server: &Server,
    call: &Call,
    (names, shape): (&Names, &Struct),
    subresource: &str,
    given: Value,
) -> Result<Value, Status> {
    let write = Write {
        shape,
        api_version: &names.api_version(),
        kind: names.kind,
        manager: &call.manager,
        subresource,
        reset: &[],
        now: &Time::text(server.registry.clock().now()),
        versions: &apply::Alone,
    };
    apply::update(&write, None, given).map_err(|error| error.status())
}

/// The same, with what is odd about it.
async fn noted(server: &Server, request: Request, kind: &Definition) -> Result<Decoded, Status> {
    let asked = Asked::of(&request);
    let bytes = bytes_of(server, request).await?;
    decode_body(server.registry.kinds(), kind, &asked.headers, &asked.query, &bytes)
}

/// Nothing is made in a namespace that is not there, whatever else is missing.
fn in_namespace(server: &Server, namespace: &str) -> Result<(), Status> {
    let namespaces = server.registry.kind("", "namespaces")?;
    server.registry.get(&namespaces, "", namespace).map(drop)
}

/// A namespace in the body must be that of the path.
fn same_namespace(own: &str, namespace: &str) -> Result<(), Status> {
    if own.is_empty() || own == namespace {
        return Ok(());
    }
    Err(Status::bad_request(
        "the namespace of the provided object does not match the namespace sent on the request",
    ))
}

/// The names in the body must be those of the path.
fn same_name(object: &Value, (namespace, name): (&str, &str)) -> Result<(), Status> {
    let meta = Object::view(object).metadata();
    same_namespace(meta.namespace(), namespace)?;
    match meta.name() {
        "" => Err(Status::bad_request(format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        ))),
        own if own != name => Err(Status::bad_request(format!(
            "the name of the object ({own}) does not match the name on the URL ({name})"
        ))),
        _ => Ok(()),
    }
}

async fn bytes_of(server: &Server, request: Request) -> Result<bytes::Bytes, Status> {
    server::read(request.body, server.config.limits.body).await
}

/// What somebody wants to be made of a part, as plugins see it: with its kind, its namespace,
/// and who has set its fields.
fn begun(
    server: &Server,
    (call, info): (&Call, &RequestInfo),
    kind: &Definition,
    object: Value,
) -> Result<Value, Status> {
    let object = Object::from(object).with_api_version(kind.names.api_version());
    let mut object = object.with_kind(kind.names.kind);
    object.metadata_mut().set_namespace(&*info.namespace);
    booked(server, call, (&kind.names, &kind.shape), &info.subresource, object.into())
}

/// The object with its kind named, as an answer needs it.
fn typed<K: schema::Kind>(object: impl Into<Value>) -> Value {
    let object = Object::from(object.into());
    object.with_api_version(K::NAMES.api_version()).with_kind(K::NAMES.kind).into()
}

/// What a request asks of a part of an object, as plugins see it.
fn asking(info: &RequestInfo, operation: Operation, object: Value) -> Asking<'_> {
    Asking {
        operation,
        namespace: &info.namespace,
        name: &info.name,
        subresource: &info.subresource,
        old: None,
        object,
    }
}

fn call(request: &Request) -> Call {
    let agent = request.head.headers.get(http::header::USER_AGENT);
    let agent = agent.and_then(|value| value.to_str().ok()).unwrap_or_default();
    let agent = agent.split('/').next().unwrap_or_default();
    let mut call =
        Call::new(request.user.clone(), request.query.get("fieldManager").unwrap_or(agent));
    call.dry_run = request.query.all("dryRun") == ["All"];
    let said = |name: &str| request.query.get(name).unwrap_or_default().into();
    call.options =
        Options { field_manager: said("fieldManager"), field_validation: said("fieldValidation") };
    let cause = request.head.headers.get(client::CAUSE_HEADER);
    call.cause = cause.and_then(client::cause_from_header);
    call
}
