//! Name references: updates names inside of objects when the objects that they refer to are renamed.

use object::Value;

use super::{Resource, fields::each};
use crate::workload::items_mut;

/// Fields of a pod's spec, and the kind that they refer to.
const POD_NAME_REFERENCES: &[(&str, &str)] = &[
    ("ConfigMap", "volumes/configMap/name"),
    ("ConfigMap", "volumes/projected/sources/configMap/name"),
    ("ConfigMap", "containers/env/valueFrom/configMapKeyRef/name"),
    ("ConfigMap", "initContainers/env/valueFrom/configMapKeyRef/name"),
    ("ConfigMap", "containers/envFrom/configMapRef/name"),
    ("ConfigMap", "initContainers/envFrom/configMapRef/name"),
    ("Secret", "volumes/secret/secretName"),
    ("Secret", "volumes/projected/sources/secret/name"),
    ("Secret", "containers/env/valueFrom/secretKeyRef/name"),
    ("Secret", "initContainers/env/valueFrom/secretKeyRef/name"),
    ("Secret", "containers/envFrom/secretRef/name"),
    ("Secret", "initContainers/envFrom/secretRef/name"),
    ("Secret", "imagePullSecrets/name"),
    ("ServiceAccount", "serviceAccountName"),
    ("PersistentVolumeClaim", "volumes/persistentVolumeClaim/claimName"),
    ("PriorityClass", "priorityClassName"),
];

/// Kind that is referred to, kind that refers to it, and field path.
const NAME_REFERENCES: &[(&str, &str, &str)] = &[
    ("Deployment", "HorizontalPodAutoscaler", "spec/scaleTargetRef/name"),
    ("ReplicationController", "HorizontalPodAutoscaler", "spec/scaleTargetRef/name"),
    ("ReplicaSet", "HorizontalPodAutoscaler", "spec/scaleTargetRef/name"),
    ("StatefulSet", "HorizontalPodAutoscaler", "spec/scaleTargetRef/name"),
    ("ConfigMap", "Role", "rules/resourceNames"),
    ("ConfigMap", "ClusterRole", "rules/resourceNames"),
    ("Secret", "Role", "rules/resourceNames"),
    ("Secret", "ClusterRole", "rules/resourceNames"),
    ("Secret", "Ingress", "spec/tls/secretName"),
    ("Secret", "ServiceAccount", "imagePullSecrets/name"),
    ("Secret", "StorageClass", "parameters/secretName"),
    ("Secret", "StorageClass", "parameters/adminSecretName"),
    ("Secret", "StorageClass", "parameters/userSecretName"),
    ("Secret", "StorageClass", "parameters/secretRef"),
    ("Secret", "PersistentVolume", "spec/azureFile/secretName"),
    ("Service", "StatefulSet", "spec/serviceName"),
    ("Service", "Ingress", "spec/rules/http/paths/backend/serviceName"),
    ("Service", "Ingress", "spec/backend/serviceName"),
    ("Service", "Ingress", "spec/rules/http/paths/backend/service/name"),
    ("Service", "Ingress", "spec/defaultBackend/service/name"),
    ("Service", "APIService", "spec/service/name"),
    ("Role", "RoleBinding", "roleRef/name"),
    ("ClusterRole", "RoleBinding", "roleRef/name"),
    ("ClusterRole", "ClusterRoleBinding", "roleRef/name"),
    ("PersistentVolume", "PersistentVolumeClaim", "spec/volumeName"),
    ("PersistentVolume", "ClusterRole", "rules/resourceNames"),
    ("StorageClass", "PersistentVolume", "spec/storageClassName"),
    ("StorageClass", "PersistentVolumeClaim", "spec/storageClassName"),
    ("StorageClass", "StatefulSet", "spec/volumeClaimTemplates/spec/storageClassName"),
    ("IngressClass", "Ingress", "spec/ingressClassName"),
    ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "spec/policyName"),
];

