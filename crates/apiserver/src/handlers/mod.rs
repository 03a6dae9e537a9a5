//! Subresources and kinds that are no plain objects, each in a file of its own.

mod binding;
mod custom_scale;
mod eviction;
mod issuer;
mod kubelet;
mod review;
mod scale;
mod token;
mod why;

use std::{collections::HashMap, sync::Arc};

use http_body_util::BodyExt;
use object::{Object, Status, Struct, Value};
use server::{Decoded, Handler, Request, Served, Server, decode_body};

pub(crate) use self::{issuer::Issuer, kubelet::Kubelets};
use crate::{authn::ServiceAccounts, authz::Rbac};

type Handlers = HashMap<(&'static str, &'static str, &'static str), Handler>;

/// What the handlers work with.
#[derive(Clone, Debug)]
pub(crate) struct Tools {
    pub(crate) accounts: Arc<ServiceAccounts>,
    pub(crate) signer: Arc<pki::Signer>,
    pub(crate) rbac: Rbac,
    pub(crate) kubelets: Kubelets,
}

/// By group, resource and subresource.
pub(crate) fn handlers(tools: &Tools) -> Handlers {
    let Tools { accounts, signer, rbac, kubelets } = tools;
    let mut all: Handlers = HashMap::new();
    let mut add = |group, resource, subresource, handler: Handler| {
        all.insert((group, resource, subresource), handler);
    };
    let binding: Handler = Arc::new(binding::Bindings);
    add("", "pods", "binding", binding.clone());
    add("", "bindings", "", binding);
    add("", "pods", "eviction", Arc::new(eviction::Evictions));
    add("", "serviceaccounts", "token", Arc::new(token::Tokens { signer: signer.clone() }));
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
pub(crate) fn paths(issuer: Issuer) -> HashMap<&'static str, Handler> {
    let issuer: Handler = Arc::new(issuer);
    let why: Handler = Arc::new(why::Why);
    HashMap::from([("tiphys", why), (".well-known", issuer.clone()), ("openid", issuer)])
}

/// The kind that a request is about.
fn served(server: &Server, request: &Request) -> Result<Served, Status> {
    let info = &request.info;
    let found = server.registry.kinds().get(&info.group, &info.version, &info.resource);
    found.ok_or_else(Status::no_resource)
}

/// Reads the body as an object of `K`, whatever kind the path is about.
async fn body<K: schema::Kind>(server: &Server, request: Request) -> Result<Value, Status> {
    let (headers, query) = (request.head.headers.clone(), request.query.clone());
    let bytes = bytes_of(server, request).await?;
    let definition = schema::Definition::of::<K>();
    let Decoded { object, .. } = decode_body(&definition, &headers, &query, &bytes)?;
    Ok(object)
}

/// Reads the body as an object of a kind that has no resource of its own.
async fn body_of(
    server: &Server,
    request: Request,
    api_version: &str,
    kind: &str,
    shape: &'static Struct,
) -> Result<Value, Status> {
    let content = request.head.headers.get(http::header::CONTENT_TYPE).cloned();
    let bytes = bytes_of(server, request).await?;
    let malformed = |why: String| {
        Status::bad_request(format!("{kind} in version {api_version:?} cannot be read: {why}"))
    };
    let protobuf = content.is_some_and(|content| content.as_bytes().ends_with(b"protobuf"));
    let mut object = if protobuf {
        let opened =
            schema::protobuf::open(&bytes).map_err(|error| malformed(error.to_string()))?;
        let decoded = schema::protobuf::decode(shape, opened.message);
        decoded.map_err(|error| malformed(error.to_string()))?
    } else {
        object::from_json(&bytes).map_err(|error| malformed(error.to_string()))?
    };
    schema::conform(shape, &mut object, &mut Vec::new()).map_err(malformed)?;
    Ok(object)
}

async fn bytes_of(server: &Server, request: Request) -> Result<bytes::Bytes, Status> {
    let limited = http_body_util::Limited::new(request.body, server.config.limits.body);
    let body = limited.collect().await;
    Ok(body.map_err(|error| Status::bad_request(error.to_string()))?.to_bytes())
}

/// The object with its kind named, as an answer needs it.
fn typed<K: schema::Kind>(object: impl Into<Value>) -> Value {
    let object = Object::from(object.into());
    object.with_api_version(K::NAMES.api_version()).with_kind(K::NAMES.kind).into()
}

fn call(request: &Request) -> server::Call {
    let agent = request.head.headers.get(http::header::USER_AGENT);
    let agent = agent.and_then(|value| value.to_str().ok()).unwrap_or_default();
    let agent = agent.split('/').next().unwrap_or_default();
    let mut call =
        server::Call::new(request.user.clone(), request.query.get("fieldManager").unwrap_or(agent));
    call.dry_run = request.query.all("dryRun") == ["All"];
    let cause = request.head.headers.get(client::CAUSE_HEADER);
    call.cause = cause.and_then(client::cause_from_header);
    call
}
