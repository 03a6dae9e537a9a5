//! `node`: the container runtime, the pod network, the kubelet and kube-proxy in one process, as root.

mod images;
mod network;
mod runtime;

use std::{collections::BTreeMap, net::IpAddr, path::PathBuf, pin::pin, sync::Arc, time::Duration};

use ::runtime::Context;
use anyhow::{Context as _, Result, anyhow};
use client::{Client, Config};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;
use tracing::info;

pub(crate) use self::network::CniAdapter;
pub(crate) use self::{
    images::{export, import},
    runtime::IMAGE,
};
pub(super) use self::{network::DeferredPodNetwork, runtime::cgroup_root};
use super::{
    ClusterConfig, DataDir, Profile, bootstrap, components,
    join::{MEMBERSHIP, SERVING},
    membership, node_reserve,
};

/// How long to wait for the cluster's CA. `control` takes that long to create it only if it cannot start.
const AUTHORITY: Duration = Duration::from_secs(30);
/// Directory in which log collectors expect the logs of containers.
pub(super) const POD_LOGS: &str = "/var/log/pods";

/// Runs the node until it is stopped.
pub(crate) async fn run(layout: &DataDir) -> Result<()> {
    let mut end_pods = signal(SignalKind::user_defined1())?; // first: unhandled, it would end the process
    let settings = ClusterConfig::load(&layout.path("config.yaml"))?;
    let network = Arc::new(DeferredPodNetwork::new(layout, &settings)?);
    let stop = CancellationToken::new();
    let serving = runtime::serve(layout, network.clone(), stop.clone()).await?;
    info!("the container runtime is ready");

    let client = connect(layout, &settings, "node.sock", membership::KUBELET)?;
    let cx = Context::new(&client);
    let mut kubelet = None;
    if !settings.is_disabled("kubelet") {
        authority_is_there(layout).await;
        let started = kubelet::start(&cx, kubelet_config(layout, &settings)?).await;
        kubelet = Some(started.context("kubelet")?);
    }
    let proxied = connect(layout, &settings, "proxy.sock", membership::PROXY)?;
    let proxy_cx = Context::new(&proxied);
    if !settings.is_disabled("proxy") {
        proxy::start(&proxy_cx, proxy_config(&settings)?);
    }
    routes(&proxy_cx, &settings, network.clone());
    if settings.is_disabled("control") {
        bootstrap::keep_renewed(&cx, layout, &settings.node_name, vec![client, proxied]);
    }

    let mut stopped = pin!(crate::commands::wait_for_shutdown_signal());
    loop {
        tokio::select! {
            stopped = &mut stopped => break stopped?,
            _ = end_pods.recv() => kubelet.iter().for_each(kubelet::Kubelet::end_pods),
        }
    }
    cx.stop().await;
    proxy_cx.stop().await;
    stop.cancel();
    serving.await?;
    Ok(())
}

/// Waits for the cluster's CA, which `control` creates while this process starts for the first time.
async fn authority_is_there(layout: &DataDir) {
    let (path, began) = (layout.path("pki/ca.crt"), Instant::now());
    while !path.exists() && began.elapsed() < AUTHORITY {
        sleep(Duration::from_millis(20)).await;
    }
}

/// A client of the API server, over the Unix socket whose connections are authenticated as this component; on a node
/// that has joined, with the credentials of its membership file.
fn connect(layout: &DataDir, settings: &ClusterConfig, socket: &str, name: &str) -> Result<Client> {
    if settings.is_disabled("control") {
        return membership::client(&layout.path(MEMBERSHIP), name);
    }
    let path: PathBuf = layout.path("run").join(socket);
    Ok(Client::new(Config::unix(&path).manager(name).user_agent(name)))
}

/// Keeps routes to the pod CIDRs of other nodes.
fn routes(cx: &Context, settings: &ClusterConfig, network: Arc<DeferredPodNetwork>) {
    let own = settings.node_name.clone();
    let pods = settings.cluster_cidr.split(',').filter_map(|range| range.parse().ok()).collect();
    proxy::watch_pod_routes(cx, &own, pods, move |peers: BTreeMap<String, IpAddr>| {
        network.set_routes(peers);
    });
}

