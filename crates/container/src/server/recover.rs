//! Recovery after a restart of the server while pods run. The records on disk say what was known; the
//! shims report what has happened since.

use std::{
    collections::BTreeMap,
    fs, io,
    net::IpAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures_util::{StreamExt, stream};
use sys::netlink::{self, NetlinkFamily, NetworkNamespace, Socket};

use super::{
    Inner, blocking,
    shim::ShimClient,
    state::{Leftovers, SandboxRecord},
};
use crate::{
    cri::ContainerState,
    shim::protocol::{Reply, Request, Status},
    spec,
};

/// How long a shim may take to report the state of its pod, while many others do the same.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many shims are queried at the same time.
const AT_ONCE: usize = 16;
/// How long to wait before a failed query is repeated.
const RETRY: Duration = Duration::from_secs(1);

/// The state of a pod as its shim reports it.
struct ShimState {
    /// The process that holds the namespaces; 0 if it has ended.
    pid: i32,
    containers: BTreeMap<String, Status>,
    /// Number of containers that are being started and have no status yet.
    pending: usize,
}

impl Inner {
    /// Removes sandboxes and containers whose creation was never completed, and follows all others.
    pub(super) async fn recover(self: &Arc<Self>, leftovers: Leftovers) {
        for container in leftovers.unfinished_containers {
            self.delete_container_resources(&container.id, &container.cgroup).await;
        }
        for sandbox in leftovers.unfinished_sandboxes {
            self.tear_down(&sandbox).await;
        }
        for folder in leftovers.unreadable_sandboxes {
            self.clear_unreadable(&folder).await;
        }
        for folder in leftovers.unreadable_containers {
            tracing::error!(folder = %folder.display(), "ignoring an unknown container");
        }
        let restored = leftovers.restored_sandboxes;
        let query = |sandbox: SandboxRecord| {
            let restored = restored.contains(&sandbox.id);
            async move {
                if sandbox.ready || restored {
                    self.meet(sandbox, restored).await;
                }
            }
        };
        stream::iter(self.state.sandboxes())
            .map(query)
            .buffer_unordered(AT_ONCE)
            .collect::<()>()
            .await;
        for container in self.state.containers() {
            if container.state() == ContainerState::ContainerRunning {
                self.watch_container(container.sandbox, container.id);
            }
        }
        self.check_holds().await;
    }

    /// Queries the shim of a pod, and records what was not recorded.
    async fn meet(self: &Arc<Self>, sandbox: SandboxRecord, restored: bool) {
        let state = match query_until_started(&self.shim(&sandbox.id)).await {
            Ok(state) if state.pid != 0 => state,
            Err(error) if is_passing(&error) => {
                tracing::warn!(sandbox = sandbox.id, %error, "cannot query a shim");
                return self.watch_sandbox(sandbox.id);
            }
            _ => return self.sandbox_ended(&sandbox.id),
        };
        if restored {
            let (host_network, pid) = (sandbox.host_network(), state.pid);
            let found =
                blocking(move || Ok(if host_network { Vec::new() } else { addresses(pid) }));
            let ips = found.await.unwrap_or_default();
            self.change_sandbox(&sandbox.id, |sandbox| {
                (sandbox.ready, sandbox.pid, sandbox.ips) = (true, pid, ips);
            });
            tracing::warn!(sandbox = sandbox.id, "the record of a running pod was restored");
        }
        self.take_up(sandbox.id, &state);
    }

    /// Records containers that were started or have ended while no server ran.
    fn take_up(self: &Arc<Self>, sandbox: String, state: &ShimState) {
        for container in self.state.containers_of(&sandbox) {
            if container.state() != ContainerState::ContainerCreated {
                continue; // watching it reports its exit
            }
            let Some(status) = state.containers.get(&container.id) else { continue };
            tracing::warn!(
                container = container.id,
                ?status,
                "the record of a container's start was missing; restored it from the shim"
            );
            self.change_container(&container.id, |container| match status {
                Status::Running { started, .. } => container.started(started),
                Status::Exited(exit) => container.ended(*exit),
            });
        }
        for id in state.containers.keys().filter(|id| self.state.container(id).is_err()) {
            tracing::error!(sandbox, container = id, "ignoring a container that has no record");
        }
        self.watch_sandbox(sandbox);
    }

    /// Removes a sandbox that has no readable record, unless its shim says that it runs.
    async fn clear_unreadable(&self, folder: &Path) {
        let shim = ShimClient::at(folder.to_owned());
        match query(&shim).await {
            Ok(state) if state.pid != 0 => {
                tracing::error!(folder = %folder.display(), "ignoring a pod that has no record");
                return;
            }
            Err(error) if is_passing(&error) => return,
            _ => {}
        }
        let _ = shim.request_done(Request::Shutdown).await; // usually it has already exited
        let shm = folder.join("shm");
        while sys::mount::lazy_unmount(&shm).is_ok() {}
        tracing::error!(folder = %folder.display(), "removing the remains of a pod that has no record");
        if let Err(error) = fs::remove_dir_all(folder) {
            tracing::error!(folder = %folder.display(), %error, "cannot remove the remains of a pod");
        }
    }

    /// Releases the layers of containers that no longer exist, and restores lost leases of those that do.
    async fn check_holds(&self) {
        let holders = self.store.holders();
        for holder in holders.iter().filter(|holder| self.state.container(holder).is_err()) {
            if let Err(error) = self.store.release_layers(holder).await {
                tracing::warn!(container = holder, %error, "cannot release layers");
            }
        }
        for container in self.state.containers() {
            if holders.contains(&container.id) {
                continue;
            }
            let held = layers(&self.state.container_folder(&container.id)).and_then(|layers| {
                self.store.hold_layers(&container.id, &layers).map_err(io::Error::other)
            });
            match held {
                Ok(()) => tracing::warn!(
                    container = container.id,
                    "restored the layer lease of a container"
                ),
                Err(error) => {
                    tracing::error!(container = container.id, %error, "cannot restore the layer lease of a container");
                }
            }
        }
    }

    /// Watches a sandbox until it ends or the server stops.
    pub(super) fn watch_sandbox(self: &Arc<Self>, id: String) {
        let inner = self.clone();
        self.tasks.spawn(async move {
            let shim = inner.shim(&id);
            tokio::select! {
                () = inner.stop.cancelled() => {}
                _ = wait(&shim, "") => inner.sandbox_ended(&id),
            }
        });
    }

    pub(super) fn sandbox_ended(self: &Arc<Self>, id: &str) {
        self.change_sandbox(id, |sandbox| (sandbox.ready, sandbox.pid) = (false, 0));
    }

    /// Changes a record in memory at once. The write to disk happens in the background, because it may be slow.
    fn change_sandbox(self: &Arc<Self>, id: &str, change: impl FnOnce(&mut SandboxRecord)) {
        self.state.change_sandbox(id, change);
        let (inner, id) = (self.clone(), id.to_owned());
        self.tasks.spawn(blocking(move || {
            inner.state.save_sandbox(&id);
            Ok(())
        }));
    }

    /// Watches a container until it exits or the server stops.
    pub(super) fn watch_container(self: &Arc<Self>, sandbox: String, id: String) {
        let inner = self.clone();
        self.tasks.spawn(async move {
            let shim = inner.shim(&sandbox);
            let exit = tokio::select! {
                () = inner.stop.cancelled() => return,
                exit = wait(&shim, &id) => exit,
            };
            inner.container_ended(&id, exit).await;
        });
    }
}

/// Waits for the exit of a container. An error of this process, such as too many open files, does not mean that the
/// shim is lost.
async fn wait(shim: &ShimClient, id: &str) -> io::Result<crate::shim::protocol::Exit> {
    loop {
        match shim.wait(id).await {
            Err(error) if is_passing(&error) => tokio::time::sleep(RETRY).await,
            done => return done,
        }
    }
}

/// Queries a shim until no container is being started any more. Otherwise a container that an earlier server began to
/// start would run while its record says Created.
async fn query_until_started(shim: &ShimClient) -> io::Result<ShimState> {
    let began = tokio::time::Instant::now();
    loop {
        let state = query(shim).await?;
        if state.pending == 0 || began.elapsed() > PATIENCE {
            return Ok(state);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn query(shim: &ShimClient) -> io::Result<ShimState> {
    let reply = tokio::time::timeout(PATIENCE, shim.request(Request::State, Vec::new()));
    match reply.await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??.reply {
        Reply::State { sandbox, containers, pending, .. } => {
            Ok(ShimState { pid: sandbox, containers: containers.into_iter().collect(), pending })
        }
        _ => Err(io::Error::other("the shim answered with a reply of another request")),
    }
}

/// Whether the cause of an error is this process, not the shim.
fn is_passing(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let ours = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::NOBUFS, Errno::AGAIN, Errno::INTR];
    matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)
        || error
            .raw_os_error()
            .is_some_and(|code| ours.iter().any(|one| one.raw_os_error() == code))
}

/// The IP addresses in a pod's network namespace.
fn addresses(pid: i32) -> Vec<String> {
    let look = || {
        let namespace = NetworkNamespace::open(Path::new(&format!("/proc/{pid}/ns/net")))?;
        netlink::run_in_netns(&namespace, || {
            netlink::addresses(&mut Socket::open(NetlinkFamily::Route)?)
        })?
    };
    let global = |ip: &IpAddr| match ip {
        IpAddr::V4(ip) => !ip.is_loopback() && !ip.is_link_local(),
        IpAddr::V6(ip) => !ip.is_loopback() && !ip.is_unicast_link_local(),
    };
    let found = look().unwrap_or_default().into_iter().map(|address| address.ip);
    found.filter(global).map(|ip| ip.to_string()).collect()
}

/// The layers that a container uses, from its specification.
fn layers(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let bytes =
        sys::durable_record::read(&folder.join(super::container::SPEC), super::LARGEST_SPEC)?;
    let bytes = bytes.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
    let spec: spec::ContainerSpec = serde_json::from_slice(&bytes)?;
    Ok(spec.root.layers)
}
