//! Pod source: the pods that the API server has bound to this node.

use std::{path::Path, sync::Arc};

use api::core::Pod;
use sys::durable_record;

use super::mirror;
use crate::KubeletContext;

/// Maximum size of a checkpoint file. The API server accepts no larger pod, and the size of a status is bounded.
const LARGEST: u64 = 16 << 20;

/// Watches the pods of this node. A pod that is deleted from the API server is terminated.
pub(crate) fn start(host: &Arc<KubeletContext>) {
    let Some(pods) = &host.api_pods else { return };
    let weak = Arc::downgrade(host);
    pods.cache().on_change(move |old, new| {
        let Some(host) = weak.upgrade() else { return };
        match (old, new) {
            (_, Some(pod)) if mirror::is_mirror(pod) => host.mirror_pods_changed.notify_one(),
            (Some(pod), None) if mirror::is_mirror(pod) => host.mirror_pods_changed.notify_one(),
            (old, Some(pod)) => {
                let replaced = old.filter(|old| old.metadata().uid() != pod.metadata().uid());
                replaced
                    .into_iter()
                    .for_each(|old| host.pods.terminate_pod(&host, old.metadata().uid()));
                want(&host, pod);
            }
            (Some(old), None) => host.pods.terminate_pod(&host, old.metadata().uid()),
            (None, None) => {}
        }
    });
}

/// Reads the checkpoint of a pod that ran under an earlier kubelet. The pod is kept until the API server says
/// otherwise.
pub(crate) fn read_checkpoint(host: &Arc<KubeletContext>, uid: &str) -> Option<Pod> {
    read(&host.config.pod_folder(uid).join("pod.json"), uid)
}

fn read(file: &Path, uid: &str) -> Option<Pod> {
    let read =
        durable_record::read(file, LARGEST).map_err(|error| error.to_string()).and_then(|bytes| {
            let Some(bytes) = bytes else { return Ok(None) };
            let pod = Pod::from(object::from_json(&bytes).map_err(|error| error.to_string())?);
            let same = pod.metadata().uid() == uid;
            if same { Ok(Some(pod)) } else { Err("it is the record of another pod".to_owned()) }
        });
    read.unwrap_or_else(|why| {
        tracing::error!(uid, why, "cannot read the checkpoint of a pod; moving it aside");
        if let Err(error) = durable_record::put_aside(file) {
            tracing::error!(uid, %error, "cannot move the checkpoint of a pod aside");
        }
        None
    })
}

fn want(host: &Arc<KubeletContext>, pod: &Pod) {
    let meta = pod.metadata();
    let grace = meta.is_terminating().then(|| meta.deletion_grace_period_seconds().unwrap_or(30));
    host.pods.update_pod(host, pod.clone(), grace, false);
    host.statuses.requeue(meta.uid());
}

#[test]
fn anything_may_stand_in_the_place_of_a_pods_record() {
    use std::fs;
    let folder = std::env::temp_dir().join(format!("pod-record-{}", std::process::id()));
    let file = folder.join("pod.json");
    let damages: [&dyn Fn(); 5] = [
        &|| fs::write(&file, "").unwrap(),
        &|| fs::write(&file, "{\"metadata\": {").unwrap(),
        &|| fs::write(&file, "{\"metadata\": {\"uid\": \"other\"}}").unwrap(),
        &|| fs::create_dir(&file).unwrap(),
        &|| fs::File::create(&file).and_then(|file| file.set_len(1 << 40)).unwrap(),
    ];
    fs::create_dir(&folder).unwrap();
    for damage in damages {
        damage();
        assert_eq!(read(&file, "u"), None);
        assert!(!file.exists(), "put aside");
    }
    durable_record::write(
        &file,
        b"{\"metadata\": {\"uid\": \"u\"}}",
        durable_record::Durability::None,
    )
    .unwrap();
    assert!(read(&file, "u").is_some());
    fs::remove_dir_all(folder).unwrap();
}
