//! Orphaned pods: pods in the runtime that no pod source has. Pods of an earlier kubelet are kept until every source
//! has been read. Leftovers of pods that were deleted while they started are removed periodically.

use std::{
    collections::{BTreeSet, HashMap},
    fs,
    path::Path,
    sync::Arc,
    time::Duration,
};

use api::core::Pod;
use object::Value;
use tokio::time::sleep;
use tracing::{info, warn};

use crate::{KubeletContext, blocking, cgroup, runtime::labels, source};

/// How often orphans are searched for.
const PERIOD: Duration = Duration::from_secs(10);
/// Grace period, in seconds, of the containers of an orphaned pod.
const GRACE: i64 = 30;

/// Adopts the pods that run; once all sources are read, terminates those that no source has.
pub(crate) async fn adopt(host: &Arc<KubeletContext>) {
    for (uid, _) in pods_in_runtime(host).await {
        if let Some(pod) = source::api::read_checkpoint(host, &uid)
            && !host.pods.has(&uid)
        {
            host.pods.update_pod(host, pod, None, false);
        }
    }
    let weak = host.clone();
    host.cx.spawn("orphans", async move {
        let host = weak;
        let mut read = host.sources_read();
        if read.wait_for(|read| *read).await.is_err() {
            return;
        }
        if let Some(pods) = &host.api_pods {
            let mut synced = pods.cache().synced();
            if synced.wait_for(|synced| *synced).await.is_err() {
                return;
            }
        }
        host.tiers.settle();
        clean_up_orphans(&host);
        keep_collecting(&host).await;
    });
}

/// Terminates pods that were deleted while the kubelet was not running. `collect` finds other leftovers.
fn clean_up_orphans(host: &Arc<KubeletContext>) {
    let wanted = |uid: &str| match &host.api_pods {
        Some(pods) => pods.all().iter().any(|pod| pod.metadata().uid() == uid),
        None => false,
    };
    for desired in host.pods.all().iter().filter(|desired| !desired.is_static) {
        let uid = desired.pod.metadata().uid();
        if !wanted(uid) {
            info!(uid, "a pod was deleted while the kubelet was not running; terminating it");
            host.pods.terminate_pod(host, uid);
        }
    }
}

/// Removes orphans as long as the kubelet runs. A sandbox can appear after its pod was deleted and cleaned up, because
/// the runtime was still creating it.
async fn keep_collecting(host: &Arc<KubeletContext>) {
    // right after the start, nothing that is found is still being created
    let mut suspects: BTreeSet<String> = leftovers(host).await.into_keys().collect();
    loop {
        suspects = collect(host, &suspects).await;
        sleep(PERIOD).await;
    }
}

/// Terminates and removes the pods without a worker that were also found in the previous pass (`suspects`). Returns the
/// new ones.
async fn collect(host: &Arc<KubeletContext>, suspects: &BTreeSet<String>) -> BTreeSet<String> {
    let found = leftovers(host).await;
    let (orphans, fresh): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|(uid, _)| suspects.contains(uid));
    for (uid, pod) in orphans {
        info!(uid, "removing the remains of a deleted pod");
        // a pod worker of its own does the removal, so that nothing else acts on this pod meanwhile
        host.pods.update_pod(host, pod, Some(GRACE), true);
    }
    fresh.into_iter().map(|(uid, _)| uid).collect()
}

/// Pods without a worker of which the runtime has sandboxes, the disk has directories or the kernel has cgroups. The
/// workers are read last, because a pod gets its worker before anything is created for it.
async fn leftovers(host: &Arc<KubeletContext>) -> HashMap<String, Pod> {
    let mut found = pods_in_runtime(host).await;
    let (pods, root) = (host.config.root_dir.join("pods"), host.config.cgroup_root.clone());
    let uids = blocking(move || {
        let mut uids = folder_names(&pods);
        uids.extend(cgroup::pods(&root).map_err(|error| error.to_string())?);
        Ok(uids)
    });
    match uids.await {
        Ok(uids) => {
            for uid in uids {
                found.entry(uid.clone()).or_insert_with(|| pod("", "", &uid));
            }
        }
        Err(error) => warn!(error, "cannot list the cgroups of pods"),
    }
    found.retain(|uid, _| !host.pods.has(uid) && !uid.starts_with('.') && !uid.contains('/'));
    found
}

fn folder_names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// The pods of which the runtime has sandboxes, as far as their labels describe them.
async fn pods_in_runtime(host: &KubeletContext) -> HashMap<String, Pod> {
    let sandboxes = match host.runtime.sandboxes(HashMap::new()).await {
        Ok(sandboxes) => sandboxes,
        Err(error) => {
            warn!(%error, "cannot list the pods of the runtime");
            return HashMap::new();
        }
    };
    let mut out = HashMap::new();
    for sandbox in sandboxes {
        let label = |name: &str| sandbox.labels.get(name).cloned().unwrap_or_default();
        let uid = label(labels::UID);
        if uid.is_empty() {
            continue; // not created by a kubelet
        }
        let pod = pod(&label(labels::NAMESPACE), &label(labels::NAME), &uid);
        out.insert(uid, pod);
    }
    out
}

/// A pod of which only name, namespace and uid are known.
fn pod(namespace: &str, name: &str, uid: &str) -> Pod {
    let mut tree = Value::object();
    tree["metadata"]["name"] = name.into();
    tree["metadata"]["namespace"] = namespace.into();
    tree["metadata"]["uid"] = uid.into();
    Pod::from(tree)
}
