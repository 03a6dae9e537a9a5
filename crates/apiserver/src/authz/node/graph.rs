//! The relations of a node: its pods, the objects they use, and the objects that name the node.

use std::sync::Arc;

use api::core::Pod;
use object::{Lens, Value, View, selector::FieldSelector};
use server::{ListOptions, Registry, Selection};
use store::Version;

use super::node_name;

/// Annotation of a mirror pod, which the kubelet creates for a static pod.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// Volume types that refer to a Secret in `secretRef`.
const WITH_SECRET: [&str; 7] =
    ["cephfs", "cinder", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos"];
/// Secrets of a CSI volume that the node needs; the others are for the controller that attaches it.
const NODE_SECRETS: [&str; 3] =
    ["nodePublishSecretRef", "nodeStageSecretRef", "nodeExpandSecretRef"];

/// The relations of one node.
pub(super) struct NodeGraph<'a> {
    pub(super) registry: &'a Registry,
    pub(super) node: &'a str,
}

impl NodeGraph<'_> {
    /// Whether the object is related to the node, so that its kubelet may access it.
    pub(super) fn is_related(&self, resource: &str, namespace: &str, name: &str) -> bool {
        match resource {
            "pods" => self.names_node("", resource, (namespace, name)),
            "resourceslices" => self.names_node("resource.k8s.io", resource, ("", name)),
            "volumeattachments" => self.names_node("storage.k8s.io", resource, ("", name)),
            "podcertificaterequests" => {
                self.names_node("certificates.k8s.io", resource, (namespace, name))
            }
            "persistentvolumes" => {
                let volume = self.get("", resource, ("", name));
                volume.is_some_and(|volume| self.mounts(&volume.object))
            }
            "secrets" => {
                self.any_pod(namespace, |pod| secrets(pod).contains(&name))
                    || self.volume_secret(namespace, name)
            }
            "serviceaccounts" => {
                self.any_pod(namespace, |pod| pod.spec().service_account_name() == name)
            }
            "configmaps" => self.any_pod(namespace, |pod| config_maps(pod).contains(&name)),
            "persistentvolumeclaims" => self.uses_claim(namespace, name),
            "resourceclaims" => self.any_pod(namespace, |pod| devices(pod).contains(&name)),
            _ => false,
        }
    }

    fn get(&self, group: &str, plural: &str, key: (&str, &str)) -> Option<Arc<Version<Value>>> {
        let kind = self.registry.kind(group, plural).ok()?;
        self.registry.get(&kind, key.0, key.1).ok()
    }

    fn names_node(&self, group: &str, plural: &str, key: (&str, &str)) -> bool {
        self.get(group, plural, key).is_some_and(|own| node_name(&own.object) == self.node)
    }

    /// The pods of the node in a namespace; in all namespaces if it is empty.
    fn pods(&self, namespace: &str) -> Vec<Arc<Version<Value>>> {
        let Ok(kind) = self.registry.kind("", "pods") else { return Vec::new() };
        let fields = FieldSelector::parse(&format!("spec.nodeName={}", self.node));
        let Ok(fields) = fields else { return Vec::new() };
        let selection = Selection { fields, ..Selection::namespace(namespace) };
        let list = self.registry.list(&kind, &selection, &ListOptions::default());
        let mut pods = list.map(|list| list.items).unwrap_or_default();
        // A mirror pod grants nothing, because the node created it itself.
        pods.retain(|pod| Pod::view(&pod.object).metadata().annotations().get(MIRROR).is_none());
        pods
    }

    fn any_pod(&self, namespace: &str, uses: impl Fn(&Pod) -> bool) -> bool {
        !namespace.is_empty() && self.pods(namespace).iter().any(|pod| uses(Pod::view(&pod.object)))
    }

    fn uses_claim(&self, namespace: &str, name: &str) -> bool {
        self.any_pod(namespace, |pod| claims(pod).iter().any(|own| own == name))
    }

    /// Whether a pod of the node uses the claim in the volume's `claimRef`. The claim's
    /// `volumeName` does not count, because any user can set it to any volume.
    fn mounts(&self, volume: &Value) -> bool {
        let claim = volume.get("spec").get("claimRef");
        let text = |name: &str| claim.get(name).as_str().unwrap_or_default();
        self.uses_claim(text("namespace"), text("name"))
    }

    /// Whether the node needs the Secret to mount a PersistentVolume of one of its pods.
    fn volume_secret(&self, namespace: &str, name: &str) -> bool {
        let Ok(kind) = self.registry.kind("", "persistentvolumes") else { return false };
        let all = self.registry.list(&kind, &Selection::default(), &ListOptions::default());
        let all = all.map(|list| list.items).unwrap_or_default();
        all.iter().any(|volume| {
            volume_secrets(volume.object.get("spec")).contains(&(namespace, name))
                && self.mounts(&volume.object)
        })
    }
}

