//! `join`: starts the same supervisor and the same `node` process as `up`, without `control`: the API server is on
//! another host.

use std::{fs, net::IpAddr, path::PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use container::image::RegistryConfig;

use super::{
    ClusterConfig, DataDir, Place, bootstrap,
    bootstrap::{BootstrapToken, Membership},
    check, clusters,
    finish_startup::{self, Supervisor},
    layout::write_private,
    machine,
    membership::{self, JoinConfig, KUBELET},
    settings::ComponentArgs,
    start::{UpArgs, in_foreground},
    status, supervise,
};

/// Path below the data directory of a joined node's membership file.
pub(super) const MEMBERSHIP: &str = "kubeconfig/node";

/// Files below `pki` with the serving certificate of a joined node's kubelet, and its key.
pub(super) const SERVING: [&str; 2] = ["kubelet.crt", "kubelet.key"];

#[derive(Args, Debug)]
pub(crate) struct JoinArgs {
    /// The address of the API server: HOST:PORT, as `tiphys token create` prints it.
    #[arg(value_name = "HOST:PORT", requires = "token", required_unless_present = "kubeconfig")]
    server: Option<String>,
    /// A bootstrap token of `tiphys token create`.
    #[arg(long, requires_all = ["server", "ca_hash"])]
    token: Option<BootstrapToken>,
    /// The hash of the public key of the cluster's CA: sha256:DIGITS.
    #[arg(long, value_name = "HASH", requires = "token", value_parser = ca_hash)]
    ca_hash: Vec<String>,
    /// The node's name; the host's.
    #[arg(long, requires = "token")]
    node_name: Option<String>,
    /// Instead of a token: the output of `tiphys kubeconfig --node NAME`, from where the cluster is.
    #[arg(long, value_name = "FILE", conflicts_with = "server")]
    kubeconfig: Option<PathBuf>,
    #[command(flatten)]
    place: Place,
    /// The address that the other nodes reach this one at.
    #[arg(long)]
    node_ip: Option<IpAddr>,
    /// Where images of a registry are pulled from: HOST=URL; `*` stands for every host.
    #[arg(long, value_name = "HOST=URL")]
    registry: Vec<String>,
    /// A flag for the kubelet: NAME=VALUE.
    #[arg(long, value_name = "NAME=VALUE")]
    kubelet_arg: Vec<String>,
    /// Stay in the foreground, for service managers.
    #[arg(long)]
    foreground: bool,
}

/// Joins this host to a cluster as a node.
pub(crate) async fn run(join: JoinArgs) -> Result<()> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "tiphys join needs root: it makes containers and networks"
    );
    check::require_all()?;
    RegistryConfig::parse(join.registry.iter().map(String::as_str)).context("--registry")?;
    let layout = join.place.layout()?;
    let dir = layout.dir().display();
    let config = layout.path("config.yaml");
    if config.exists() && !is_joined(&layout) {
        bail!("{dir} holds a cluster of its own: join with another --data-dir or --name");
    }
    if let Some(pid) = status::pid(&layout.path("run/supervisor.pid")) {
        bail!("a node already runs on {dir} (pid {pid}): see `tiphys status`");
    }
    let given = membership(&layout, &join).await?;
    let membership = JoinConfig::parse(&given.file)
        .context("the file of --kubeconfig is not of `tiphys kubeconfig --node NAME`")?;
    layout.make_folder()?;
    let settings = settings(&layout, &membership, &join)?;
    super::node::kubelet_flags(&layout, &settings).context("--kubelet-arg")?;
    settings.save(&config)?;
    layout.create(settings.control_plane_uid)?;
    write_private(&layout.path("pki/ca.crt"), &membership.ca_bundle)?;
    for (name, content) in SERVING.iter().zip(&membership.serving) {
        write_private(&layout.path("pki").join(name), content.as_bytes())?;
    }
    if !given.certificate.is_empty() {
        write_private(&layout.path(bootstrap::CERTIFICATE), given.certificate.as_bytes())?;
    }
    write_private(&layout.path(MEMBERSHIP), given.file.as_bytes())?;
    start(&layout, &settings, join.foreground).await
}

/// The membership file: given, with its certificates in it, or from the cluster by bootstrap token.
async fn membership(layout: &DataDir, join: &JoinArgs) -> Result<Membership> {
    if let Some(path) = &join.kubeconfig {
        let file =
            fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        return Ok(Membership { file, certificate: String::new() });
    }
    let (Some(server), Some(token)) = (&join.server, &join.token) else {
        bail!("give HOST:PORT with --token and --ca-hash, or --kubeconfig FILE");
    };
    let node = match &join.node_name {
        Some(name) => name.clone(),
        None => machine::host_name()?,
    };
    machine::refuse_reserved(&node)?;
    bootstrap::membership(layout, &node, server, token, &join.ca_hash).await
}

