//! `kubelet`.

use std::{ffi::OsString, fs, net::IpAddr, path::PathBuf, process::ExitCode};

use anyhow::{Context as _, Result};
use clap::Parser;
use client::{Client, Kubeconfig};
use kubelet::Config;
use runtime::Context;

use super::{asked_to_stop, parse, run_async};

#[derive(Parser)]
struct Arguments {
    /// How to reach the API server, and as whom; without it, static pods only.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The name of this node.
    #[arg(long)]
    hostname_override: Option<String>,
    /// The address of this node.
    #[arg(long)]
    node_ip: Option<IpAddr>,
    /// The socket of the container runtime.
    #[arg(long, default_value = "unix:///run/containerd/containerd.sock")]
    container_runtime_endpoint: String,
    /// Where pods' files are kept.
    #[arg(long, default_value = "/var/lib/kubelet")]
    root_dir: PathBuf,
    /// Where containers' logs are kept.
    #[arg(long, default_value = "/var/log/pods")]
    pod_logs_dir: PathBuf,
    /// A folder of pods to run whatever the API says.
    #[arg(long, value_name = "DIR")]
    pod_manifest_path: Option<PathBuf>,
    /// An address to get such pods from.
    #[arg(long, value_name = "URL")]
    manifest_url: Option<String>,
    /// Whose client certificates are believed.
    #[arg(long, value_name = "FILE")]
    client_ca_file: Option<PathBuf>,
    /// The addresses of the cluster's name servers.
    #[arg(long, value_delimiter = ',')]
    cluster_dns: Vec<IpAddr>,
    /// The cluster's domain.
    #[arg(long, default_value = "cluster.local")]
    cluster_domain: String,
    /// The group below which pods' groups are made.
    #[arg(long, default_value = "")]
    cgroup_root: String,
    /// The port to serve on.
    #[arg(long, default_value_t = 10250)]
    port: u16,
    /// How many pods run here at the most.
    #[arg(long, default_value_t = 110)]
    max_pods: u32,
}

pub(super) fn run(args: Vec<OsString>) -> ExitCode {
    let flags = match parse::<Arguments>("kubelet", args) {
        Ok(flags) => flags,
        Err(code) => return code,
    };
    run_async("kubelet", async move {
        let client = match &flags.kubeconfig {
            Some(path) => Client::new(
                Kubeconfig::read(path)?.config(None)?.manager("kubelet").user_agent("kubelet"),
            ),
            None => Client::new(client::Config::unix(std::path::Path::new("/nonexistent"))),
        };
        let cx = Context::new(&client);
        kubelet::start(&cx, config(flags)?).await?;
        asked_to_stop().await?;
        cx.stop().await;
        Ok(())
    })
}

fn config(flags: Arguments) -> Result<Config> {
    let name = match flags.hostname_override {
        Some(name) => name,
        None => fs::read_to_string("/proc/sys/kernel/hostname")?.trim().to_lowercase(),
    };
    let socket = &flags.container_runtime_endpoint;
    let socket = socket.strip_prefix("unix://").unwrap_or(socket);
    let clients = match &flags.client_ca_file {
        Some(path) => {
            let pem =
                fs::read(path).with_context(|| format!("--client-ca-file {}", path.display()))?;
            Some(pki::Trust::new(&pki::certificates(&pem)?)?)
        }
        None => None,
    };
    Ok(Config {
        node_ips: flags.node_ip.into_iter().collect(),
        root: flags.root_dir,
        logs: flags.pod_logs_dir,
        static_pods: flags.pod_manifest_path,
        manifest_url: flags.manifest_url,
        cluster_dns: flags.cluster_dns,
        cluster_domain: flags.cluster_domain,
        cgroup_root: flags.cgroup_root,
        clients,
        port: flags.port,
        max_pods: flags.max_pods,
        standalone: flags.kubeconfig.is_none(),
        ..Config::new(&name, socket)
    })
}
