//! Several API servers on one store: each renews a lease, and the servers with a lease are the
//! endpoints of the `kubernetes` Service. Keys and objects are the same as upstream's, whose
//! servers may be among them.

mod endpoints;
mod identity;

use std::{net::IpAddr, sync::Weak, time::Duration};

use api::core::Endpoints;
use object::{Lens, Status};
use schema::{ResourceDefinition, ResourceNames, Scope, StorageConfig};
use server::{Registry, ServedResource};
use tracing::warn;

pub(crate) use self::identity::ServerIdentity;

/// Interval at which a server renews its lease.
const AGAIN: Duration = Duration::from_secs(10);
/// Lifetime of a lease.
const LEASE_TTL: Duration = Duration::from_secs(15);
const LEASES: &str = "masterleases";

/// The registration of this server among its peers.
#[derive(Clone, Debug)]
pub(crate) struct PeerRegistration {
    address: IpAddr,
    port: u16,
    identity: ServerIdentity,
    leases: ServedResource,
    /// Whether this server is an endpoint of the `kubernetes` Service.
    pub(crate) is_endpoint: bool,
}

/// The internal resource of the leases, which is not served.
fn kind() -> ResourceDefinition {
    let names = ResourceNames {
        group: "",
        version: "v1",
        kind: "Endpoints",
        plural: LEASES,
        singular: "",
        short_names: &[],
        categories: &[],
    };
    ResourceDefinition {
        scope: Scope::Cluster,
        storage: StorageConfig::new(LEASES, "v1"),
        ttl: Some(LEASE_TTL),
        served: false,
        ..ResourceDefinition::without_resource(names, Endpoints::SHAPE)
    }
}

impl PeerRegistration {
    pub(crate) fn new(
        registry: &Registry,
        (address, port): (IpAddr, u16),
        identity: ServerIdentity,
    ) -> Result<Self, store::Error> {
        Ok(Self { address, port, identity, leases: registry.open_own(kind())?, is_endpoint: true })
    }

    /// Renews the leases of this server, and updates the endpoints.
    pub(crate) async fn join(&self, registry: &Registry) -> Result<(), Status> {
        if self.is_endpoint {
            endpoints::renew(registry, &self.leases, self.address).await?;
            endpoints::reconcile(registry, &self.leases, self.port, false).await?;
        }
        self.identity.renew(registry).await
    }

    /// Renews the leases at each interval, until the registry is dropped.
    pub(crate) async fn run(self, registry: Weak<Registry>) {
        loop {
            tokio::time::sleep(AGAIN).await;
            let Some(strong) = registry.upgrade() else { return };
            let joined = panics::contain("peers", self.join(&strong)).await;
            if let Ok(Err(status)) = joined {
                warn!(error = status.message(), "cannot renew the lease of this API server");
            }
            let collected = panics::contain("peers", self.identity.delete_expired(&strong)).await;
            if let Ok(Err(status)) = collected {
                warn!(error = status.message(), "cannot delete the leases of stopped API servers");
            }
        }
    }

    /// Removes this server from the endpoints.
    pub(crate) async fn leave(&self, registry: &Registry) -> Result<(), Status> {
        if !self.is_endpoint {
            return Ok(());
        }
        registry.remove_own(&self.leases, &self.address.to_string()).await?;
        endpoints::reconcile(registry, &self.leases, self.port, true).await
    }
}
