//! The NodeRestriction admission plugin: a kubelet may modify only its own Node and pods, and
//! request only the tokens and certificates that its pods need.

mod certificates;
mod node;
mod pods;
mod tokens;
mod volumes;

use std::sync::Arc;

use api::core::Pod;
use object::{Object, ResourceRef, Status, Value, View, quote::quote};
use schema::FeatureGates;
use server::{AdmissionAttributes, AdmissionFuture, AdmissionPlugin, Attributes, Operation};
use store::Version;

use super::AuthorizerChain;
use crate::authz::node_of;

const MIRROR: &str = "kubernetes.io/config.mirror";
const LEASES: &str = "kube-node-lease";

#[derive(Debug)]
pub(super) struct NodeRestriction {
    pub(super) gates: FeatureGates,
    pub(super) rights: AuthorizerChain,
}

impl AdmissionPlugin for NodeRestriction {
    fn name(&self) -> &'static str {
        "NodeRestriction"
    }

    fn mutate<'a>(&'a self, admission: &'a mut AdmissionAttributes<'_>) -> AdmissionFuture<'a> {
        Box::pin(self.decide(admission))
    }
}

impl NodeRestriction {
    async fn decide(&self, admission: &AdmissionAttributes<'_>) -> Result<(), Status> {
        let Some(node) = node_of(admission.user) else { return Ok(()) };
        let Some(operation) = operation_name(admission.operation) else { return Ok(()) };
        let kubelet = KubeletRequest { plugin: self, admission, node, operation };
        if node.is_empty() {
            let user = quote(&admission.user.name);
            return kubelet.refuse(format!("could not determine node from user {user}"));
        }
        let names = &admission.served.definition.names;
        match (names.group, names.plural, admission.subresource) {
            ("", "pods", part) => kubelet.pod(part),
            ("", "nodes", _) => kubelet.own_node(),
            ("", "persistentvolumeclaims", "status") => kubelet.claim_status(),
            ("", "persistentvolumeclaims", _) => kubelet.refuse("may only update PVC status"),
            ("", "serviceaccounts", "token") if admission.operation == Operation::Create => {
                kubelet.token().await
            }
            ("certificates.k8s.io", "podcertificaterequests", part) => {
                kubelet.pod_certificate(part).await
            }
            ("certificates.k8s.io", "certificatesigningrequests", _) => kubelet.certificate(),
            ("coordination.k8s.io", "leases", _) => kubelet.lease(),
            ("storage.k8s.io", "csinodes", part) => kubelet.csi_node(part),
            ("resource.k8s.io", "resourceslices", _) => kubelet.slice(),
            _ => Ok(()),
        }
    }
}

/// A request of one kubelet, which the submodules check.
struct KubeletRequest<'a> {
    plugin: &'a NodeRestriction,
    admission: &'a AdmissionAttributes<'a>,
    node: &'a str,
    operation: &'static str,
}

impl KubeletRequest<'_> {
    fn refuse<T>(&self, why: impl AsRef<str>) -> Result<T, Status> {
        Err(self.admission.forbidden(why.as_ref()))
    }

    fn unexpected(&self) -> Result<(), Status> {
        self.refuse(format!("unexpected operation {}", quote(self.operation)))
    }

    /// Gets an object. The NotFound error names the kind, not the resource, as upstream's does.
    fn get(&self, kind: &str, namespace: &str, name: &str) -> Result<Arc<Version<Value>>, Status> {
        let group = if kind == "csidriver" { "storage.k8s.io" } else { "" };
        let served = self.admission.registry.kind(group, &format!("{kind}s"))?;
        let found = self.admission.registry.get(&served, namespace, name);
        found.map_err(|_| Status::not_found(ResourceRef { group, resource: kind, name }))
    }

    /// Rejects the request with `refusal` unless the pod is on this node.
    fn require_own_pod(&self, pod: &Value, refusal: &str) -> Result<(), Status> {
        match Pod::view(pod).spec().node_name() == self.node {
            true => Ok(()),
            false => self.refuse(refusal),
        }
    }

    /// Whether the kubelet is authorized to use `verb` on `resource` with the service account's
    /// name.
    async fn is_authorized(&self, verb: &str, resource: &str, account: &str) -> bool {
        let names = &self.admission.served.definition.names;
        let wanted = Attributes {
            verb: verb.into(),
            group: names.group.into(),
            version: names.version.into(),
            resource: resource.into(),
            namespace: self.admission.namespace.clone(),
            name: account.into(),
            is_resource: true,
            ..Attributes::default()
        };
        self.plugin.rights.is_allowed(self.admission.user, &wanted).await
    }

    /// Checks that the Lease or CSINode has the name of the node.
    fn is_own_name(&self, what: &str) -> Result<(), Status> {
        if self.admission.name == self.node {
            return Ok(());
        }
        self.refuse(format!("can only access {what} with the same name as the requesting node"))
    }

    fn lease(&self) -> Result<(), Status> {
        if self.admission.namespace != LEASES {
            return self
                .refuse(format!("can only access leases in the {LEASES:?} system namespace"));
        }
        self.is_own_name("node lease")
    }

    fn csi_node(&self, part: &str) -> Result<(), Status> {
        self.is_own_name("CSINode")?;
        let spec = |tree: &Value| tree.get("spec").clone();
        match (part, self.admission.operation, self.admission.old) {
            ("status", ..) if !self.plugin.gates.is_enabled("CSIVolumeHealth") => {
                self.refuse("CSIVolumeHealth feature gate is disabled")
            }
            ("status", Operation::Update, Some(old)) => {
                if spec(old) == spec(&self.admission.object) {
                    return Ok(());
                }
                let node = quote(self.node);
                self.refuse(format!("node {node} is not allowed to modify CSINode spec via status"))
            }
            ("status", ..) => self.unexpected(),
            _ => Ok(()),
        }
    }

    /// Checks the node of a ResourceSlice on create and delete, which the node authorizer cannot
    /// see.
    fn slice(&self) -> Result<(), Status> {
        let own = |slice: &Value| slice.get("spec").get("nodeName").as_str() == Some(self.node);
        let (slice, verb) = match (self.admission.operation, self.admission.old) {
            (Operation::Create, _) => (&self.admission.object, "create"),
            (Operation::Delete, Some(old)) => (old, "delete"),
            _ => return Ok(()),
        };
        if own(slice) {
            return Ok(());
        }
        self.refuse(format!(
            "can only {verb} ResourceSlice with the same NodeName as the requesting node"
        ))
    }
}

/// The operation as upstream's messages name it. `None` for CONNECT, which is not restricted.
fn operation_name(operation: Operation) -> Option<&'static str> {
    match operation {
        Operation::Create => Some("CREATE"),
        Operation::Update => Some("UPDATE"),
        Operation::Delete => Some("DELETE"),
        Operation::Connect => None,
    }
}

fn uid(object: &Value) -> &str {
    Object::view(object).metadata().uid()
}

fn is_mirror(pod: &Value) -> bool {
    Pod::view(pod).metadata().annotations().get(MIRROR).is_some()
}
