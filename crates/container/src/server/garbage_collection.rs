//! Garbage collection: removes shims, cgroups, networks and layer leases without a record, which a killed server left
//! behind while it created or removed pods.
//!
//! The directory of a sandbox or container is created before anything else of it, and removed last. What is found first
//! and has no directory afterwards is therefore an orphan, whatever is created or removed meanwhile, and no lock is
//! needed.

use std::{
    collections::BTreeSet,
    fs, io,
    os::fd::OwnedFd,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::{Inner, blocking, internal};

/// Interval of garbage collection.
const PERIOD: Duration = Duration::from_mins(1);
/// Time limit for the network plugins at the start of the server.
const LONGEST_NETWORK: Duration = Duration::from_secs(30);
/// A process that is not dead after this time is stuck in the kernel.
const LONGEST_KILL: Duration = Duration::from_secs(10);
/// Length of an id: 32 bytes in hexadecimal.
const ID_LENGTH: usize = 64;

/// A running shim, found by the directory in its arguments.
#[derive(Debug)]
struct ShimProcess {
    sandbox: String,
    process: OwnedFd,
    pid: i32,
}

impl Inner {
    /// Removes everything that earlier servers left behind. Nothing is being created yet.
    pub(super) async fn collect_at_start(self: &Arc<Self>) {
        for container in self.state.containers() {
            if !self.state.sandbox_folder(&container.sandbox).exists() {
                tracing::warn!(container = container.id, "removing a container that has no pod");
                if let Err(status) = self.remove_container(&container.id).await {
                    let error = status.message();
                    tracing::warn!(
                        container = container.id,
                        error,
                        "cannot remove a container that has no pod"
                    );
                }
            }
        }
        self.collect().await;
        let live = names(&self.config.root.join("sandboxes"));
        let collected = tokio::time::timeout(LONGEST_NETWORK, self.cni.collect(&live)).await;
        match collected {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "cannot remove the networks of deleted pods"),
            Err(_) => tracing::warn!("removing the networks of deleted pods takes too long"),
        }
    }

    /// Collects periodically while the server runs, because a removal may have failed halfway.
    pub(super) fn keep_collecting(self: &Arc<Self>) {
        let inner = self.clone();
        self.tasks.spawn(async move {
            loop {
                tokio::select! {
                    () = inner.stop.cancelled() => return,
                    () = tokio::time::sleep(PERIOD) => inner.collect().await,
                }
            }
        });
    }

    async fn collect(self: &Arc<Self>) {
        let inner = self.clone();
        let collected = blocking(move || {
            inner.collect_shims();
            inner.collect_groups().map_err(internal("list the control groups"))
        });
        if let Err(status) = collected.await {
            tracing::warn!(error = status.message(), "garbage collection failed");
        }
    }

    fn collect_shims(&self) {
        for shim in self.shims() {
            if !self.has_folder(&shim.sandbox) {
                tracing::warn!(sandbox = shim.sandbox, "stopping a shim that has no record");
                shim.end();
            }
        }
    }

    /// Removes cgroups without a record. Only below a cgroup that belongs to this server alone: elsewhere a name does
    /// not tell who created it.
    fn collect_groups(&self) -> io::Result<()> {
        if !self.config.owns_cgroup_root || self.config.cgroup_root.trim_matches('/').is_empty() {
            return Ok(());
        }
        for path in self.cgroups.below(&self.config.cgroup_root, is_id)? {
            let id = path.rsplit('/').next().unwrap_or_default();
            if self.has_folder(id) {
                continue;
            }
            tracing::warn!(group = path, "removing a cgroup that has no record");
            let removed =
                self.cgroup(&path).and_then(|group| group.kill_all().and_then(|()| group.remove()));
            if let Err(error) = removed {
                tracing::warn!(group = path, %error, "cannot remove a cgroup");
            }
        }
        Ok(())
    }

    /// Kills the shim of a sandbox that does not respond, if there is one.
    pub(super) fn end_shim(&self, sandbox: &str) {
        for shim in self.shims().into_iter().filter(|shim| shim.sandbox == sandbox) {
            shim.end();
        }
    }

    fn has_folder(&self, id: &str) -> bool {
        let exists = |path: &Path| fs::symlink_metadata(path).is_ok();
        exists(&self.state.sandbox_folder(id)) || exists(&self.state.container_folder(id))
    }

    /// The running shims of this server's directory, including those without a record.
    fn shims(&self) -> Vec<ShimProcess> {
        let folder = self.config.root.join("sandboxes");
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        pids.filter_map(|pid| ShimProcess::find(pid, &folder)).collect()
    }
}

impl ShimProcess {
    /// The process, if it is a shim of a pod in `folder`.
    fn find(pid: i32, folder: &Path) -> Option<Self> {
        shim_sandbox(&fs::read(format!("/proc/{pid}/cmdline")).ok()?, folder)?;
        let process = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
        // checked again with the pidfd open: the pid may have been reused in between
        let sandbox = shim_sandbox(&fs::read(format!("/proc/{pid}/cmdline")).ok()?, folder)?;
        Some(Self { sandbox, process, pid })
    }

    /// Kills the shim and waits until it has exited. The process that holds its namespaces ends with it.
    fn end(&self) {
        let began = Instant::now();
        // it may already have exited
        let _ = pidfd_send_signal(&self.process, Signal::KILL);
        let is_running = || {
            let path = format!("/proc/{}/cmdline", self.pid);
            let alive = pidfd_send_signal(&self.process, Signal::CONT).is_ok();
            alive && fs::read(path).is_ok_and(|line| !line.is_empty()) // empty for a zombie
        };
        while is_running() {
            if began.elapsed() > LONGEST_KILL {
                tracing::warn!(sandbox = self.sandbox, pid = self.pid, "cannot stop a shim");
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// The sandbox id of a shim, from its last argument, the directory of the pod.
fn shim_sandbox(arguments: &[u8], folder: &Path) -> Option<String> {
    let arguments = arguments.strip_suffix(b"\0")?;
    let last = arguments.rsplit(|byte| *byte == 0).next()?;
    let last = Path::new(std::str::from_utf8(last).ok()?);
    let id = last.file_name()?.to_str()?;
    (last.parent() == Some(folder) && is_id(id)).then(|| id.to_owned())
}

fn is_id(name: &str) -> bool {
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    name.len() == ID_LENGTH && name.bytes().all(is_hex)
}

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shims_are_found_by_their_last_argument() {
        let folder = Path::new("/data/runtime/sandboxes");
        let id = "ab".repeat(32);
        let found = |line: &str| shim_sandbox(line.as_bytes(), folder);
        assert_eq!(found(&format!("/x\0shim\0/data/runtime/sandboxes/{id}\0")), Some(id.clone()));
        for other in [
            format!("/x\0shim\0/other/sandboxes/{id}\0"),
            format!("/x\0shim\0/data/runtime/sandboxes/{id}\0more\0"),
            "/x\0shim\0/data/runtime/sandboxes/short\0".to_owned(),
            "/x\0shim\0/data/runtime/sandboxes/../../etc\0".to_owned(),
            String::new(),
        ] {
            assert_eq!(found(&other), None, "{other:?}");
        }
    }
}
