//! Image pulls: manifest, configuration, layers. Concurrent pulls of the same image are merged.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::sync::OnceCell;

use super::{
    Error, Image, Reference, RegistryAuth, Result, TagOrDigest,
    manifest::{Descriptor, MAX_DOCUMENT_BYTES, Manifest, ManifestOrIndex},
    registry::Client,
    store::ImageStore,
};

const PARALLEL_DOWNLOADS: usize = 3;

type Key = (String, Option<RegistryAuth>);
type Pull = OnceCell<Result<Image>>;

/// The pulls in progress. Credentials are part of the key, so that nobody gets an image through another caller's
/// credentials.
#[derive(Debug, Default)]
pub(super) struct InFlightPulls(Mutex<HashMap<Key, Weak<Pull>>>);

impl ImageStore {
    /// Pulls the current version of `reference` from its registry. A pinned image is never pulled.
    pub async fn pull(&self, reference: &str, auth: Option<&RegistryAuth>) -> Result<Image> {
        let reference = Reference::parse(reference)?;
        let name = reference.to_string();
        if let Some(pinned) = self.resolve(&name).filter(|image| image.pinned) {
            return Ok(pinned);
        }
        let pull = self.inner.pulls.join_or_start((name, auth.cloned()));
        pull.get_or_init(|| self.fetch(&reference, auth.cloned())).await.clone()
    }

    async fn fetch(&self, reference: &Reference, auth: Option<RegistryAuth>) -> Result<Image> {
        let _ingesting = self.ingesting().await;
        let client = Client::new(&self.inner.registries, reference, auth)?;
        let (top, bytes) = client.manifest(&reference.version).await?;
        let (image, bytes) = match ManifestOrIndex::parse(&bytes)? {
            ManifestOrIndex::Manifest(_) => (top.clone(), bytes),
            ManifestOrIndex::Index(index) => {
                client
                    .manifest(&TagOrDigest::Digest(index.select_platform()?.digest.clone()))
                    .await?
            }
        };
        let manifest = Manifest::parse(&bytes)?;
        if manifest.config.size > MAX_DOCUMENT_BYTES {
            return Err(Error::malformed("image with an oversized configuration"));
        }
        self.inner.content.put(&bytes)?;
        let blobs = manifest.layers.iter().chain([&manifest.config]).cloned();
        let downloads: Vec<_> = blobs.map(|blob| self.download(&client, blob)).collect();
        stream::iter(downloads).buffer_unordered(PARALLEL_DOWNLOADS).try_collect::<()>().await?;
        let reference = reference.clone();
        self.blocking(move |inner| {
            let (id, record) = inner.unpack_image(&image)?;
            inner.register(&id, record, &[(reference, top.digest)])
        })
        .await
    }

    async fn download(&self, client: &Client, blob: Descriptor) -> Result<()> {
        if self.inner.content.blob(&blob.digest).exists() {
            return Ok(());
        }
        let path = self.inner.content.temporary();
        client.blob(&blob, &path).await?;
        self.blocking(move |inner| inner.content.commit_blob(&path, &blob.digest)).await
    }
}

impl InFlightPulls {
    fn join_or_start(&self, key: Key) -> Arc<Pull> {
        let mut pulls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pulls.retain(|_, pull| pull.strong_count() > 0);
        if let Some(pull) = pulls.get(&key).and_then(Weak::upgrade) {
            return pull;
        }
        let pull = Arc::default();
        pulls.insert(key, Arc::downgrade(&pull));
        pull
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The CRI server awaits pulls in futures that move between threads.
    #[expect(dead_code, reason = "it is enough that it compiles")]
    fn a_pull_is_send<'a>(
        store: &'a ImageStore,
        name: &'a str,
    ) -> Box<dyn Future<Output = Result<Image>> + Send + 'a> {
        Box::new(async move { store.pull(name, Some(&RegistryAuth::default())).await })
    }
}
