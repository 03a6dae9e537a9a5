//! NodeRestriction of certificate requests: a kubelet may request certificates for its own node and
//! for its own pods.

use api::certificates::CertificateSigningRequest;
use object::{Status, Value, View, quote::quote};
use server::Operation;

use super::{super::certificates::parsed, KubeletRequest, is_mirror, uid};

const NODE_SIGNERS: &[&str] =
    &["kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet"];

impl KubeletRequest<'_> {
    /// Checks a CertificateSigningRequest for one of the kubelet signers: the subject must be this
    /// node.
    pub(super) fn certificate(&self) -> Result<(), Status> {
        let insecure = "AllowInsecureKubeletCertificateSigningRequests";
        let request = CertificateSigningRequest::view(&self.admission.object);
        if self.plugin.gates.is_enabled(insecure)
            || self.admission.operation != Operation::Create
            || !NODE_SIGNERS.contains(&request.spec().signer_name())
        {
            return Ok(());
        }
        let request = match parsed(request) {
            Ok(request) => request,
            Err(why) => return self.refuse(format!("unable to parse csr: {why}")),
        };
        let own = format!("system:node:{}", self.node);
        if request.identity().common_name == own {
            return Ok(());
        }
        self.refuse(format!("can only create a node CSR with CN={own}"))
    }

    /// Checks a PodCertificateRequest: pod, node and service account must be as they really are.
    pub(super) async fn pod_certificate(&self, part: &str) -> Result<(), Status> {
        let admission = self.admission;
        if !self.plugin.gates.is_enabled("PodCertificateRequest") {
            return self.refuse("PodCertificateRequest feature gate is disabled");
        } else if admission.operation != Operation::Create {
            return self.refuse(format!("unexpected operation {}", self.operation));
        } else if !part.is_empty() {
            return self.refuse(format!("unexpected subresource {part}"));
        }
        let asked = FieldReader(admission.object.get("spec"));
        let (namespace, node) = (admission.namespace.as_str(), quote(asked.text("nodeName")));
        if asked.text("nodeName") != self.node {
            return self.refuse(format!(
                "PodCertificateRequest.Spec.NodeName={node}, which is not the requesting node {}",
                quote(self.node)
            ));
        }
        let named = |what: &str, name: &str, why: Status| {
            let why = why.message().to_owned();
            retryable_error(format!(
                "while retrieving {what} {} named in the PodCertificateRequest: {why}",
                quote(name)
            ))
        };
        let own = self.get("node", "", self.node).map_err(|why| named("node", self.node, why))?;
        let key = format!("{namespace}/{}", asked.text("podName"));
        let pod = quote(&key);
        let for_pod = format!("PodCertificateRequest for pod {pod}");
        let (said, real) = (quote(asked.text("nodeUID")), quote(uid(&own.object)));
        if said != real {
            return Err(retryable_error(format!(
                "{for_pod} names node UID {said}, inconsistent with the running node ({real})"
            )));
        }
        let found = self.get("pod", namespace, asked.text("podName"));
        let found = found.map_err(|why| named("pod", &key, why))?;
        let (said, real) = (quote(asked.text("podUID")), quote(uid(&found.object)));
        if said != real {
            return Err(retryable_error(format!(
                "{for_pod} contains pod UID ({said}) which differs from running pod {real}"
            )));
        }
        let why =
            format!("pod {pod} is not running on node {node} named in the PodCertificateRequest");
        self.require_own_pod(&found.object, &why)?;
        if is_mirror(&found.object) {
            return self.refuse(format!("pod {pod} is a mirror pod"));
        }
        self.account(&asked, &found.object, &for_pod)?;
        let (signer, account) = (asked.text("signerName"), asked.text("serviceAccountName"));
        let verb = "request-serviceaccounts-podcertificate-signer";
        // The signer is the resource of the check, and a resource cannot contain slashes.
        if mounts(&found.object, signer)
            || self.is_authorized(verb, &signer.replace('/', ":"), account).await
        {
            return Ok(());
        }
        let signer = quote(signer);
        let what = "does not mount a podCertificate projected volume for signer";
        self.refuse(format!("pod {pod} {what} {signer}"))
    }

    /// Checks the service account of a PodCertificateRequest against that of the pod.
    fn account(&self, asked: &FieldReader, pod: &Value, for_pod: &str) -> Result<(), Status> {
        let name = asked.text("serviceAccountName");
        let real = FieldReader(pod.get("spec")).text("serviceAccountName");
        if name != real {
            let (name, real) = (quote(name), quote(real));
            return self.refuse(format!(
                "{for_pod} contains serviceAccountName ({name}) that differs from running pod ({real})"
            ));
        }
        let namespace = &self.admission.namespace;
        let account = self.get("serviceaccount", namespace, name).map_err(|why| {
            let name = quote(&format!("{namespace}/{name}"));
            let what = "named in the PodCertificateRequest";
            retryable_error(format!(
                "while retrieving service account {name} {what}: {}",
                why.message()
            ))
        })?;
        let (said, real) = (quote(asked.text("serviceAccountUID")), quote(uid(&account.object)));
        if said == real {
            return Ok(());
        }
        Err(retryable_error(format!(
            "{for_pod} names service account UID {said}, which differs from the running service \
             account ({real})"
        )))
    }
}

/// Reads the string fields of an object.
struct FieldReader<'a>(&'a Value);

impl<'a> FieldReader<'a> {
    fn text(&self, name: &str) -> &'a str {
        self.0.get(name).as_str().unwrap_or_default()
    }
}

/// A 500 error, on which the kubelet retries: its view of the pod may be newer than the server's.
fn retryable_error(why: String) -> Status {
    Status::failure(500, "", why)
}

fn mounts(pod: &Value, signer: &str) -> bool {
    let volumes = pod.get("spec").get("volumes").items().iter();
    let mut sources = volumes.flat_map(|volume| volume.get("projected").get("sources").items());
    sources.any(|source| source.get("podCertificate").get("signerName").as_str() == Some(signer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_mounts_the_certificates_that_it_names() {
        let pod =
            br#"{"spec":{"volumes":[{"name":"a","emptyDir":{}},{"name":"b","projected":{"sources":[
            {"downwardAPI":{}},{"podCertificate":{"signerName":"a.b/c"}}]}}]}}"#;
        let pod = object::from_json(pod).unwrap();
        assert!(mounts(&pod, "a.b/c") && !mounts(&pod, "a.b/d") && !mounts(&pod, ""));
    }
}
