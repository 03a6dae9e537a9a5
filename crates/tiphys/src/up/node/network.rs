//! The pod network as the container runtime's CNI implementation. The API server assigns the node's podCIDR, so the
//! network starts when that is known; later starts use the saved podCIDR.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    net::IpAddr,
    path::PathBuf,
    sync::{Mutex, OnceLock, PoisonError},
};

use anyhow::{Result, anyhow};
use container::cni::{Cni, NetworkAttachment, NetworkError, NetworkStatus, Protocol};
use network::{Attachment, BuiltinConfig, BuiltinNetwork, Cidr, PortMapping};
use sys::durable_record::{self, Durability};
use tracing::warn;

use crate::up::{ClusterConfig, DataDir};

const MTU: u32 = 1500;

/// A pod network that starts once the podCIDR of the node is known.
#[derive(Debug)]
pub(in crate::up) struct DeferredPodNetwork {
    directory: PathBuf,
    cluster: Cidr,
    network: OnceLock<CniAdapter<BuiltinNetwork>>,
    starting: Mutex<()>,
    /// Routes to the pods of other nodes: pod CIDR and node IP. They may be known before the node's own podCIDR.
    peers: Mutex<BTreeMap<Cidr, IpAddr>>,
}

impl DeferredPodNetwork {
    /// Creates the network, and starts it if an earlier run has saved the podCIDR.
    pub(in crate::up) fn new(layout: &DataDir, settings: &ClusterConfig) -> Result<Self> {
        let directory = layout.path("node/network");
        fs::create_dir_all(&directory)?;
        let cluster = settings.cluster_cidr.parse().map_err(|error| anyhow!("{error}"))?;
        let network = Self {
            directory,
            cluster,
            network: OnceLock::new(),
            starting: Mutex::default(),
            peers: Mutex::default(),
        };
        if let Some(range) = saved_pod_cidr(layout)? {
            network.start(&range).map_err(|error| anyhow!("the pod network: {error}"))?;
        }
        Ok(network)
    }

    /// Starts the network with this podCIDR. A node's podCIDR never changes.
    fn start(&self, range: &str) -> Result<(), NetworkError> {
        let _one = self.starting.lock().unwrap_or_else(PoisonError::into_inner);
        if self.network.get().is_some() {
            return Ok(());
        }
        let wrong = |error: &dyn std::fmt::Display| NetworkError(error.to_string());
        let pods: Cidr = range.parse().map_err(|error| wrong(&error))?;
        let config = BuiltinConfig {
            directory: self.directory.clone(),
            pod_cidrs: vec![pods],
            cluster_cidrs: vec![self.cluster],
            mtu: MTU,
        };
        let network = BuiltinNetwork::start(config).map_err(|error| wrong(&error))?;
        let file = self.directory.join("range");
        durable_record::write(&file, range.as_bytes(), Durability::Whole)
            .map_err(|error| wrong(&error))?;
        self.network
            .set(CniAdapter(network))
            .map_err(|_| NetworkError("started twice".to_owned()))?;
        self.apply_routes();
        Ok(())
    }

    fn ready(&self) -> Result<&CniAdapter<BuiltinNetwork>, NetworkError> {
        self.network.get().ok_or_else(|| NetworkError("the node has no pod range yet".to_owned()))
    }

    /// Sets the routes to the pods of other nodes: pod CIDR and node IP.
    pub(in crate::up) fn set_routes(&self, peers: BTreeMap<String, IpAddr>) {
        let peers = peers.into_iter().filter_map(|(range, ip)| Some((range.parse().ok()?, ip)));
        *self.peers.lock().unwrap_or_else(PoisonError::into_inner) = peers.collect();
        self.apply_routes();
    }

