//! Cached access to a kind: reads come from the cache, writes go to the API, and every write is visible to the next
//! read.

use std::sync::Arc;

use client::{Api, DeleteParams, DeleteResult, Error, Patch};
use object::{NamespacedName, Value, WriteCause};
use schema::Kind;

use crate::Cache;

/// The API and the cache of one kind.
#[derive(Debug)]
pub struct CachedApi<K> {
    api: Api<K>,
    cache: Arc<Cache<K>>,
}

impl<K> Clone for CachedApi<K> {
    fn clone(&self) -> Self {
        Self { api: self.api.clone(), cache: self.cache.clone() }
    }
}

impl<K: Kind> CachedApi<K> {
    pub(crate) fn new(api: Api<K>, cache: Arc<Cache<K>>) -> Self {
        Self { api, cache }
    }

    /// The same API; its writes carry `cause`.
    pub fn with_cause(&self, cause: &WriteCause) -> Self {
        Self { api: self.api.with_cause(cause), cache: self.cache.clone() }
    }

    pub fn api(&self) -> &Api<K> {
        &self.api
    }

    pub fn cache(&self) -> &Arc<Cache<K>> {
        &self.cache
    }

    pub fn get(&self, key: &NamespacedName) -> Option<K> {
        self.cache.get(key)
    }

    pub fn all(&self) -> Vec<K> {
        self.cache.all()
    }

    pub fn in_namespace(&self, namespace: &str) -> Vec<K> {
        self.cache.in_namespace(namespace)
    }

    pub fn by_index(&self, index: &'static str, value: &str) -> Vec<K> {
        self.cache.by_index(index, value)
    }

    pub fn owned_by<O: Kind>(&self, owner: &O) -> Vec<K> {
        self.cache.owned_by(owner)
    }

    pub async fn create(&self, object: K) -> Result<K, Error> {
        self.api.create(object).await.inspect(|made| self.cache.observe_write(made))
    }

    pub async fn update(&self, object: K) -> Result<K, Error> {
        self.api.update(object).await.inspect(|made| self.cache.observe_write(made))
    }

    pub async fn update_status(&self, object: K) -> Result<K, Error> {
        self.api.update_status(object).await.inspect(|made| self.cache.observe_write(made))
    }

    pub async fn patch(&self, key: &NamespacedName, patch: &Patch) -> Result<K, Error> {
        self.api.patch(key, patch).await.inspect(|made| self.cache.observe_write(made))
    }

    pub async fn patch_status(&self, key: &NamespacedName, patch: &Patch) -> Result<K, Error> {
        self.api.patch_status(key, patch).await.inspect(|made| self.cache.observe_write(made))
    }

    /// Creates a subresource whose response is not the object itself; the watch delivers the changed object.
    pub async fn create_subresource(
        &self,
        key: &NamespacedName,
        name: &str,
        body: &Value,
    ) -> Result<Value, Error> {
        self.api.create_subresource(key, name, body).await
    }

    /// Deletes `object`, with its uid as precondition. It is no error if it does not exist.
    pub async fn delete(&self, object: &K) -> Result<(), Error> {
        self.delete_with(object, DeleteParams::default()).await
    }

    pub async fn delete_with(&self, object: &K, delete: DeleteParams) -> Result<(), Error> {
        let delete = DeleteParams { uid: object.meta().uid().into(), ..delete };
        let answer = match self.api.delete(&NamespacedName::from_meta(object.meta()), &delete).await
        {
            Err(error) if error.is_not_found() => DeleteResult::Gone(None),
            answer => answer?,
        };
        self.cache.observe_delete(object, &answer);
        Ok(())
    }
}
