//! Leftovers of pods whose creation failed, and garbage collection of leftovers without a record.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use container::{
    cni::{Cni, NetworkAttachment, NetworkError, NetworkStatus},
    cri::{ListPodSandboxRequest, RunPodSandboxRequest},
};
use tokio::sync::Notify;

use crate::support::{Runtime, shell};

/// A network that takes as long as the test says.
#[derive(Debug, Default)]
struct SlowNetwork {
    adding: Notify,
    go_on: Notify,
    added: AtomicBool,
    collected: std::sync::Mutex<Option<BTreeSet<String>>>,
}

#[tonic::async_trait]
impl Cni for SlowNetwork {
    async fn add(&self, _: &NetworkAttachment) -> Result<NetworkStatus, NetworkError> {
        self.adding.notify_one();
        self.go_on.notified().await;
        self.added.store(true, Ordering::SeqCst);
        Ok(NetworkStatus::default())
    }

    async fn remove(&self, _: &NetworkAttachment) -> Result<(), NetworkError> {
        self.added.store(false, Ordering::SeqCst);
        Ok(())
    }

    async fn status(&self) -> Result<(), NetworkError> {
        Ok(())
    }

    async fn collect(&self, live: &BTreeSet<String>) -> Result<(), NetworkError> {
        *self.collected.lock().expect("no panic") = Some(live.clone());
        Ok(())
    }
}

/// Waits until a directory is empty.
async fn until_empty(folder: &Path) {
    for _ in 0..6000 {
        if fs::read_dir(folder).expect("a folder").next().is_none() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{} is not empty", folder.display());
}

#[tokio::test]
async fn a_sandbox_that_nobody_waits_for_is_undone() {
    let network = Arc::new(SlowNetwork::default());
    let runtime = Runtime::start_with_network(network.clone()).await;
    assert_eq!(network.collected.lock().expect("no panic").take(), Some(BTreeSet::new()));
    let mut cri = runtime.cri.clone();
    let config = Some(runtime.sandbox_config("abandoned"));
    let request = RunPodSandboxRequest { config, runtime_handler: String::new() };
    tokio::select! {
        _ = cri.runtime.run_pod_sandbox(request) => panic!("the network is not there yet"),
        () = network.adding.notified() => {}
    }
    let sandboxes = runtime.root().join("sandboxes");
    assert!(fs::read_dir(&sandboxes).expect("a folder").next().is_some(), "it is being made");
    // the server learns from the connection that the caller has gone
    for _ in 0..10 {
        cri.runtime.list_pod_sandbox(ListPodSandboxRequest::default()).await.expect("list");
    }
    network.go_on.notify_one();
    until_empty(&sandboxes).await;
    assert!(!network.added.load(Ordering::SeqCst), "its network is removed");
    let listed = cri.runtime.list_pod_sandbox(ListPodSandboxRequest::default()).await;
    assert_eq!(listed.expect("list").into_inner().items.len(), 0);
    drop(cri);
    runtime.end().await;
}

#[tokio::test]
async fn a_server_collects_what_it_has_no_record_of() {
    let mut runtime = Runtime::start().await;
    let kept = runtime.sandbox("kept").await;
    let lasting = runtime.container(&kept, shell("lasting", "sleep 1000")).await;
    let lost = runtime.sandbox("lost").await;
    runtime.container(&lost, shell("lost", "sleep 1000")).await;
    let half = runtime.sandbox("half").await;
    let init = runtime.init(&lasting);
    let root = runtime.root();
    let empty = root.join("containers").join("ab".repeat(32));
    let forget = || {
        // as if created by a server that was killed before it could write the record
        let folder = root.join("sandboxes").join(&lost);
        rustix::mount::unmount(folder.join("shm"), rustix::mount::UnmountFlags::DETACH)
            .expect("unmounted");
        fs::remove_dir_all(folder).expect("removed");
        fs::remove_file(root.join("sandboxes").join(&half).join("record")).expect("removed");
        // an interrupted removal, with something mounted in the directory
        fs::create_dir_all(empty.join("upper/a")).expect("a folder");
        let tmpfs = sys::mount::new_filesystem("tmpfs", &[], 0).expect("a file system");
        let place = sys::descriptor::open_path(&empty.join("upper/a")).expect("a folder");
        sys::mount::attach_tree(tmpfs, place).expect("mounted");
    };
    runtime = runtime.restart_after(forget).await;
    let folder = runtime.folder().to_str().expect("text").to_owned();
    let shims = fs::read_dir("/proc").expect("processes").flatten().filter(|entry| {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(&folder)
    });
    assert_eq!(shims.count(), 2, "a shim and the holder of its namespaces");
    for (controller, group) in [("pids", &lost), ("pids", &half), ("memory", &lost)] {
        assert!(!runtime.cgroup_file(controller, group, "").exists(), "{group}");
    }
    let containers = fs::read_dir(root.join("containers")).expect("a folder");
    assert_eq!(containers.count(), 1, "those of lost pods are removed");
    assert_eq!(runtime.init(&lasting), init, "the other pod goes on");
    runtime.remove(&kept).await;
    runtime.end().await;
}
