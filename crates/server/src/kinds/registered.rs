//! Versions that objects may be stored in, served or not: what says that it is something else
//! is not guessed at.

use schema::Definition;

/// Of each group the versions besides v1 that ever were stored and can still be read.
const VERSIONS: &[(&str, &[&str])] = &[
    ("admissionregistration.k8s.io", &["v1alpha1", "v1beta1"]),
    ("apiextensions.k8s.io", &["v1beta1"]),
    ("apiregistration.k8s.io", &["v1beta1"]),
    ("apps", &["v1beta1", "v1beta2"]),
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

/// Kinds that were in another group before, and those.
const MOVED: &[(&str, &[&str])] = &[
    ("extensions", &["DaemonSet", "Deployment", "Ingress", "NetworkPolicy", "ReplicaSet"]),
    ("events.k8s.io", &["Event"]),
    ("", &["Event"]),
];

/// Whether something that says of itself what it is can be one of `hub`. What says nothing is.
pub(super) fn check(hub: &Definition, api_version: &str, kind: &str) -> Result<(), String> {
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
