//! The seam to pod networks.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    path::PathBuf,
};

/// A pod that needs a network.
#[derive(Clone, Debug, Default)]
pub struct NetworkAttachment {
    /// Of the sandbox; unique for ever.
    pub id: String,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// Of the pod's network namespace; empty when it has gone.
    pub netns: PathBuf,
    pub port_mappings: Vec<PortMapping>,
    pub dns: Dns,
    /// Bandwidth and what else plugins read.
    pub annotations: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortMapping {
    pub protocol: Protocol,
    pub container_port: u16,
    pub host_port: u16,
    pub host_ip: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Tcp,
    Udp,
    Sctp,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dns {
    pub servers: Vec<String>,
    pub searches: Vec<String>,
    pub options: Vec<String>,
}

/// What a pod got.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkStatus {
    /// The first is the pod's address.
    pub ips: Vec<IpAddr>,
}

#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct NetworkError(pub String);

/// A pod network. Calls may be repeated; `remove` of what is not there succeeds.
#[tonic::async_trait]
pub trait Cni: Send + Sync + std::fmt::Debug {
    async fn add(&self, sandbox: &NetworkAttachment) -> Result<NetworkStatus, NetworkError>;

    async fn remove(&self, sandbox: &NetworkAttachment) -> Result<(), NetworkError>;

    /// Whether pods can get a network, or why not.
    async fn status(&self) -> Result<(), NetworkError>;

    /// Removes the networks of all sandboxes but these. Nothing is added meanwhile.
    async fn collect(&self, _live: &BTreeSet<String>) -> Result<(), NetworkError> {
        Ok(())
    }

    /// The range that the API server gave to this node.
    async fn set_pod_cidr(&self, _cidr: &str) -> Result<(), NetworkError> {
        Ok(())
    }
}

/// No pod network is configured: pods have loopback, which every sandbox has.
#[derive(Clone, Copy, Debug, Default)]
pub struct Loopback;

#[tonic::async_trait]
impl Cni for Loopback {
    async fn add(&self, _sandbox: &NetworkAttachment) -> Result<NetworkStatus, NetworkError> {
        Ok(NetworkStatus::default())
    }

    async fn remove(&self, _sandbox: &NetworkAttachment) -> Result<(), NetworkError> {
        Ok(())
    }

    async fn status(&self) -> Result<(), NetworkError> {
        Err(NetworkError("no pod network is configured: pods have loopback only".into()))
    }
}