/// Lists of references with a name and a namespace: kind that is referred to, kind that refers to it, and field path.
const PAIRS: &[(&str, &str, &str)] = &[
    ("ServiceAccount", "RoleBinding", "subjects"),
    ("ServiceAccount", "ClusterRoleBinding", "subjects"),
    ("Service", "ValidatingWebhookConfiguration", "webhooks/clientConfig/service"),
    ("Service", "MutatingWebhookConfiguration", "webhooks/clientConfig/service"),
];

/// Sets every name reference to the current name of its object.
pub(super) fn update_name_references(all: &mut [Resource]) {
    let known = all.to_vec();
    for resource in all {
        let kind = resource.kind().to_owned();
        let about = resource.clone();
        let pods: &[&str] = match kind.as_str() {
            "PodTemplate" => &["template", "spec"],
            kind => crate::workload::pod_spec_path(kind).unwrap_or_default(),
        };
        if !pods.is_empty() {
            for (target, path) in POD_NAME_REFERENCES {
                let path: Vec<&str> = pods.iter().copied().chain(path.split('/')).collect();
                names_at(&mut resource.object, &path, target, &about, &known);
            }
        }
        for (target, by, path) in NAME_REFERENCES.iter().filter(|(_, by, _)| *by == kind) {
            let meant = |tree: &Value| match *by {
                "HorizontalPodAutoscaler" => {
                    tree["spec"]["scaleTargetRef"]["kind"].as_str() == Some(target)
                }
                "RoleBinding" | "ClusterRoleBinding" => {
                    tree["roleRef"]["kind"].as_str() == Some(target)
                }
                _ => true,
            };
            if meant(&resource.object) {
                let path: Vec<&str> = path.split('/').collect();
                names_at(&mut resource.object, &path, target, &about, &known);
            }
        }
        for (target, _, path) in PAIRS.iter().filter(|(_, by, _)| *by == kind) {
            let path: Vec<&str> = path.split('/').collect();
            each(&mut resource.object, &path, false, &mut |value| {
                if matches!(value, Value::List(_)) {
                    items_mut(value).iter_mut().for_each(|one| pair(one, target, &about, &known));
                } else {
                    pair(value, target, &about, &known);
                }
            });
        }
    }
}

fn names_at(object: &mut Value, path: &[&str], target: &str, about: &Resource, known: &[Resource]) {
    each(object, path, false, &mut |value| {
        let renamed = |value: &Value| {
            let name = value.as_str()?;
            find(known, target, name, None, about).map(|found| Value::from(found.name()))
        };
        if matches!(value, Value::List(_)) {
            for item in items_mut(value) {
                if let Some(name) = renamed(item) {
                    *item = name;
                }
            }
        } else if let Some(name) = renamed(value) {
            *value = name;
        }
    });
}

fn pair(value: &mut Value, target: &str, about: &Resource, known: &[Resource]) {
    if value["kind"].as_str().is_some_and(|kind| kind != target) {
        return;
    }
    let (Some(name), namespace) =
        (value["name"].as_str().map(str::to_owned), value["namespace"].as_str().map(str::to_owned))
    else {
        return;
    };
    if let Some(found) = find(known, target, &name, namespace.as_deref(), about) {
        value["name"] = found.name().into();
        if !found.text("namespace").is_empty() {
            value["namespace"] = found.text("namespace").into();
        }
    }
}

/// The object of a kind that has or had this name; of several, the one whose kustomization is nearest.
fn find<'a>(
    known: &'a [Resource],
    kind: &str,
    name: &str,
    namespace: Option<&str>,
    about: &Resource,
) -> Option<&'a Resource> {
    let fits = |candidate: &&Resource| {
        candidate.kind() == kind
            && candidate.names().iter().any(|(space, other)| {
                other == name && namespace.is_none_or(|wanted| wanted == space || space.is_empty())
            })
            && (namespace.is_some()
                || !candidate.namespaced()
                || !about.namespaced()
                || candidate.text("namespace") == about.text("namespace"))
    };
    let nearness = |candidate: &&Resource| {
        candidate.origin_chain.iter().zip(&about.origin_chain).take_while(|(a, b)| a == b).count()
    };
    known.iter().filter(fits).max_by_key(nearness)
}
