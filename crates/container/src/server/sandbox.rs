//! Pod sandboxes: the namespaces, files and network that the containers of a pod share.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use tonic::Status;

use super::{
    Inner, blocking,
    caller::Caller,
    files, internal, now,
    shim::ShimClient,
    spec::{id_maps, limits, reject_selinux_labels},
    state::SandboxRecord,
};
use crate::{
    cni::{Dns, NetworkAttachment, PortMapping, Protocol},
    cri::{
        NamespaceMode, NamespaceOption, PodSandboxConfig, Protocol as CriProtocol,
        UpdatePodSandboxResourcesRequest, UserNamespace,
    },
    shim::protocol::Request,
    spec,
};

impl Inner {
    /// Creates a sandbox; undoes everything if that fails.
    pub(super) async fn run_sandbox(
        self: &Arc<Self>,
        config: PodSandboxConfig,
        handler: String,
        caller: &Caller,
    ) -> Result<String, Status> {
        check(&config, &handler)?;
        let id = self.new_id();
        let parent =
            config.linux.as_ref().map(|linux| linux.cgroup_parent.clone()).unwrap_or_default();
        let cgroup = self.cgroup_path(&parent, &id);
        let sandbox = SandboxRecord {
            id: id.clone(),
            config: Some(config),
            created_at: now(),
            handler,
            cgroup,
            ..SandboxRecord::default()
        };
        match self.set_up_sandbox(sandbox.clone(), caller).await {
            Ok(()) => Ok(id),
            Err(error) => {
                self.tear_down(&sandbox).await;
                Err(error)
            }
        }
    }

    async fn set_up_sandbox(
        self: &Arc<Self>,
        mut sandbox: SandboxRecord,
        caller: &Caller,
    ) -> Result<(), Status> {
        let folder = self.state.sandbox_folder(&sandbox.id);
        let spec = {
            let (inner, sandbox, folder) = (self.clone(), sandbox.clone(), folder.clone());
            let prepare = move || inner.prepare(&sandbox, &folder);
            blocking(move || prepare().map_err(internal("prepare the sandbox"))).await?
        };
        caller.check()?;
        let started = ShimClient::start(&folder, &self.program, &spec).await;
        let started = started.map_err(internal("start the sandbox"))?;
        (sandbox.pid, sandbox.ready) = (started.pid, true);
        caller.check()?;
        if !sandbox.host_network() {
            let added = self.cni.add(&network(&sandbox)).await;
            let added =
                added.map_err(|error| Status::unknown(format!("set up the network: {error}")))?;
            sandbox.ips = added.ips.iter().map(ToString::to_string).collect();
        }
        caller.check()?;
        let (id, inner) = (sandbox.id.clone(), self.clone());
        blocking(move || inner.state.put_sandbox(sandbox).map_err(internal("record the sandbox")))
            .await?;
        let mut child = started.keep().await.map_err(internal("keep the sandbox"))?;
        self.tasks.spawn({
            let stop = self.stop.clone();
            async move {
                // The child is reaped here, or by init after the server has exited.
                tokio::select! { _ = child.wait() => (), () = stop.cancelled() => () }
            }
        });
        self.watch_sandbox(id);
        Ok(())
    }

