//! The pod network behind the runtime's seam. The node's range is the API's to
//! give, so the network begins when it is known; after that it is remembered.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    net::IpAddr,
    path::PathBuf,
    sync::{Mutex, OnceLock, PoisonError},
};

use anyhow::{Result, anyhow};
use container::cni::{Cni, NetworkError, NetworkStatus, Protocol, SandboxNetwork};
use network::{Attachment, Builtin, Cidr, Config, PortMapping};
use sys::record::{self, Durability};
use tracing::warn;

use crate::up::{Layout, Settings};

const MTU: u32 = 1500;

#[derive(Debug)]
pub(in crate::up) struct PodNetwork {
    directory: PathBuf,
    cluster: Cidr,
    network: OnceLock<Plugged<Builtin>>,
    starting: Mutex<()>,
    /// Where other nodes' pods are. Known, perhaps, before our own range is.
    peers: Mutex<BTreeMap<Cidr, IpAddr>>,
}

impl PodNetwork {
    /// Goes on with the range of an earlier start, if there was one.
    pub(in crate::up) fn new(layout: &Layout, settings: &Settings) -> Result<Self> {
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
        if let Some(range) = range_of(layout)? {
            network.start(&range).map_err(|error| anyhow!("the pod network: {error}"))?;
        }
        Ok(network)
    }

    /// Begins with this range. A node keeps its range.
    fn start(&self, range: &str) -> Result<(), NetworkError> {
        let _one = self.starting.lock().unwrap_or_else(PoisonError::into_inner);
        if self.network.get().is_some() {
            return Ok(());
        }
        let wrong = |error: &dyn std::fmt::Display| NetworkError(error.to_string());
        let pods: Cidr = range.parse().map_err(|error| wrong(&error))?;
        let config = Config {
            directory: self.directory.clone(),
            pods: vec![pods],
            cluster: vec![self.cluster],
            mtu: MTU,
        };
        let network = Builtin::start(config).map_err(|error| wrong(&error))?;
        let file = self.directory.join("range");
        record::write(&file, range.as_bytes(), Durability::Whole).map_err(|error| wrong(&error))?;
        self.network.set(Plugged(network)).map_err(|_| NetworkError("started twice".to_owned()))?;
        self.route();
        Ok(())
    }

    fn ready(&self) -> Result<&Plugged<Builtin>, NetworkError> {
        self.network.get().ok_or_else(|| NetworkError("the node has no pod range yet".to_owned()))
    }

    pub(in crate::up) fn set_routes(&self, peers: BTreeMap<String, IpAddr>) {
        let peers = peers.into_iter().filter_map(|(range, ip)| Some((range.parse().ok()?, ip)));
        *self.peers.lock().unwrap_or_else(PoisonError::into_inner) = peers.collect();
        self.route();
    }

    fn route(&self) {
        let Some(Plugged(network)) = self.network.get() else { return };
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

/// The range of an earlier start. Where it cannot be read, the API tells it again.
fn range_of(layout: &Layout) -> Result<Option<String>> {
    let path = layout.path("node/network/range");
    let read = record::read(&path, 1024).map_err(anyhow::Error::from).and_then(|bytes| {
        let Some(bytes) = bytes else { return Ok(None) };
        let text = String::from_utf8(bytes)?;
        text.parse::<Cidr>().map_err(|error| anyhow!("{error}"))?;
        Ok(Some(text))
    });
    read.or_else(|error| {
        tracing::error!(path = %path.display(), %error, "the node's pod range cannot be read and is put aside");
        record::put_aside(&path)?;
        Ok(None)
    })
}

#[tonic::async_trait]
impl Cni for PodNetwork {
    async fn add(&self, sandbox: &SandboxNetwork) -> Result<NetworkStatus, NetworkError> {
        self.ready()?.add(sandbox).await
    }

    async fn remove(&self, sandbox: &SandboxNetwork) -> Result<(), NetworkError> {
        self.ready()?.remove(sandbox).await
    }

    async fn status(&self) -> Result<(), NetworkError> {
        self.ready()?.status().await
    }

    async fn collect(&self, live: &BTreeSet<String>) -> Result<(), NetworkError> {
        match self.network.get() {
            Some(network) => network.collect(live).await,
            None => Ok(()), // without a range no pod ever had a network
        }
    }

    async fn set_pod_cidr(&self, cidr: &str) -> Result<(), NetworkError> {
        let first = cidr.split(',').next().unwrap_or_default();
        if first.is_empty() { Ok(()) } else { self.start(first) }
    }
}

/// Any network in the runtime's seam.
#[derive(Debug)]
pub(crate) struct Plugged<N>(pub(crate) N);

#[tonic::async_trait]
impl<N: network::Cni + std::fmt::Debug> Cni for Plugged<N> {
    async fn add(&self, sandbox: &SandboxNetwork) -> Result<NetworkStatus, NetworkError> {
        let added = self.0.add(&attachment(sandbox)).await.map_err(told)?;
        Ok(NetworkStatus { ips: added.ips })
    }

    async fn remove(&self, sandbox: &SandboxNetwork) -> Result<(), NetworkError> {
        self.0.remove(&attachment(sandbox)).await.map_err(told)
    }

    async fn status(&self) -> Result<(), NetworkError> {
        self.0.status().await.map_err(told)
    }

    async fn collect(&self, live: &BTreeSet<String>) -> Result<(), NetworkError> {
        self.0.collect(live).await.map_err(told)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn told(error: network::Error) -> NetworkError {
    NetworkError(error.to_string())
}

fn attachment(sandbox: &SandboxNetwork) -> Attachment {
    let ports = sandbox.ports.iter().filter(|port| port.host_port != 0).map(|port| PortMapping {
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
        id: sandbox.id.clone(),
        netns: sandbox.netns.clone(),
        namespace: sandbox.namespace.clone(),
        name: sandbox.name.clone(),
        uid: sandbox.uid.clone(),
        ports: ports.collect(),
        bandwidth: None,
    }
}
