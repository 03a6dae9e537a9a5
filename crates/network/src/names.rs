//! Names of kernel objects. They are unique per cluster, so that two clusters on one host do not interfere.

use std::net::IpAddr;
use std::path::Path;

/// The names of a cluster's network on this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Names {
    /// The bridge that holds the gateway addresses.
    pub(crate) gateway_bridge: String,
    /// Prefix of the host ends of the pods' interfaces.
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

    /// Whether an interface belongs to a pod of this cluster.
    pub(crate) fn is_interface(&self, name: &str) -> bool {
        name.len() == 15 && name.starts_with(&self.veth_prefix)
    }

    /// The host end of the veth pair of the pod with this IP: unique like the IP, and exactly fifteen characters, the
    /// kernel's limit.
    pub(crate) fn interface(&self, ip: IpAddr) -> String {
        format!("{}{:08x}", self.veth_prefix, u32::from_be_bytes(low_32_bits(ip)))
    }
}

/// The MAC addresses of the pod end and the host end, derived from the pod IP.
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

/// FNV-1a, which is stable for ever, unlike the standard hasher.
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
