//! The TokenRequest handler: issues a service account token with a lifetime and audiences,
//! optionally bound to a pod, Secret or node.

use std::{sync::Arc, time::Duration};

use api::authentication::TokenRequest;
use object::{Lens, List, Object, ObjectMeta, ResourceRef, Status, Time, Value, View};
use pki::{BoundObjectRef, BoundObjects, ServiceAccountClaims, TokenSigner};
use ref_cast::RefCast;
use schema::{ErrorList, FieldPath};
use server::{EndpointHandler, Operation, Request, ResponseFuture, Server};

use super::{
    ResponseParams, asking, body_of, in_namespace, prepare_subresource, request_context,
    same_namespace, token_request_kind, warned,
};
use crate::external_signer::ExternalSigner;

const SHORTEST: i64 = 600;
const LONGEST: i64 = 1 << 32;
const DEFAULT: i64 = 3600;

/// The `expirationSeconds` of the token volume that the ServiceAccount admission plugin adds to
/// pods.
const POD_TOKEN_SECONDS: i64 = 3607;
const YEAR: i64 = 365 * 24 * 3600;

#[derive(Clone, Debug)]
pub(crate) struct TokenRequestHandler {
    pub(crate) signer: Arc<AnyTokenSigner>,
    /// The audiences of this server, which a token gets if the request names none.
    pub(crate) audiences: Vec<String>,
    /// Maximum lifetime of a token; `None` if there is no limit.
    pub(crate) max_expiration: Option<Duration>,
    /// Whether tokens of the default token volume are valid for a year
    /// (`--service-account-extend-token-expiration`).
    pub(crate) extends: bool,
}

/// The signer: this server's key, or an external one.
#[derive(Debug)]
pub(crate) enum AnyTokenSigner {
    Own(TokenSigner),
    External(Arc<ExternalSigner>),
}

impl AnyTokenSigner {
    async fn sign(&self, claims: ServiceAccountClaims) -> Result<String, Status> {
        match self {
            Self::Own(signer) => signer.sign(claims).map_err(Status::internal),
            Self::External(signer) => {
                let signed = signer.sign(claims).await;
                signed.map_err(|why| Status::internal(format!("failed to generate token: {why:#}")))
            }
        }
    }

    /// A year, or the external signer's maximum lifetime if that is shorter.
    fn year(&self) -> i64 {
        match self {
            Self::Own(_) => YEAR,
            Self::External(signer) => i64::try_from(signer.max_expiration.as_secs())
                .map_or(YEAR, |longest| longest.min(YEAR)),
        }
    }
}

impl EndpointHandler for TokenRequestHandler {
    fn handle<'a>(&'a self, server: &'a Arc<Server>, request: Request) -> ResponseFuture<'a> {
        Box::pin(async move {
            let info = request.info.clone();
            let mut call = request_context(&request);
            let kind = token_request_kind();
            let asked = ResponseParams::of(&request);
            let mut given = body_of(server, &mut call, request, &kind).await?;
            let spec = given.get("spec");
            if spec.is_object() && spec.get("attestations").entries().len() == 0 {
                given["spec"].remove("attestations");
            }
            let mut request = TokenRequest::from(given);
            if request.tree().get("spec").get("expirationSeconds").is_null() {
                request.spec_mut().set_expiration_seconds(DEFAULT);
            }
            same_namespace(request.metadata().namespace(), &info.namespace)?;
            in_namespace(server, &info.namespace)?;
            let accounts = server.registry.kind("", "serviceaccounts")?;
            let account = server.registry.get(&accounts, &info.namespace, &info.name)?;
            let account = Object::view(&account.object).metadata();
            same(&request, &info.name, account.uid())?;
            let reference =
                BoundObjectRef { name: info.name.to_string(), uid: account.uid().to_owned() };
            let mut bound = BoundObjects::default();
            bound.namespace = info.namespace.to_string();
            bound.service_account = reference;
            let now = server.registry.clock().now();
            let mut given = prepare_subresource(server, (&call, &info), &kind, request.into())?;
            // The fields that upstream writes even if they are empty.
            if given.get("spec").get("boundObjectRef").is_null() {
                given["spec"]["boundObjectRef"] = Value::Null;
            }
            given["status"]["token"] = "".into();
            given["status"]["expirationTimestamp"] = Value::Null;
            let asking = asking(&info, Operation::Create, given);
            let checked = |given: &mut Value| {
                let request = TokenRequest::ref_cast_mut(given);
                self.complete(request, account, now);
                check(request)
            };
            let given =
                server.registry.admit_subresource(&mut call, &accounts, asking, checked).await?;
            let mut request = TokenRequest::from(given);
            bind(server, &request, &mut bound)?;
            let seconds = request.spec().expiration_seconds();
            let audiences: Vec<String> =
                request.spec().audiences().iter().map(str::to_owned).collect();
            let (seconds, warning) = self.cap_expiration(seconds);
            call.warnings.extend(warning);
            request.spec_mut().set_expiration_seconds(seconds);
            let lasts = self.effective_expiration(seconds, &audiences, &mut bound, now);
            let mut claims = ServiceAccountClaims::bound(bound, audiences, lasts, now);
            claims.id = server::uid().to_string();
            let issued = "authentication.kubernetes.io/issued-credential-id";
            server::add_audit_annotation(issued, format!("JTI={}", claims.id));
            let token = self.signer.sign(claims).await?;
            let status = request.status_mut();
            status.set_token(token);
            status.set_expiration_timestamp(Time::format(now.saturating_add(seconds)));
            Ok(warned(asked.reply(server, &kind, (201, request.tree()))?, &call))
        })
    }
}

