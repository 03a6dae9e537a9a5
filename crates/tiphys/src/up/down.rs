//! `down`: stops the cluster and removes what it created on the host: processes, mounts, network interfaces, nftables
//! tables and cgroups. Objects, images and the records of pods stay, unless `--wipe` is given.
//!
//! Pods are stopped first, by the kubelet and while everything still runs: preStop hooks, SIGTERM, grace periods. The
//! steps after that write nothing, so they also work when the disk is full, and depend on no record, so they also
//! work after any crash.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use container::{CriClient, cri};
use network::Cidr;
use object::from_json;
use sys::cgroup::Hierarchies;
use tokio::time::{Instant, sleep};

use super::{
    ClusterConfig, DataDir, Place, clusters,
    finish_startup::stop_supervisor,
    node::{POD_LOGS, cgroup_root},
    progress::Progress,
    status, supervise,
};

/// Grace period in seconds of a pod that sets none.
const USUAL_GRACE: u64 = 30;
/// How long stopping may take beyond the longest grace period.
const BEYOND_GRACE: Duration = Duration::from_secs(15);
/// SIGUSR1: tells the kubelet to stop all pods.
const END_PODS: i32 = 10;
/// Maximum size in bytes of a pod that the kubelet has stored.
const LARGEST_POD: u64 = 16 << 20;

#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Down {
    /// Delete the data folder too.
    #[arg(long)]
    pub(crate) wipe: bool,
    /// Kill pods at once, without their preStop hooks and grace periods.
    #[arg(long)]
    pub(crate) now: bool,
}

/// Stops the cluster of `place`.
pub(crate) async fn run(place: &Place, down: Down) -> Result<()> {
    ensure!(rustix::process::geteuid().is_root(), "tiphys down needs root");
    let mut layout = place.layout()?;
    if !is_cluster(&layout) {
        layout = place.existing()?; // fails with a list of the clusters that exist
    }
    let layout = &layout;
    let mut progress = Progress::new();
    if !down.now {
        end_pods(layout, &mut progress).await;
    }
    progress.update("stopping the cluster");
    stop_supervisor(layout).await?;
    supervise::stop_all(layout).await; // in case the supervisor has died
    let layout_of_thread = layout.clone();
    let work = move || clean(&layout_of_thread, down.wipe);
    tokio::task::spawn_blocking(work).await.context("the machine is not clean")??;
    progress.done("the cluster is down");
    Ok(())
}

/// Whether the directory belongs to a cluster, or to the remains of one.
fn is_cluster(layout: &DataDir) -> bool {
    let has = |name: &str| layout.path(name).exists();
    has("config.yaml") || (has("run") && has("bin") && has("log"))
}

/// Tells the kubelet to stop all pods, and waits as long as their grace periods allow.
async fn end_pods(layout: &DataDir, progress: &mut Progress) {
    let node = status::processes(layout, "node").into_iter().find(|pid| handles(*pid, END_PODS));
    let Some(node) = node else { return };
    let Ok(mut cri) = CriClient::connect(&layout.path("run/cri.sock")).await else { return };
    let longest = longest_grace(&layout.path("node/kubelet/pods")) + BEYOND_GRACE;
    let (began, mut all) = (Instant::now(), 0);
    if sys::process::kill(node, END_PODS).is_err() {
        return;
    }
    while began.elapsed() < longest && status::lives(node) {
        let Ok(left) = running(&mut cri).await else { return };
        all = all.max(left);
        if left == 0 {
            return;
        }
        progress.update(&format!("ending pods: {} of {all} have ended", all - left));
        sleep(Duration::from_millis(100)).await;
    }
    progress.update("pods that did not end in time are killed");
}

/// Number of pods that still run.
async fn running(cri: &mut CriClient) -> Result<usize> {
    let state = cri::PodSandboxStateValue { state: cri::PodSandboxState::SandboxReady.into() };
    let filter = cri::PodSandboxFilter { state: Some(state), ..cri::PodSandboxFilter::default() };
    let request = cri::ListPodSandboxRequest { filter: Some(filter) };
    Ok(cri.runtime.list_pod_sandbox(request).await?.into_inner().items.len())
}