fn text<'a>(tree: &'a Value, name: &str) -> &'a str {
    tree.get(name).as_str().unwrap_or_default()
}

/// The Secrets (namespace and name) that a node needs to mount a volume. In-tree volume types may
/// leave out the namespace, which is then that of the claim.
fn volume_secrets(spec: &Value) -> Vec<(&str, &str)> {
    let home = text(spec.get("claimRef"), "namespace");
    let or_home = |namespace| if str::is_empty(namespace) { home } else { namespace };
    let mut found = Vec::new();
    let azure = spec.get("azureFile");
    found.push((or_home(text(azure, "secretNamespace")), text(azure, "secretName")));
    for kind in WITH_SECRET {
        let secret = spec.get(kind).get("secretRef");
        let namespace = text(secret, "namespace");
        let strict = matches!(kind, "cinder" | "storageos");
        found.push((if strict { namespace } else { or_home(namespace) }, text(secret, "name")));
    }
    for reference in NODE_SECRETS {
        let secret = spec.get("csi").get(reference);
        found.push((text(secret, "namespace"), text(secret, "name")));
    }
    found.retain(|(_, name)| !name.is_empty());
    found
}

fn containers(pod: &Pod) -> impl Iterator<Item = &Value> {
    let lists = ["containers", "initContainers", "ephemeralContainers"];
    lists.into_iter().flat_map(|list| pod.spec().tree().get(list).items())
}

/// The objects that environment variables are read from, by `envFrom` and by `valueFrom`.
fn variables<'a>(pod: &'a Pod, whole: &str, key: &str) -> Vec<&'a str> {
    let mut found = Vec::new();
    for container in containers(pod) {
        let all = container.get("envFrom").items().iter().map(|from| from.get(whole));
        let some = container.get("env").items().iter().map(|own| own.get("valueFrom").get(key));
        found.extend(all.chain(some).map(|reference| text(reference, "name")));
    }
    found
}

fn secrets(pod: &Pod) -> Vec<&str> {
    let spec = pod.spec().tree();
    let mut found = variables(pod, "secretRef", "secretKeyRef");
    found.extend(spec.get("imagePullSecrets").items().iter().map(|own| text(own, "name")));
    for volume in spec.get("volumes").items() {
        found.push(text(volume.get("secret"), "secretName"));
        found.push(text(volume.get("azureFile"), "secretName"));
        found.push(text(volume.get("csi").get("nodePublishSecretRef"), "name"));
        found.extend(WITH_SECRET.map(|kind| text(volume.get(kind).get("secretRef"), "name")));
        let sources = volume.get("projected").get("sources").items();
        found.extend(sources.iter().map(|source| text(source.get("secret"), "name")));
    }
    found.retain(|name| !name.is_empty());
    found
}

fn config_maps(pod: &Pod) -> Vec<&str> {
    let mut found = variables(pod, "configMapRef", "configMapKeyRef");
    for volume in pod.spec().tree().get("volumes").items() {
        found.push(text(volume.get("configMap"), "name"));
        let sources = volume.get("projected").get("sources").items();
        found.extend(sources.iter().map(|source| text(source.get("configMap"), "name")));
    }
    found.retain(|name| !name.is_empty());
    found
}

