//! Addresses of nodes and pods. Nothing listens there; each is used once, as controllers of endpoints expect.

use std::{
    collections::HashSet,
    hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher},
    net::Ipv4Addr,
};

/// The network of the nodes: carrier-grade NAT, which clusters do not use.
const NODES: Ipv4Addr = Ipv4Addr::new(100, 64, 0, 0);
/// The network of the pods, and its size.
const PODS: Ipv4Addr = Ipv4Addr::new(10, 128, 0, 0);
const POD_COUNT: u32 = 1 << 23;

/// The address of the node with this number.
pub(crate) fn of_node(number: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(NODES.to_bits().saturating_add(number).saturating_add(1))
}

/// The addresses of pods that are in use.
#[derive(Debug, Default)]
pub(crate) struct PodAddresses {
    used: HashSet<u32>,
}

impl PodAddresses {
    /// Marks the address of a running pod as used.
    pub(crate) fn take(&mut self, address: &str) {
        self.used.extend(offset(address));
    }

    pub(crate) fn release(&mut self, address: &str) {
        if let Some(offset) = offset(address) {
            self.used.remove(&offset);
        }
    }

    /// An address for the pod with this uid; `None` if all are in use.
    pub(crate) fn allocate(&mut self, uid: &str) -> Option<Ipv4Addr> {
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(uid);
        let first = u32::try_from(hash % u64::from(POD_COUNT)).unwrap_or_default();
        let offsets = (0..POD_COUNT).map(|step| (first + step) % POD_COUNT);
        let offset = offsets.into_iter().find(|offset| *offset > 0 && self.used.insert(*offset))?;
        Some(Ipv4Addr::from_bits(PODS.to_bits() + offset))
    }
}

/// The offset of a pod's address in the pods' network.
fn offset(address: &str) -> Option<u32> {
    let address: Ipv4Addr = address.parse().ok()?;
    address.to_bits().checked_sub(PODS.to_bits()).filter(|offset| *offset < POD_COUNT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pod_has_an_address_of_its_own() {
        let mut addresses = PodAddresses::default();
        let all: HashSet<_> =
            (0..1000).filter_map(|n| addresses.allocate(&n.to_string())).collect();
        assert_eq!(all.len(), 1000);
        let first = addresses.allocate("x").map(|address| address.to_string()).unwrap_or_default();
        assert_ne!(addresses.allocate("x").map(|address| address.to_string()), Some(first.clone()));
        addresses.release(&first);
        assert_eq!(addresses.allocate("x").map(|address| address.to_string()), Some(first));
        addresses.take("not an address");
        addresses.release("192.0.2.1");
        assert_eq!(of_node(255), Ipv4Addr::new(100, 64, 1, 0));
    }
}
