//! The objects that a pod and a volume use, by every field that can refer to one.

use object::Value;

use super::{
    model::{meta, text},
    node_model::Related,
};

pub(super) fn of_pod(pod: &Value, all: &mut Vec<Related>) {
    let (namespace, spec) = (meta(pod, "namespace"), &pod["spec"]);
    let mut add = |resource: &'static str, name: &str| {
        if !name.is_empty() {
            all.push((resource, namespace.to_owned(), name.to_owned()));
        }
    };
    add("pods", meta(pod, "name"));
    if !pod["metadata"]["annotations"]["kubernetes.io/config.mirror"].is_null() {
        return; // a mirror pod: its references do not count
    }
    add("serviceaccounts", text(spec, "serviceAccountName"));
    for secret in spec["imagePullSecrets"].items() {
        add("secrets", text(secret, "name"));
    }
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in spec[list].items() {
            for env in container["envFrom"].items() {
                add("secrets", text(&env["secretRef"], "name"));
                add("configmaps", text(&env["configMapRef"], "name"));
            }
            for env in container["env"].items() {
                add("secrets", text(&env["valueFrom"]["secretKeyRef"], "name"));
                add("configmaps", text(&env["valueFrom"]["configMapKeyRef"], "name"));
            }
        }
    }
    for volume in spec["volumes"].items() {
        of_pod_volume(volume, meta(pod, "name"), &mut add);
    }
    for claim in spec["resourceClaims"].items() {
        add("resourceclaims", text(claim, "resourceClaimName"));
    }
    for claim in pod["status"]["resourceClaimStatuses"].items() {
        let mut known = spec["resourceClaims"].items().iter();
        if known.any(|own| text(own, "name") == text(claim, "name")) {
            add("resourceclaims", text(claim, "resourceClaimName"));
        }
    }
    let extended = &pod["status"]["extendedResourceClaimStatus"];
    add("resourceclaims", text(extended, "resourceClaimName"));
}

fn of_pod_volume(volume: &Value, pod: &str, add: &mut impl FnMut(&'static str, &str)) {
    add("secrets", text(&volume["secret"], "secretName"));
    add("secrets", text(&volume["azureFile"], "secretName"));
    add("secrets", text(&volume["csi"]["nodePublishSecretRef"], "name"));
    for source in ["cephfs", "cinder", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos"] {
        add("secrets", text(&volume[source]["secretRef"], "name"));
    }
    add("configmaps", text(&volume["configMap"], "name"));
    for source in volume["projected"]["sources"].items() {
        add("secrets", text(&source["secret"], "name"));
        add("configmaps", text(&source["configMap"], "name"));
    }
    add("persistentvolumeclaims", text(&volume["persistentVolumeClaim"], "claimName"));
    if volume["ephemeral"].is_object() {
        add("persistentvolumeclaims", &format!("{pod}-{}", text(volume, "name")));
    }
}

/// The volume itself, and the Secrets that a kubelet needs to mount it; without those for the
/// controllers.
pub(super) fn of_volume(volume: &Value, all: &mut Vec<Related>) {
    let spec = &volume["spec"];
    let claim = text(&spec["claimRef"], "namespace");
    all.push(("persistentvolumes", String::new(), meta(volume, "name").to_owned()));
    let mut add = |namespace: &str, name: &str| {
        if !name.is_empty() {
            all.push(("secrets", namespace.to_owned(), name.to_owned()));
        }
    };
    let or_claim = |namespace: &str| match namespace {
        "" => claim.to_owned(),
        own => own.to_owned(),
    };
    let azure = &spec["azureFile"];
    add(&or_claim(text(azure, "secretNamespace")), text(azure, "secretName"));
    for source in ["cephfs", "flexVolume", "rbd", "scaleIO", "iscsi"] {
        let secret = &spec[source]["secretRef"];
        add(&or_claim(text(secret, "namespace")), text(secret, "name"));
    }
    for source in ["cinder", "storageos"] {
        let secret = &spec[source]["secretRef"];
        add(text(secret, "namespace"), text(secret, "name"));
    }
    for field in ["nodePublishSecretRef", "nodeStageSecretRef", "nodeExpandSecretRef"] {
        let secret = &spec["csi"][field];
        add(text(secret, "namespace"), text(secret, "name"));
    }
}
