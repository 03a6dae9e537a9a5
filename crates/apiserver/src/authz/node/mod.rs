//! The Node authorizer: a kubelet may access its own Node, its own pods, and the objects that these
//! pods use.

mod graph;

use std::sync::Weak;

use object::{
    Value,
    selector::{FieldSelector, FieldTerm},
};
use schema::FeatureGates;
use server::{Attributes, AuthorizeFuture, Authorizer, Decision, Registry, UserInfo};

use self::graph::NodeGraph;

/// Authorizes the requests of kubelets; it has no opinion on other users.
#[derive(Clone, Debug)]
pub(crate) struct NodeAuthorizer {
    /// Weak, because the registry's admission plugins use this authorizer.
    pub(crate) registry: Weak<Registry>,
    pub(crate) gates: FeatureGates,
}

/// The node of a kubelet's user; `None` if the user is not a kubelet.
pub(crate) fn node_of(user: &UserInfo) -> Option<&str> {
    user.name.strip_prefix("system:node:").filter(|_| user.in_group("system:nodes"))
}

impl Authorizer for NodeAuthorizer {
    fn authorize<'a>(&'a self, user: &'a UserInfo, wanted: &'a Attributes) -> AuthorizeFuture<'a> {
        let decision = match (node_of(user), self.registry.upgrade()) {
            (Some(""), _) => {
                Decision::NoOpinion(format!("node: unknown node for user {:?}", &*user.name))
            }
            (Some(node), Some(registry)) if wanted.is_resource => {
                let related = NodeGraph { registry: &registry, node };
                let ask = NodeRequest { node, wanted, related, gates: &self.gates };
                match ask.decide() {
                    Ok(()) => Decision::Allow(String::new()),
                    Err(why) if why.is_empty() => Decision::NoOpinion(String::new()),
                    Err(why) => Decision::NoOpinion(format!("node: {why}")),
                }
            }
            _ => Decision::NoOpinion(String::new()),
        };
        Box::pin(async move { decision })
    }

    fn incomplete_rules_reason(&self, user: &UserInfo) -> Option<&'static str> {
        node_of(user).map(|_| "node authorizer does not support user rule resolution")
    }
}

/// A request of one kubelet.
struct NodeRequest<'a> {
    node: &'a str,
    wanted: &'a Attributes,
    related: NodeGraph<'a>,
    gates: &'a FeatureGates,
}

/// An error means that the request is not allowed; its text, the reason, may be empty.
type NodeDecision = Result<(), String>;

