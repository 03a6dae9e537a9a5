//! Handlers of subresources, of kinds that are not stored, and of paths outside the API groups;
//! each in its own file.

mod binding;
mod component_statuses;
mod connect;
mod custom_scale;
mod debug;
mod eviction;
mod issuer;
mod kubelet;
mod kubelet_error;
mod link_rewrite;
mod logs;
mod review;
mod scale;
mod statusz;
mod targets;
mod token;
mod why;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use http::HeaderMap;
use object::{Lens, Object, Status, StructSchema, Time, Value, View};
use schema::{
    ResourceDefinition, ResourceNames,
    apply::{self, FieldManagerRequest},
};
use server::{
    Decoded, HandlerRef, Handlers, Operation, Query, Reply, Request, RequestContext, RequestInfo,
    ServedResource, Server, SubresourceRequest, WriteOptions, decode_body, reply_as,
    status_reply_as,
};

pub(crate) use self::{
    debug::Debug,
    issuer::Issuer,
    kubelet::{KubeletClient, PodLogMetrics},
    logs::Logs,
    token::{AnyTokenSigner, TokenRequestHandler},
};
use crate::{authn::ServiceAccountAuthenticator, authz::Rbac};

/// The dependencies of the handlers.
#[derive(Clone, Debug)]
pub(crate) struct HandlerDependencies {
    pub(crate) accounts: Arc<ServiceAccountAuthenticator>,
    pub(crate) tokens: TokenRequestHandler,
    pub(crate) rbac: Rbac,
    pub(crate) kubelets: KubeletClient,
    /// Ports of the scheduler and the controller manager, where they are known.
    pub(crate) component_ports: Option<(u16, u16)>,
}

/// The handlers by group, resource and subresource.
pub(crate) fn handlers(tools: &HandlerDependencies) -> Handlers {
    let HandlerDependencies { accounts, tokens, rbac, kubelets, component_ports } = tools;
    let mut all = Handlers::default();
    all.add_conversion("scale", Arc::new(scale::ScaleHandler));
    let mut add = |group, resource, subresource, handler: HandlerRef| {
        all.add((group, resource, subresource), handler);
    };
    let binding: HandlerRef = Arc::new(binding::BindingHandler);
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
    for verb in ["log", "exec", "attach", "portforward", "proxy"] {
        add("", "pods", verb, Arc::new(kubelets.pods(verb)));
    }
    add("", "nodes", "proxy", Arc::new(kubelets.nodes()));
    add("", "services", "proxy", Arc::new(kubelets.services()));
    let reviews =
        Arc::new(review::ReviewHandler { accounts: accounts.clone(), rbac: rbac.clone() });
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

/// The handlers by the first segment of the path.
pub(crate) fn paths(
    issuer: Issuer,
    since: i64,
    flags: BTreeMap<String, String>,
) -> HashMap<&'static str, HandlerRef> {
    let issuer: HandlerRef = Arc::new(issuer);
    let why: HandlerRef = Arc::new(why::ProvenanceHandler);
    let about: HandlerRef = Arc::new(statusz::Statusz { since });
    let flags: HandlerRef = Arc::new(statusz::Flagz { flags });
    HashMap::from([
        ("tiphys", why),
        (".well-known", issuer.clone()),
        ("openid", issuer),
        ("statusz", about),
        ("flagz", flags),
    ])
}

/// The resource that a request is about.
fn served(server: &Server, request: &Request) -> Result<ServedResource, Status> {
    let info = &request.info;
    let found = server.registry.kinds().get(&info.group, &info.version, &info.resource);
    found.ok_or_else(Status::unknown_resource)
}

/// The parameters that determine the encoding of a response.
struct ResponseParams {
    headers: HeaderMap,
    query: Query,
}

impl ResponseParams {
    fn of(request: &Request) -> Self {
        Self { headers: request.head.headers.clone(), query: request.query.clone() }
    }

    fn reply(
        &self,
        server: &Server,
        kind: &ResourceDefinition,
        answer: (u16, &Value),
    ) -> Result<Reply, Status> {
        reply_as(&self.headers, &self.query, kind, answer, server.registry.clock().now())
    }

    /// The response to a successful create without an object, with the warnings.
    fn created(&self, call: &RequestContext) -> Reply {
        let done = Status::success().with_code(201);
        warned(status_reply_as(&self.headers, &self.query, &done), call)
    }

    /// The response to a failed request, with the warnings.
    fn failure(&self, why: &Status, call: &RequestContext) -> Reply {
        warned(status_reply_as(&self.headers, &self.query, why), call)
    }
}

/// Adds the warnings of the request to the response.
fn warned(mut reply: Reply, call: &RequestContext) -> Reply {
    server::warn(reply.headers_mut(), &call.warnings);
    reply
}

/// The definition of Eviction, the body of a subresource.
fn eviction_kind() -> ResourceDefinition {
    let names = ResourceNames::new("policy", "v1", "Eviction", "");
    let former_api_versions = &["policy/v1beta1"];
    let definition = ResourceDefinition::without_resource(names, api::policy::Eviction::SHAPE);
    ResourceDefinition { former_api_versions, ..definition }
}

