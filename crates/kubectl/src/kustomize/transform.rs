//! The transformers of a kustomization, in the order in which they are applied.

use object::Value;

use super::{
    Resource,
    fields::{self, ANNOTATIONS, OWN_LABELS, SELECTORS, TEMPLATE_LABELS},
    patch,
    read::Kustomization,
    replace,
};
use crate::{
    error::{CommandError, Result},
    workload::items_mut,
};

/// Applies all transformers of a kustomization.
pub(super) fn run(kustomization: &Kustomization, all: &mut Vec<Resource>) -> Result {
    patch::run(kustomization, all)?;
    namespace(kustomization.text("namespace"), all);
    rename(kustomization.text("namePrefix"), kustomization.text("nameSuffix"), all);
    labels(kustomization, all)?;
    let annotations = &kustomization.tree["commonAnnotations"];
    for resource in all.iter_mut() {
        fields::put(&mut resource.object, ANNOTATIONS, annotations);
    }
    patch::json(kustomization, all)?;
    replicas(&kustomization.tree["replicas"], all)?;
    for image in kustomization.tree["images"].items() {
        for resource in all.iter_mut().filter(|r| r.kind() != "CustomResourceDefinition") {
            images(&mut resource.object, image);
        }
    }
    replace::run(kustomization, all)
}

fn namespace(namespace: &str, all: &mut [Resource]) {
    if namespace.is_empty() {
        return;
    }
    for resource in all {
        resource.remember();
        if resource.kind() == "Namespace" {
            resource.object["metadata"]["name"] = namespace.into();
        } else if resource.namespaced() {
            resource.object["metadata"]["namespace"] = namespace.into();
        }
        let service = match resource.kind() {
            "APIService" => "spec/service",
            "CustomResourceDefinition" => "spec/conversion/webhook/clientConfig/service",
            _ => "",
        };
        let path: Vec<&str> = service.split('/').filter(|part| !part.is_empty()).collect();
        if !path.is_empty() {
            fields::each(&mut resource.object, &path, false, &mut |service| {
                service["namespace"] = namespace.into();
            });
        }
        if matches!(resource.kind(), "RoleBinding" | "ClusterRoleBinding")
            && !resource.object["subjects"].is_null()
        {
            for subject in items_mut(&mut resource.object["subjects"]) {
                if subject["kind"].as_str() == Some("ServiceAccount")
                    && subject["name"].as_str() == Some("default")
                {
                    subject["namespace"] = namespace.into();
                }
            }
        }
    }
}

fn rename(prefix: &str, suffix: &str, all: &mut [Resource]) {
    if prefix.is_empty() && suffix.is_empty() {
        return;
    }
    for resource in all {
        if !matches!(resource.kind(), "CustomResourceDefinition" | "APIService" | "Namespace") {
            let name = format!("{prefix}{}{suffix}", resource.name());
            resource.rename(&name);
        }
    }
}

fn labels(kustomization: &Kustomization, all: &mut [Resource]) -> Result {
    let on = |entry: &Value, name: &str| entry[name].as_bool() == Some(true);
    for entry in kustomization.tree["labels"].items() {
        if !entry["fields"].items().is_empty() {
            return Err(CommandError::error("fields of labels are not supported"));
        }
        for resource in all.iter_mut() {
            let selectors = on(entry, "includeSelectors");
            let templates = selectors || on(entry, "includeTemplates");
            label(&mut resource.object, &entry["pairs"], selectors, templates);
        }
    }
    for resource in all {
        label(&mut resource.object, &kustomization.tree["commonLabels"], true, true);
    }
    Ok(())
}

fn label(object: &mut Value, pairs: &Value, selectors: bool, templates: bool) {
    if pairs.entries().len() == 0 {
        return;
    }
    fields::put(object, OWN_LABELS, pairs);
    if templates {
        fields::put(object, TEMPLATE_LABELS, pairs);
    }
    if selectors {
        fields::put(object, SELECTORS, pairs);
        if matches!(object["kind"].as_str(), Some("Deployment" | "StatefulSet")) {
            for path in fields::affinities() {
                fields::put_at(object, &path, false, pairs);
            }
        }
    }
}

