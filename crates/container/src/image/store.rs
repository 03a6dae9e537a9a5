//! The image store: import, lookup, removal, leases and garbage collection.

use std::{
    collections::BTreeSet,
    fs::File,
    io::Read,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{
    Config, Digest, DiskUsage, Error, Reference, RegistryConfig, Result, archive,
    content::ContentStore,
    manifest::{ConfigFile, Descriptor, Manifest},
    pull::InFlightPulls,
    records::{ImageMetadata, ImageRecord},
};

/// Handle of the image store; clones share one store.
#[derive(Clone, Debug)]
pub struct ImageStore {
    pub(super) inner: Arc<Inner>,
}

/// State of the image store, shared by all handles.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) content: ContentStore,
    records: Mutex<ImageMetadata>,
    pub(super) registries: RegistryConfig,
    pub(super) pulls: InFlightPulls,
    /// Held for reading while new content is not recorded yet, which prevents garbage collection.
    ingest_lock: tokio::sync::RwLock<()>,
}

/// An image in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Digest of the configuration, as `sha256:…`.
    pub id: String,
    pub repo_tags: Vec<String>,
    pub repo_digests: Vec<String>,
    /// Compressed size in bytes.
    pub size: u64,
    pub config: Config,
    /// Lower directories for overlayfs, lowest first.
    pub layers: Vec<PathBuf>,
    /// A pinned image is never removed and never pulled.
    pub pinned: bool,
}

impl ImageStore {
    /// Opens the store in a directory, and removes unreferenced content.
    pub fn open(dir: &Path, registries: RegistryConfig) -> Result<Self> {
        let content = ContentStore::open(dir)?;
        let records = Mutex::new(ImageMetadata::load(dir)?);
        let (pulls, ingesting) = (InFlightPulls::default(), tokio::sync::RwLock::default());
        let store = Self {
            inner: Arc::new(Inner { content, records, registries, pulls, ingest_lock: ingesting }),
        };
        store.inner.collect_garbage()?;
        Ok(store)
    }

    /// Imports every image of an OCI or docker archive.
    pub async fn import(&self, archive: impl Read + Send + 'static) -> Result<Vec<Image>> {
        self.blocking(|inner| {
            let _ingesting = inner.ingest_lock.blocking_read();
            archive::import(inner, archive)
        })
        .await
    }

    /// Imports every image of an archive file.
    pub async fn import_file(&self, path: &Path) -> Result<Vec<Image>> {
        self.import(File::open(path)?).await
    }

    /// Finds an image by id, name, digest or prefix of an id.
    pub fn resolve(&self, reference: &str) -> Option<Image> {
        let records = self.inner.records();
        records.find(reference).map(|(id, record)| self.inner.image(id, record))
    }

    /// All images.
    pub fn list(&self) -> Vec<Image> {
        self.inner
            .records()
            .images
            .iter()
            .map(|(id, record)| self.inner.image(id, record))
            .collect()
    }

    /// Removes an image with all its names. Succeeds if there is no such image.
    pub async fn remove(&self, reference: &str) -> Result<()> {
        let reference = reference.to_owned();
        self.blocking(move |inner| {
            inner.change(|records| {
                let Some((id, record)) = records.find(&reference) else { return Ok(()) };
                if record.pinned {
                    return Err(Error::Pinned(reference.clone()));
                }
                let id = id.clone();
                records.images.remove(&id);
                Ok(())
            })?;
            inner.collect_garbage()
        })
        .await
    }

    /// Keeps the layers of `images` until `holder`, a container, releases them; also across restarts.
    pub fn lease_layers<'a>(
        &self,
        holder: &str,
        images: impl IntoIterator<Item = &'a Image>,
    ) -> Result<()> {
        let mut records = self.inner.records();
        let mut chains = Vec::new();
        for image in images {
            let missing = || Error::NotFound(image.id.clone());
            chains.extend(records.find(&image.id).ok_or_else(missing)?.1.chain_ids.clone());
        }
        records.holds.insert(holder, chains)
    }

    /// Restores the lease of a container from its layer directories, if the lease was lost.
    pub(crate) fn hold_layers(&self, holder: &str, layers: &[PathBuf]) -> Result<()> {
        let chain = |folder: &PathBuf| {
            let name = folder.file_name().unwrap_or_default().to_string_lossy();
            Digest::try_from(name.replacen('-', ":", 1))
                .map_err(|_| Error::malformed(format!("{} is no layer", folder.display())))
        };
        let chains = layers.iter().map(chain).collect::<Result<_>>()?;
        self.inner.records().holds.insert(holder, chains)
    }

    /// Releases the layers of a container, and removes those that are no longer used.
    pub async fn release_layers(&self, holder: &str) -> Result<()> {
        let holder = holder.to_owned();
        self.blocking(move |inner| {
            let mut records = inner.records();
            let held = records.holds.remove(&holder)?;
            let all_used = held.iter().all(|chain| records.chains().any(|used| used == chain));
            drop(records);
            if all_used { Ok(()) } else { inner.collect_garbage() }
        })
        .await
    }

    /// The containers that have leases; the runtime compares them with its records after a crash.
    pub fn holders(&self) -> Vec<String> {
        self.inner.records().holds.owners()
    }

    /// Disk usage of all unpacked layers.
    pub fn usage(&self) -> DiskUsage {
        let add = |sum: DiskUsage, layer: &DiskUsage| DiskUsage {
            bytes: sum.bytes + layer.bytes,
            inodes: sum.inodes + layer.inodes,
        };
        self.inner.records().layers.values().fold(DiskUsage::default(), add)
    }

    /// The directory of the store, for queries about its file system.
    pub fn dir(&self) -> &Path {
        self.inner.content.dir()
    }

    pub(super) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let inner = self.inner.clone();
        crate::threads::run(move || work(&inner)).await?
    }

    pub(super) async fn ingesting(&self) -> tokio::sync::RwLockReadGuard<'_, ()> {
        self.inner.ingest_lock.read().await
    }
}

