//! The API objects that a pod refers to. A mirror pod may refer to none.

use object::Value;

/// Volume types that refer to no API object except Secrets, which `uses_secrets` checks.
const LOCAL: &[&str] = &[
    "awsElasticBlockStore",
    "azureDisk",
    "cephfs",
    "cinder",
    "downwardAPI",
    "emptyDir",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "gitRepo",
    "hostPath",
    "image",
    "iscsi",
    "nfs",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
];

/// Volume types that refer to an API object, and the text that names it.
const VOLUMES: &[(&str, &str)] = &[
    ("configMap", "configmaps (via configmap volumes)"),
    ("secret", "secrets (via secret volumes)"),
    ("csi", "csidrivers (via CSI volumes)"),
    ("glusterfs", "endpoints (via glusterFS volumes)"),
    ("persistentVolumeClaim", "persistentvolumeclaims"),
    ("ephemeral", "persistentvolumeclaims (via ephemeral volumes)"),
    ("azureFile", "secrets (via azureFile volumes)"),
];

/// Sources of projected volumes that refer to an API object, and the text that names it.
const SOURCES: &[(&str, &str)] = &[
    ("configMap", "configmaps (via projected volumes)"),
    ("secret", "secrets (via projected volumes)"),
    ("serviceAccountToken", "serviceaccounts (via projected volumes)"),
    ("clusterTrustBundle", "clustertrustbundles"),
    ("podCertificate", "podcertificates"),
];

/// The first kind of API object that the pod refers to; an error if a volume has an unknown type.
pub(super) fn first_api_reference(pod: &Value) -> Result<Option<&'static str>, String> {
    let spec = pod.get("spec");
    if names(spec.get("serviceAccountName")) {
        return Ok(Some("serviceaccounts"));
    } else if uses_secrets(spec) {
        return Ok(Some("secrets"));
    } else if uses_config_maps(spec) {
        return Ok(Some("configmaps"));
    } else if !spec.get("resourceClaims").items().is_empty() {
        return Ok(Some("resourceclaims"));
    }
    for volume in spec.get("volumes").items() {
        if let Some(what) = of_volume(volume)? {
            return Ok(Some(what));
        }
    }
    Ok(None)
}

fn of_volume(volume: &Value) -> Result<Option<&'static str>, String> {
    let name = object::quote::quote(volume.get("name").as_str().unwrap_or_default());
    let has = |kind: &str| !volume.get(kind).is_null();
    if LOCAL.iter().any(|kind| has(kind)) {
        return Ok(None);
    } else if let Some((_, what)) = VOLUMES.iter().find(|(kind, _)| has(kind)) {
        return Ok(Some(what));
    } else if !has("projected") {
        return Err(format!("unknown volume type for volume  {name}"));
    }
    for source in volume.get("projected").get("sources").items() {
        let has = |kind: &str| !source.get(kind).is_null();
        if let Some((_, what)) = SOURCES.iter().find(|(kind, _)| has(kind)) {
            return Ok(Some(what));
        } else if !has("downwardAPI") {
            return Err(format!("unknown source for projected volume {name}"));
        }
    }
    Ok(None)
}

fn names(value: &Value) -> bool {
    value.as_str().is_some_and(|name| !name.is_empty())
}

fn containers(spec: &Value) -> impl Iterator<Item = &Value> {
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    lists.into_iter().flat_map(|list| spec.get(list).items())
}

/// Whether an environment variable of a container comes from such an object (`envFrom` or
/// `valueFrom`).
fn reads(spec: &Value, whole: &str, key: &str) -> bool {
    containers(spec).any(|container| {
        let all = container.get("envFrom").items().iter().map(|from| from.get(whole));
        let some = container.get("env").items().iter().map(|own| own.get("valueFrom").get(key));
        all.chain(some).any(|reference| names(reference.get("name")))
    })
}

