//! The `Lease` service of etcd: grant, keep-alive, revoke.

use std::{
    hash::{BuildHasher, RandomState},
    pin::Pin,
    sync::atomic::Ordering,
};

use tokio_stream::{Stream, StreamExt as _};
use tonic::{Request, Response, Status, Streaming};

use super::service::Service;
use crate::wire::pb::{self, lease_server::Lease};

type Renewals = Pin<Box<dyn Stream<Item = Result<pb::LeaseKeepAliveResponse, Status>> + Send>>;

#[tonic::async_trait]
impl Lease for Service {
    async fn lease_grant(
        &self,
        request: Request<pb::LeaseGrantRequest>,
    ) -> Result<Response<pb::LeaseGrantResponse>, Status> {
        let pb::LeaseGrantRequest { ttl, id } = request.into_inner();
        let now = self.member.clock.now();
        let granted = |id: i64| self.member.write(move |state| state.grant(id, ttl, now));
        let id = if id == 0 { random() } else { id };
        let ttl = granted(id).await?;
        self.member.metrics.granted.fetch_add(1, Ordering::Relaxed);
        let (header, error) = (self.header(), String::new());
        Ok(Response::new(pb::LeaseGrantResponse { header, id, ttl, error }))
    }

    async fn lease_revoke(
        &self,
        request: Request<pb::LeaseRevokeRequest>,
    ) -> Result<Response<pb::LeaseRevokeResponse>, Status> {
        let id = request.into_inner().id;
        self.member.write(|state| state.revoke(id)).await?;
        Ok(Response::new(pb::LeaseRevokeResponse { header: self.header() }))
    }

    type LeaseKeepAliveStream = Renewals;

    async fn lease_keep_alive(
        &self,
        request: Request<Streaming<pb::LeaseKeepAliveRequest>>,
    ) -> Result<Response<Renewals>, Status> {
        let this = self.clone();
        let renewed =
            request.into_inner().map(move |request| request.map(|request| this.renew(request.id)));
        Ok(Response::new(Box::pin(renewed)))
    }

    async fn lease_time_to_live(
        &self,
        request: Request<pb::LeaseTimeToLiveRequest>,
    ) -> Result<Response<pb::LeaseTimeToLiveResponse>, Status> {
        let pb::LeaseTimeToLiveRequest { id, keys } = request.into_inner();
        let (header, now) = (self.header(), self.member.clock.now());
        let response = self.member.read(|state| match state.leases.0.get(&id) {
            Some(lease) => {
                let keys = lease.keys.iter().filter(|_| keys).cloned().collect();
                let (ttl, granted_ttl) = ((lease.expires - now).max(0), lease.ttl);
                pb::LeaseTimeToLiveResponse { header, id, ttl, granted_ttl, keys }
            }
            None => pb::LeaseTimeToLiveResponse { header, id, ttl: -1, ..Default::default() },
        });
        Ok(Response::new(response))
    }

    async fn lease_leases(
        &self,
        _: Request<pb::LeaseLeasesRequest>,
    ) -> Result<Response<pb::LeaseLeasesResponse>, Status> {
        let leases = self
            .member
            .read(|state| state.leases.0.keys().map(|id| pb::LeaseStatus { id: *id }).collect());
        Ok(Response::new(pb::LeaseLeasesResponse { header: self.header(), leases }))
    }
}

impl Service {
    /// Renews a lease. The TTL of an expired lease is 0.
    pub(super) fn renew(&self, id: i64) -> pb::LeaseKeepAliveResponse {
        let now = self.member.clock.now();
        let ttl = self.member.inner().state.leases.renew(id, now).unwrap_or_default();
        pb::LeaseKeepAliveResponse { header: self.header(), id, ttl }
    }
}

/// A random lease id: positive, and large.
fn random() -> i64 {
    (RandomState::new().hash_one(0) >> 1).max(1).cast_signed()
}