fn kubelet_config(layout: &DataDir, settings: &ClusterConfig) -> Result<kubelet::Config> {
    let ca = std::fs::read(layout.path("pki/ca.crt")).context("the cluster's authority")?;
    let flags = kubelet_flags(layout, settings)?;
    Ok(kubelet::Config {
        client_ca: Some(
            flags.client_ca.unwrap_or(pki::ClientCaVerifier::new(&pki::certificates(&ca)?)?),
        ),
        serving_cert: Some(flags.serving_cert.unwrap_or_else(|| serving(layout, settings))),
        standalone: false,
        port_may_differ: true, // several clusters may share a host
        ..flags
    })
}

/// The kubelet's configuration from our flags and those in the settings.
pub(super) fn kubelet_flags(layout: &DataDir, settings: &ClusterConfig) -> Result<kubelet::Config> {
    let below = |name: &str| layout.path(name).display().to_string();
    let ours = vec![
        ("hostname-override", settings.node_name.clone()),
        ("node-ip", settings.node_ip.to_string()),
        ("container-runtime-endpoint", format!("unix://{}", below("run/cri.sock"))),
        ("root-dir", below("node/kubelet")),
        ("pod-logs-dir", POD_LOGS.to_owned()),
        ("pod-manifest-path", below("manifests")),
        ("cluster-dns", settings.dns.to_string()),
        ("cgroup-root", cgroup_root(layout)),
        ("kube-reserved", node_reserve::reserved()),
        ("pod-max-pids", node_reserve::pod_max_pids().to_string()),
        ("seccomp-default", (settings.profile == Profile::Cis).to_string()),
        // a host may do other work: how full its disk is, is not the kubelet's concern
        ("eviction-hard", kubelet::eviction::RELAXED_HARD_THRESHOLDS.to_owned()),
        ("image-gc-high-threshold", "100".to_owned()),
    ];
    components::kubelet(&ours, &settings.args)
}

/// The kubelet's serving certificate. The host with the cluster's CA issues its own; a node that has joined was given
/// one.
fn serving(layout: &DataDir, settings: &ClusterConfig) -> kubelet::Serving {
    let path = |name: &str| layout.path("pki").join(name);
    if settings.is_disabled("control") {
        let (certificate, key) = (path(SERVING[0]), path(SERVING[1]));
        return kubelet::Serving::Files { certificate, key };
    }
    kubelet::Serving::Authority { certificate: path("ca.crt"), key: path("ca.key") }
}

/// The configuration of kube-proxy. It listens on upstream's ports, or on others where those are in use: several
/// clusters may share a host.
fn proxy_config(settings: &ClusterConfig) -> Result<proxy::Config> {
    let flags = components::kube_proxy(&settings.args)?;
    let listeners = proxy::Listeners { or_any_port: true, ..flags.listeners(&settings.node_name) };
    Ok(proxy::Config { node: proxy_node_of(settings)?, listeners, set_conntrack: true })
}

fn proxy_node_of(settings: &ClusterConfig) -> Result<proxy::NodeConfig> {
    let mut node = proxy_node(
        &settings.node_name,
        vec![settings.node_ip],
        std::slice::from_ref(&settings.cluster_cidr),
    )?;
    node.table.clone_from(&settings.proxy_table);
    node.service_cidrs = vec![settings.service_cidr.parse().map_err(|error| anyhow!("{error}"))?];
    Ok(node)
}

/// A node's configuration for kube-proxy.
pub(crate) fn proxy_node(
    name: &str,
    ips: Vec<IpAddr>,
    cluster: &[String],
) -> Result<proxy::NodeConfig> {
    let cluster: Result<Vec<_>> =
        cluster.iter().map(|range| range.parse().map_err(|error| anyhow!("{error}"))).collect();
    Ok(proxy::NodeConfig {
        name: name.to_owned(),
        zone: String::new(),
        node_port_ips: ips.clone(),
        ips,
        cluster_cidrs: cluster?,
        service_cidrs: Vec::new(),
        masquerade_all: false,
        masquerade_bit: 14,
        table: proxy::TABLE.to_owned(),
    })
}