/// The longest grace period of the pods that the kubelet has stored.
fn longest_grace(pods: &Path) -> Duration {
    let grace = |folder: fs::DirEntry| -> Option<u64> {
        let bytes =
            sys::durable_record::read(&folder.path().join("pod.json"), LARGEST_POD).ok()??;
        let pod = from_json(&bytes).ok()?;
        pod["spec"]["terminationGracePeriodSeconds"].as_i64()?.try_into().ok()
    };
    let folders = fs::read_dir(pods).into_iter().flatten().flatten();
    let longest = folders.filter_map(grace).fold(USUAL_GRACE, u64::max);
    Duration::from_secs(longest)
}

/// Whether a process has a handler for a signal, which would terminate it otherwise.
fn handles(pid: i32, signal: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    caught & (1 << (signal - 1)) != 0
}

/// Removes everything of the cluster from the host; with `wipe`, its data too.
fn clean(layout: &DataDir, wipe: bool) -> Result<()> {
    let settings = ClusterConfig::load(&layout.path("config.yaml"));
    let settings = match settings {
        Ok(settings) => Some(settings),
        Err(_) if wipe => None, // partly written on a full disk: not needed to delete everything
        Err(error) => return Err(error),
    };
    let group = Hierarchies::detect()?.group(&cgroup_root(layout))?;
    group.kill_all().context("a process of a pod does not end")?;
    let cluster: Vec<Cidr> =
        settings.iter().filter_map(|settings| settings.cluster_cidr.parse().ok()).collect();
    network::remove(&layout.path("node/network"), &cluster).context("the pod network")?;
    let table = settings.as_ref().map_or(proxy::TABLE, |settings| &settings.proxy_table);
    proxy::cleanup(table).context("the tables of services")?;
    for mount in mounts(layout.dir()) {
        let _ = rustix::mount::unmount(&mount, rustix::mount::UnmountFlags::DETACH);
    }
    group.remove().context("the groups of pods")?;
    if wipe {
        clusters::forget(layout);
        kubelet::remove_pod_logs(&layout.path("node/kubelet"), Path::new(POD_LOGS))
            .with_context(|| format!("cannot remove the logs in {POD_LOGS}"))?;
        remove_all(layout.dir())?;
    }
    Ok(())
}

/// Removes the directory; if it is a mount point, only its content.
fn remove_all(dir: &Path) -> Result<()> {
    let entries = fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))?;
    for entry in entries {
        let path: PathBuf = entry?.path();
        let is_folder = fs::symlink_metadata(&path).is_ok_and(|about| about.is_dir());
        let removed = if is_folder { sys::tree::remove(&path) } else { fs::remove_file(&path) };
        removed.with_context(|| format!("cannot remove {}", path.display()))?;
    }
    match fs::remove_dir(dir) {
        Err(error) if error.kind() != io::ErrorKind::ResourceBusy => {
            bail!("cannot remove {}: {error}", dir.display())
        }
        _ => Ok(()),
    }
}

/// Mount points below a directory, innermost first.
fn mounts(dir: &Path) -> Vec<String> {
    let table = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let inside = |path: &&str| *path != dir.as_os_str() && Path::new(path).starts_with(dir);
    let paths = table.lines().filter_map(|line| line.split(' ').nth(1));
    let mut found: Vec<String> = paths.filter(inside).map(str::to_owned).collect();
    found.reverse();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_grace_period_counts() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(longest_grace(folder.path()), Duration::from_secs(30));
        for (uid, seconds) in [("a", "120"), ("b", "5"), ("c", "{}")] {
            fs::create_dir(folder.path().join(uid)).unwrap();
            let pod = format!(r#"{{"spec":{{"terminationGracePeriodSeconds":{seconds}}}}}"#);
            fs::write(folder.path().join(uid).join("pod.json"), pod).unwrap();
        }
        assert_eq!(longest_grace(folder.path()), Duration::from_mins(2));
    }

    #[test]
    fn only_a_cluster_is_wiped() {
        let folder = tempfile::tempdir().unwrap();
        let layout = DataDir::new(folder.path());
        fs::create_dir(folder.path().join("run")).unwrap();
        assert!(!is_cluster(&layout));
        fs::create_dir(folder.path().join("bin")).unwrap();
        fs::create_dir(folder.path().join("log")).unwrap();
        assert!(is_cluster(&layout), "half of one is one");
    }

    #[test]
    fn a_signal_without_a_handler_is_not_sent() {
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(!handles(own, 12));
    }
}
