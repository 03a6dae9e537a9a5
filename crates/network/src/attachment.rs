//! The input and the result of connecting a sandbox.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

/// A pod sandbox with its network settings.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Attachment {
    /// The sandbox id: unique on the node, safe as a file name.
    pub sandbox_id: String,
    /// The network namespace, such as /run/netns/NAME; may not exist any more at `remove`.
    pub netns: PathBuf,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub port_mappings: Vec<PortMapping>,
    pub bandwidth: Option<Bandwidth>,
}

/// A host port, forwarded to a port of the pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PortMapping {
    pub host_port: u16,
    pub container_port: u16,
    pub protocol: Protocol,
    /// Only on this host IP; `None` for all.
    #[serde(rename = "hostIP", skip_serializing_if = "Option::is_none", default)]
    pub host_ip: Option<IpAddr>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    Tcp,
    Udp,
    Sctp,
}

/// Limits in bits per second; zero means unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bandwidth {
    pub ingress: u64,
    pub egress: u64,
}

/// The IP addresses of a connected pod, the primary one first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddResult {
    pub ips: Vec<IpAddr>,
    /// The interface inside the pod.
    pub interface: String,
}

impl Protocol {
    /// The protocol number of the IP header.
    pub fn number(self) -> u8 {
        match self {
            Self::Tcp => 6,
            Self::Udp => 17,
            Self::Sctp => 132,
        }
    }
}

impl fmt::Display for PortMapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(ip) = self.host_ip {
            write!(f, "{ip}:")?;
        }
        write!(f, "{}/{}", self.host_port, format!("{:?}", self.protocol).to_lowercase())
    }
}
