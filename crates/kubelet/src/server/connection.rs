//! How many connections the server has: those of callers who have shown a right to something, and those of the others.
//!
//! Every pod can connect to the kubelet. Whoever holds connections without a right to anything must not keep out those
//! who come for logs and streams.

use std::{
    net::IpAddr,
    sync::{Arc, OnceLock},
};

use runtime::{Admitted, ConnectionLimit};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Connections on which no request was allowed yet.
const MOST_UNKNOWN: usize = 512;
const MOST_TRUSTED: usize = 1000;

pub(super) struct Connections {
    unknown: ConnectionLimit,
    trusted: Arc<Semaphore>,
}

/// One connection.
pub(super) struct Connection {
    admitted: Admitted,
    trusted: Arc<Semaphore>,
    /// Its place among the trusted ones.
    place: OnceLock<OwnedSemaphorePermit>,
}

impl Connections {
    pub(super) fn new() -> Self {
        let trusted = Arc::new(Semaphore::new(MOST_TRUSTED));
        Self { unknown: ConnectionLimit::new(MOST_UNKNOWN), trusted }
    }

    /// `None`: this address has enough connections already.
    pub(super) fn admit(&self, from: IpAddr) -> Option<Connection> {
        let admitted = self.unknown.admit(from)?;
        Some(Connection { admitted, trusted: self.trusted.clone(), place: OnceLock::new() })
    }
}

impl Connection {
    /// Runs until the end; as long as the connection is not trusted, another one may take its place.
    pub(super) async fn run(&self, work: impl Future) {
        self.admitted.run(work).await;
    }

    /// Takes note that a request was allowed. `false`: there are too many such connections.
    pub(super) fn trust(&self) -> bool {
        if self.place.get().is_some() {
            return true;
        }
        let Ok(place) = self.trusted.clone().try_acquire_owned() else { return false };
        let _ = self.place.set(place); // requests of one connection come one after another
        self.admitted.release();
        true
    }
}

#[test]
fn connections_without_rights_do_not_keep_others_out() {
    let connections = Connections::new();
    let (pod, server) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
    let held: Vec<_> = (0..2 * MOST_UNKNOWN).filter_map(|_| connections.admit(pod)).collect();
    assert_eq!(held.len(), MOST_UNKNOWN);
    let trusted: Vec<_> = (0..MOST_TRUSTED)
        .map(|_| {
            let connection = connections.admit(server).expect("there is always a place");
            assert!(connection.trust() && connection.trust());
            connection
        })
        .collect();
    assert!(!connections.admit(server).expect("a place").trust(), "these have a limit too");
    drop(trusted);
    assert!(connections.admit(server).expect("a place").trust());
}
