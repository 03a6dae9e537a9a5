//! Limit of connections per client address. File descriptors are scarce, and one client must not
//! use them all.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
};

use rustix::process::{Resource, getrlimit};

/// Assumed limit of open files if the process has none.
const USUAL: usize = 1024;

/// The open connections, counted by client address.
#[derive(Debug, Default)]
pub(crate) struct ConnectionLimits {
    open: Mutex<Open>,
}

/// Numbers of open connections.
#[derive(Debug, Default)]
struct Open {
    all: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// A connection that is counted until this is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionPermit {
    limits: Arc<ConnectionLimits>,
    address: IpAddr,
}

impl ConnectionLimits {
    /// Admits a connection, unless few descriptors are left and its address already has many.
    pub(crate) fn acquire(self: &Arc<Self>, address: IpAddr) -> Option<ConnectionPermit> {
        let limit = getrlimit(Resource::Nofile).current;
        let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(USUAL);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let own = open.by_address.get(&address).copied().unwrap_or_default();
        if !has_room(open.all, own, limit) {
            return None;
        }
        open.all += 1;
        open.by_address.insert(address, own + 1);
        Some(ConnectionPermit { limits: self.clone(), address })
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut open = self.limits.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.all = open.all.saturating_sub(1);
        if let Some(own) = open.by_address.get_mut(&self.address) {
            *own = own.saturating_sub(1);
            if *own == 0 {
                open.by_address.remove(&self.address);
            }
        }
    }
}

/// While three quarters of the descriptors are not in use, an address may have any number of
/// connections; then at most a quarter of the limit.
fn has_room(all: usize, own: usize, limit: usize) -> bool {
    all < limit / 4 * 3 || own < limit / 4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_leaves_room_for_others() {
        assert!(has_room(10_000, 10_000, 20_000), "nobody else is there");
        assert!(!has_room(15_000, 15_000, 20_000));
        assert!(has_room(15_000, 0, 20_000));
        assert!(has_room(15_000, 4_999, 20_000));
    }

    #[test]
    fn connections_are_counted_until_they_end() {
        let (limits, address) = (Arc::<ConnectionLimits>::default(), IpAddr::from([10, 0, 0, 1]));
        let (one, other) = (limits.acquire(address).unwrap(), limits.acquire(address).unwrap());
        assert_eq!(limits.open.lock().unwrap().by_address[&address], 2);
        drop((one, other));
        let open = limits.open.lock().unwrap();
        assert!(open.all == 0 && open.by_address.is_empty());
    }
}
