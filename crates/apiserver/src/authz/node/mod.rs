//! What a kubelet may do: its own node, its own pods, and what these pods use.

use std::sync::Weak;

use api::core::Pod;
use object::{Lens, Value, View, selector::FieldSelector};
use server::{Attributes, Authorize, Authorizing, Decision, Page, Registry, Selection, User};

#[derive(Clone, Debug)]
pub(crate) struct NodeAuthorizer {
    /// Weak: the registry's own plugins ask here.
    pub(crate) registry: Weak<Registry>,
}

/// The node whose kubelet this is.
pub(crate) fn node_of(user: &User) -> Option<&str> {
    user.name.strip_prefix("system:node:").filter(|_| user.is_in("system:nodes"))
}

impl Authorize for NodeAuthorizer {
    fn authorize<'a>(&'a self, user: &'a User, wanted: &'a Attributes) -> Authorizing<'a> {
        let decision = match node_of(user) {
            None => Decision::NoOpinion(String::new()),
            Some(node) if self.allows(node, wanted) => Decision::Allow(String::new()),
            Some(node) => Decision::NoOpinion(refusal(node, wanted)),
        };
        Box::pin(async move { decision })
    }
}

fn refusal(node: &str, wanted: &Attributes) -> String {
    match (&*wanted.group, &*wanted.resource) {
        ("", "secrets" | "configmaps" | "persistentvolumeclaims") if wanted.name.is_empty() => {
            "node: No Object name found".to_owned()
        }
        ("", "secrets" | "configmaps" | "persistentvolumeclaims" | "serviceaccounts") => {
            format!("node: no relationship found between node '{node}' and this object")
        }
        ("", "nodes") if wanted.name.is_empty() => {
            format!("node: node '{node}' cannot read all nodes, only its own Node object")
        }
        ("", "nodes") => {
            format!("node: node '{node}' cannot read '{}', only its own Node object", wanted.name)
        }
        ("", "pods") if matches!(&*wanted.verb, "list" | "watch") => {
            "node: can only list/watch pods with spec.nodeName field selector".to_owned()
        }
        _ => String::new(),
    }
}

impl NodeAuthorizer {
    fn allows(&self, node: &str, wanted: &Attributes) -> bool {
        let verb = &*wanted.verb;
        let read = matches!(verb, "get" | "list" | "watch");
        let Attributes { group, resource, subresource, name, namespace, .. } = wanted;
        let of_node =
            wanted.field_selector.split(',').any(|term| term == format!("spec.nodeName={node}"));
        match (&**group, &**resource, &**subresource) {
            (_, _, _) if !wanted.is_resource => false,
            ("", "nodes", "") => match verb {
                "create" => true,
                "get" | "list" | "watch" => *name == node,
                "update" | "patch" | "delete" => name.is_empty() || *name == node,
                _ => false,
            },
            ("", "nodes", "status") => matches!(verb, "update" | "patch") && *name == node,
            ("", "pods", "") => match verb {
                "list" | "watch" => of_node || !name.is_empty() && self.runs(node, namespace, name),
                "get" | "delete" => self.runs(node, namespace, name),
                "create" => true, // mirror pods: NodeRestriction looks at what they are
                _ => false,
            },
            ("", "pods", "status") => {
                matches!(verb, "update" | "patch") && self.runs(node, namespace, name)
            }
            ("", "pods", "eviction") => verb == "create" && self.runs(node, namespace, name),
            ("", "secrets" | "configmaps" | "persistentvolumeclaims", "") => {
                read && !name.is_empty() && self.uses(node, wanted)
            }
            ("", "persistentvolumes", "") => verb == "get",
            ("", "persistentvolumeclaims", "status") => {
                verb == "get" || verb == "patch" || verb == "update"
            }
            ("", "serviceaccounts", "token") => verb == "create" && self.uses(node, wanted),
            ("", "serviceaccounts", "") => verb == "get" && self.uses(node, wanted),
            ("" | "events.k8s.io", "events", "") => {
                matches!(verb, "create" | "update" | "patch")
            }
            ("coordination.k8s.io", "leases", "") => {
                *namespace == "kube-node-lease" && (verb == "create" || *name == node)
            }
            ("storage.k8s.io", "csinodes", "") => verb == "create" || *name == node,
            ("", "services", "")
            | ("storage.k8s.io", "csidrivers" | "volumeattachments", "")
            | ("node.k8s.io", "runtimeclasses", "") => read,
            ("authentication.k8s.io", "tokenreviews", "") => verb == "create",
            ("authorization.k8s.io", "subjectaccessreviews" | "localsubjectaccessreviews", "") => {
                verb == "create"
            }
            ("certificates.k8s.io", "certificatesigningrequests", "") => {
                matches!(verb, "create" | "get" | "list" | "watch")
            }
            _ => false,
        }
    }