    /// Creates the files, /dev/shm and cgroup of a sandbox; returns the specification for its shim.
    fn prepare(&self, sandbox: &SandboxRecord, folder: &Path) -> io::Result<spec::SandboxSpec> {
        let config = sandbox.config();
        self.state.begin_sandbox(sandbox)?;
        let options = sandbox.namespaces();
        let host_network = sandbox.host_network();
        let hostname = hostname(config, host_network);
        files::write(folder, &hostname, config.dns_config.as_ref(), host_network)?;
        let own_ipc = options.ipc() != NamespaceMode::Node;
        if own_ipc {
            let shm = folder.join("shm");
            fs::create_dir_all(&shm)?;
            let tree = sys::mount::new_filesystem(
                "tmpfs",
                &[("mode", Some("1777")), ("size", Some("65536k"))],
                sys::mount::NO_SUID | sys::mount::NO_DEV | sys::mount::NO_EXEC,
            )?;
            sys::mount::attach_tree(tree, sys::descriptor::open_path(&shm)?)?;
        }
        if !config.log_directory.is_empty() {
            fs::create_dir_all(&config.log_directory)?;
        }
        let group = self.cgroup(&sandbox.cgroup)?;
        group.create()?;
        if let Some(resources) = config.linux.as_ref().and_then(|linux| linux.overhead.as_ref()) {
            group.apply_limits(&limits(resources))?;
        }
        Ok(spec::SandboxSpec {
            hostname,
            new_network_namespace: !host_network,
            own_ipc,
            own_pid: options.pid() == NamespaceMode::Pod,
            own_uts: !host_network,
            sysctls: sysctls(config, &options),
            cgroup_procs: group.procs_files(),
            id_maps: users(options.userns_options.as_ref()),
            oom_score_adj: -998,
            shim_cgroup: self.shim_group()?,
        })
    }

    /// Updates the resources of a sandbox. The pod's own cgroup belongs to the kubelet; this only limits the sandbox's
    /// cgroup, and updates the record.
    pub(super) fn update_sandbox(
        &self,
        request: UpdatePodSandboxResourcesRequest,
    ) -> Result<(), Status> {
        let sandbox = self.state.sandbox(&request.pod_sandbox_id)?;
        if let Some(overhead) = &request.overhead {
            let group = self.cgroup(&sandbox.cgroup);
            let limited = group.and_then(|group| group.apply_limits(&limits(overhead)));
            limited.map_err(internal("limit the sandbox"))?;
        }
        self.state.change_sandbox(&sandbox.id, |sandbox| {
            let config = sandbox.config.get_or_insert_default();
            let linux = config.linux.get_or_insert_default();
            linux.overhead = request.overhead.or(linux.overhead.take());
            linux.resources = request.resources.or(linux.resources.take());
        });
        self.state.save_sandbox(&sandbox.id);
        Ok(())
    }

    pub(super) async fn stop_sandbox(self: &Arc<Self>, id: &str) -> Result<(), Status> {
        let Ok(sandbox) = self.state.sandbox(id) else { return Ok(()) };
        for container in self.state.containers_of(&sandbox.id) {
            self.stop_container(&container.id, 0).await?;
        }
        if !sandbox.host_network() {
            let removed = self.cni.remove(&network(&sandbox)).await;
            removed.map_err(|error| Status::unknown(format!("remove the network: {error}")))?;
        }
        self.kill_sandbox(&sandbox).await;
        self.sandbox_ended(&sandbox.id);
        Ok(())
    }

    pub(super) async fn remove_sandbox(self: &Arc<Self>, id: &str) -> Result<(), Status> {
        let Ok(sandbox) = self.state.sandbox(id) else { return Ok(()) };
        self.stop_sandbox(&sandbox.id).await?;
        for container in self.state.containers_of(&sandbox.id) {
            self.remove_container(&container.id).await?;
        }
        let inner = self.clone();
        blocking(move || {
            inner.state.forget_sandbox(&sandbox.id);
            inner.remove_files(&sandbox).map_err(internal("remove the sandbox"))
        })
        .await
    }

    /// Undoes a failed creation. Errors are ignored, because the caller gets the original one.
    pub(super) async fn tear_down(self: &Arc<Self>, sandbox: &SandboxRecord) {
        if !sandbox.host_network() {
            let _ = self.cni.remove(&network(sandbox)).await; // it may not have been attached
        }
        self.kill_sandbox(sandbox).await;
        if let Err(error) = self.remove_files(sandbox) {
            tracing::warn!(sandbox = sandbox.id, %error, "cannot clean up a sandbox that failed to start");
        }
    }

