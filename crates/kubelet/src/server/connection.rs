//! Connection limits of the kubelet's server, separate for authorized and other callers.
//!
//! Every pod can connect to the kubelet. Connections without any authorized request must not displace those of callers
//! that read logs and open streams.

use std::{
    net::IpAddr,
    sync::{Arc, OnceLock},
};

use runtime::{Admitted, ConnectionLimit};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum number of connections on which no request was authorized yet.
const MOST_UNKNOWN: usize = 512;
const MOST_TRUSTED: usize = 1000;

/// The connection limits.
pub(super) struct Connections {
    unknown: ConnectionLimit,
    trusted: Arc<Semaphore>,
}

/// One admitted connection.
pub(super) struct Connection {
    admitted: Admitted,
    trusted: Arc<Semaphore>,
    /// Its permit among the trusted connections.
    place: OnceLock<OwnedSemaphorePermit>,
}

impl Connections {
    pub(super) fn new() -> Self {
        let trusted = Arc::new(Semaphore::new(MOST_TRUSTED));
        Self { unknown: ConnectionLimit::new(MOST_UNKNOWN), trusted }
    }

    /// Admits a connection. `None`: this address has too many connections already.
    pub(super) fn admit(&self, from: IpAddr) -> Option<Connection> {
        let admitted = self.unknown.admit(from)?;
        Some(Connection { admitted, trusted: self.trusted.clone(), place: OnceLock::new() })
    }
}

impl Connection {
    /// Runs the connection. While it is not trusted, it may be closed in favour of a new one.
    pub(super) async fn run(&self, work: impl Future) {
        self.admitted.run(work).await;
    }

    /// Marks the connection as trusted after its first authorized request. `false`: there are too many trusted
    /// connections.
    pub(super) fn trust(&self) -> bool {
        if self.place.get().is_some() {
            return true;
        }
        let Ok(place) = self.trusted.clone().try_acquire_owned() else { return false };
        let _ = self.place.set(place); // HTTP/1.1 requests of a connection are sequential
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
