//! Objects that only API servers use and that are not part of the API. They bypass admission.

use std::sync::Arc;

use object::{Status, Value};
use schema::ResourceDefinition;
use store::Write;

use super::{Registry, store_status};
use crate::{ServedResource, served_resources::resource};

impl Registry {
    /// Opens the storage of an internal kind.
    pub fn open_own(&self, definition: ResourceDefinition) -> Result<ServedResource, store::Error> {
        let hub = Arc::new(definition);
        let objects = resource(&hub, &*self.engine, &self.mirror, &self.transform)?;
        Ok(ServedResource {
            definition: hub.clone(),
            internal: hub,
            storage_version: None,
            versions: Arc::default(),
            cache: Some(objects),
        })
    }

    /// Writes an internal object, whatever its current revision is.
    pub async fn put_internal(
        &self,
        served: &ServedResource,
        name: &str,
        object: Value,
    ) -> Result<(), Status> {
        let key = served.path("", name);
        let expect = served.objects()?.get(&key).map_or(0, |version| version.revision);
        let bytes = self.to_bytes(served, &key, &object)?;
        let write = Write::put(key, expect, bytes, object).with_ttl(served.internal.ttl);
        self.engine.write(write).await.map(drop).map_err(|error| store_status(&error))
    }

    /// Writes an internal object if it is still at revision `expect`.
    pub async fn replace_own(
        &self,
        served: &ServedResource,
        name: &str,
        (expect, object): (u64, Value),
    ) -> Result<u64, store::Error> {
        let key = served.path("", name);
        let bytes = self
            .to_bytes(served, &key, &object)
            .map_err(|status| store::Error::Unavailable(status.message().to_owned()))?;
        self.engine.write(Write::put(key, expect, bytes, object)).await
    }

    /// Deletes an internal object, if it exists.
    pub async fn remove_own(&self, served: &ServedResource, name: &str) -> Result<(), Status> {
        let key = served.path("", name);
        let Some(version) = served.objects()?.get(&key) else { return Ok(()) };
        let write = Write::delete(key, version.revision);
        self.engine.write(write).await.map(drop).map_err(|error| store_status(&error))
    }
}