impl TokenRequestHandler {
    /// Sets the default audiences, and the metadata that only the server sets.
    fn complete(&self, request: &mut TokenRequest, account: &ObjectMeta, now: i64) {
        if request.spec().audiences().is_empty() {
            let list: List<String> = self.audiences.iter().map(String::as_str).collect();
            request.spec_mut().set_audiences(list);
        }
        let meta = request.metadata_mut();
        meta.set_name(account.name());
        meta.set_namespace(account.namespace());
        meta.set_uid(account.uid());
        meta.set_creation_timestamp(Time::format(now));
    }

    /// Limits the lifetime; returns a warning if it was shortened.
    fn cap_expiration(&self, seconds: i64) -> (i64, Option<String>) {
        let longest = self.max_expiration.and_then(|own| i64::try_from(own.as_secs()).ok());
        let Some(longest) = longest.filter(|longest| seconds > *longest) else {
            return (seconds, None);
        };
        let why =
            format!("requested expiration of {seconds} seconds shortened to {longest} seconds");
        (longest, Some(why))
    }

    /// The real lifetime: tokens of the default token volume are extended, and only reported as
    /// stale after the requested time.
    fn effective_expiration(
        &self,
        seconds: i64,
        audiences: &[String],
        bound: &mut BoundObjects,
        now: i64,
    ) -> i64 {
        let ours = audiences.iter().all(|own| self.audiences.contains(own));
        if !(self.extends && bound.pod.is_some() && seconds == POD_TOKEN_SECONDS && ours) {
            return seconds;
        }
        bound.warn_after = Some(now.saturating_add(seconds));
        self.signer.year()
    }
}

fn check(request: &TokenRequest) -> Result<(), Status> {
    let (seconds, mut errs) = (request.spec().expiration_seconds(), ErrorList::default());
    let at = FieldPath::Root.field("spec");
    let attestations = request.spec().attestations();
    if !attestations.is_empty() {
        let why = "attestations may only be specified with a webhook bound object reference";
        errs.invalid(&at.field("attestations"), attestations.clone(), why);
    } else if seconds < SHORTEST {
        let why = "may not specify a duration less than 10 minutes";
        errs.invalid(&at.field("expirationSeconds"), seconds, why);
    } else if seconds > LONGEST {
        let why = "may not specify a duration larger than 2^32 seconds";
        errs.invalid(&at.field("expirationSeconds"), seconds, why);
    }
    if errs.is_empty() {
        return Ok(());
    }
    Err(errs.into_status("authentication.k8s.io", "TokenRequest", ""))
}

/// Checks that name and uid in the body are those of the service account.
fn same(request: &TokenRequest, name: &str, uid: &str) -> Result<(), Status> {
    let (meta, at) = (request.metadata(), FieldPath::Root.field("metadata"));
    if !meta.name().is_empty() && meta.name() != name {
        let mut errs = ErrorList::default();
        let why = "must match the service account name if specified";
        errs.invalid(&at.field("name"), meta.name(), why);
        return Err(errs.into_status("authentication.k8s.io", "TokenRequest", name));
    }
    if !meta.uid().is_empty() && meta.uid() != uid {
        let subject =
            ResourceRef { group: "authentication.k8s.io", resource: "TokenRequest", name };
        return Err(Status::conflict(
            subject,
            &format!(
                "the UID in the token request ({}) does not match the UID of the service account ({uid})",
                meta.uid()
            ),
        ));
    }
    Ok(())
}

/// Binds the token to the requested object; for a pod, also records its node.
fn bind(server: &Server, request: &TokenRequest, bound: &mut BoundObjects) -> Result<(), Status> {
    let Some(object) = request.spec().bound_object_ref() else { return Ok(()) };
    let core = !object.api_version().contains('/');
    let (plural, namespace) = match object.kind() {
        "Pod" if core => ("pods", bound.namespace.as_str()),
        "Secret" if core => ("secrets", bound.namespace.as_str()),
        "Node" if core => ("nodes", ""),
        kind => {
            let (group, version) =
                object.api_version().split_once('/').unwrap_or(("", object.api_version()));
            return Err(Status::bad_request(format!(
                "cannot bind token to object of type {group}/{version}, Kind={kind}"
            )));
        }
    };
    if object.name().is_empty() {
        return Err(Status::bad_request("Name parameter required."));
    }
    let kind = server.registry.kind("", plural)?;
    let found = server.registry.get(&kind, namespace, object.name())?;
    let uid = Object::view(&found.object).metadata().uid();
    if !object.uid().is_empty() && object.uid() != uid {
        let subject = ResourceRef { group: "", resource: object.kind(), name: object.name() };
        return Err(Status::conflict(
            subject,
            &format!(
                "the UID in the bound object reference ({}) does not match the UID in record. The object \
             might have been deleted and then recreated",
                object.uid()
            ),
        ));
    }
    let reference = Some(BoundObjectRef { name: object.name().to_owned(), uid: uid.to_owned() });
    match plural {
        "pods" => {
            let account = found.object.get("spec").get("serviceAccountName").as_str();
            if account.unwrap_or_default() != bound.service_account.name {
                return Err(Status::bad_request(format!(
                    "cannot bind token for serviceaccount {:?} to pod running with different \
                     serviceaccount name.",
                    bound.service_account.name
                )));
            }
            bound.pod = reference;
            let node = found.object.get("spec").get("nodeName").as_str().unwrap_or_default();
            let nodes = server.registry.kind("", "nodes")?;
            if let (false, Ok(found)) = (node.is_empty(), server.registry.get(&nodes, "", node)) {
                let uid = Object::view(&found.object).metadata().uid().to_owned();
                bound.node = Some(BoundObjectRef { name: node.to_owned(), uid });
            }
        }
        "secrets" => bound.secret = reference,
        _ => bound.node = reference,
    }
    Ok(())
}