/// Whether the pod refers to a Secret.
pub(super) fn uses_secrets(spec: &Value) -> bool {
    const REFERENCES: &[&str] =
        &["cephfs", "cinder", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos"];
    let by_volume = |volume: &Value| {
        let sources = volume.get("projected").get("sources").items();
        names(volume.get("azureFile").get("secretName"))
            || REFERENCES.iter().any(|own| names(volume.get(own).get("secretRef").get("name")))
            || sources.iter().any(|source| names(source.get("secret").get("name")))
            || names(volume.get("secret").get("secretName"))
            || names(volume.get("csi").get("nodePublishSecretRef").get("name"))
    };
    spec.get("imagePullSecrets").items().iter().any(|own| names(own.get("name")))
        || reads(spec, "secretRef", "secretKeyRef")
        || spec.get("volumes").items().iter().any(by_volume)
}

fn uses_config_maps(spec: &Value) -> bool {
    let by_volume = |volume: &Value| {
        let sources = volume.get("projected").get("sources").items();
        sources.iter().any(|source| names(source.get("configMap").get("name")))
            || names(volume.get("configMap").get("name"))
    };
    reads(spec, "configMapRef", "configMapKeyRef")
        || spec.get("volumes").items().iter().any(by_volume)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_every_way_to_the_api() {
        let cases = [
            (r#"{"serviceAccountName":"a"}"#, "serviceaccounts"),
            (r#"{"imagePullSecrets":[{"name":"a"}]}"#, "secrets"),
            (r#"{"containers":[{"envFrom":[{"secretRef":{"name":"a"}}]}]}"#, "secrets"),
            (
                r#"{"initContainers":[{"env":[{"valueFrom":{"configMapKeyRef":{"name":"a"}}}]}]}"#,
                "configmaps",
            ),
            (r#"{"volumes":[{"name":"v","rbd":{"secretRef":{"name":"a"}}}]}"#, "secrets"),
            (r#"{"volumes":[{"name":"v","secret":{"secretName":"a"}}]}"#, "secrets"),
            (r#"{"volumes":[{"name":"v","configMap":{"name":"a"}}]}"#, "configmaps"),
            (r#"{"resourceClaims":[{"name":"a"}]}"#, "resourceclaims"),
            (r#"{"volumes":[{"name":"v","csi":{"driver":"a"}}]}"#, "csidrivers (via CSI volumes)"),
            (
                r#"{"volumes":[{"name":"v","ephemeral":{"volumeClaimTemplate":{}}}]}"#,
                "persistentvolumeclaims (via ephemeral volumes)",
            ),
            (
                r#"{"volumes":[{"name":"v","projected":{"sources":[{"downwardAPI":{}},{"podCertificate":{}}]}}]}"#,
                "podcertificates",
            ),
            (
                r#"{"volumes":[{"name":"v","projected":{"sources":[{"serviceAccountToken":{}}]}}]}"#,
                "serviceaccounts (via projected volumes)",
            ),
        ];
        for (spec, what) in cases {
            let pod = object::from_json(format!(r#"{{"spec":{spec}}}"#).as_bytes()).unwrap();
            assert_eq!(first_api_reference(&pod), Ok(Some(what)), "{spec}");
        }
    }

    #[test]
    fn what_is_the_nodes_own_is_no_reference() {
        let of = |spec: &str| {
            first_api_reference(
                &object::from_json(format!(r#"{{"spec":{spec}}}"#).as_bytes()).unwrap(),
            )
        };
        let local = r#"{"volumes":[{"name":"v","hostPath":{"path":"/"}},{"name":"w","emptyDir":{}},
            {"name":"p","projected":{"sources":[{"downwardAPI":{}}]}}],
            "containers":[{"env":[{"name":"A","value":"b"}]}]}"#;
        assert_eq!(of(local), Ok(None));
        let unknown = of(r#"{"volumes":[{"name":"v","novel":{}}]}"#);
        assert_eq!(unknown, Err(r#"unknown volume type for volume  "v""#.to_owned()));
    }
}
