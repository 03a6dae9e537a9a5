//! The interface between the CRI server and pod networks.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    path::PathBuf,
};

/// A sandbox that is attached to the pod network.
#[derive(Clone, Debug, Default)]
pub struct NetworkAttachment {
    /// Id of the sandbox, never reused.
    pub id: String,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// Path of the pod's network namespace; empty if it no longer exists.
    pub netns: PathBuf,
    pub port_mappings: Vec<PortMapping>,
    pub dns: Dns,
    /// The pod's annotations, from which plugins read the bandwidth limits and other settings.
    pub annotations: BTreeMap<String, String>,
}

/// A host port that is forwarded to the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortMapping {
    pub protocol: Protocol,
    pub container_port: u16,
    pub host_port: u16,
    pub host_ip: String,
}

/// Transport protocol of a port mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Tcp,
    Udp,
    Sctp,
}

/// The pod's resolv.conf settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dns {
    pub servers: Vec<String>,
    pub searches: Vec<String>,
    pub options: Vec<String>,
}

/// The result of attaching a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkStatus {
    /// The pod's IP addresses, the primary one first.
    pub ips: Vec<IpAddr>,
}

/// Error of a pod network.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct NetworkError(pub String);

/// A pod network. All calls are idempotent: `remove` of a sandbox that is not attached succeeds.
#[tonic::async_trait]
pub trait Cni: Send + Sync + std::fmt::Debug {
    /// Attaches a sandbox to the network.
    async fn add(&self, sandbox: &NetworkAttachment) -> Result<NetworkStatus, NetworkError>;

    /// Detaches a sandbox from the network.
    async fn remove(&self, sandbox: &NetworkAttachment) -> Result<(), NetworkError>;

    /// Whether the network is ready, or why not.
    async fn status(&self) -> Result<(), NetworkError>;

    /// Removes the attachments of all sandboxes except these. `add` is not called meanwhile.
    async fn collect(&self, _live: &BTreeSet<String>) -> Result<(), NetworkError> {
        Ok(())
    }

    /// Sets the podCIDR of this node.
    async fn set_pod_cidr(&self, _cidr: &str) -> Result<(), NetworkError> {
        Ok(())
    }
}

/// Used when no pod network is configured: pods have only the loopback interface.
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
