//! etcd leases for keys with a TTL. Many keys share a lease, because each lease costs etcd something.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::{Instant, timeout_at};

use super::{endpoints::Endpoints, store_error};
use crate::{Error, wire::pb};

/// The lease that was granted last, for reuse.
#[derive(Debug)]
pub(super) struct LeasePool {
    last: Mutex<Option<Granted>>,
    /// For how many seconds a lease is given to further keys. Keys may expire that much later than requested.
    shared: i64,
}

#[derive(Clone, Copy, Debug)]
struct Granted {
    id: i64,
    /// The requested TTL in seconds.
    ttl: i64,
    at: i64,
}

impl LeasePool {
    pub(super) fn new(shared: i64) -> Self {
        Self { last: Mutex::default(), shared }
    }

    /// A lease that lasts at least `ttl`.
    pub(super) async fn get(
        &self,
        endpoints: &Endpoints,
        until: Instant,
        ttl: Duration,
        now: i64,
    ) -> Result<i64, Error> {
        let ttl = i64::try_from(ttl.as_millis().div_ceil(1_000)).unwrap_or(i64::MAX / 2);
        let shares = self.shared.min(ttl / 20);
        let known = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Granted { id, .. }) =
            known.filter(|known| known.ttl == ttl && now - known.at < shares)
        {
            return Ok(id);
        }
        let request = pb::LeaseGrantRequest { ttl: ttl + shares, id: 0 };
        let mut client = endpoints.lease();
        let granted = timeout_at(until, client.lease_grant(request)).await;
        let late = |_| Error::Unavailable("etcd did not answer in time".to_owned());
        let id = granted.map_err(late)?.map_err(|status| store_error(&status))?.into_inner().id;
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(Granted { id, ttl, at: now });
        Ok(id)
    }
}
