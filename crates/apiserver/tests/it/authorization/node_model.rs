//! The Node authorizer, written from its documentation: a kubelet may access its own Node, Lease
//! and CSINode, the pods bound to it, and the objects that these use.

use object::{Value, selector::FieldSelector};
use server::{Attributes, UserInfo};

use super::model::{Model, meta, text};

/// Resources for which all nodes have the same permissions: group, resource, verbs.
const UNIFORM: [(&str, &str, &[&str]); 11] = [
    ("", "services", &["get", "list", "watch"]),
    ("", "events", &["create", "update", "patch"]),
    ("events.k8s.io", "events", &["create", "update", "patch"]),
    ("", "endpoints", &["get"]),
    ("storage.k8s.io", "csidrivers", &["get", "list", "watch"]),
    ("node.k8s.io", "runtimeclasses", &["get", "list", "watch"]),
    ("certificates.k8s.io", "certificatesigningrequests", &["create", "get", "list", "watch"]),
    ("authentication.k8s.io", "tokenreviews", &["create"]),
    ("authorization.k8s.io", "subjectaccessreviews", &["create"]),
    ("authorization.k8s.io", "localsubjectaccessreviews", &["create"]),
    ("certificates.k8s.io", "clustertrustbundles", &["get", "list", "watch"]),
];

/// Decides a check of a kubelet. The error is the reason, which may be empty.
pub(super) fn decide(model: &Model, user: &UserInfo, asked: &Attributes) -> Result<(), String> {
    let Some(node) = user.name.strip_prefix("system:node:") else { return Err(String::new()) };
    if !user.groups.iter().any(|group| group == "system:nodes") {
        return Err(String::new());
    }
    if node.is_empty() {
        return Err(format!("unknown node for user {:?}", &*user.name));
    }
    if !asked.is_resource {
        return Err(String::new());
    }
    let node = Node { model, node, asked };
    let sub = &*asked.subresource;
    match (&*asked.group, &*asked.resource) {
        ("", "secrets" | "configmaps") => node.may_read(),
        ("", "persistentvolumeclaims") if sub == "status" => {
            node.verb(&["update", "patch"], "can only get/update/patch this type")?;
            node.is_related()
        }
        ("", "persistentvolumeclaims" | "persistentvolumes")
        | ("resource.k8s.io", "resourceclaims")
        | ("storage.k8s.io", "volumeattachments") => node.may_get(),
        ("", "serviceaccounts") if asked.verb == "get" && sub.is_empty() => node.may_read(),
        ("", "serviceaccounts") => node.may_request_token(),
        ("", "nodes") => node.nodes(),
        ("", "pods") => node.pods(),
        ("coordination.k8s.io", "leases") => node.leases(),
        ("storage.k8s.io", "csinodes") => node.csi_nodes(),
        ("resource.k8s.io", "resourceslices") => node.resource_slices(),
        ("certificates.k8s.io", "podcertificaterequests") => node.certificate_requests(),
        (group, resource) => {
            let fits = |(own_group, own, verbs): &(&str, &str, &[&str])| {
                *own_group == group && *own == resource && verbs.contains(&&*asked.verb)
            };
            ok_if(sub.is_empty() && UNIFORM.iter().any(fits), "")
        }
    }
}

struct Node<'a> {
    model: &'a Model,
    node: &'a str,
    asked: &'a Attributes,
}

type Answer = Result<(), String>;

