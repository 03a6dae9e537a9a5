//! The CertificateApproval, CertificateSigning, CertificateSubjectRestriction and
//! ClusterTrustBundleAttest admission plugins, which authorize a user to act for a signer; and
//! `CertificateRequester`, which records the user who created a CertificateSigningRequest.

use api::certificates::CertificateSigningRequest;
use object::{Status, Value, View};
use ref_cast::RefCast;
use server::{AdmissionAttributes, AdmissionFuture, AdmissionPlugin, Attributes, Operation};

use super::AuthorizerChain;

const GROUP: &str = "certificates.k8s.io";
const CLIENTS: &str = "kubernetes.io/kube-apiserver-client";

/// The plugin that checks that the user has the verb `approve`, `sign` or `attest` on the resource
/// `signers`.
#[derive(Debug)]
pub(super) struct SignerAuthorization {
    name: &'static str,
    verb: &'static str,
    rights: AuthorizerChain,
}

impl SignerAuthorization {
    /// CertificateApproval: the verb `approve`, for updates of
    /// `certificatesigningrequests/approval`.
    pub(super) fn approval(rights: &AuthorizerChain) -> Self {
        Self { name: "CertificateApproval", verb: "approve", rights: rights.clone() }
    }

    /// CertificateSigning: the verb `sign`, for updates of the certificate or conditions in the
    /// status.
    pub(super) fn signing(rights: &AuthorizerChain) -> Self {
        Self { name: "CertificateSigning", verb: "sign", rights: rights.clone() }
    }

    /// ClusterTrustBundleAttest: the verb `attest`, for ClusterTrustBundles of a signer.
    pub(super) fn attest(rights: &AuthorizerChain) -> Self {
        Self { name: "ClusterTrustBundleAttest", verb: "attest", rights: rights.clone() }
    }

    /// The signer that the request acts for; `None` if the request needs no such permission.
    fn signer(&self, admission: &AdmissionAttributes) -> Option<String> {
        let names = &admission.served.definition.names;
        let of = |tree: &Value| tree.get("spec").get("signerName").as_str().map(str::to_owned);
        match (self.verb, names.plural, admission.subresource, admission.old) {
            _ if names.group != GROUP || admission.object.is_null() => None,
            ("approve", "certificatesigningrequests", "approval", Some(old)) => of(old),
            ("sign", "certificatesigningrequests", "status", Some(old)) => {
                let part = |tree: &Value, name: &str| tree.get("status").get(name).clone();
                let same = ["certificate", "conditions"]
                    .iter()
                    .all(|name| part(old, name) == part(&admission.object, name));
                if same { None } else { of(old) }
            }
            ("attest", "clustertrustbundles", "", old) => {
                let same = old.is_some_and(|old| rest(old) == rest(&admission.object));
                of(&admission.object).filter(|name| !name.is_empty() && !same)
            }
            _ => None,
        }
    }

    async fn decide(&self, admission: &AdmissionAttributes<'_>) -> Result<(), Status> {
        let Some(signer) = self.signer(admission) else { return Ok(()) };
        let domain = signer.split('/').next().unwrap_or_default();
        for name in [signer.clone(), format!("{domain}/*")] {
            let attributes = Attributes {
                verb: self.verb.into(),
                group: GROUP.into(),
                version: "*".into(),
                resource: "signers".into(),
                name: name.as_str().into(),
                is_resource: true,
                ..Attributes::default()
            };
            if self.rights.is_allowed(admission.user, &attributes).await {
                return Ok(());
            }
        }
        Err(admission.forbidden(&match self.verb {
            "attest" => format!("user not permitted to attest for signerName {signer:?}"),
            verb => format!("user not permitted to {verb} requests with signerName {signer:?}"),
        }))
    }
}

impl AdmissionPlugin for SignerAuthorization {
    fn name(&self) -> &'static str {
        self.name
    }

    fn validate<'a>(&'a self, admission: &'a AdmissionAttributes<'_>) -> AdmissionFuture<'a> {
        Box::pin(self.decide(admission))
    }
}

/// The object without the metadata that garbage collection and storage migration change.
fn rest(object: &Value) -> Value {
    let mut rest = object.clone();
    for field in ["ownerReferences", "finalizers", "managedFields", "resourceVersion"] {
        rest["metadata"].remove(field);
    }
    rest
}