    async fn kill_sandbox(self: &Arc<Self>, sandbox: &SandboxRecord) {
        let sent = self.shim(&sandbox.id).request_done(Request::Shutdown).await;
        // A shim that has exited needs no signal; its leftovers are in the cgroup. A shim that does not respond is
        // killed directly.
        let refused = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
        let silent = sent.is_err_and(|error| !refused(&error));
        let group = self.cgroup(&sandbox.cgroup);
        let (inner, id) = (self.clone(), sandbox.id.clone());
        let removed = blocking(move || {
            if silent {
                inner.end_shim(&id);
            }
            let removed = group.and_then(|group| group.kill_all().and_then(|()| group.remove()));
            removed.map_err(internal("remove the cgroup"))
        });
        if let Err(status) = removed.await {
            tracing::warn!(
                sandbox = sandbox.id,
                error = status.message(),
                "cannot clean up a sandbox"
            );
        }
        let parent = sandbox.config().linux.as_ref().map(|linux| linux.cgroup_parent.as_str());
        if parent.unwrap_or_default().is_empty()
            && let Ok(group) = self.cgroup(&self.default_cgroup_parent())
        {
            group.remove_if_empty(); // our own parent cgroup, used without a kubelet
        }
        let shm = self.state.sandbox_folder(&sandbox.id).join("shm");
        while sys::mount::lazy_unmount(&shm).is_ok() {}
    }

    fn remove_files(&self, sandbox: &SandboxRecord) -> io::Result<()> {
        sys::tree::remove(&self.state.sandbox_folder(&sandbox.id))
    }

    /// The cgroup path of a sandbox or container: below the kubelet's cgroup, or below our own if there is no kubelet.
    pub(super) fn cgroup_path(&self, parent: &str, id: &str) -> String {
        if parent.is_empty() {
            return format!("{}/{id}", self.default_cgroup_parent());
        }
        format!("/{}/{id}", parent.trim_matches('/'))
    }

    /// The `cgroup.procs` files of the cgroup for shims.
    fn shim_group(&self) -> io::Result<Vec<PathBuf>> {
        if self.config.shim_cgroup.is_empty() {
            return Ok(Vec::new());
        }
        let group = self.cgroup(&self.config.shim_cgroup)?;
        group.create()?;
        Ok(group.procs_files())
    }

    fn default_cgroup_parent(&self) -> String {
        format!("{}/tiphys", self.config.cgroup_root.trim_end_matches('/'))
    }
}

/// The description of a pod for its network.
pub(super) fn network(sandbox: &SandboxRecord) -> NetworkAttachment {
    let config = sandbox.config();
    let metadata = config.metadata.clone().unwrap_or_default();
    let port = |port: i32| u16::try_from(port).unwrap_or_default();
    let ports = config.port_mappings.iter().map(|one| PortMapping {
        protocol: match one.protocol() {
            CriProtocol::Tcp => Protocol::Tcp,
            CriProtocol::Udp => Protocol::Udp,
            CriProtocol::Sctp => Protocol::Sctp,
        },
        container_port: port(one.container_port),
        host_port: port(one.host_port),
        host_ip: one.host_ip.clone(),
    });
    let dns = config.dns_config.clone().unwrap_or_default();
    NetworkAttachment {
        id: sandbox.id.clone(),
        namespace: metadata.namespace,
        name: metadata.name,
        uid: metadata.uid,
        netns: sandbox.netns(),
        port_mappings: ports.collect(),
        dns: Dns { servers: dns.servers, searches: dns.searches, options: dns.options },
        annotations: config.annotations.clone().into_iter().collect::<BTreeMap<_, _>>(),
    }
}

pub(super) fn hostname(config: &PodSandboxConfig, host_network: bool) -> String {
    if host_network || config.hostname.is_empty() {
        let uname = rustix::system::uname();
        return uname.nodename().to_string_lossy().into_owned();
    }
    config.hostname.clone()
}

fn check(config: &PodSandboxConfig, handler: &str) -> Result<(), Status> {
    let metadata = config.metadata.as_ref();
    if metadata.is_none_or(|metadata| metadata.name.is_empty()) {
        return Err(Status::invalid_argument("sandbox config must include metadata"));
    }
    if !handler.is_empty() && handler != super::NAME {
        return Err(Status::not_found(format!("no runtime for {handler:?} is configured")));
    }
    let linux = config.linux.as_ref().and_then(|linux| linux.security_context.as_ref());
    reject_selinux_labels(linux.and_then(|security| security.selinux_options.as_ref()))?;
    let options = linux.and_then(|security| security.namespace_options.clone()).unwrap_or_default();
    for name in config.linux.iter().flat_map(|linux| linux.sysctls.keys()) {
        check_sysctl(&name.replace('/', "."), &options)?;
    }
    check_users(&options)
}

