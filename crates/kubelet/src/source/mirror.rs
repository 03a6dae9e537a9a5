//! Mirror pods: API objects that make static pods visible to users and the scheduler.

use std::{sync::Arc, time::Duration};

use api::core::Pod;
use client::{DeleteParams, Error};
use object::{Lens, NamespacedName, Value};
use tokio::time::{sleep, timeout};
use tracing::warn;

use crate::KubeletContext;

const MIRROR: &str = "kubernetes.io/config.mirror";
const HASH: &str = "kubernetes.io/config.hash";
/// Interval for retrying failed writes.
const RETRY: Duration = Duration::from_secs(10);

pub(crate) fn is_mirror(pod: &Pod) -> bool {
    pod.metadata().annotations().get(MIRROR).is_some()
}

/// Whether an API object is the mirror pod of the static pod with this uid.
pub(crate) fn is_mirror_of(pod: &Pod, uid: &str) -> bool {
    pod.metadata().annotations().get(MIRROR) == Some(uid)
}

/// Keeps one mirror pod per static pod, and deletes all others.
pub(crate) fn start(host: &Arc<KubeletContext>) {
    let Some(objects) = host.api_pods.clone() else { return };
    let host = host.clone();
    let cx = host.cx.clone();
    cx.keep("mirror pods", move || {
        let (host, objects) = (host.clone(), objects.clone());
        async move {
            let mut synced = objects.cache().synced();
            if synced.wait_for(|synced| *synced).await.is_err() {
                return;
            }
            let mut sources = host.sources_read();
            if sources.wait_for(|read| *read).await.is_err() {
                return;
            }
            loop {
                let mut good = true;
                for desired in host
                    .pods
                    .all()
                    .iter()
                    .filter(|desired| desired.is_static && desired.ending.is_none())
                {
                    good &= succeeded(&sync_mirror_pod(&host, &objects, &desired.pod).await);
                }
                let wished = host.pods.all();
                let wanted = |pod: &Pod| {
                    wished.iter().any(|desired| {
                        desired.is_static && is_mirror_of(pod, desired.pod.metadata().uid())
                    })
                };
                for pod in objects.all().iter().filter(|pod| is_mirror(pod) && !wanted(pod)) {
                    good &= succeeded(&remove(&objects, pod).await);
                }
                let wait = if good { Duration::from_mins(5) } else { RETRY };
                let _ = timeout(wait, host.mirror_pods_changed.notified()).await; // waits for a change or the timeout
                sleep(Duration::from_millis(50)).await;
            }
        }
    });
}

/// Creates the mirror pod of a static pod; deletes an object that is in its place.
async fn sync_mirror_pod(
    host: &KubeletContext,
    objects: &runtime::CachedApi<Pod>,
    pod: &Pod,
) -> Result<(), Error> {
    let key = NamespacedName::from_meta(pod.metadata());
    match objects.get(&key) {
        Some(found)
            if is_mirror_of(&found, pod.metadata().uid()) && !found.metadata().is_terminating() =>
        {
            host.statuses.requeue(pod.metadata().uid());
            Ok(())
        }
        Some(found) => remove(objects, &found).await,
        None => {
            let mut tree = pod.tree().clone();
            tree.remove("status");
            let meta = &mut tree["metadata"];
            let hash = meta["annotations"][HASH].clone();
            meta["annotations"][MIRROR] = hash;
            meta.remove("uid");
            if let Some(node) = host.node() {
                let mut owner = Value::object();
                (owner["apiVersion"], owner["kind"]) = ("v1".into(), "Node".into());
                (owner["name"], owner["uid"]) =
                    (node.metadata().name().into(), node.metadata().uid().into());
                owner["controller"] = true.into();
                meta["ownerReferences"] = [owner].into_iter().collect();
            }
            objects.create(Pod::from(tree)).await?;
            host.statuses.requeue(pod.metadata().uid());
            Ok(())
        }
    }
}

async fn remove(objects: &runtime::CachedApi<Pod>, pod: &Pod) -> Result<(), Error> {
    let delete = DeleteParams { grace_seconds: Some(0), ..DeleteParams::default() };
    objects.delete_with(pod, delete).await
}

fn succeeded(result: &Result<(), Error>) -> bool {
    if let Err(error) = result {
        warn!(%error, "cannot write a mirror pod; will retry");
    }
    result.is_ok()
}
