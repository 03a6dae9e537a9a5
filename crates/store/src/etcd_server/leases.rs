//! Leases: their keys are deleted when the lease is not renewed in time.
//!
//! The log records only that a lease was granted, not when it expires. After a restart each lease gets its full TTL
//! again, since clients could not renew it meanwhile.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

/// Minimum TTL of a lease in seconds.
const SHORTEST: i64 = 2;
/// Maximum TTL of a lease in seconds.
pub(super) const LONGEST: i64 = 9_000_000_000;

/// A lease and the keys attached to it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Lease {
    /// The granted TTL in seconds.
    pub(super) ttl: i64,
    /// Expiry time in seconds since 1970.
    pub(super) expires: i64,
    pub(super) keys: BTreeSet<Bytes>,
}

/// All leases by id.
#[derive(Debug, Default)]
pub(super) struct Leases(pub(super) BTreeMap<i64, Lease>);

impl Leases {
    pub(super) fn grant(&mut self, id: i64, ttl: i64, now: i64) -> i64 {
        let ttl = ttl.max(SHORTEST);
        let lease = Lease { ttl, expires: now.saturating_add(ttl), keys: BTreeSet::new() };
        self.0.insert(id, lease);
        ttl
    }

    /// Renews a lease and returns its TTL; `None` if it has expired.
    pub(super) fn renew(&mut self, id: i64, now: i64) -> Option<i64> {
        let lease = self.0.get_mut(&id).filter(|lease| lease.expires > now)?;
        lease.expires = now.saturating_add(lease.ttl);
        Some(lease.ttl)
    }

    pub(super) fn attach(&mut self, id: i64, key: &Bytes) {
        if let Some(lease) = self.0.get_mut(&id) {
            lease.keys.insert(key.clone());
        }
    }

    pub(super) fn detach(&mut self, id: i64, key: &Bytes) {
        if let Some(lease) = self.0.get_mut(&id) {
            lease.keys.remove(key);
        }
    }

    /// Up to 100 expired leases.
    pub(super) fn expired(&self, now: i64) -> Vec<i64> {
        let over = self.0.iter().filter(|(_, lease)| lease.expires <= now);
        over.map(|(id, _)| *id).take(100).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_ends_unless_it_is_renewed() {
        let mut leases = Leases::default();
        assert_eq!(leases.grant(7, 1, 100), SHORTEST);
        leases.grant(8, 10, 100);
        assert!(leases.expired(101).is_empty());
        assert_eq!(leases.renew(8, 109), Some(10));
        assert_eq!((leases.expired(112), leases.renew(7, 112)), (vec![7], None));
        assert_eq!(leases.expired(119), [7, 8]);
    }
}
