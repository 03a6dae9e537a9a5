//! The allocated node ports, stored in one object that all servers update by compare-and-swap. Key
//! and encoding are upstream's, whose servers may be among them.

use std::ops::RangeInclusive;

use api::core::RangeAllocation;
use object::{Bytes, Lens, Status, Value, View};
use schema::{ResourceDefinition, ResourceNames, Scope, StorageConfig};
use server::{Registry, ServedResource};
use tokio::sync::Semaphore;

use super::{
    bitmap::Bitmap,
    ports::{place, text},
};

const NAME: &str = "servicenodeports";
/// Maximum number of conflicts with other servers.
const TRIES: usize = 64;

/// The stored bitmap of node ports.
#[derive(Debug)]
pub(crate) struct NodePorts {
    pub(super) range: RangeInclusive<i32>,
    kind: ServedResource,
    /// Serializes updates of this server, since concurrent ones would only conflict.
    lock: Semaphore,
}

/// The stored state: nothing yet (revision 0), or a range and its bitmap.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PortAllocationState {
    pub(super) revision: u64,
    pub(super) range: String,
    pub(super) map: Bitmap,
}

impl NodePorts {
    pub(super) fn open(
        registry: &Registry,
        range: RangeInclusive<i32>,
    ) -> Result<Self, store::Error> {
        Ok(Self { range, kind: registry.open_own(kind())?, lock: Semaphore::new(1) })
    }

    /// Updates the bitmap; `change` is called again after a conflict.
    pub(super) async fn change<T>(
        &self,
        registry: &Registry,
        mut change: impl FnMut(&mut Bitmap) -> Result<T, Status>,
    ) -> Result<T, Status> {
        let _turn = self.lock.acquire().await.map_err(Status::internal)?;
        for _ in 0..TRIES {
            let mut stored = self.stored()?;
            if stored.revision == 0 {
                let why =
                    "cannot allocate resources of type servicenodeportallocations at this time";
                return Err(Status::failure(500, "", why));
            } else if stored.range != text(&self.range) {
                let why = "the provided range does not match the current range";
                return Err(Status::failure(500, "", why));
            }
            let before = stored.map.clone();
            let done = change(&mut stored.map)?;
            if stored.map == before || self.replace(registry, &stored).await? {
                return Ok(done);
            }
        }
        Err(Status::unavailable("node ports: other servers were faster too often"))
    }

    /// Releases ports.
    pub(super) async fn release(&self, registry: &Registry, ports: &[i32]) -> Result<(), Status> {
        if ports.is_empty() {
            return Ok(());
        }
        let places = || ports.iter().filter_map(|port| place(&self.range, *port));
        self.change(registry, |map| {
            places().for_each(|place| map.set(place, false));
            Ok(())
        })
        .await
    }

    /// The stored state, from the watch cache.
    pub(super) fn stored(&self) -> Result<PortAllocationState, Status> {
        let Some(version) = self.kind.objects()?.get(&self.kind.path("", NAME)) else {
            return Ok(PortAllocationState::default());
        };
        let object = RangeAllocation::view(&version.object);
        let bytes = Bytes::decode(object.data()).unwrap_or_default();
        let (revision, range) = (version.revision, object.range().to_owned());
        Ok(PortAllocationState { revision, range, map: Bitmap::from_bytes(&bytes) })
    }

    /// Stores the state; returns false after a conflict.
    pub(super) async fn replace(
        &self,
        registry: &Registry,
        stored: &PortAllocationState,
    ) -> Result<bool, Status> {
        let mut object = Value::object();
        object["apiVersion"] = "v1".into();
        object["kind"] = "RangeAllocation".into();
        object["metadata"] = Value::object();
        object["range"] = stored.range.as_str().into();
        object["data"] = Bytes::encode(&stored.map.to_bytes()).into();
        match registry.replace_own(&self.kind, NAME, (stored.revision, object)).await {
            Ok(_) => Ok(true),
            Err(store::Error::Conflict { .. }) => Ok(false),
            Err(error) => Err(Status::unavailable(error.to_string())),
        }
    }
}

/// The internal resource of the bitmap, which is not served.
fn kind() -> ResourceDefinition {
    let names = ResourceNames {
        group: "",
        version: "v1",
        kind: "RangeAllocation",
        plural: "ranges",
        singular: "",
        short_names: &[],
        categories: &[],
    };
    ResourceDefinition {
        scope: Scope::Cluster,
        storage: StorageConfig::new("ranges", "v1"),
        served: false,
        ..ResourceDefinition::without_resource(names, RangeAllocation::SHAPE)
    }
}
