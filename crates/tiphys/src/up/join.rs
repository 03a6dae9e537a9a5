//! The command `join`: the same supervisor and the same `node`, without `control`:
//! the API server is another machine's.

use std::{fs, net::IpAddr, path::PathBuf};

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use container::image::Registries;
use tokio::time::Instant;

use super::{
    Layout, Settings, check,
    layout::{DEFAULT, write_private},
    machine,
    membership::{self, KUBELET, Membership},
    start::{launch, node_ready, refuse_second},
    supervise,
};

/// Where a joined node keeps its membership.
pub(super) const MEMBERSHIP: &str = "kubeconfig/node";

/// What its kubelet's port shows, below `pki`: the certificate and its key.
pub(super) const SERVING: [&str; 2] = ["kubelet.crt", "kubelet.key"];

#[derive(Args, Debug)]
pub(crate) struct Join {
    /// What `tiphys kubeconfig --node NAME` printed where the cluster is.
    #[arg(long, value_name = "FILE")]
    kubeconfig: PathBuf,
    /// Where everything of this node is kept.
    #[arg(long, default_value = DEFAULT)]
    data_dir: PathBuf,
    /// The address that the other nodes reach this one at.
    #[arg(long)]
    node_ip: Option<IpAddr>,
    /// Where a registry's images are asked for: HOST=URL; `*` stands for every host.
    #[arg(long, value_name = "HOST=URL")]
    registry: Vec<String>,
}

pub(crate) async fn run(join: Join) -> Result<()> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "tiphys join needs root: it makes containers and networks"
    );
    check::demand()?;
    Registries::parse(join.registry.iter().map(String::as_str))?;
    let membership = Membership::read(&join.kubeconfig)?;
    let dir = std::path::absolute(&join.data_dir)?;
    let layout = Layout::new(&dir);
    fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    refuse_second(&layout)?;
    let settings = settings(&membership, &join)?;
    settings.keep(&layout.path("config.yaml"))?;
    layout.make(settings.user)?;
    write_private(&layout.path("pki/ca.crt"), &membership.authorities)?;
    for (name, content) in SERVING.iter().zip(&membership.serving) {
        write_private(&layout.path("pki").join(name), content.as_bytes())?;
    }
    write_private(&layout.path(MEMBERSHIP), &fs::read(&join.kubeconfig)?)?;
    let executable = layout.executable()?;
    let began = Instant::now();
    supervise::end_all(&layout).await; // what a dead supervisor left
    launch(&layout, &executable)?;
    let client = membership::client(&layout.path(MEMBERSHIP), KUBELET)?;
    node_ready(&layout, &client, &settings.node_name, began).await?;
    println!("{} has joined ({:.1} s)", settings.node_name, began.elapsed().as_secs_f64());
    Ok(())
}

fn settings(membership: &Membership, join: &Join) -> Result<Settings> {
    let address = join.node_ip.or_else(machine::address);
    Ok(Settings {
        node_name: membership.node_name.clone(),
        node_ip: address.context("this machine has no address to be reached at: --node-ip")?,
        port: 0,
        cluster_cidr: membership.cluster_cidr.clone(),
        service_cidr: membership.service_cidr.clone(),
        dns: membership.dns,
        user: machine::user(),
        disable: vec!["control".to_owned(), "dns".to_owned()],
        registries: join.registry.clone(),
        etcd: Vec::new(),
        external: Vec::new(),
        profile: membership.profile,
    })
}
