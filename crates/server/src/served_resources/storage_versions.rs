//! The API versions that stored objects may have, served or not. An object with another group,
//! version or kind is not decoded.

use schema::{ResourceDefinition, ResourceNames};

/// The versions other than v1 of each group that were ever stored and can still be decoded.
const VERSIONS: &[(&str, &[&str])] = &[
    ("admissionregistration.k8s.io", &["v1alpha1", "v1beta1"]),
    ("apiextensions.k8s.io", &["v1beta1"]),
    ("apiregistration.k8s.io", &["v1beta1"]),
    ("apps", &["v1beta1", "v1beta2"]),
    ("authentication.k8s.io", &["v1alpha1", "v1beta1"]),
    ("authorization.k8s.io", &["v1beta1"]),
    ("autoscaling", &["v2"]),
    ("batch", &["v1beta1"]),
    ("certificates.k8s.io", &["v1alpha1", "v1beta1"]),
    ("coordination.k8s.io", &["v1alpha2", "v1beta1"]),
    ("discovery.k8s.io", &["v1beta1"]),
    ("events.k8s.io", &["v1beta1"]),
    ("extensions", &["v1beta1"]),
    ("flowcontrol.apiserver.k8s.io", &["v1beta1", "v1beta2", "v1beta3"]),
    ("internal.apiserver.k8s.io", &["v1alpha1"]),
    ("lifecycle.k8s.io", &["v1alpha1"]),
    ("networking.k8s.io", &["v1beta1"]),
    ("node.k8s.io", &["v1alpha1", "v1beta1"]),
    ("policy", &["v1beta1"]),
    ("rbac.authorization.k8s.io", &["v1alpha1", "v1beta1"]),
    ("resource.k8s.io", &["v1alpha3", "v1beta1", "v1beta2"]),
    ("scheduling.k8s.io", &["v1alpha3", "v1beta1"]),
    ("storage.k8s.io", &["v1alpha1", "v1beta1"]),
    ("storagemigration.k8s.io", &["v1beta1"]),
];

/// Kinds that were moved from another group, by that group.
const MOVED: &[(&str, &[&str])] = &[
    ("extensions", &["DaemonSet", "Deployment", "Ingress", "NetworkPolicy", "ReplicaSet", "Scale"]),
    ("apps", &["Scale"]),
    ("events.k8s.io", &["Event"]),
    ("", &["Event"]),
];

/// Kinds that did not exist in such a version.
const NOT_IN_VERSION: &[(&str, &[&str])] = &[
    (
        "admissionregistration.k8s.io/v1alpha1",
        &["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"],
    ),
    ("apps/v1beta1", &["DaemonSet", "ReplicaSet"]),
    ("authentication.k8s.io/v1alpha1", &["TokenReview"]),
    ("autoscaling/v2", &["Scale"]),
    ("batch/v1beta1", &["Job"]),
    ("certificates.k8s.io/v1alpha1", &["CertificateSigningRequest", "PodCertificateRequest"]),
    ("coordination.k8s.io/v1alpha2", &["Lease"]),
    ("networking.k8s.io/v1beta1", &["NetworkPolicy"]),
    (
        "resource.k8s.io/v1alpha3",
        &["DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"],
    ),
    ("resource.k8s.io/v1beta1", &["DeviceTaintRule"]),
    ("scheduling.k8s.io/v1alpha3", &["PriorityClass"]),
    ("storage.k8s.io/v1alpha1", &["CSIDriver", "CSINode", "StorageClass"]),
];

/// Whether the kind was once served in this version and is still registered.
pub(crate) fn was_registered(names: &ResourceNames, api_version: &str) -> bool {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let among = |all: &[(&str, &[&str])], key: &str, word: &str| {
        all.iter().any(|(own, words)| *own == key && words.contains(&word))
    };
    among(VERSIONS, group, version)
        && (group == names.group || among(MOVED, group, names.kind))
        && !among(NOT_IN_VERSION, api_version, names.kind)
}

/// Checks that a stored object's apiVersion and kind are compatible with `hub`; empty ones are.
pub(super) fn check(hub: &ResourceDefinition, api_version: &str, kind: &str) -> Result<(), String> {
    let names = &hub.names;
    if api_version.is_empty() || (kind == names.kind && api_version == names.api_version()) {
        return Ok(());
    }
    let kind = if kind.is_empty() { names.kind } else { kind };
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let among = |all: &[(&str, &[&str])], word: &str| {
        all.iter().any(|(own, words)| *own == group && words.contains(&word))
    };
    let registered = version == names.version || version == "v1" || among(VERSIONS, version);
    let belongs = group == names.group || among(MOVED, kind);
    match (registered && belongs, kind == names.kind) {
        (true, true) => Ok(()),
        (true, false) => Err(format!("a {kind} is stored where there should be a {}", names.kind)),
        (false, _) => Err(format!(
            "no kind \"{kind}\" is registered for version \"{api_version}\" in scheme \"pkg/runtime/scheme.go:111\""
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_served_once_is_known_still() {
        for (group, kind, api_version, known) in [
            ("apps", "Deployment", "apps/v1beta1", true),
            ("apps", "Deployment", "extensions/v1beta1", true),
            ("apps", "DaemonSet", "apps/v1beta1", false),
            ("apps", "StatefulSet", "extensions/v1beta1", false),
            ("autoscaling", "Scale", "apps/v1beta2", true),
            ("autoscaling", "Scale", "autoscaling/v2", false),
            ("", "Pod", "v1beta1", false),
        ] {
            let (version, plural, singular) = ("v1", "", "");
            let (short, categories) = (&[], &[]);
            let names = ResourceNames {
                group,
                version,
                kind,
                plural,
                singular,
                short_names: short,
                categories,
            };
            assert_eq!(was_registered(&names, api_version), known, "{kind} of {api_version}");
        }
    }
}