    fn apply_routes(&self) {
        let Some(CniAdapter(network)) = self.network.get() else { return };
        let network = network.clone();
        let peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if peers.is_empty() {
            return;
        }
        tokio::runtime::Handle::current().spawn(async move {
            if let Err(error) = network.set_routes(peers).await {
                warn!(%error, "cannot set the routes between nodes");
            }
        });
    }
}

/// The podCIDR that an earlier run has saved. If it cannot be read, the API server provides it again.
fn saved_pod_cidr(layout: &DataDir) -> Result<Option<String>> {
    let path = layout.path("node/network/range");
    let read = durable_record::read(&path, 1024).map_err(anyhow::Error::from).and_then(|bytes| {
        let Some(bytes) = bytes else { return Ok(None) };
        let text = String::from_utf8(bytes)?;
        text.parse::<Cidr>().map_err(|error| anyhow!("{error}"))?;
        Ok(Some(text))
    });
    read.or_else(|error| {
        tracing::error!(path = %path.display(), %error, "cannot read the saved podCIDR; moving it aside");
        durable_record::put_aside(&path)?;
        Ok(None)
    })
}

#[tonic::async_trait]
impl Cni for DeferredPodNetwork {
    async fn add(&self, sandbox: &NetworkAttachment) -> Result<NetworkStatus, NetworkError> {
        self.ready()?.add(sandbox).await
    }

    async fn remove(&self, sandbox: &NetworkAttachment) -> Result<(), NetworkError> {
        self.ready()?.remove(sandbox).await
    }

    async fn status(&self) -> Result<(), NetworkError> {
        self.ready()?.status().await
    }

    async fn collect(&self, live: &BTreeSet<String>) -> Result<(), NetworkError> {
        match self.network.get() {
            Some(network) => network.collect(live).await,
            None => Ok(()), // without a podCIDR no pod ever had a network
        }
    }

    async fn set_pod_cidr(&self, cidr: &str) -> Result<(), NetworkError> {
        let first = cidr.split(',').next().unwrap_or_default();
        if first.is_empty() { Ok(()) } else { self.start(first) }
    }
}

/// Implements the runtime's `Cni` trait for a network.
#[derive(Debug)]
pub(crate) struct CniAdapter<N>(pub(crate) N);

#[tonic::async_trait]
impl<N: network::Cni + std::fmt::Debug> Cni for CniAdapter<N> {
    async fn add(&self, sandbox: &NetworkAttachment) -> Result<NetworkStatus, NetworkError> {
        let added = self.0.add(&attachment(sandbox)).await.map_err(to_network_error)?;
        Ok(NetworkStatus { ips: added.ips })
    }

    async fn remove(&self, sandbox: &NetworkAttachment) -> Result<(), NetworkError> {
        self.0.remove(&attachment(sandbox)).await.map_err(to_network_error)
    }

    async fn status(&self) -> Result<(), NetworkError> {
        self.0.status().await.map_err(to_network_error)
    }

    async fn collect(&self, live: &BTreeSet<String>) -> Result<(), NetworkError> {
        self.0.gc(live).await.map_err(to_network_error)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn to_network_error(error: network::Error) -> NetworkError {
    NetworkError(error.to_string())
}

fn attachment(sandbox: &NetworkAttachment) -> Attachment {
    let ports =
        sandbox.port_mappings.iter().filter(|port| port.host_port != 0).map(|port| PortMapping {
            host_port: port.host_port,
            container_port: port.container_port,
            protocol: match port.protocol {
                Protocol::Tcp => network::Protocol::Tcp,
                Protocol::Udp => network::Protocol::Udp,
                Protocol::Sctp => network::Protocol::Sctp,
            },
            host_ip: port.host_ip.parse().ok(),
        });
    Attachment {
        sandbox_id: sandbox.id.clone(),
        netns: sandbox.netns.clone(),
        namespace: sandbox.namespace.clone(),
        name: sandbox.name.clone(),
        uid: sandbox.uid.clone(),
        port_mappings: ports.collect(),
        bandwidth: None,
    }
}
