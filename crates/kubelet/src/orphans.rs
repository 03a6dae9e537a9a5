//! What an earlier kubelet left: pods that are kept until every source has been read, and
//! what nobody wants after that.

use std::{collections::HashMap, fs, sync::Arc};

use api::core::Pod;
use object::Value;
use tracing::{info, warn};

use crate::{Host, blocking, runtime::labels, source};

/// Adopts what runs; once all sources are known, ends what they lack.
pub(crate) async fn adopt(host: &Arc<Host>) {
    for (uid, _) in found(host).await {
        if let Some(pod) = source::api::remembered(host, &uid)
            && !host.pods.has(&uid)
        {
            host.pods.want(host, pod, None, false);
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
        end_unwanted(&host).await;
    });
}

async fn end_unwanted(host: &Arc<Host>) {
    let wanted = |uid: &str| match &host.api_pods {
        Some(pods) => pods.all().iter().any(|pod| pod.metadata().uid() == uid),
        None => false,
    };
    for wish in host.pods.all().iter().filter(|wish| !wish.is_static) {
        let uid = wish.pod.metadata().uid();
        if !wanted(uid) {
            info!(uid, "a pod has gone while the kubelet was away");
            host.pods.unwant(host, uid);
        }
    }
    for (uid, pod) in found(host).await {
        if !host.pods.has(&uid) {
            info!(uid, "a pod that nobody wants");
            host.pods.want(host, pod, Some(30), true);
        }
    }
    let Ok(folders) = fs::read_dir(host.config.root.join("pods")) else { return };
    for folder in folders.flatten() {
        let (path, uid) = (folder.path(), folder.file_name().to_string_lossy().into_owned());
        if host.pods.has(&uid) {
            continue;
        }
        let removed = blocking(move || volume::remove(&path).map_err(|error| error.to_string()));
        if let Err(error) = removed.await {
            warn!(uid, error, "the folder of a pod that is no more cannot be removed");
        }
    }
}

/// The pods of which the runtime has sandboxes, as far as labels tell.
async fn found(host: &Host) -> HashMap<String, Pod> {
    let sandboxes = match host.runtime.sandboxes(HashMap::new()).await {
        Ok(sandboxes) => sandboxes,
        Err(error) => {
            warn!(%error, "the runtime's pods cannot be listed");
            return HashMap::new();
        }
    };
    let mut out = HashMap::new();
    for sandbox in sandboxes {
        let label = |name: &str| sandbox.labels.get(name).cloned().unwrap_or_default();
        let uid = label(labels::UID);
        if uid.is_empty() {
            continue; // not a kubelet's
        }
        let mut tree = Value::object();
        tree["metadata"]["name"] = label(labels::NAME).into();
        tree["metadata"]["namespace"] = label(labels::NAMESPACE).into();
        tree["metadata"]["uid"] = (&*uid).into();
        out.insert(uid, Pod::from(tree));
    }
    out
}
