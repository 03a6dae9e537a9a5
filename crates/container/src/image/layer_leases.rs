//! Leases: which layers each container uses. One small file per container, so that the cost of a container does not
//! depend on the number of images. The files are not synced: after a power failure no container runs.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use sys::durable_record::{self, Durability};

use super::{Digest, Error, Result, manifest};

/// The leases on layers, by container.
#[derive(Clone, Debug, Default)]
pub(super) struct LayerLeases {
    dir: PathBuf,
    held: BTreeMap<String, Vec<Digest>>,
    complete: bool,
}

/// Maximum size of a lease file, which contains a few digests.
const LARGEST: u64 = 1 << 20;

impl LayerLeases {
    /// Loads all leases. An unreadable file is moved aside; the runtime restores the lease if it needs it.
    pub(super) fn load(dir: &Path) -> Result<Self> {
        let dir = dir.join("holds");
        fs::create_dir_all(&dir)?;
        let (mut held, mut complete) = (BTreeMap::new(), true);
        for file in fs::read_dir(&dir)? {
            let path = file?.path();
            if durable_record::is_new(&path) {
                durable_record::remove_new(&path);
                continue;
            }
            if durable_record::is_aside(&path) {
                continue;
            }
            let read =
                durable_record::read(&path, LARGEST).map_err(Error::from).and_then(|bytes| {
                    manifest::parse::<Vec<Digest>>(&bytes.unwrap_or_default(), "a hold")
                });
            match read {
                Ok(chains) => {
                    let name = path.file_name().unwrap_or_default().to_string_lossy();
                    held.insert(name.into_owned(), chains);
                }
                Err(error) => {
                    tracing::error!(path = %path.display(), %error, "cannot read a lease of layers; moving it aside");
                    durable_record::put_aside(&path)?;
                    complete = false;
                }
            }
        }
        Ok(Self { dir, held, complete })
    }

    /// Whether every lease could be read.
    pub(super) fn is_complete(&self) -> bool {
        self.complete
    }

    /// Adds the lease of a container.
    pub(super) fn insert(&mut self, holder: &str, chains: Vec<Digest>) -> Result<()> {
        durable_record::write(
            &self.dir.join(holder),
            &manifest::to_json(&chains),
            Durability::None,
        )?;
        self.held.insert(holder.to_owned(), chains);
        Ok(())
    }

    /// Removes the lease of a container; returns its layers.
    pub(super) fn remove(&mut self, holder: &str) -> Result<Vec<Digest>> {
        let Some(chains) = self.held.remove(holder) else { return Ok(Vec::new()) };
        match fs::remove_file(self.dir.join(holder)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(chains),
        }
    }

    pub(super) fn chains(&self) -> impl Iterator<Item = &Digest> {
        self.held.values().flatten()
    }

    pub(super) fn owners(&self) -> Vec<String> {
        self.held.keys().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_outlive_the_process() {
        let folder = tempfile::tempdir().expect("a folder");
        let chain = Digest::of(b"layer");
        let mut holds = LayerLeases::load(folder.path()).expect("an empty folder");
        holds.insert("a", vec![chain.clone()]).expect("a file");
        holds.insert("b", vec![chain.clone()]).expect("a file");
        assert_eq!(holds.remove("b").expect("a file"), std::slice::from_ref(&chain));
        assert_eq!(holds.remove("b").expect("nothing to do"), []);
        fs::write(folder.path().join("holds/torn"), "[\"sha").expect("a file");
        fs::write(folder.path().join("holds/empty"), "").expect("a file");
        fs::create_dir_all(folder.path().join("holds/folder/below")).expect("a folder");
        assert!(!LayerLeases::load(folder.path()).expect("what is there").is_complete());
        let holds = LayerLeases::load(folder.path()).expect("what is there");
        assert_eq!(
            (holds.owners(), holds.chains().collect()),
            (vec!["a".to_owned()], vec![&chain])
        );
    }
}
