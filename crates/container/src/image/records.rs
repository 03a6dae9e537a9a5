//! Image records: `images.json`, rewritten at each change.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fs,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use sys::durable_record::{self, Durability};

use super::{
    Config, Digest, DiskUsage, Error, Reference, Result, content::ContentStore,
    layer_leases::LayerLeases, manifest,
};

/// The records of all images and layers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct ImageMetadata {
    pub(super) images: BTreeMap<Digest, ImageRecord>,
    /// Disk usage of each unpacked layer, by chain id.
    pub(super) layers: BTreeMap<Digest, DiskUsage>,
    /// Leases of containers on layers, which keep them after their image is removed.
    #[serde(skip)]
    pub(super) holds: LayerLeases,
}

/// The record of an image.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ImageRecord {
    pub(super) manifest: Digest,
    pub(super) tags: BTreeSet<String>,
    pub(super) digests: BTreeSet<String>,
    pub(super) pinned: bool,
    pub(super) size: u64,
    /// Manifest, configuration and compressed layers.
    pub(super) blobs: Vec<Digest>,
    /// Chain ids of the unpacked layers, lowest first.
    pub(super) chain_ids: Vec<Digest>,
    pub(super) config: Config,
}

const FILE: &str = "images.json";
const BEFORE: &str = "images.json.before";
/// Maximum size of the file; an image takes a few kilobytes.
const LARGEST: u64 = 256 << 20;

impl ImageMetadata {
    /// Loads the records. If they cannot be read, falls back to those before the last change; if these cannot be read
    /// either, starts without images.
    pub(super) fn load(dir: &Path) -> Result<Self> {
        let (path, before) = (dir.join(FILE), dir.join(BEFORE));
        let images = match read(&path) {
            Ok(images) => images.unwrap_or_default(),
            Err(error) => {
                tracing::error!(path = %path.display(), %error, "cannot read the image records; moving them aside");
                durable_record::put_aside(&path)?;
                read(&before).ok().flatten().unwrap_or_default()
            }
        };
        Ok(Self { holds: LayerLeases::load(dir)?, ..images })
    }

    pub(super) fn save(&self, dir: &Path) -> Result<()> {
        let (path, before) = (dir.join(FILE), dir.join(BEFORE));
        let bytes = manifest::to_json(self);
        if bytes.len() as u64 > LARGEST {
            // Configurations may have megabytes each. What cannot be read again must not replace what can.
            return Err(Error::malformed(format!("records of images larger than {LARGEST} bytes")));
        }
        let _ = fs::remove_file(&before);
        let _ = fs::hard_link(&path, before); // there may be no file yet
        Ok(durable_record::write(&path, &bytes, Durability::Kept)?)
    }

    /// Adds an image. Its tags are removed from the images that had them before.
    pub(super) fn insert(&mut self, id: Digest, mut record: ImageRecord) {
        for other in self.images.values_mut() {
            other.tags.retain(|tag| !record.tags.contains(tag));
        }
        if let Some(old) = self.images.get(&id) {
            record.tags.extend(old.tags.iter().cloned());
            record.digests.extend(old.digests.iter().cloned());
            record.pinned |= old.pinned;
        }
        self.images.insert(id, record);
    }

    /// Finds an image by id, full name, digest, or unambiguous prefix of an id, in this order.
    pub(super) fn find(&self, text: &str) -> Option<(&Digest, &ImageRecord)> {
        if let Some(found) =
            Digest::try_from(text.to_owned()).ok().and_then(|id| self.images.get_key_value(&id))
        {
            return Some(found);
        }
        if let Ok(reference) = Reference::parse(text) {
            let name = reference.to_string();
            let named = |(_, record): &(&Digest, &ImageRecord)| {
                record.tags.contains(&name) || record.digests.contains(&name)
            };
            if let Some(found) = self.images.iter().find(named) {
                return Some(found);
            }
        }
        let start = text.strip_prefix("sha256:").unwrap_or(text);
        let mut matches =
            self.images.iter().filter(|(id, _)| !start.is_empty() && id.hex().starts_with(start));
        match (matches.next(), matches.next()) {
            (Some(only), None) => Some(only),
            _ => None,
        }
    }

    /// The files of blobs and layers that are in use.
    pub(super) fn referenced_files(&self, content: &ContentStore) -> HashSet<PathBuf> {
        let blobs = self
            .images
            .values()
            .flat_map(|record| &record.blobs)
            .map(|digest| content.blob(digest));
        blobs.chain(self.chains().map(|chain| content.layer(chain))).collect()
    }

    /// Removes the sizes of layers that are no longer in use.
    pub(super) fn prune_layer_sizes(&mut self) {
        let used: HashSet<Digest> = self.chains().cloned().collect();
        self.layers.retain(|chain, _| used.contains(chain));
    }

    /// The layers that images contain or containers lease.
    pub(super) fn chains(&self) -> impl Iterator<Item = &Digest> {
        self.images.values().flat_map(|record| &record.chain_ids).chain(self.holds.chains())
    }
}

fn read(path: &Path) -> Result<Option<ImageMetadata>> {
    durable_record::read(path, LARGEST)?.map(|bytes| manifest::parse(&bytes, FILE)).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_records_lose_no_more_than_the_last_change() {
        let folder = tempfile::tempdir().expect("a folder");
        let dir = folder.path();
        let mut records = ImageMetadata::load(dir).expect("none yet");
        records.layers.insert(Digest::of(b"a"), DiskUsage::default());
        records.save(dir).expect("saved");
        records.layers.insert(Digest::of(b"b"), DiskUsage::default());
        records.save(dir).expect("saved");
        assert_eq!(ImageMetadata::load(dir).expect("loaded").layers.len(), 2);
        fs::write(dir.join(FILE), "").expect("written");
        assert_eq!(ImageMetadata::load(dir).expect("loaded").layers.len(), 1);
        fs::create_dir_all(dir.join(FILE).join("below")).expect("a folder");
        fs::write(dir.join(BEFORE), "{").expect("written");
        assert_eq!(ImageMetadata::load(dir).expect("loaded").layers.len(), 0);
        records.save(dir).expect("saved");
    }
}