/// CertificateSubjectRestriction: rejects requests for a client certificate of the group
/// `system:masters`.
#[derive(Debug)]
pub(super) struct SubjectRestriction;

impl AdmissionPlugin for SubjectRestriction {
    fn name(&self) -> &'static str {
        "CertificateSubjectRestriction"
    }

    fn validate<'a>(&'a self, admission: &'a AdmissionAttributes<'_>) -> AdmissionFuture<'a> {
        let done = restrict(admission);
        Box::pin(async move { done })
    }
}

fn restrict(admission: &AdmissionAttributes) -> Result<(), Status> {
    let new = admission.is_resource(GROUP, "certificatesigningrequests")
        && admission.operation == Operation::Create;
    let request = CertificateSigningRequest::view(&admission.object);
    if !new || request.spec().signer_name() != CLIENTS {
        return Ok(());
    }
    let request = parsed(request)
        .map_err(|why| admission.forbidden(&format!("failed to parse CSR: {why}")))?;
    if request.identity().organizations.iter().any(|group| group == "system:masters") {
        let why = format!("use of {CLIENTS} signer with system:masters group is not allowed");
        return Err(admission.forbidden(&why));
    }
    Ok(())
}

/// Parses the PKCS#10 request in `spec.request`; the error is upstream's text.
pub(super) fn parsed(
    request: &CertificateSigningRequest,
) -> Result<pki::CertificateRequest, String> {
    let pem = object::Bytes::decode(request.spec().request()).unwrap_or_default();
    pki::CertificateRequest::from_pem(&pem).map_err(|error| {
        let is = String::from_utf8_lossy(&pem).contains("-----BEGIN CERTIFICATE REQUEST-----");
        if is { error.to_string() } else { "PEM block type must be CERTIFICATE REQUEST".to_owned() }
    })
}

/// Sets username, uid, groups and extra of a new CertificateSigningRequest to those of the
/// authenticated user, whatever the client sent.
#[derive(Debug)]
pub(super) struct CertificateRequester;

impl AdmissionPlugin for CertificateRequester {
    fn name(&self) -> &'static str {
        "CertificateRequester"
    }

    fn mutate<'a>(&'a self, admission: &'a mut AdmissionAttributes<'_>) -> AdmissionFuture<'a> {
        if admission.is_resource(GROUP, "certificatesigningrequests")
            && admission.operation == Operation::Create
        {
            let user = admission.user;
            let spec = CertificateSigningRequest::ref_cast_mut(&mut admission.object).spec_mut();
            spec.set_username(user.name.as_str());
            spec.set_uid(user.uid.as_str());
            let groups: Vec<&str> = user.groups.iter().map(object::Text::as_str).collect();
            spec.set_groups(groups.into_iter().collect::<object::List<String>>());
            let mut extra = Value::object();
            for (name, values) in &user.extra {
                extra[name.as_str()] = values.iter().map(String::as_str).collect();
            }
            let spec = &mut admission.object["spec"];
            spec.remove("extra");
            if extra.entries().len() > 0 {
                spec["extra"] = extra;
            }
        }
        Box::pin(async { Ok(()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_request_is_told() {
        let request = |bytes: &[u8]| {
            let mut tree = Value::object();
            tree["spec"]["request"] = object::Bytes::encode(bytes).into();
            parsed(CertificateSigningRequest::view(&tree)).map(drop)
        };
        let none = "PEM block type must be CERTIFICATE REQUEST";
        assert_eq!(request(b"xx").unwrap_err(), none);
        let broken =
            b"-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n";
        assert_ne!(request(broken).unwrap_err(), none);
    }

    #[test]
    fn to_collect_garbage_is_no_change() {
        let tree = |json: &str| object::from_json(json.as_bytes()).unwrap();
        let old =
            tree(r#"{"metadata":{"name":"a","resourceVersion":"1"},"spec":{"signerName":"s"}}"#);
        let owned = r#"{"metadata":{"name":"a","finalizers":["x"]},"spec":{"signerName":"s"}}"#;
        let labelled = r#"{"metadata":{"name":"a","labels":{"a":"b"}},"spec":{"signerName":"s"}}"#;
        assert!(rest(&old) == rest(&tree(owned)) && rest(&old) != rest(&tree(labelled)));
    }
}
