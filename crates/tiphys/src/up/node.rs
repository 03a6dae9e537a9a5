//! `node`: the container runtime, the pod network, the kubelet and the proxy, as root.

mod images;
mod network;
mod runtime;

use std::{collections::BTreeMap, net::IpAddr, path::PathBuf, sync::Arc};

use ::runtime::Context;
use anyhow::{Context as _, Result, anyhow};
use client::{Client, Config};
use tokio_util::sync::CancellationToken;
use tracing::info;

pub(crate) use self::network::Plugged;
pub(crate) use self::{
    images::{export, import},
    runtime::IMAGE,
};
pub(super) use self::{
    network::PodNetwork,
    runtime::{cgroup_root, open_images, settings_of},
};
use super::{
    Layout, Profile, Settings,
    join::{MEMBERSHIP, SERVING},
    membership, protect,
};

pub(crate) async fn run(layout: &Layout) -> Result<()> {
    let settings = Settings::load(&layout.path("config.yaml"))?;
    let network = Arc::new(PodNetwork::new(layout, &settings)?);
    let stop = CancellationToken::new();
    let serving = runtime::serve(layout, network.clone(), stop.clone()).await?;
    info!("the runtime answers");

    let client = connect(layout, &settings, "node.sock", membership::KUBELET)?;
    let cx = Context::new(&client);
    if !settings.disables("kubelet") {
        kubelet::start(&cx, kubelet_config(layout, &settings)?).await.context("kubelet")?;
    }
    let proxied = connect(layout, &settings, "proxy.sock", membership::PROXY)?;
    let proxy_cx = Context::new(&proxied);
    if !settings.disables("proxy") {
        proxy::start(&proxy_cx, proxy_config(&settings)?);
    }
    routes(&proxy_cx, &settings, network.clone());

    crate::commands::asked_to_stop().await?;
    cx.stop().await;
    proxy_cx.stop().await;
    stop.cancel();
    serving.await?;
    Ok(())
}

/// The API through a socket that says who we are; on a node that has joined, as its
/// membership says.
fn connect(layout: &Layout, settings: &Settings, socket: &str, name: &str) -> Result<Client> {
    if settings.disables("control") {
        return membership::client(&layout.path(MEMBERSHIP), name);
    }
    let path: PathBuf = layout.path("run").join(socket);
    Ok(Client::new(Config::unix(&path).manager(name).user_agent(name)))
}

/// Other nodes' pods are behind these nodes.
fn routes(cx: &Context, settings: &Settings, network: Arc<PodNetwork>) {
    let own = settings.node_name.clone();
    let pods = settings.cluster_cidr.split(',').filter_map(|range| range.parse().ok()).collect();
    proxy::watch_routes(cx, &own, pods, move |peers: BTreeMap<String, IpAddr>| {
        network.set_routes(peers);
    });
}

fn kubelet_config(layout: &Layout, settings: &Settings) -> Result<kubelet::Config> {
    let ca = std::fs::read(layout.path("pki/ca.crt")).context("the cluster's authority")?;
    Ok(kubelet::Config {
        node_ips: vec![settings.node_ip],
        root: layout.path("node/kubelet"),
        logs: layout.path("node/logs"),
        static_pods: Some(layout.path("manifests")),
        cluster_dns: vec![settings.dns],
        clients: Some(pki::Trust::new(&pki::certificates(&ca)?)?),
        cgroup_root: cgroup_root(layout),
        kube_reserved: protect::reserved().parse().map_err(anyhow::Error::msg)?,
        pod_max_pids: protect::pod_max_pids(),
        serving: Some(serving(layout, settings)),
        seccomp_default: settings.profile == Profile::Cis,
        port: 0, // any: several clusters may share a machine
        ..kubelet::Config::new(&settings.node_name, layout.path("run/cri.sock")).on_shared_machine()
    })
}

/// The machine that has the cluster's authority signs for itself; a node that has joined was
/// given a certificate.
fn serving(layout: &Layout, settings: &Settings) -> kubelet::Serving {
    let path = |name: &str| layout.path("pki").join(name);
    if settings.disables("control") {
        let (certificate, key) = (path(SERVING[0]), path(SERVING[1]));
        return kubelet::Serving::Files { certificate, key };
    }
    kubelet::Serving::Authority { certificate: path("ca.crt"), key: path("ca.key") }
}

/// The proxy listens where upstream's does, and on another port where that is taken: several
/// clusters may share a machine.
fn proxy_config(settings: &Settings) -> Result<proxy::Config> {
    let listeners = crate::commands::proxy::proxy_listeners(None, None, &settings.node_name);
    let listeners = proxy::Listeners { or_any_port: true, ..listeners };
    Ok(proxy::Config { node: proxy_node_of(settings)?, listeners, set_conntrack: true })
}

fn proxy_node_of(settings: &Settings) -> Result<proxy::Node> {
    let mut node = proxy_node(
        &settings.node_name,
        vec![settings.node_ip],
        std::slice::from_ref(&settings.cluster_cidr),
    )?;
    node.services = vec![settings.service_cidr.parse().map_err(|error| anyhow!("{error}"))?];
    Ok(node)
}

/// A node as the proxy sees it.
pub(crate) fn proxy_node(name: &str, ips: Vec<IpAddr>, cluster: &[String]) -> Result<proxy::Node> {
    let cluster: Result<Vec<_>> =
        cluster.iter().map(|range| range.parse().map_err(|error| anyhow!("{error}"))).collect();
    Ok(proxy::Node {
        name: name.to_owned(),
        zone: String::new(),
        node_port_ips: ips.clone(),
        ips,
        cluster: cluster?,
        services: Vec::new(),
        masquerade_all: false,
        masquerade_bit: 14,
    })
}
