//! A connection limit that is shared fairly by client addresses, for ports that any pod can connect to.
//!
//! With a plain limit one client can lock out all others: a pod that holds every connection of a health port makes its
//! probes fail. Here a connection from an address with few connections replaces the oldest one of the address with the
//! most.

use std::{
    collections::{BTreeMap, HashMap},
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio_util::sync::CancellationToken;

/// The connection limit of one port. Clones share it.
#[derive(Clone, Debug)]
pub struct ConnectionLimit {
    most: usize,
    open: Arc<Mutex<Open>>,
}

#[derive(Debug, Default)]
struct Open {
    /// The number of the next connection.
    next: u64,
    count: usize,
    /// By address, then by number: the first is the oldest.
    connections: HashMap<IpAddr, BTreeMap<u64, CancellationToken>>,
}

/// An admitted connection. It counts until this is dropped.
#[derive(Debug)]
pub struct Admitted {
    open: Arc<Mutex<Open>>,
    address: IpAddr,
    number: u64,
    displaced: CancellationToken,
}

impl ConnectionLimit {
    pub fn new(most: usize) -> Self {
        Self { most, open: Arc::default() }
    }

    /// Admits a connection from this address. `None` if the limit is reached and no address has more connections.
    pub fn admit(&self, from: IpAddr) -> Option<Admitted> {
        let address = owner(from);
        let mut open = lock(&self.open);
        if open.count >= self.most {
            open.displace_for(address)?;
        }
        let (number, displaced) = (open.next, CancellationToken::new());
        open.next += 1;
        open.count += 1;
        open.connections.entry(address).or_default().insert(number, displaced.clone());
        Some(Admitted { open: self.open.clone(), address, number, displaced })
    }
}

impl Admitted {
    /// Runs `work` to its end, or returns `None` if another connection displaces this one.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        self.displaced.run_until_cancelled(work).await
    }

    /// Stops counting the connection; it can no longer be displaced.
    pub fn release(&self) {
        lock(&self.open).remove(self.address, self.number);
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.release();
    }
}

impl Open {
    /// Displaces the oldest connection of the address with the most, if that has more than `address` would have.
    fn displace_for(&mut self, address: IpAddr) -> Option<()> {
        let own = self.connections.get(&address).map_or(0, BTreeMap::len);
        let (largest, theirs) = self.connections.iter().max_by_key(|(_, theirs)| theirs.len())?;
        if theirs.len() <= own + 1 {
            return None;
        }
        let (largest, oldest) = (*largest, *theirs.first_key_value()?.0);
        self.remove(largest, oldest)?.cancel();
        Some(())
    }

    fn remove(&mut self, address: IpAddr, number: u64) -> Option<CancellationToken> {
        let theirs = self.connections.get_mut(&address)?;
        let removed = theirs.remove(&number)?;
        if theirs.is_empty() {
            self.connections.remove(&address);
        }
        self.count -= 1;
        Some(removed)
    }
}

fn lock(open: &Mutex<Open>) -> MutexGuard<'_, Open> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An IPv6 client usually controls a whole /64, so that counts as one address.
fn owner(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX)).into(),
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    #[tokio::test]
    async fn the_address_with_the_most_makes_room() {
        let limit = ConnectionLimit::new(4);
        let held: Vec<_> = (0..4).filter_map(|_| limit.admit(from(1))).collect();
        assert_eq!(held.len(), 4);
        assert!(limit.admit(from(1)).is_none(), "an address does not displace itself");
        let probe = limit.admit(from(2)).expect("another has its share");
        assert_eq!(held[0].run(std::future::ready(())).await, None, "the oldest went");
        assert_eq!(held[1].run(std::future::ready(())).await, Some(()));
        let second = limit.admit(from(2)).expect("up to half");
        assert!(limit.admit(from(2)).is_none(), "two each");
        held[3].release();
        let third = limit.admit(from(3)).expect("what was released is free");
        let fourth = limit.admit(from(4)).expect("one of the addresses with two loses one");
        assert_eq!(lock(&limit.open).count, 4);
        assert_eq!(held[3].run(std::future::ready(())).await, Some(()), "released, it goes on");
        drop((held, probe, second, third, fourth));
        assert_eq!(lock(&limit.open).count, 0);
        assert!(
            lock(&limit.open).connections.is_empty(),
            "nothing is remembered of those that ended"
        );
    }

    #[test]
    fn an_ipv6_network_counts_as_one() {
        let limit = ConnectionLimit::new(2);
        let at = |text: &str| text.parse::<IpAddr>().expect("an address");
        let _one = limit.admit(at("2001:db8::1")).expect("room");
        let _other = limit.admit(at("2001:db8::2")).expect("room");
        assert!(limit.admit(at("2001:db8::3")).is_none());
        assert!(limit.admit(at("2001:db8:0:1::1")).is_some());
        assert_eq!(owner(at("::ffff:10.0.0.1")), from(1));
    }
}
