//! Pruning: objects that were applied earlier and are no longer in the manifests.

use std::collections::BTreeSet;

use object::Value;

use crate::{
    error::{CommandError, Result},
    invocation::Invocation,
    merge::LAST_APPLIED,
    resources::{Resource, escape},
    select::Info,
};

/// Kinds that are pruned unless `--prune-allowlist` is given.
const DEFAULT_ALLOWLIST: &[(&str, &str)] = &[
    ("v1", "ConfigMap"),
    ("v1", "Endpoints"),
    ("v1", "PersistentVolumeClaim"),
    ("v1", "Pod"),
    ("v1", "ReplicationController"),
    ("v1", "Secret"),
    ("v1", "Service"),
    ("batch/v1", "Job"),
    ("batch/v1", "CronJob"),
    ("networking.k8s.io/v1", "Ingress"),
    ("apps/v1", "DaemonSet"),
    ("apps/v1", "Deployment"),
    ("apps/v1", "ReplicaSet"),
    ("apps/v1", "StatefulSet"),
    ("v1", "Namespace"),
    ("v1", "PersistentVolume"),
];

/// UIDs and namespaces of the applied objects.
#[derive(Debug, Default)]
pub(super) struct AppliedObjects {
    uids: BTreeSet<String>,
    namespaces: BTreeSet<String>,
}

impl AppliedObjects {
    /// Adds an applied object.
    pub(super) fn note(&mut self, info: &Info, object: &Value) {
        if info.resource.namespaced {
            self.namespaces.insert(info.namespace.clone());
        }
        self.uids.extend(object["metadata"]["uid"].as_str().map(str::to_owned));
    }
}

/// The kinds that `--prune-allowlist` names; empty if it is not given.
pub(super) fn resources(call: &Invocation<'_>) -> Result<Vec<Resource>> {
    let mut all = Vec::new();
    for word in call.flags.all("prune-allowlist") {
        let parts: Vec<&str> = word.split('/').collect();
        let [group, version, kind] = parts[..] else {
            return Err(CommandError::error(format!(
                "invalid GroupVersionKind format: {word}, please follow <group/version/kind>"
            )));
        };
        let api_version = match group {
            "" | "core" => version.to_owned(),
            group => format!("{group}/{version}"),
        };
        let found = call.resources()?.of_kind(&api_version, kind).cloned();
        all.push(found.ok_or_else(|| {
            CommandError::error(format!(
                "no matches for kind \"{kind}\" in version \"{api_version}\""
            ))
        })?);
    }
    Ok(all)
}

/// Objects that have the last-applied annotation, match the selector, and were not applied now.
pub(super) fn candidates(
    call: &Invocation<'_>,
    allowed: &[Resource],
    seen: &AppliedObjects,
) -> Result<Vec<Info>> {
    let mut wanted = allowed.to_vec();
    if allowed.is_empty() {
        call.log_warning("Deprecated: kubectl apply will no longer prune non-namespaced resources by default when used with the --namespace flag in a future release. To preserve the current behaviour, list the resources you want to target explicitly in the --prune-allowlist flag.");
        for (version, kind) in DEFAULT_ALLOWLIST {
            wanted.extend(call.resources()?.of_kind(version, kind).cloned());
        }
    }
    let selector = call.selector()?.to_string();
    let query = match selector.as_str() {
        "" => String::new(),
        selector => format!("?labelSelector={}", escape(selector)),
    };
    let mut found = Vec::new();
    let mut look = |resource: &Resource, namespace: &str| -> Result {
        let path = resource.path(namespace, "") + &query;
        let list = call.server()?.get(&path).map_err(|fail| {
            let scope = if namespace.is_empty() { "nonNamespaced" } else { "namespaced" };
            CommandError::error(format!(
                "error pruning {scope} object {}: {}",
                resource.gvk(),
                fail.message()
            ))
        })?;
        for item in list["items"].items() {
            let metadata = &item["metadata"];
            let uid = metadata["uid"].as_str().unwrap_or_default();
            if metadata["annotations"][LAST_APPLIED].is_null() || seen.uids.contains(uid) {
                continue;
            }
            let mut object = item.clone();
            object["apiVersion"] = resource.api_version().into();
            object["kind"] = resource.kind.as_str().into();
            found.push(Info::of(resource, object));
        }
        Ok(())
    };
    for namespace in &seen.namespaces {
        for resource in wanted.iter().filter(|resource| resource.namespaced) {
            look(resource, namespace)?;
        }
    }
    for resource in wanted.iter().filter(|resource| !resource.namespaced) {
        look(resource, "")?;
    }
    Ok(found)
}