impl Node<'_> {
    fn nodes(&self) -> Answer {
        let (node, name) = (self.node, &*self.asked.name);
        match (&*self.asked.subresource, &*self.asked.verb) {
            ("", "create" | "update" | "patch") | ("status", "update" | "patch") => Ok(()),
            ("", "get" | "list" | "watch") if name == node => Ok(()),
            ("", "get" | "list" | "watch") if name.is_empty() => {
                Err(format!("node '{node}' cannot read all nodes, only its own Node object"))
            }
            ("", "get" | "list" | "watch") => {
                Err(format!("node '{node}' cannot read '{name}', only its own Node object"))
            }
            _ => Err(String::new()),
        }
    }

    fn pods(&self) -> Answer {
        match (&*self.asked.subresource, &*self.asked.verb) {
            ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => {
                Ok(())
            }
            ("", "get") => self.is_related(),
            ("", "list" | "watch") if self.selects_own() => Ok(()),
            ("", "list" | "watch") if !self.asked.name.is_empty() => self.is_related(),
            ("", "list" | "watch") => {
                Err("can only list/watch pods with spec.nodeName field selector".to_owned())
            }
            _ => Err(String::new()),
        }
    }

    fn leases(&self) -> Answer {
        let verbs = ["get", "create", "update", "patch", "delete"];
        self.verb(&verbs, "can only get, create, update, patch, or delete a node lease")?;
        let place = "can only access leases in the \"kube-node-lease\" system namespace";
        ok_if(self.asked.namespace == "kube-node-lease", place)?;
        let own = self.asked.verb == "create" || self.asked.name == self.node;
        ok_if(own, "can only access node lease with the same name as the requesting node")
    }

    fn csi_nodes(&self) -> Answer {
        match &*self.asked.subresource {
            "" => {}
            "status" => {
                return Err("CSINode status access requires CSIVolumeHealth feature".to_owned());
            }
            _ => return Err("cannot authorize CSINode subresources".to_owned()),
        }
        let verbs = ["get", "create", "update", "patch", "delete"];
        self.verb(&verbs, "can only get, create, update, patch, or delete a CSINode")?;
        let own = self.asked.verb == "create" || self.asked.name == self.node;
        ok_if(own, "can only access CSINode with the same name as the requesting node")
    }

    fn resource_slices(&self) -> Answer {
        ok_if(self.asked.subresource.is_empty(), "cannot authorize ResourceSlice subresources")?;
        match &*self.asked.verb {
            "create" => Ok(()),
            "get" | "update" | "patch" | "delete" => self.is_related(),
            "watch" | "list" | "deletecollection" => ok_if(
                self.selects_own(),
                "can only list/watch/deletecollection resourceslices with nodeName field selector",
            ),
            _ => Err("only the following verbs are allowed for a ResourceSlice: get, watch, \
                      list, create, update, patch, delete, deletecollection"
                .to_owned()),
        }
    }

    fn certificate_requests(&self) -> Answer {
        let status = "nodes may not access the status subresource of PodCertificateRequests";
        ok_if(self.asked.subresource.is_empty(), status)?;
        match &*self.asked.verb {
            "create" => Ok(()),
            "get" => self.is_related(),
            "list" | "watch" => ok_if(
                self.selects_own(),
                "can only list/watch podcertificaterequests with nodeName field selector",
            ),
            verb => Err(format!("nodes may not {verb} podcertificaterequests")),
        }
    }

    fn may_request_token(&self) -> Answer {
        let named = self.asked.verb == "create" && !self.asked.name.is_empty();
        ok_if(named, "can only create tokens for individual service accounts")?;
        let token = self.asked.subresource == "token";
        ok_if(token, "can only create token subresource of serviceaccount")?;
        self.is_related()
    }

    fn may_read(&self) -> Answer {
        self.verb(&["get", "list", "watch"], "can only read resources of this type")?;
        ok_if(self.asked.subresource.is_empty(), "cannot read subresource")?;
        let namespaced = !self.asked.namespace.is_empty();
        ok_if(namespaced, "can only read namespaced object of this type")?;
        self.is_related()
    }

    fn may_get(&self) -> Answer {
        self.verb(&["get"], "can only get individual resources of this type")?;
        ok_if(self.asked.subresource.is_empty(), "cannot get subresource")?;
        self.is_related()
    }

    fn verb(&self, allowed: &[&str], otherwise: &str) -> Answer {
        ok_if(allowed.contains(&&*self.asked.verb), otherwise)
    }

    /// Whether one term of the field selector requires the node's own name.
    fn selects_own(&self) -> bool {
        let Ok(selector) = FieldSelector::parse(&self.asked.field_selector) else { return false };
        let mut terms = selector.terms.iter();
        terms.any(|term| term.field == "spec.nodeName" && term.equal && term.value == self.node)
    }

    fn is_related(&self) -> Answer {
        let Attributes { resource, namespace, name, .. } = self.asked;
        ok_if(!name.is_empty(), "No Object name found")?;
        let key = (&**resource, &**namespace, &**name);
        let related = self.model.related.get(self.node).map_or(&[][..], Vec::as_slice);
        let found = related.iter().any(|own| (own.0, &*own.1, &*own.2) == key);
        let why = format!("no relationship found between node '{}' and this object", self.node);
        ok_if(found, &why)
    }
}

/// Resource, namespace and name.
pub(super) type Related = (&'static str, String, String);

/// Everything that is related to a node.
pub(super) fn related(model: &Model, node: &str) -> Vec<Related> {
    let mut all = Vec::new();
    let on_node = |object: &&Value| text(&object["spec"], "nodeName") == node;
    for slice in model.slices.iter().filter(on_node) {
        all.push(("resourceslices", String::new(), meta(slice, "name").to_owned()));
    }
    for attachment in model.attachments.iter().filter(on_node) {
        all.push(("volumeattachments", String::new(), meta(attachment, "name").to_owned()));
    }
    for pod in model.pods.iter().filter(on_node) {
        super::uses::of_pod(pod, &mut all);
    }
    for volume in &model.volumes {
        let claim = &volume["spec"]["claimRef"];
        let own = |related: &Related| {
            related.0 == "persistentvolumeclaims"
                && related.1 == text(claim, "namespace")
                && related.2 == text(claim, "name")
        };
        if claim.is_object() && all.iter().any(own) {
            super::uses::of_volume(volume, &mut all);
        }
    }
    all
}

fn ok_if(good: bool, otherwise: &str) -> Answer {
    if good { Ok(()) } else { Err(otherwise.to_owned()) }
}