/// Checks that a sysctl is namespaced and the pod has its own namespace for it.
fn check_sysctl(name: &str, options: &NamespaceOption) -> Result<(), Status> {
    const OF_IPC: [&str; 8] = [
        "kernel.msgmax",
        "kernel.msgmnb",
        "kernel.msgmni",
        "kernel.sem",
        "kernel.shmall",
        "kernel.shmmax",
        "kernel.shmmni",
        "kernel.shm_rmid_forced",
    ];
    let own_network = options.network() != NamespaceMode::Node;
    let own = match name {
        _ if name.starts_with("net.") => own_network,
        "kernel.domainname" => own_network, // as the names of the pod are
        _ if OF_IPC.contains(&name) || name.starts_with("fs.mqueue.") => {
            options.ipc() != NamespaceMode::Node
        }
        _ => false,
    };
    if own {
        return Ok(());
    }
    Err(Status::invalid_argument(format!("sysctl {name:?} is not in a separate kernel namespace")))
}

fn check_users(options: &NamespaceOption) -> Result<(), Status> {
    let Some(users) = &options.userns_options else { return Ok(()) };
    let wrong = |what: &str| Err(Status::invalid_argument(format!("user namespace: {what}")));
    match users.mode() {
        NamespaceMode::Node if users.uids.is_empty() && users.gids.is_empty() => Ok(()),
        NamespaceMode::Node => wrong("mode NODE with mappings"),
        NamespaceMode::Pod => {
            for maps in [&users.uids, &users.gids] {
                let [map] = &maps[..] else { return wrong("exactly one mapping is supported") };
                if map.container_id != 0 || map.length == 0 {
                    return wrong("identifier 0 must be mapped");
                }
            }
            if options.network() == NamespaceMode::Node {
                return wrong("not with the host's network");
            }
            Ok(())
        }
        mode => wrong(&format!("mode {} is not supported", mode.as_str_name())),
    }
}

fn users(options: Option<&UserNamespace>) -> Option<spec::IdMaps> {
    let options = options.filter(|options| options.mode() == NamespaceMode::Pod)?;
    id_maps(&options.uids, &options.gids)
}

/// The sysctls of a pod. In a network namespace of its own, binding low ports and ping need no privileges.
fn sysctls(config: &PodSandboxConfig, namespaces: &NamespaceOption) -> Vec<(String, String)> {
    let mut all: BTreeMap<String, String> = BTreeMap::new();
    if namespaces.network() != NamespaceMode::Node {
        all.insert("net.ipv4.ip_unprivileged_port_start".into(), "0".into());
        let mapped = users(namespaces.userns_options.as_ref());
        let last = mapped.and_then(|maps| maps.gids.first().map(|map| map.length - 1));
        all.insert(
            "net.ipv4.ping_group_range".into(),
            format!("0 {}", last.unwrap_or(2_147_483_647)),
        );
    }
    let asked = config.linux.iter().flat_map(|linux| &linux.sysctls);
    all.extend(asked.map(|(name, value)| (name.replace('/', "."), value.clone())));
    all.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sysctls_of_the_host_are_refused() {
        let own = NamespaceOption::default();
        let host = NamespaceMode::Node.into();
        let shared = NamespaceOption { network: host, ipc: host, ..NamespaceOption::default() };
        for name in ["net.ipv4.ip_forward", "kernel.shmmax", "fs.mqueue.msg_max"] {
            check_sysctl(name, &own).expect(name);
            check_sysctl(name, &shared).expect_err(name);
        }
        for name in ["kernel.core_pattern", "kernel.hostname", "vm.swappiness", "fs.file-max", ""] {
            check_sysctl(name, &own).expect_err(name);
        }
    }
}