/// The PersistentVolumeClaims of a pod: those it names, and those of its ephemeral volumes.
fn claims(pod: &Pod) -> Vec<String> {
    let own = |volume: &Value| {
        let claim = volume.get("persistentVolumeClaim").get("claimName").as_str();
        let made = volume.get("ephemeral").is_object();
        let made = made.then(|| format!("{}-{}", pod.metadata().name(), text(volume, "name")));
        claim.map(str::to_owned).or(made)
    };
    pod.spec().tree().get("volumes").items().iter().filter_map(own).collect()
}

/// The ResourceClaims of a pod: those it names, and those generated for it.
fn devices(pod: &Pod) -> Vec<&str> {
    let tree = pod.tree();
    let made = tree.get("status").get("resourceClaimStatuses").items();
    let mut found =
        vec![text(tree.get("status").get("extendedResourceClaimStatus"), "resourceClaimName")];
    for claim in tree.get("spec").get("resourceClaims").items() {
        let named = text(claim, "resourceClaimName");
        let name = text(claim, "name");
        let made = made.iter().find(|own| text(own, "name") == name);
        found.push(if named.is_empty() {
            made.map_or("", |own| text(own, "resourceClaimName"))
        } else {
            named
        });
    }
    found.retain(|name| !name.is_empty());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_a_pod_uses() {
        let spec = br#"{"metadata":{"name":"p"},"spec":{"volumes":[{"name":"a","secret":{"secretName":"s1"}},
            {"name":"b","projected":{"sources":[{"configMap":{"name":"c1"}},{"secret":{"name":"s2"}}]}},
            {"name":"c","persistentVolumeClaim":{"claimName":"v"}},{"name":"d","ephemeral":{}},
            {"name":"e","azureFile":{"secretName":"s5"}},{"name":"f","rbd":{"secretRef":{"name":"s6"}}},
            {"name":"g","csi":{"nodePublishSecretRef":{"name":"s7"}}}],
            "containers":[{"name":"x","env":[{"name":"E","valueFrom":{"secretKeyRef":{"name":"s3"}}}],
            "envFrom":[{"configMapRef":{"name":"c2"}}]}],"imagePullSecrets":[{"name":"s4"}],
            "ephemeralContainers":[{"name":"y","envFrom":[{"secretRef":{"name":"s8"}}]}],
            "resourceClaims":[{"name":"r","resourceClaimName":"r1"},
            {"name":"t","resourceClaimTemplateName":"u"}]},
            "status":{"resourceClaimStatuses":[{"name":"t","resourceClaimName":"r2"},
            {"name":"other","resourceClaimName":"r3"}]}}"#;
        let pod = Pod::from(object::from_json(spec).unwrap());
        let mut found = secrets(&pod);
        found.sort_unstable();
        assert_eq!(found, ["s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8"]);
        assert_eq!(config_maps(&pod), ["c2", "c1"]);
        assert_eq!(claims(&pod), ["v", "p-d"]);
        assert_eq!(devices(&pod), ["r1", "r2"]);
    }

    #[test]
    fn finds_the_secrets_of_a_volume() {
        let found = |spec: &str| {
            let spec = object::from_json(spec.as_bytes()).unwrap();
            let found = volume_secrets(&spec);
            found.iter().map(|(a, b)| format!("{a}/{b}")).collect::<Vec<_>>()
        };
        let home = r#""claimRef":{"namespace":"home"}"#;
        assert_eq!(
            found(&format!(r#"{{{home},"cephfs":{{"secretRef":{{"name":"t"}}}}}}"#)),
            ["home/t"]
        );
        let csi = r#"{"csi":{"nodeStageSecretRef":{"name":"s","namespace":"n"},
            "controllerPublishSecretRef":{"name":"c","namespace":"n"},
            "controllerExpandSecretRef":{"name":"d","namespace":"n"}}}"#;
        assert_eq!(found(csi), ["n/s"]);
        assert_eq!(
            found(&format!(r#"{{{home},"cinder":{{"secretRef":{{"name":"t"}}}}}}"#)),
            ["/t"]
        );
        assert_eq!(found(&format!(r#"{{{home},"azureFile":{{"secretName":"t"}}}}"#)), ["home/t"]);
    }
}