impl NodeRequest<'_> {
    fn decide(&self) -> NodeDecision {
        let Attributes { group, resource, subresource, .. } = self.wanted;
        match (&**group, &**resource, &**subresource) {
            ("", "secrets" | "configmaps", part) => self.read(part),
            ("", "persistentvolumeclaims", "status") => {
                self.verbs(&["update", "patch"], "can only get/update/patch this type")?;
                self.require_related()
            }
            ("", "persistentvolumeclaims" | "persistentvolumes", part)
            | ("storage.k8s.io", "volumeattachments", part)
            | ("resource.k8s.io", "resourceclaims", part) => self.get(part),
            ("", "serviceaccounts", "") if self.is("get") => self.read(""),
            ("", "serviceaccounts", part) => self.token(part),
            ("", "nodes", part) => self.nodes(part),
            ("", "pods", part) => self.pods(part),
            ("coordination.k8s.io", "leases", _) => self.lease(),
            ("storage.k8s.io", "csinodes", part) => self.csi_node(part),
            ("resource.k8s.io", "resourceslices", part) => self.slices(part),
            ("certificates.k8s.io", "podcertificaterequests", part) => self.certificates(part),
            _ => self.others(),
        }
    }

    /// Permissions that are the same for all nodes.
    fn others(&self) -> NodeDecision {
        let Attributes { group, resource, subresource, .. } = self.wanted;
        let read = ["get", "list", "watch"];
        let verbs: &[&str] = match (&**group, &**resource, &**subresource) {
            ("" | "events.k8s.io", "events", "") => &["create", "update", "patch"],
            ("", "services", "")
            | ("storage.k8s.io", "csidrivers", "")
            | ("node.k8s.io", "runtimeclasses", "")
            | ("certificates.k8s.io", "clustertrustbundles", "") => &read,
            ("", "endpoints", "") => &["get"],
            ("authentication.k8s.io", "tokenreviews", "")
            | ("authorization.k8s.io", "subjectaccessreviews" | "localsubjectaccessreviews", "") => {
                &["create"]
            }
            ("certificates.k8s.io", "certificatesigningrequests", "") => {
                &["create", "get", "list", "watch"]
            }
            _ => &[],
        };
        self.verbs(verbs, "")
    }

    /// Requests for Nodes. A kubelet may not delete its own Node, because it would register again
    /// without the taints and labels that the administrator set.
    fn nodes(&self, part: &str) -> NodeDecision {
        let (node, name) = (self.node, &*self.wanted.name);
        match (part, &*self.wanted.verb) {
            // NodeRestriction checks the name and the change.
            ("", "create" | "update" | "patch") | ("status", "update" | "patch") => Ok(()),
            ("", "get" | "list" | "watch") => match name {
                own if own == node => Ok(()),
                "" => no(format!("node '{node}' cannot read all nodes, only its own Node object")),
                other => {
                    no(format!("node '{node}' cannot read '{other}', only its own Node object"))
                }
            },
            _ => no(""),
        }
    }

    fn pods(&self, part: &str) -> NodeDecision {
        match (part, &*self.wanted.verb) {
            // NodeRestriction checks that the pod is a mirror pod or runs on this node.
            ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => {
                Ok(())
            }
            ("", "list" | "watch") if self.selects_node() => Ok(()),
            ("", "list" | "watch") if self.wanted.name.is_empty() => {
                no("can only list/watch pods with spec.nodeName field selector")
            }
            ("", "get" | "list" | "watch") => self.require_related(),
            _ => no(""),
        }
    }

    fn slices(&self, part: &str) -> NodeDecision {
        if !part.is_empty() {
            return no("cannot authorize ResourceSlice subresources");
        }
        match &*self.wanted.verb {
            "create" => Ok(()), // NodeRestriction checks the object
            "get" | "update" | "patch" | "delete" => self.require_related(),
            "watch" | "list" | "deletecollection" if self.selects_node() => Ok(()),
            "watch" | "list" | "deletecollection" => no(
                "can only list/watch/deletecollection resourceslices with nodeName field selector",
            ),
            _ => no("only the following verbs are allowed for a ResourceSlice: get, watch, list, \
                     create, update, patch, delete, deletecollection"),
        }
    }

    fn certificates(&self, part: &str) -> NodeDecision {
        if !self.gates.is_enabled("PodCertificateRequest") {
            return no("");
        } else if !part.is_empty() {
            return no("nodes may not access the status subresource of PodCertificateRequests");
        }
        match &*self.wanted.verb {
            "create" => Ok(()), // NodeRestriction checks the object
            "get" => self.require_related(),
            "list" | "watch" if self.selects_node() => Ok(()),
            "list" | "watch" => {
                no("can only list/watch podcertificaterequests with nodeName field selector")
            }
            verb => no(format!("nodes may not {verb} podcertificaterequests")),
        }
    }

    fn lease(&self) -> NodeDecision {
        let all = ["get", "create", "update", "patch", "delete"];
        self.verbs(&all, "can only get, create, update, patch, or delete a node lease")?;
        if self.wanted.namespace != "kube-node-lease" {
            return no("can only access leases in the \"kube-node-lease\" system namespace");
        }
        self.same("can only access node lease with the same name as the requesting node")
    }

    fn csi_node(&self, part: &str) -> NodeDecision {
        match part {
            "" => {
                let all = ["get", "create", "update", "patch", "delete"];
                self.verbs(&all, "can only get, create, update, patch, or delete a CSINode")?;
            }
            "status" if !self.gates.is_enabled("CSIVolumeHealth") => {
                return no("CSINode status access requires CSIVolumeHealth feature");
            }
            "status" => {
                let all = ["get", "update", "patch"];
                self.verbs(&all, "can only get, update, or patch CSINode status")?;
            }
            _ => return no("cannot authorize CSINode subresources"),
        }
        self.same("can only access CSINode with the same name as the requesting node")
    }

    fn token(&self, part: &str) -> NodeDecision {
        if !self.is("create") || self.wanted.name.is_empty() {
            return no("can only create tokens for individual service accounts");
        } else if part != "token" {
            return no("can only create token subresource of serviceaccount");
        }
        self.require_related()
    }

    fn read(&self, part: &str) -> NodeDecision {
        self.verbs(&["get", "list", "watch"], "can only read resources of this type")?;
        if !part.is_empty() {
            return no("cannot read subresource");
        } else if self.wanted.namespace.is_empty() {
            return no("can only read namespaced object of this type");
        }
        self.require_related()
    }

    fn get(&self, part: &str) -> NodeDecision {
        self.verbs(&["get"], "can only get individual resources of this type")?;
        if part.is_empty() { self.require_related() } else { no("cannot get subresource") }
    }

    /// Requires that the object is related to the node.
    fn require_related(&self) -> NodeDecision {
        let Attributes { resource, namespace, name, .. } = self.wanted;
        if name.is_empty() {
            return no("No Object name found");
        } else if self.related.is_related(resource, namespace, name) {
            return Ok(());
        }
        no(format!("no relationship found between node '{}' and this object", self.node))
    }

    /// Requires the name of the node, except on create, where NodeRestriction checks it.
    fn same(&self, otherwise: &str) -> NodeDecision {
        if self.is("create") || self.wanted.name == self.node { Ok(()) } else { no(otherwise) }
    }

    fn verbs(&self, allowed: &[&str], otherwise: &str) -> NodeDecision {
        if allowed.contains(&&*self.wanted.verb) { Ok(()) } else { no(otherwise) }
    }

    fn is(&self, verb: &str) -> bool {
        self.wanted.verb == verb
    }

    /// Whether the field selector restricts the request to this node.
    fn selects_node(&self) -> bool {
        let terms = FieldSelector::parse(&self.wanted.field_selector).map(|own| own.terms);
        let own = |term: &FieldTerm| {
            term.field == "spec.nodeName" && term.equal && term.value == self.node
        };
        terms.is_ok_and(|terms| terms.iter().any(own))
    }
}

fn no(why: impl Into<String>) -> NodeDecision {
    Err(why.into())
}

/// The `spec.nodeName` of an object.
fn node_name(object: &Value) -> &str {
    object.get("spec").get("nodeName").as_str().unwrap_or_default()
}
