//! Content store: blobs by digest, unpacked layers by chain id. Everything is created in `ingest/` and renamed into
//! place once it is complete and synced; leftovers of a crash are removed at start.

use std::{
    collections::HashSet,
    fs::{self, File},
    io::{self, Read, Write},
    ops::Deref,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use super::{
    Digest, DiskUsage, Error, Result,
    digest::DigestStream,
    disk_reserve::Reserving,
    layer::{self, Limits},
    manifest::{Descriptor, MAX_DOCUMENT_BYTES},
    root::ExtractRoot,
};

/// The directories of the store.
#[derive(Debug)]
pub(super) struct ContentStore {
    dir: PathBuf,
    next: AtomicU64,
    /// Exclusive lock: two runtimes on one store would delete each other's files.
    _lock: File,
}

/// A temporary path in `ingest/`. What is created there and not renamed into place is removed on drop.
#[derive(Debug)]
pub(super) struct IngestPath(PathBuf);

impl Deref for IngestPath {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl AsRef<Path> for IngestPath {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl Drop for IngestPath {
    fn drop(&mut self) {
        let _ = sys::tree::remove(&self.0); // usually renamed already; otherwise the next start retries
    }
}

impl ContentStore {
    pub(super) fn open(dir: &Path) -> Result<Self> {
        for part in ["blobs/sha256", "layers", "ingest"] {
            fs::create_dir_all(dir.join(part))?;
        }
        // Layers contain set-user-id programs of untrusted origin: other users must not reach and run them.
        fs::set_permissions(dir, fs::Permissions::from_mode(0o700))?;
        let lock = File::create(dir.join("lock"))?;
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).map_err(
            |_| io::Error::other(format!("{} is in use by another process", dir.display())),
        )?;
        for left in fs::read_dir(dir.join("ingest"))? {
            sys::tree::remove(&left?.path())?;
        }
        Ok(Self { dir: dir.to_owned(), next: AtomicU64::new(0), _lock: lock })
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn blob(&self, digest: &Digest) -> PathBuf {
        self.dir.join("blobs/sha256").join(digest.hex())
    }

    pub(super) fn layer(&self, chain: &Digest) -> PathBuf {
        self.dir.join("layers").join(format!("sha256-{}", chain.hex()))
    }

    /// A new temporary path.
    pub(super) fn temporary(&self) -> IngestPath {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        IngestPath(self.dir.join("ingest").join(number.to_string()))
    }

    /// Stores bytes as a blob.
    pub(super) fn put(&self, bytes: &[u8]) -> Result<Digest> {
        let digest = Digest::of(bytes);
        if !self.blob(&digest).exists() {
            let path = self.temporary();
            fs::write(&path, bytes)?;
            self.commit_blob(&path, &digest)?;
        }
        Ok(digest)
    }

    /// Moves a finished file into place, under the digest that the caller has computed from it.
    pub(super) fn commit_blob(&self, file: &Path, digest: &Digest) -> Result<()> {
        File::open(file)?.sync_all()?;
        self.commit(file, &self.blob(digest))
    }

    /// Reads `from` to its end, at most `limit` bytes, and stores it as a blob.
    pub(super) fn ingest(&self, from: &mut impl Read, limit: u64) -> Result<(Digest, u64)> {
        let path = self.temporary();
        let mut file =
            DigestStream::new(Reserving::new(File::create(&path)?, File::open(&self.dir)?)?, limit);
        io::copy(from, &mut file)?;
        file.flush()?;
        let (_, digest, size) = file.finish();
        self.commit_blob(&path, &digest)?;
        Ok((digest, size))
    }

    /// Checks that a blob has the size that its descriptor says, which is what everybody is told. A built-in layer has
    /// no blob.
    pub(super) fn check_size(&self, blob: &Descriptor) -> Result<()> {
        match fs::metadata(self.blob(&blob.digest)) {
            Ok(found) if found.len() != blob.size => Err(Error::malformed(format!(
                "content {} has {} bytes, its manifest says {}",
                blob.digest,
                found.len(),
                blob.size
            ))),
            _ => Ok(()),
        }
    }

    /// Reads a manifest or configuration blob.
    pub(super) fn read_document(&self, digest: &Digest) -> Result<Vec<u8>> {
        let file = File::open(self.blob(digest))
            .map_err(|_| Error::NotFound(format!("content {digest}")))?;
        let mut bytes = Vec::new();
        file.take(MAX_DOCUMENT_BYTES + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MAX_DOCUMENT_BYTES {
            return Err(Error::malformed(format!(
                "document {digest} is larger than {MAX_DOCUMENT_BYTES} bytes"
            )));
        }
        Ok(bytes)
    }

    /// The unpacking limits of an image with these layers. A blob counts once, however often it is listed: it would be
    /// unpacked each time.
    pub(super) fn limits_of<'a>(&self, layers: impl Iterator<Item = &'a Digest>) -> Limits {
        let distinct: HashSet<_> = layers.collect();
        let size = |blob| fs::metadata(self.blob(blob)).map_or(0, |meta| meta.len());
        Limits::of_compressed(distinct.into_iter().map(size).fold(0, u64::saturating_add))
    }

    /// Unpacks a blob, whose uncompressed digest must be `diff`, on top of the layers `below` (nearest last). What it
    /// uses is subtracted from the limits.
    pub(super) fn unpack(
        &self,
        blob: &Digest,
        diff: &Digest,
        below: &[Digest],
        limits: &mut Limits,
    ) -> Result<DiskUsage> {
        let path = self.temporary();
        fs::create_dir(&path)?;
        let file =
            File::open(self.blob(blob)).map_err(|_| Error::NotFound(format!("layer {blob}")))?;
        let root =
            ExtractRoot::open(&path, below.iter().rev().map(|chain| self.layer(chain)).collect())?;
        let (found, usage) = layer::unpack(file, &root, limits)?;
        if found != *diff {
            return Err(Error::malformed(format!(
                "layer {blob} holds {found}, its image says {diff}"
            )));
        }
        rustix::fs::syncfs(root.as_dir())?;
        self.commit(&path, &self.layer(&Digest::chain_id(below.last(), diff)))?;
        Ok(usage)
    }

    /// Renames into place. If the target exists, another task has created the same content.
    pub(super) fn commit(&self, from: &Path, to: &Path) -> Result<()> {
        match fs::rename(from, to) {
            Err(_) if to.exists() => {}
            done => done?,
        }
        let parent = to.parent().unwrap_or(&self.dir);
        Ok(File::open(parent)?.sync_all()?)
    }

    /// Removes every blob and layer whose path is not in `keep`.
    pub(super) fn remove_unreferenced(&self, keep: &HashSet<PathBuf>) -> Result<()> {
        for part in ["blobs/sha256", "layers"] {
            for found in fs::read_dir(self.dir.join(part))? {
                let path = found?.path();
                if !keep.contains(&path) {
                    let gone = self.temporary();
                    fs::rename(&path, &gone)?; // atomic, so that no partly removed layer is visible
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same blob as each of many layers: it is unpacked for each, but a registry sends it only once.
    #[test]
    fn a_layer_that_is_listed_often_counts_once() {
        let dir = tempfile::tempdir().expect("a folder");
        let content = ContentStore::open(dir.path()).expect("a store");
        let [one, other] = [1, 2].map(|byte| content.put(&vec![byte; 8 << 20]).expect("room"));
        let limit = |layers: &[&Digest]| content.limits_of(layers.iter().copied()).bytes;
        assert_eq!(limit(&[&one, &one, &one]), 800 << 20);
        assert_eq!(limit(&[&one, &other, &one]), 1600 << 20);
    }
}
