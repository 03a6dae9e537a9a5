//! Names in the kernel that are ours alone: two clusters on one machine never
//! see each other's.

use std::net::IpAddr;
use std::path::Path;

/// The names of one cluster's network on this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Names {
    /// The device that holds the gateway's address.
    pub(crate) gateway_bridge: String,
    /// What the pods' interfaces on the node's side begin with.
    pub(crate) veth_prefix: String,
    pub(crate) nft_table: String,
}

impl Names {
    pub(crate) fn of(directory: &Path) -> Self {
        let hash = fnv(directory.as_os_str().as_encoded_bytes());
        Self {
            gateway_bridge: format!("tph-{:08x}", hash & 0xffff_ffff),
            veth_prefix: format!("tph{:04x}", hash & 0xffff),
            nft_table: format!("tiphys-{:08x}", hash & 0xffff_ffff),
        }
    }

    /// Whether an interface is a pod's of this cluster.
    pub(crate) fn is_interface(&self, name: &str) -> bool {
        name.len() == 15 && name.starts_with(&self.veth_prefix)
    }

    /// The node's end of the pair of the pod with this address: unique as the
    /// address is, and exactly the fifteen characters that fit.
    pub(crate) fn interface(&self, ip: IpAddr) -> String {
        format!("{}{:08x}", self.veth_prefix, u32::from_be_bytes(low_32_bits(ip)))
    }
}

/// The pod's and the node's hardware addresses, made of the pod's address.
pub(crate) fn macs(ip: IpAddr) -> ([u8; 6], [u8; 6]) {
    let [a, b, c, d] = low_32_bits(ip);
    ([0x0a, 0x58, a, b, c, d], [0x0a, 0x59, a, b, c, d])
}

fn low_32_bits(ip: IpAddr) -> [u8; 4] {
    match ip {
        IpAddr::V4(ip) => ip.octets(),
        IpAddr::V6(ip) => {
            let octets = ip.octets();
            [octets[12], octets[13], octets[14], octets[15]]
        }
    }
}

/// FNV-1a: stable for ever, which the standard hasher does not promise.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_and_differ() {
        let one = Names::of(Path::new("/var/lib/tiphys"));
        let two = Names::of(Path::new("/var/lib/other"));
        assert_ne!(one, two);
        assert_eq!(one.interface([10, 244, 0, 5].into()).len(), 15);
        assert!(one.interface([10, 244, 0, 5].into()).ends_with("0af40005"));
        assert!(one.gateway_bridge.len() <= 15);
    }
}
