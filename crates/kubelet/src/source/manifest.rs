//! Static pods: pods described by a file or URL, independent of the API server.

use std::{collections::BTreeMap, sync::Arc};

use api::core::Pod;
use object::{Time, Value, to_json};
use schema::Kind;
use tracing::{info, warn};

use crate::KubeletContext;

/// The pods of one source: their uids by file name or name in the manifest.
#[derive(Debug, Default)]
pub(super) struct StaticPods(BTreeMap<String, String>);

impl StaticPods {
    /// Starts new pods and terminates those that are no longer described.
    pub(super) fn replace(
        &mut self,
        host: &Arc<KubeletContext>,
        found: Vec<(String, Result<Pod, String>)>,
    ) {
        let mut now = BTreeMap::new();
        for (place, read) in found {
            match read {
                Ok(pod) => {
                    let uid = pod.metadata().uid().to_owned();
                    now.insert(place, uid.clone());
                    if !host.pods.has(&uid) {
                        info!(pod = pod.metadata().name(), "starting a static pod");
                        host.pods.update_pod(host, pod, None, true);
                    }
                }
                Err(error) => {
                    warn!(place, %error, "not a valid static pod");
                    // perhaps half-written: the running pod is kept until the manifest is valid again or deleted
                    now.extend(self.0.get(&place).map(|uid| (place, uid.clone())));
                }
            }
        }
        for uid in self.0.values().filter(|uid| !now.values().any(|other| other == *uid)) {
            host.pods.terminate_pod(host, uid);
        }
        self.0 = now;
    }
}

/// Parses a manifest: sets the node's name suffix, uid, annotations and defaults, and validates the pod.
pub(super) fn parse(host: &KubeletContext, source: &str, mut tree: Value) -> Result<Pod, String> {
    if tree["kind"].as_str() != Some("Pod") || tree["apiVersion"].as_str() != Some("v1") {
        return Err("it is not a v1 Pod".into());
    }
    let mut unknown = schema::UnknownFields::default();
    schema::coerce_to_schema(<Pod as object::Lens>::SHAPE, &mut tree, &mut unknown)?;
    let node = &host.config.node_name;
    let hash = fingerprint(&[to_json(&tree).as_slice(), node.as_bytes(), source.as_bytes()]);
    let meta = &mut tree["metadata"];
    let name = meta["name"].as_str().ok_or("it has no name")?.to_owned();
    meta["name"] = format!("{name}-{}", node.to_lowercase()).into();
    if meta["namespace"].is_null() {
        meta["namespace"] = "default".into();
    }
    if meta["uid"].is_null() {
        meta["uid"] = (&*hash).into();
    }
    let uid = meta["uid"].as_str().unwrap_or_default().to_owned();
    let notes = &mut meta["annotations"];
    notes["kubernetes.io/config.hash"] = uid.into();
    notes["kubernetes.io/config.source"] = source.split(':').next().unwrap_or_default().into();
    notes["kubernetes.io/config.seen"] = Time::format(host.now()).into();
    tree["spec"]["nodeName"] = (&**node).into();
    let mut toleration = Value::object();
    (toleration["operator"], toleration["effect"]) = ("Exists".into(), "NoExecute".into());
    let old = tree["spec"]["tolerations"].items().to_vec();
    tree["spec"]["tolerations"] = old.into_iter().chain([toleration]).collect();
    tree.remove("status");
    schema::normalize(<Pod as object::Lens>::SHAPE, &mut tree);
    let mut pod = Pod::from(tree);
    pod.default_fields();
    check(&pod)?;
    Ok(pod)
}

/// Validates the pod as the API server would. Names must be safe, because they become names of directories here.
fn check(pod: &Pod) -> Result<(), String> {
    if pod.spec().containers().is_empty() {
        return Err("it has no containers".into());
    }
    let meta = pod.metadata();
    for name in [meta.name(), meta.namespace(), meta.uid()] {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
        if name.starts_with('.') || name.is_empty() || name.len() > 253 || !name.chars().all(plain)
        {
            return Err(format!("{name:?} is not a valid name"));
        }
    }
    let mut errors = schema::ErrorList::default();
    pod.validate(&mut errors);
    errors.0.first().map_or(Ok(()), |error| Err(error.to_string()))
}

/// Fingerprint of the contents: 32 hexadecimal digits, used as the pod's uid.
fn fingerprint(parts: &[&[u8]]) -> String {
    let mut hashes = [0xcbf2_9ce4_8422_2325_u64, 0x6c62_272e_07bb_0142];
    for (at, byte) in parts.iter().flat_map(|part| part.iter()).enumerate() {
        for (which, hash) in hashes.iter_mut().enumerate() {
            let salt = u64::try_from(at * which).unwrap_or_default();
            *hash = (*hash ^ u64::from(*byte) ^ salt).wrapping_mul(0x0100_0000_01b3);
        }
    }
    hashes.map(|hash| format!("{hash:016x}")).concat()
}
