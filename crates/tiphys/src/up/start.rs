//! `up`: prepares the host, starts the supervisor, waits until the node is ready, and prints the next steps. On a
//! running cluster, applies changed settings.

use std::{
    fs,
    io::Write,
    net::IpAddr,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    pin::pin,
    process::Command,
};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use container::image::RegistryConfig;

use super::{
    ClusterConfig, DataDir, Place, Profile, check, clusters, components,
    finish_startup::{self, Supervisor},
    join, machine,
    progress::{self, Progress},
    settings::ConfigOverrides,
    status, supervise,
};

const COMPONENTS: [&str; 5] = ["scheduler", "controllers", "proxy", "dns", "kubelet"];

#[derive(Args, Debug)]
pub(crate) struct UpArgs {
    #[command(flatten)]
    pub(crate) place: Place,
    /// Write the administrator's kubeconfig to this file too.
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The port of the API server; the first free one from 6443 on.
    #[arg(long)]
    pub(crate) port: Option<u16>,
    /// The name of this machine's node.
    #[arg(long)]
    pub(crate) node_name: Option<String>,
    /// The address that others reach this machine at.
    #[arg(long)]
    pub(crate) node_ip: Option<IpAddr>,
    /// The range of pods' addresses.
    #[arg(long)]
    pub(crate) cluster_cidr: Option<String>,
    /// The range of services' addresses.
    #[arg(long)]
    pub(crate) service_cluster_ip_range: Option<String>,
    /// The range of node ports.
    #[arg(long, value_name = "FROM-TO")]
    pub(crate) service_node_port_range: Option<String>,
    /// Parts to leave out: scheduler, controllers, proxy, dns, kubelet.
    #[arg(long, value_delimiter = ',')]
    pub(crate) disable: Option<Vec<String>>,
    /// Where images of a registry are pulled from: HOST=URL; `*` stands for every host.
    #[arg(long, value_name = "HOST=URL")]
    pub(crate) registry: Option<Vec<String>>,
    /// The URLs of an etcd that keeps the data; http only.
    #[arg(long, value_delimiter = ',', value_name = "URLS")]
    pub(crate) etcd_servers: Option<Vec<String>>,
    /// Parts that something else brings: network-policy, ingress, load-balancer, volume-attachment,
    /// dynamic-resources, workload-scheduling, storage-migration. Objects for them are taken
    /// without a warning.
    #[arg(long, value_delimiter = ',', value_name = "PARTS")]
    pub(crate) external: Option<Vec<String>>,
    /// How far the cluster is hardened: `cis` passes the CIS benchmark's checks.
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<Profile>,
    /// A further name or address in the API server's certificate.
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    pub(crate) tls_san: Option<Vec<String>>,
    /// A flag for the API server: NAME=VALUE. Files that it names are copied.
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) kube_apiserver_arg: Option<Vec<String>>,
    /// A flag for the controllers: NAME=VALUE.
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) kube_controller_manager_arg: Option<Vec<String>>,
    /// A flag for the scheduler: NAME=VALUE.
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) kube_scheduler_arg: Option<Vec<String>>,
    /// A flag for the kubelet: NAME=VALUE.
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) kubelet_arg: Option<Vec<String>>,
    /// A flag for kube-proxy: NAME=VALUE.
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) kube_proxy_arg: Option<Vec<String>>,
    /// Run a small web application and show where it answers.
    #[arg(long)]
    pub(crate) demo: bool,
    /// Stay in the foreground, for service managers.
    #[arg(long)]
    pub(crate) foreground: bool,
}

/// Starts a cluster on this host, or applies changed settings to a running one.
pub(crate) async fn run(up: UpArgs) -> Result<()> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "tiphys up needs root to create containers and networks"
    );
    let overrides = up.overrides()?;
    check::require_all()?;
    let layout = up.place.layout()?;
    if join::is_joined(&layout) {
        return join::start_again(&layout, &up).await;
    }
    if let Some(path) = &up.kubeconfig {
        check_kubeconfig(path)?;
    }
    let applied = ClusterConfig::applied(&layout);
    let settings = ClusterConfig::resolve(&layout, applied.as_ref(), &overrides)?;
    let prepared = components::prepare(&layout, settings)?;
    let settings = prepared.settings.clone();
    let running = status::pid(&layout.path("run/supervisor.pid"));
    let executable = layout.executable()?;
    if let Some(pid) = running {
        let dir = layout.dir().display();
        ensure!(!up.foreground, "a cluster already runs on {dir} (pid {pid})");
        if applied.as_ref() == Some(&settings) && is_program(pid, &executable) {
            let text =
                format!("the cluster already runs on {dir} with these settings (pid {pid})\n");
            progress::print(&text);
            return finish_startup::again(&up, &layout, &settings).await;
        }
        ensure!(
            is_program(pid, &executable) || !status::in_foreground(pid),
            "the cluster on {dir} (pid {pid}) runs in the foreground with another version of \
             tiphys: restart the service that started it"
        );
    }
    if running.is_none() {
        supervise::stop_all(&layout).await; // otherwise processes that a dead supervisor left would answer
    }
    if running.is_none() || applied.is_none_or(|applied| applied.port != settings.port) {
        machine::require_free_port(settings.port)?;
    }
    prepared.keep(&layout)?;
    clusters::note(&layout);
    let mut progress = Progress::new();
    if let Some(pid) = running {
        progress.update("applying the changed settings; pods keep running");
        if is_program(pid, &executable) {
            finish_startup::reload(&layout, pid).await?;
            return finish_startup::finish_startup(&up, &layout, &settings, progress, None).await;
        }
        finish_startup::stop_supervisor(&layout).await?;
        supervise::stop_all(&layout).await;
    }
    if up.foreground {
        let settled = finish_startup::finish_startup(&up, &layout, &settings, progress, None);
        return in_foreground(&executable, &layout, settled).await;
    }
    progress.update("starting the supervisor");
    let supervisor = Supervisor::launch(&layout, &executable)?;
    let settled =
        finish_startup::finish_startup(&up, &layout, &settings, progress, Some(supervisor)).await;
    if settled.is_err() {
        let _ = finish_startup::stop_supervisor(&layout).await; // nothing keeps running after a failure
        supervise::stop_all(&layout).await;
    }
    settled
}