impl Inner {
    /// Unpacks the missing layers of an image whose blobs are all present.
    pub(super) fn unpack_image(&self, manifest: &Descriptor) -> Result<(Digest, ImageRecord)> {
        let bytes = self.content.read_document(&manifest.digest)?;
        let document = Manifest::parse(&bytes)?;
        let parts = || document.layers.iter().chain([&document.config]);
        parts().try_for_each(|part| self.content.check_size(part))?;
        let config = ConfigFile::parse(&self.content.read_document(&document.config.digest)?)?;
        let diffs = &config.rootfs.diff_ids;
        if diffs.len() != document.layers.len() {
            let (have, want) = (document.layers.len(), diffs.len());
            return Err(Error::malformed(format!(
                "image with {have} layers and {want} layer digests"
            )));
        }
        let mut chains: Vec<Digest> = Vec::new();
        let mut limits = self.content.limits_of(document.layers.iter().map(|layer| &layer.digest));
        for (layer, diff) in document.layers.iter().zip(diffs) {
            let chain = Digest::chain_id(chains.last(), diff);
            if !self.content.layer(&chain).exists() {
                let usage = self.content.unpack(&layer.digest, diff, &chains, &mut limits)?;
                self.records().layers.insert(chain.clone(), usage);
            }
            chains.push(chain);
        }
        let record = ImageRecord {
            manifest: manifest.digest.clone(),
            tags: BTreeSet::new(),
            digests: BTreeSet::new(),
            pinned: false,
            size: parts().map(|part| part.size).fold(bytes.len() as u64, u64::saturating_add),
            blobs: parts()
                .map(|part| part.digest.clone())
                .chain([manifest.digest.clone()])
                .collect(),
            chain_ids: chains,
            config: config.config,
        };
        Ok((document.config.digest, record))
    }

    /// Adds an image to the records with its tags and digests.
    pub(super) fn register(
        &self,
        id: &Digest,
        mut record: ImageRecord,
        names: &[(Reference, Digest)],
    ) -> Result<Image> {
        for (reference, digest) in names {
            record.digests.insert(reference.with_digest(digest).to_string());
            if matches!(reference.version, super::TagOrDigest::Tag(_)) {
                record.tags.insert(reference.to_string());
            }
        }
        self.change(|records| {
            records.insert(id.clone(), record);
            Ok(self.image(id, &records.images[id]))
        })
    }

    /// Unpins an image of an earlier release that has the same name as a built-in one.
    pub(super) fn unpin_previous(&self, reference: &Reference, id: &Digest) -> Result<()> {
        let name = reference.to_string();
        self.change(|records| {
            for (other, record) in &mut records.images {
                record.pinned &= other == id || !record.tags.contains(&name);
            }
            Ok(())
        })
    }

    pub(super) fn records(&self) -> MutexGuard<'_, ImageMetadata> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the records: first on disk, then in memory; not at all if either fails.
    fn change<T>(&self, work: impl FnOnce(&mut ImageMetadata) -> Result<T>) -> Result<T> {
        let mut records = self.records();
        let mut next = records.clone();
        let answer = work(&mut next)?;
        next.save(self.content.dir())?;
        *records = next;
        Ok(answer)
    }

    /// Removes content that no image and no container uses. Skipped while content is being ingested.
    fn collect_garbage(&self) -> Result<()> {
        let Ok(_alone) = self.ingest_lock.try_write() else { return Ok(()) };
        let keep = {
            let mut records = self.records();
            if !records.holds.is_complete() {
                return Ok(()); // a container may use layers that seem unused
            }
            records.prune_layer_sizes();
            records.referenced_files(&self.content)
        };
        self.content.remove_unreferenced(&keep)
    }

    fn image(&self, id: &Digest, record: &ImageRecord) -> Image {
        Image {
            id: id.to_string(),
            repo_tags: record.tags.iter().cloned().collect(),
            repo_digests: record.digests.iter().cloned().collect(),
            size: record.size,
            config: record.config.clone(),
            layers: record.chain_ids.iter().map(|chain| self.content.layer(chain)).collect(),
            pinned: record.pinned,
        }
    }
}
