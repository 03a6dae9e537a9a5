//! Several API servers on one store: each tells that it is there, and the endpoints of the
//! `kubernetes` service are those that do. Keys and objects are upstream's, whose servers may
//! be among them.

mod endpoints;
mod identity;

use std::{net::IpAddr, sync::Weak, time::Duration};

use api::core::Endpoints;
use object::{Lens, Status};
use schema::{ResourceDefinition, ResourceNames, Scope, StorageConfig};
use server::{Registry, ServedResource};
use tracing::warn;

pub(crate) use self::identity::ServerIdentity;

/// How often a server says that it is there.
const AGAIN: Duration = Duration::from_secs(10);
/// How long it is believed.
const LEASE_TTL: Duration = Duration::from_secs(15);
const LEASES: &str = "masterleases";

/// This server among all.
#[derive(Clone, Debug)]
pub(crate) struct PeerRegistration {
    address: IpAddr,
    port: u16,
    identity: ServerIdentity,
    leases: ServedResource,
    /// Whether it is among the endpoints of the `kubernetes` service.
    pub(crate) is_endpoint: bool,
}

/// The kind in which servers say that they are there: nobody can ask for it.
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

    /// Says that this server is there, and brings the endpoints in line.
    pub(crate) async fn join(&self, registry: &Registry) -> Result<(), Status> {
        if self.is_endpoint {
            endpoints::renew(registry, &self.leases, self.address).await?;
            endpoints::reconcile(registry, &self.leases, self.port, false).await?;
        }
        self.identity.renew(registry).await
    }

    /// The same, for as long as the registry is there.
    pub(crate) async fn run(self, registry: Weak<Registry>) {
        loop {
            tokio::time::sleep(AGAIN).await;
            let Some(strong) = registry.upgrade() else { return };
            let joined = panics::contain("peers", self.join(&strong)).await;
            if let Ok(Err(status)) = joined {
                warn!(error = status.message(), "others cannot be told that this server is there");
            }
            let collected = panics::contain("peers", self.identity.delete_expired(&strong)).await;
            if let Ok(Err(status)) = collected {
                warn!(error = status.message(), "servers that are gone cannot be forgotten");
            }
        }
    }

    /// Says that this server goes away.
    pub(crate) async fn leave(&self, registry: &Registry) -> Result<(), Status> {
        if !self.is_endpoint {
            return Ok(());
        }
        registry.remove_own(&self.leases, &self.address.to_string()).await?;
        endpoints::reconcile(registry, &self.leases, self.port, true).await
    }
}