fn replicas(wanted: &Value, all: &mut [Resource]) -> Result {
    for one in wanted.items() {
        let name = one["name"].as_str().unwrap_or_default();
        let mut found = false;
        for resource in all.iter_mut() {
            let scales = matches!(
                resource.kind(),
                "Deployment" | "ReplicationController" | "ReplicaSet" | "StatefulSet"
            );
            if scales && resource.names().iter().any(|(_, other)| other == name) {
                found = true;
                resource.object["spec"]["replicas"] = one["count"].clone();
            }
        }
        if !found {
            return Err(CommandError::error(format!(
                "resource with name {name} does not match a config with the following GVK [Deployment.[noVer].[noGrp] ReplicationController.[noVer].[noGrp] ReplicaSet.[noVer].[noGrp] StatefulSet.[noVer].[noGrp]]"
            )));
        }
    }
    Ok(())
}

/// Changes the images of containers and volumes anywhere in the object.
fn images(tree: &mut Value, wanted: &Value) {
    if matches!(tree, Value::List(_)) {
        items_mut(tree).iter_mut().for_each(|item| images(item, wanted));
        return;
    }
    let names: Vec<String> = tree.entries().map(|(name, _)| name.to_owned()).collect();
    for name in names {
        let inner = tree.get_mut(&name);
        let leaf: &[&str] = match name.as_str() {
            "containers" | "initContainers" => &["image"],
            "volumes" => &["image", "reference"],
            _ => &[],
        };
        if !leaf.is_empty() {
            fields::each(inner, leaf, false, &mut |image| {
                if let Some(changed) = image.as_str().and_then(|text| changed(text, wanted)) {
                    *image = changed.into();
                }
            });
        }
        if inner.is_object() || matches!(inner, Value::List(_)) {
            images(inner, wanted);
        }
    }
}

/// The image that replaces another, if `wanted` matches it.
fn changed(image: &str, wanted: &Value) -> Option<String> {
    let text = |name: &str| wanted[name].as_str().unwrap_or_default();
    let (rest, mut digest) = image.split_once('@').unwrap_or((image, ""));
    let start = rest.rfind('/').map_or(0, |at| at + 1);
    let (name, tag) = match rest[start..].split_once(':') {
        Some((last, tag)) => (&rest[..start + last.len()], tag),
        None => (rest, ""),
    };
    if name != text("name") {
        return None;
    }
    let name = if text("newName").is_empty() { name } else { text("newName") };
    let mut tag = tag.to_owned();
    if !text("newTag").is_empty() || !text("digest").is_empty() {
        (tag, digest) = (text("newTag").to_owned(), text("digest"));
    } else if !text("tagSuffix").is_empty() {
        tag += text("tagSuffix");
        digest = "";
    }
    let mut all = name.to_owned();
    if !tag.is_empty() {
        all += &format!(":{tag}");
    }
    if !digest.is_empty() {
        all += &format!("@{digest}");
    }
    Some(all)
}

#[test]
fn images_change_in_parts() {
    let wanted = |text: &str| object::yaml::from_yaml(text).expect("YAML");
    for (image, with, expected) in [
        ("nginx:1", "{name: nginx, newTag: '9'}", Some("nginx:9")),
        ("nginx", "{name: nginx, newName: my/nginx}", Some("my/nginx")),
        ("host:5000/a@sha256:x", "{name: 'host:5000/a', newTag: v}", Some("host:5000/a:v")),
        ("other:1", "{name: nginx, newTag: '9'}", None),
        ("nginx:1", "{name: nginx, digest: 'sha256:y'}", Some("nginx@sha256:y")),
    ] {
        assert_eq!(changed(image, &wanted(with)).as_deref(), expected, "{image}");
    }
}