    fn pods(&self, node: &str) -> Vec<Value> {
        let Some(registry) = self.registry.upgrade() else { return Vec::new() };
        let Ok(kind) = registry.kind("", "pods") else { return Vec::new() };
        let fields = FieldSelector::parse(&format!("spec.nodeName={node}")).unwrap_or_default();
        let selection = Selection { fields, ..Selection::default() };
        let list = registry.list(&kind, &selection, &Page::default());
        list.map(|list| list.items.iter().map(|v| v.object.clone()).collect()).unwrap_or_default()
    }

    fn runs(&self, node: &str, namespace: &str, name: &str) -> bool {
        let Some(registry) = self.registry.upgrade() else { return false };
        let Ok(kind) = registry.kind("", "pods") else { return false };
        let found = registry.get(&kind, namespace, name);
        // What is not there, or not yet bound, may be asked for: the answer says so.
        found.map_or(true, |pod| Pod::view(&pod.object).spec().node_name() == node)
    }

    /// Whether a pod of the node refers to the object.
    fn uses(&self, node: &str, wanted: &Attributes) -> bool {
        let Attributes { resource, namespace, name, .. } = wanted;
        self.pods(node).iter().any(|pod| {
            let pod = Pod::view(pod);
            pod.metadata().namespace() == namespace
                && match &**resource {
                    "serviceaccounts" => account(pod) == name,
                    "secrets" => secrets(pod).iter().any(|own| own == name),
                    "configmaps" => config_maps(pod).iter().any(|own| own == name),
                    _ => pod.spec().volumes().iter().any(|volume| {
                        let claim = volume.volume_source().persistent_volume_claim();
                        claim.is_some_and(|claim| claim.claim_name() == name)
                    }),
                }
        })
    }
}

fn account(pod: &Pod) -> &str {
    match pod.spec().service_account_name() {
        "" => "default",
        name => name,
    }
}

/// What the tree names under `key`s anywhere: references in volumes and variables.
fn named(tree: &Value, holders: &[&str], field: &str, found: &mut Vec<String>) {
    for (name, value) in tree.entries() {
        if holders.contains(&name) {
            found.extend(value.get(field).as_str().map(str::to_owned));
        }
        named(value, holders, field, found);
    }
    for item in tree.items() {
        named(item, holders, field, found);
    }
}

fn secrets(pod: &Pod) -> Vec<String> {
    let mut found = Vec::new();
    let spec = pod.spec().tree();
    named(spec, &["secret"], "secretName", &mut found);
    named(spec, &["secret", "secretRef", "secretKeyRef"], "name", &mut found);
    found.extend(pod.spec().image_pull_secrets().iter().map(|secret| secret.name().to_owned()));
    found
}

fn config_maps(pod: &Pod) -> Vec<String> {
    let mut found = Vec::new();
    named(pod.spec().tree(), &["configMap", "configMapRef", "configMapKeyRef"], "name", &mut found);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_a_pod_uses() {
        let spec = br#"{"spec":{"volumes":[{"name":"a","secret":{"secretName":"s1"}},
            {"name":"b","projected":{"sources":[{"configMap":{"name":"c1"}},{"secret":{"name":"s2"}}]}}],
            "containers":[{"name":"x","env":[{"name":"E","valueFrom":{"secretKeyRef":{"name":"s3"}}}],
            "envFrom":[{"configMapRef":{"name":"c2"}}]}],"imagePullSecrets":[{"name":"s4"}]}}"#;
        let pod = Pod::from(object::from_json(spec).unwrap());
        let mut found = secrets(&pod);
        found.sort();
        assert_eq!(found, ["s1", "s2", "s3", "s4"]);
        assert_eq!(config_maps(&pod).len(), 2);
    }
}
