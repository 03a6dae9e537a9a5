//! What has to do with a node: its pods, what they use, and what names the node itself.

use std::sync::Arc;

use api::core::Pod;
use object::{Lens, Value, View, selector::FieldSelector};
use server::{Page, Registry, Selection};
use store::Version;

use super::node_name;

pub(super) struct Related<'a> {
    pub(super) registry: &'a Registry,
    pub(super) node: &'a str,
}

impl Related<'_> {
    pub(super) fn has(&self, resource: &str, namespace: &str, name: &str) -> bool {
        match resource {
            "pods" => self.runs(namespace, name),
            "resourceslices" => self.names_node("resource.k8s.io", resource, ("", name)),
            "volumeattachments" => self.names_node("storage.k8s.io", resource, ("", name)),
            "podcertificaterequests" => {
                self.names_node("certificates.k8s.io", resource, (namespace, name))
            }
            "persistentvolumes" => self.volumes().iter().any(|own| own == name),
            _ => {
                let pods = self.pods();
                let own = |pod: &Pod| pod.metadata().namespace() == namespace;
                pods.iter().map(|pod| Pod::view(&pod.object)).filter(|pod| own(pod)).any(|pod| {
                    match resource {
                        "serviceaccounts" => account(pod) == name,
                        "secrets" => secrets(pod).iter().any(|own| own == name),
                        "configmaps" => config_maps(pod).iter().any(|own| own == name),
                        "persistentvolumeclaims" => claims(pod).iter().any(|own| own == name),
                        "resourceclaims" => devices(pod).iter().any(|own| own == name),
                        _ => false,
                    }
                }) || (resource == "secrets" && self.volume_secret(namespace, name))
            }
        }
    }

    fn get(&self, group: &str, plural: &str, key: (&str, &str)) -> Option<Arc<Version<Value>>> {
        let kind = self.registry.kind(group, plural).ok()?;
        self.registry.get(&kind, key.0, key.1).ok()
    }

    /// What is not there may be asked for: the answer says so.
    fn runs(&self, namespace: &str, name: &str) -> bool {
        let pod = self.get("", "pods", (namespace, name));
        pod.is_none_or(|pod| node_name(&pod.object) == self.node)
    }

    fn names_node(&self, group: &str, plural: &str, key: (&str, &str)) -> bool {
        self.get(group, plural, key).is_some_and(|own| node_name(&own.object) == self.node)
    }

    fn pods(&self) -> Vec<Arc<Version<Value>>> {
        let Ok(kind) = self.registry.kind("", "pods") else { return Vec::new() };
        let fields = FieldSelector::parse(&format!("spec.nodeName={}", self.node));
        let selection = Selection { fields: fields.unwrap_or_default(), ..Selection::default() };
        let list = self.registry.list(&kind, &selection, &Page::default());
        list.map(|list| list.items).unwrap_or_default()
    }

    /// The volumes that the claims of pods are bound to.
    fn volumes(&self) -> Vec<String> {
        let mut all = Vec::new();
        for version in self.pods() {
            let pod = Pod::view(&version.object);
            for claim in claims(pod) {
                let key = (pod.metadata().namespace(), claim.as_str());
                let claim = self.get("", "persistentvolumeclaims", key);
                let volume = claim.as_ref().map(|own| own.object.get("spec").get("volumeName"));
                all.extend(volume.and_then(Value::as_str).map(str::to_owned));
            }
        }
        all
    }

    /// Whether a volume of the node needs the secret to be mounted.
    fn volume_secret(&self, namespace: &str, name: &str) -> bool {
        self.volumes().iter().any(|volume| {
            let Some(volume) = self.get("", "persistentvolumes", ("", volume)) else {
                return false;
            };
            let spec = volume.object.get("spec");
            let home = spec.get("claimRef").get("namespace").as_str().unwrap_or_default();
            refers(spec, namespace, name, home)
        })
    }
}

/// Whether a part of a volume names the secret; without a namespace it is the claim's.
fn refers(tree: &Value, namespace: &str, name: &str, home: &str) -> bool {
    tree.entries().any(|(key, value)| {
        let is_reference = key.ends_with("SecretRef") || key == "secretRef";
        let of = value.get("namespace").as_str().filter(|own| !own.is_empty()).unwrap_or(home);
        let is = is_reference && value.get("name").as_str() == Some(name) && of == namespace;
        is || refers(value, namespace, name, home)
    })
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
    let holders = ["secret", "secretRef", "secretKeyRef", "nodePublishSecretRef"];
    named(spec, &holders, "name", &mut found);
    found.extend(pod.spec().image_pull_secrets().iter().map(|secret| secret.name().to_owned()));
    found
}

fn config_maps(pod: &Pod) -> Vec<String> {
    let mut found = Vec::new();
    named(pod.spec().tree(), &["configMap", "configMapRef", "configMapKeyRef"], "name", &mut found);
    found
}

/// Those that are named, and those that are made for the pod.
fn claims(pod: &Pod) -> Vec<String> {
    let own = |volume: &Value| {
        let claim = volume.get("persistentVolumeClaim").get("claimName").as_str();
        let name = volume.get("name").as_str().unwrap_or_default();
        let made = volume.get("ephemeral").is_object();
        let made = made.then(|| format!("{}-{name}", pod.metadata().name()));
        claim.map(str::to_owned).or(made)
    };
    pod.spec().tree().get("volumes").items().iter().filter_map(own).collect()
}

fn devices(pod: &Pod) -> Vec<String> {
    let tree = pod.tree();
    let named = tree.get("spec").get("resourceClaims").items();
    let made = tree.get("status").get("resourceClaimStatuses").items();
    let extended = tree.get("status").get("extendedResourceClaimStatus");
    let all = named.iter().chain(made).chain([extended]);
    all.filter_map(|own| own.get("resourceClaimName").as_str()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_a_pod_uses() {
        let spec = br#"{"metadata":{"name":"p"},"spec":{"volumes":[{"name":"a","secret":{"secretName":"s1"}},
            {"name":"b","projected":{"sources":[{"configMap":{"name":"c1"}},{"secret":{"name":"s2"}}]}},
            {"name":"c","persistentVolumeClaim":{"claimName":"v"}},{"name":"d","ephemeral":{}}],
            "containers":[{"name":"x","env":[{"name":"E","valueFrom":{"secretKeyRef":{"name":"s3"}}}],
            "envFrom":[{"configMapRef":{"name":"c2"}}]}],"imagePullSecrets":[{"name":"s4"}],
            "resourceClaims":[{"name":"r","resourceClaimName":"r1"}]},
            "status":{"resourceClaimStatuses":[{"name":"t","resourceClaimName":"r2"}]}}"#;
        let pod = Pod::from(object::from_json(spec).unwrap());
        let mut found = secrets(&pod);
        found.sort();
        assert_eq!(found, ["s1", "s2", "s3", "s4"]);
        assert_eq!(config_maps(&pod).len(), 2);
        assert_eq!(claims(&pod), ["v", "p-d"]);
        assert_eq!(devices(&pod), ["r1", "r2"]);
    }

    #[test]
    fn finds_the_secret_of_a_volume() {
        let spec = br#"{"csi":{"nodeStageSecretRef":{"name":"s","namespace":"n"}},
            "cephfs":{"secretRef":{"name":"t"}}}"#;
        let spec = object::from_json(spec).unwrap();
        assert!(refers(&spec, "n", "s", "home") && refers(&spec, "home", "t", "home"));
        assert!(!refers(&spec, "home", "s", "home") && !refers(&spec, "n", "t", "home"));
    }
}
