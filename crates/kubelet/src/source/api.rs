//! Pods that the API has bound to this node.

use std::sync::Arc;

use api::core::Pod;

use super::mirror;
use crate::Host;

/// Follows the API. What is no longer there ends.
pub(crate) fn start(host: &Arc<Host>) {
    let Some(pods) = &host.api_pods else { return };
    let weak = Arc::downgrade(host);
    pods.cache().on_change(move |old, new| {
        let Some(host) = weak.upgrade() else { return };
        match (old, new) {
            (_, Some(pod)) if mirror::is_mirror(pod) => host.mirrors.notify_one(),
            (Some(pod), None) if mirror::is_mirror(pod) => host.mirrors.notify_one(),
            (old, Some(pod)) => {
                let replaced = old.filter(|old| old.metadata().uid() != pod.metadata().uid());
                replaced.into_iter().for_each(|old| host.pods.unwant(&host, old.metadata().uid()));
                want(&host, pod);
            }
            (Some(old), None) => host.pods.unwant(&host, old.metadata().uid()),
            (None, None) => {}
        }
    });
}

/// Pods that ran when the kubelet last did: kept until the API says otherwise.
pub(crate) fn remembered(host: &Arc<Host>, uid: &str) -> Option<Pod> {
    let file = host.config.pod_folder(uid).join("pod.json");
    let tree = object::from_json(&std::fs::read(file).ok()?).ok()?;
    let pod = Pod::from(tree);
    (pod.metadata().uid() == uid).then_some(pod)
}

fn want(host: &Arc<Host>, pod: &Pod) {
    let meta = pod.metadata();
    let grace = meta.is_terminating().then(|| meta.deletion_grace_period_seconds().unwrap_or(30));
    host.pods.want(host, pod.clone(), grace, false);
    host.statuses.changed(meta.uid());
}