fn ca_hash(text: &str) -> Result<String> {
    let digits = text.strip_prefix("sha256:").unwrap_or_default();
    ensure!(
        digits.len() == 64 && digits.bytes().all(|digit| digit.is_ascii_hexdigit()),
        "a hash is sha256: and 64 hexadecimal digits"
    );
    Ok(text.to_owned())
}

/// Whether the data directory belongs to a node that has joined another host's cluster.
pub(super) fn is_joined(layout: &DataDir) -> bool {
    ClusterConfig::load(&layout.path("config.yaml")).is_ok_and(|settings| settings.is_joined())
}

/// `up` on the data directory of a node that has joined: starts the node again.
pub(super) async fn start_again(layout: &DataDir, up: &UpArgs) -> Result<()> {
    let dir = layout.dir().display();
    let refused = [
        ("--port", up.port.is_some()),
        ("--node-name", up.node_name.is_some()),
        ("--cluster-cidr", up.cluster_cidr.is_some()),
        ("--service-cluster-ip-range", up.service_cluster_ip_range.is_some()),
        ("--etcd-servers", up.etcd_servers.is_some()),
        ("--profile", up.profile.is_some()),
        ("--tls-san", up.tls_san.is_some()),
        ("--kube-apiserver-arg", up.kube_apiserver_arg.is_some()),
        ("--demo", up.demo),
    ];
    if let Some((flag, _)) = refused.iter().find(|(_, given)| *given) {
        bail!(
            "{flag}: {dir} is a node that has joined another machine's cluster, where this is \
             decided; for a cluster of its own use another --data-dir or --name"
        );
    }
    if let Some(pid) = status::pid(&layout.path("run/supervisor.pid")) {
        bail!("a node already runs on {dir} (pid {pid}): see `tiphys status`");
    }
    let mut settings = ClusterConfig::load(&layout.path("config.yaml"))?;
    settings.node_ip = up.node_ip.unwrap_or(settings.node_ip);
    if let Some(registries) = &up.registry {
        settings.registries.clone_from(registries);
    }
    if let Some(args) = &up.kubelet_arg {
        settings.args.kubelet.clone_from(args);
    }
    super::node::kubelet_flags(layout, &settings).context("--kubelet-arg")?;
    settings.save(&layout.path("config.yaml"))?;
    start(layout, &settings, up.foreground).await
}

async fn start(layout: &DataDir, settings: &ClusterConfig, foreground: bool) -> Result<()> {
    clusters::note(layout);
    let executable = layout.executable()?;
    supervise::stop_all(layout).await; // processes that a dead supervisor left
    let client = membership::client(&layout.path(MEMBERSHIP), KUBELET)?;
    if foreground {
        let joined = finish_startup::joined(layout, &client, settings, None);
        return in_foreground(&executable, layout, joined).await;
    }
    let supervisor = Supervisor::launch(layout, &executable)?;
    let joined = finish_startup::joined(layout, &client, settings, Some(supervisor)).await;
    if joined.is_err() {
        let _ = finish_startup::stop_supervisor(layout).await; // nothing keeps running after a failure
        supervise::stop_all(layout).await;
    }
    joined
}

fn settings(layout: &DataDir, membership: &JoinConfig, join: &JoinArgs) -> Result<ClusterConfig> {
    let address = join.node_ip.or_else(machine::address);
    Ok(ClusterConfig {
        node_name: membership.node_name.clone(),
        node_ip: address.context("this machine has no address to be reached at: --node-ip")?,
        port: 0,
        cluster_cidr: membership.cluster_cidr.clone(),
        service_cidr: membership.service_cidr.clone(),
        node_ports: String::new(),
        dns: membership.cluster_dns,
        control_plane_uid: machine::control_plane_uid(),
        proxy_table: clusters::free_table(layout),
        disable: vec!["control".to_owned(), "dns".to_owned()],
        registries: join.registry.clone(),
        etcd: Vec::new(),
        external: Vec::new(),
        profile: membership.profile,
        tls_sans: Vec::new(),
        args: ComponentArgs { kubelet: join.kubelet_arg.clone(), ..ComponentArgs::default() },
    })
}