/// The definition of TokenRequest, the body of a subresource.
fn token_request_kind() -> ResourceDefinition {
    let names = ResourceNames::new("authentication.k8s.io", "v1", "TokenRequest", "");
    let former_api_versions = &["authentication.k8s.io/v1alpha1", "authentication.k8s.io/v1beta1"];
    let definition = ResourceDefinition::without_resource(names, api::TokenRequest::SHAPE);
    ResourceDefinition { former_api_versions, ..definition }
}

/// The kinds that exist only as bodies of subresources.
pub(crate) fn subresource_kinds() -> Vec<ResourceDefinition> {
    vec![
        ResourceDefinition::from_kind::<api::autoscaling::v1::Scale>(),
        eviction_kind(),
        token_request_kind(),
    ]
}

/// Decodes the body as an object of this kind, whatever kind the path is about. Warnings about the
/// body are added to `call`.
async fn body_of(
    server: &Server,
    call: &mut RequestContext,
    request: Request,
    kind: &ResourceDefinition,
) -> Result<Value, Status> {
    let read = decode_request(server, request, kind).await?;
    call.warnings.extend(read.warnings);
    Ok(read.object)
}

/// Sets the managedFields of the sent object.
fn with_managed_fields(
    server: &Server,
    call: &RequestContext,
    (names, shape): (&ResourceNames, &StructSchema),
    subresource: &str,
    given: Value,
) -> Result<Value, Status> {
    let write = FieldManagerRequest {
        schema: shape,
        api_version: &names.api_version(),
        kind: names.kind,
        manager: &call.manager,
        subresource,
        reset_fields: &[],
        now: &Time::format(server.registry.clock().now()),
        converter: &apply::SingleVersion,
    };
    apply::update_managed_fields(&write, None, given).map_err(|error| error.status())
}

/// Like `body_of`, but returns the warnings with the object.
async fn decode_request(
    server: &Server,
    request: Request,
    kind: &ResourceDefinition,
) -> Result<Decoded, Status> {
    let asked = ResponseParams::of(&request);
    let bytes = bytes_of(server, request).await?;
    decode_body(server.registry.kinds(), kind, &asked.headers, &asked.query, &bytes)
}

/// Checks that the namespace exists, before anything else is reported as missing.
fn in_namespace(server: &Server, namespace: &str) -> Result<(), Status> {
    let namespaces = server.registry.kind("", "namespaces")?;
    server.registry.get(&namespaces, "", namespace).map(drop)
}

/// Checks that the namespace in the body is that of the path.
fn same_namespace(own: &str, namespace: &str) -> Result<(), Status> {
    if own.is_empty() || own == namespace {
        return Ok(());
    }
    Err(Status::bad_request(
        "the namespace of the provided object does not match the namespace sent on the request",
    ))
}

/// Checks that name and namespace in the body are those of the path.
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

/// The body of a subresource as admission plugins see it: with kind, namespace and managedFields.
fn prepare_subresource(
    server: &Server,
    (call, info): (&RequestContext, &RequestInfo),
    kind: &ResourceDefinition,
    object: Value,
) -> Result<Value, Status> {
    let object = Object::from(object).with_api_version(kind.names.api_version());
    let mut object = object.with_kind(kind.names.kind);
    object.metadata_mut().set_namespace(&*info.namespace);
    with_managed_fields(server, call, (&kind.names, &kind.schema), &info.subresource, object.into())
}

/// The object with `apiVersion` and `kind` set, for a response.
fn typed<K: schema::Kind>(object: impl Into<Value>) -> Value {
    let object = Object::from(object.into());
    object.with_api_version(K::NAMES.api_version()).with_kind(K::NAMES.kind).into()
}

/// The subresource request as admission plugins see it.
fn asking(info: &RequestInfo, operation: Operation, object: Value) -> SubresourceRequest<'_> {
    SubresourceRequest {
        operation,
        namespace: &info.namespace,
        name: &info.name,
        subresource: &info.subresource,
        old: None,
        object,
    }
}

fn request_context(request: &Request) -> RequestContext {
    let agent = request.head.headers.get(http::header::USER_AGENT);
    let agent = agent.and_then(|value| value.to_str().ok()).unwrap_or_default();
    let agent = agent.split('/').next().unwrap_or_default();
    let mut call = RequestContext::new(
        request.user.clone(),
        request.query.get("fieldManager").unwrap_or(agent),
    );
    call.dry_run = request.query.all("dryRun") == ["All"];
    let said = |name: &str| request.query.get(name).unwrap_or_default().into();
    call.options = WriteOptions {
        field_manager: said("fieldManager"),
        field_validation: said("fieldValidation"),
    };
    let cause = request.head.headers.get(client::CAUSE_HEADER);
    call.cause = cause.and_then(client::cause_from_header);
    call
}
