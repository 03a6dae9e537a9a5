//! `cri`: the container runtime as a separate process, for any kubelet.

use std::{ffi::OsString, fs, path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

use anyhow::{Context as _, Result, anyhow, ensure};
use clap::Parser;
use container::{
    Config, Server,
    cni::Cni,
    image::{ImageStore, RegistryConfig},
};
use network::{BuiltinNetwork, CniExec, CniExecConfig};
use tokio::net::UnixListener;
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::{parse, run_async, wait_for_shutdown_signal};
use crate::up::CniAdapter;

/// Timeout of a CNI plugin.
const PLUGIN_TIMEOUT: Duration = Duration::from_mins(1);
const MTU: u32 = 1500;

#[derive(Parser)]
pub(super) struct Arguments {
    /// Where images and containers are kept.
    #[arg(long, default_value = "/var/lib/tiphys-cri")]
    root: PathBuf,
    /// The socket to serve on.
    #[arg(long, default_value = "unix:///run/tiphys-cri.sock")]
    listen: String,
    /// The group above containers whose pods name none.
    #[arg(long, default_value = "")]
    cgroup_root: String,
    /// The most processes of a container; -1: no limit but that of its pod.
    #[arg(long, default_value_t = 16384, allow_negative_numbers = true)]
    pids_limit: i64,
    /// Where a registry's images are asked for: HOST=URL; `*` stands for every host.
    #[arg(long, value_name = "HOST=URL")]
    registry: Vec<String>,
    /// The folder of CNI configurations; the first by name counts.
    #[arg(long, default_value = "/etc/cni/net.d")]
    cni_conf_dir: PathBuf,
    /// Folders of CNI plugins, in search order.
    #[arg(long, default_value = "/opt/cni/bin", value_delimiter = ',')]
    cni_bin_dir: Vec<PathBuf>,
    /// The range of this node's pods: our own network instead of CNI plugins.
    #[arg(long, value_name = "RANGE")]
    pod_cidr: Option<String>,
}

pub(super) fn run(args: Vec<OsString>) -> ExitCode {
    match parse::<Arguments>("cri", args) {
        Ok(flags) => run_async("cri", serve(flags)),
        Err(code) => code,
    }
}

async fn serve(flags: Arguments) -> Result<()> {
    ensure!(rustix::process::geteuid().is_root(), "tiphys cri needs root: it makes containers");
    fs::create_dir_all(&flags.root)
        .with_context(|| format!("cannot make {}", flags.root.display()))?;
    let registries = RegistryConfig::parse(flags.registry.iter().map(String::as_str))?;
    let store = ImageStore::open(&flags.root.join("images"), registries)?;
    let config = Config {
        root: flags.root.join("runtime"),
        cgroup_root: flags.cgroup_root.clone(),
        owns_cgroup_root: false, // other runtimes may share it
        shim_cgroup: String::new(),
        pids_limit: Some(flags.pids_limit).filter(|limit| *limit > 0),
        shim: std::env::current_exe()?,
        shim_args: vec!["shim".into()],
        streaming: ([127, 0, 0, 1], 0).into(),
    };
    let server = Server::build(config, network(&flags)?, store).await?;
    let socket = PathBuf::from(flags.listen.strip_prefix("unix://").unwrap_or(&flags.listen));
    let _ = fs::remove_file(&socket); // left by an earlier run
    let listener = UnixListener::bind(&socket)
        .with_context(|| format!("cannot listen on {}", socket.display()))?;
    info!(socket = %socket.display(), "serving");
    let stop = CancellationToken::new();
    let ended = async {
        wait_for_shutdown_signal().await?;
        stop.cancel();
        anyhow::Ok(())
    };
    let (served, asked) = tokio::join!(server.serve(listener, stop.clone()), ended);
    served?;
    asked
}

fn network(flags: &Arguments) -> Result<Arc<dyn Cni>> {
    let directory = flags.root.join("network");
    fs::create_dir_all(&directory)?;
    let Some(range) = &flags.pod_cidr else {
        return Ok(Arc::new(CniAdapter(CniExec::new(CniExecConfig {
            conf_dir: flags.cni_conf_dir.clone(),
            bin_dirs: flags.cni_bin_dir.clone(),
            state_dir: directory,
            plugin_timeout: PLUGIN_TIMEOUT,
            parent_cgroup: flags.cgroup_root.clone(),
        }))));
    };
    let range = range.parse().map_err(|error| anyhow!("--pod-cidr {range}: {error}"))?;
    let config = network::BuiltinConfig {
        directory,
        pod_cidrs: vec![range],
        cluster_cidrs: vec![range],
        mtu: MTU,
    };
    Ok(Arc::new(CniAdapter(BuiltinNetwork::start(config)?)))
}
