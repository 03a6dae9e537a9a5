//! Deletes what the attack has created, so that the cluster is in its initial state again.

use std::collections::BTreeSet;

use anyhow::Result;
use serde_json::Value;

use super::{kinds::Kind, world::World};

/// Deletes everything in the attack's namespaces, and cluster-scoped objects that the attack created.
pub(crate) async fn clean(world: &World, kinds: &[Kind]) -> Result<()> {
    // Admission configuration goes first: it affects the other deletions.
    let (first, others): (Vec<&Kind>, Vec<&Kind>) = kinds
        .iter()
        .partition(|kind| kind.definition.names.group == "admissionregistration.k8s.io");
    let mut done = BTreeSet::new();
    for kind in first.into_iter().chain(others) {
        let names = kind.definition.names;
        // an object deleted in one version is deleted in all
        if !kind.definition.verbs.contains(&"delete") || !done.insert((names.group, names.plural)) {
            continue;
        }
        for namespace in ["a", "b"] {
            let collection = kind.collection(namespace);
            if kind.is_namespaced() {
                delete(world, &format!("{collection}?gracePeriodSeconds=0")).await?;
            }
            let list = world.ask("GET", &collection, None).await?;
            let Ok(list) = serde_json::from_slice::<Value>(&list.body) else { continue };
            for item in list["items"].as_array().into_iter().flatten() {
                let meta = &item["metadata"];
                let name = meta["name"].as_str().unwrap_or_default();
                if !kind.is_namespaced() && !is_ours(name, meta) {
                    continue;
                }
                let path = format!("{collection}/{}", escaped(name));
                if meta["finalizers"].is_array() {
                    world.ask("PATCH", &path, Some(r#"{"metadata":{"finalizers":null}}"#)).await?;
                }
                delete(world, &format!("{path}?gracePeriodSeconds=0")).await?;
            }
            if !kind.is_namespaced() {
                break;
            }
        }
    }
    Ok(())
}

async fn delete(world: &World, path: &str) -> Result<()> {
    world.ask("DELETE", path, None).await.map(drop)
}

/// Whether an object was created by the attack, and is neither a default object of a cluster nor needed by the
/// attack.
fn is_ours(name: &str, meta: &Value) -> bool {
    let kept = [
        "a",
        "b",
        "ping",
        "default",
        "n1",
        "n2",
        "hostile",
        "kubernetes",
        "tenant",
        "anonymous-view",
    ];
    let bootstrap = meta["labels"]["kubernetes.io/bootstrapping"].is_string()
        || meta["annotations"]["apf.kubernetes.io/autoupdate-spec"].is_string()
        || meta["labels"]["kube-aggregator.kubernetes.io/automanaged"].is_string();
    !bootstrap
        && !kept.contains(&name)
        && !name.starts_with("system")
        && !name.starts_with("kube-")
        && !name.starts_with("10.96")
}

fn escaped(name: &str) -> String {
    name.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' => {
                char::from(byte).to_string()
            }
            other => format!("%{other:02X}"),
        })
        .collect()
}