/// Runs the supervisor in this process, and notifies the service manager when the cluster is up. If it does not
/// become ready, the processes keep running: the service manager decides what to do.
pub(super) async fn in_foreground(
    executable: &Path,
    layout: &DataDir,
    settled: impl Future<Output = Result<()>>,
) -> Result<()> {
    if std::env::current_exe()? != executable {
        // continues as the copy of the executable in the data directory
        let error = Command::new(executable).args(std::env::args_os().skip(1)).exec();
        return Err(error).with_context(|| format!("cannot run {}", executable.display()));
    }
    let mut supervised = pin!(supervise::run(layout));
    tokio::select! {
        ended = &mut supervised => return ended,
        settled = settled => if let Err(error) = settled {
            tracing::error!("{error:#}");
        },
    }
    supervised.await
}

impl UpArgs {
    /// The settings that the flags override, validated.
    fn overrides(&self) -> Result<ConfigOverrides> {
        for part in self.disable.iter().flatten().filter(|part| !part.is_empty()) {
            ensure!(
                COMPONENTS.contains(&part.as_str()),
                "--disable {part:?}: the parts are {}",
                COMPONENTS.join(", ")
            );
        }
        for part in self.external.iter().flatten().filter(|part| !part.is_empty()) {
            let known: Vec<&str> = api::parts::ALL.iter().map(|part| part.name).collect();
            ensure!(
                known.contains(&part.as_str()),
                "--external {part:?}: the parts are {}",
                known.join(", ")
            );
        }
        for url in self.etcd_servers.iter().flatten().filter(|url| !url.is_empty()) {
            ensure!(
                url.starts_with("http://"),
                "--etcd-servers {url}: only http:// here; for TLS run kube-apiserver itself"
            );
        }
        let registries = self.registry.iter().flatten().filter(|text| !text.is_empty());
        RegistryConfig::parse(registries.map(String::as_str)).context("--registry")?;
        Ok(ConfigOverrides {
            node_name: self.node_name.clone(),
            node_ip: self.node_ip,
            port: self.port,
            cluster_cidr: self.cluster_cidr.clone(),
            service_cidr: self.service_cluster_ip_range.clone(),
            node_ports: self.service_node_port_range.clone(),
            disable: self.disable.clone(),
            registries: self.registry.clone(),
            etcd: self.etcd_servers.clone(),
            external: self.external.clone(),
            profile: self.profile,
            tls_sans: self.tls_san.clone(),
            api_server: self.kube_apiserver_arg.clone(),
            controller_manager: self.kube_controller_manager_arg.clone(),
            scheduler: self.kube_scheduler_arg.clone(),
            kubelet: self.kubelet_arg.clone(),
            proxy: self.kube_proxy_arg.clone(),
        })
    }
}

/// Fails if the kubeconfig could not be written at the end, before anything is started.
fn check_kubeconfig(path: &Path) -> Result<()> {
    let shown = path.display();
    ensure!(!path.is_dir(), "--kubeconfig {shown}: this is a folder; name a file");
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    match fs::metadata(parent) {
        Ok(about) if about.is_dir() => Ok(()),
        Ok(_) => bail!("--kubeconfig {shown}: {} is not a folder", parent.display()),
        Err(error) => bail!(
            "--kubeconfig {shown}: the folder {} cannot be used: {error}; make it, or name another file",
            parent.display()
        ),
    }
}

/// Copies the administrator's kubeconfig to a file.
pub(super) fn copy_kubeconfig(layout: &DataDir, to: &Path) -> Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let content = fs::read(layout.path("kubeconfig/admin"))?;
    let mut options = fs::OpenOptions::new();
    let file = options.create(true).truncate(true).write(true).mode(0o600).open(to);
    file.and_then(|mut file| file.write_all(&content))
        .with_context(|| format!("--kubeconfig {}: cannot write it", to.display()))
}

/// Whether a process runs this executable.
fn is_program(pid: i32, executable: &Path) -> bool {
    fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|path| path == executable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubeconfig_that_cannot_be_written_is_refused_before_anything_starts() {
        let folder = tempfile::tempdir().unwrap();
        check_kubeconfig(&folder.path().join("config")).unwrap();
        check_kubeconfig(Path::new("config")).unwrap();
        let error = check_kubeconfig(folder.path()).unwrap_err().to_string();
        assert!(error.contains("this is a folder"), "{error}");
        let missing = folder.path().join("none/config");
        let error = check_kubeconfig(&missing).unwrap_err().to_string();
        assert!(error.contains("none cannot be used: No such file"), "{error}");
    }
}
