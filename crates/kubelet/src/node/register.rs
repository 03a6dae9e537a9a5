//! Registration of the node, and writes of its status.

use std::collections::BTreeMap;

use api::core::Node;
use client::{Api, Error, Patch};
use object::{Lens, NamespacedName, Value};

use super::text;
use crate::{Config, KubeletContext};

/// Creates the Node if it is missing, sets its labels, and writes its status. Returns the previous Node; `None` if it
/// was created.
pub(crate) async fn write(host: &KubeletContext, status: &Value) -> Result<Option<Node>, Error> {
    let api = Api::<Node>::new(host.cx.client());
    let key = NamespacedName::new("", &host.config.node_name);
    let mut is_new = false;
    let node = match api.get(&key).await {
        Err(error) if error.is_not_found() && host.config.register_node => {
            match api.create(Node::from(new(&host.config, status))).await {
                Err(error) if error.is_already_exists() => api.get(&key).await?,
                made => {
                    is_new = true;
                    made?
                }
            }
        }
        found => found?,
    };
    let mut missing = Value::object();
    for (name, value) in labels(&host.config) {
        if node.metadata().labels().get(&name) != Some(&*value) {
            missing[name.as_str()] = value.into();
        }
    }
    if missing.entries().len() > 0 {
        let mut patch = Value::object();
        patch["metadata"]["labels"] = missing;
        api.patch(&key, &Patch::Merge(patch)).await?;
    }
    let mut patch = Value::object();
    patch["status"] = keep_transitions(node.tree(), status);
    api.patch_status(&key, &Patch::Strategic(patch)).await?;
    Ok((!is_new).then_some(node))
}

/// A new Node object with labels, annotations, taints and this status.
pub(super) fn new(config: &Config, status: &Value) -> Value {
    let mut node = Value::object();
    node["metadata"]["name"] = (&*config.node_name).into();
    for (name, value) in labels(config) {
        node["metadata"]["labels"][name.as_str()] = value.into();
    }
    let note = "volumes.kubernetes.io/controller-managed-attach-detach";
    node["metadata"]["annotations"][note] = "true".into();
    if !config.taints.is_empty() {
        node["spec"]["taints"] = config.taints.iter().cloned().collect();
    }
    node["status"] = status.clone();
    node
}

fn labels(config: &Config) -> BTreeMap<String, String> {
    let arch = super::status::architecture();
    let mut all: BTreeMap<_, _> = [
        ("kubernetes.io/hostname", &*config.node_name),
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", arch),
        ("beta.kubernetes.io/os", "linux"),
        ("beta.kubernetes.io/arch", arch),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    all.extend(config.labels.clone());
    all
}

/// Keeps `lastTransitionTime` of conditions whose status has not changed.
fn keep_transitions(node: &Value, status: &Value) -> Value {
    let mut status = status.clone();
    let conditions = status["conditions"].items().to_vec();
    let kept = conditions.into_iter().map(|mut condition| {
        let old = node["status"]["conditions"].items().iter();
        let same = old
            .into_iter()
            .find(|old| old["type"] == condition["type"] && old["status"] == condition["status"]);
        if let Some(old) = same.filter(|old| !text(&old["lastTransitionTime"]).is_empty()) {
            condition["lastTransitionTime"] = old["lastTransitionTime"].clone();
        }
        condition
    });
    status["conditions"] = kept.collect();
    status
}

#[test]
fn a_condition_keeps_its_time_until_it_changes() {
    let yaml = |text: &str| object::yaml::from_yaml(text).unwrap();
    let node =
        yaml("{status: {conditions: [{type: Ready, status: 'True', lastTransitionTime: old}]}}");
    for (status, want) in [("True", "old"), ("False", "new")] {
        let next = yaml(&format!(
            "{{conditions: [{{type: Ready, status: '{status}', lastTransitionTime: new}}]}}"
        ));
        let kept = keep_transitions(&node, &next);
        assert_eq!(text(&kept["conditions"].items()[0]["lastTransitionTime"]), want);
    }
}
