//! Which images there are: one small file, written anew at each change.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fs,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use sys::durable_record::{self, Durability};

use super::{
    Config, Digest, DiskUsage, Reference, Result, content::ContentStore, layer_leases::LayerLeases,
    manifest,
};

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct ImageMetadata {
    pub(super) images: BTreeMap<Digest, ImageRecord>,
    /// What each unpacked stack adds to the disk.
    pub(super) layers: BTreeMap<Digest, DiskUsage>,
    /// Stacks that containers stand on: they outlive their image.
    #[serde(skip)]
    pub(super) holds: LayerLeases,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ImageRecord {
    pub(super) manifest: Digest,
    pub(super) tags: BTreeSet<String>,
    pub(super) digests: BTreeSet<String>,
    pub(super) pinned: bool,
    pub(super) size: u64,
    /// Manifest, configuration and layers as they came.
    pub(super) blobs: Vec<Digest>,
    /// The unpacked stacks, lowest first.
    pub(super) chain_ids: Vec<Digest>,
    pub(super) config: Config,
}

const FILE: &str = "images.json";
const BEFORE: &str = "images.json.before";
/// A few kilobytes for each image.
const LARGEST: u64 = 256 << 20;

impl ImageMetadata {
    /// Where the records cannot be read, those before the last change count; where these cannot
    /// be read either, there are no images.
    pub(super) fn load(dir: &Path) -> Result<Self> {
        let (path, before) = (dir.join(FILE), dir.join(BEFORE));
        let images = match read(&path) {
            Ok(images) => images.unwrap_or_default(),
            Err(error) => {
                tracing::error!(path = %path.display(), %error, "the records of images cannot be read and are put aside");
                durable_record::put_aside(&path)?;
                read(&before).ok().flatten().unwrap_or_default()
            }
        };
        Ok(Self { holds: LayerLeases::load(dir)?, ..images })
    }

    pub(super) fn save(&self, dir: &Path) -> Result<()> {
        let (path, before) = (dir.join(FILE), dir.join(BEFORE));
        let _ = fs::remove_file(&before);
        let _ = fs::hard_link(&path, before); // there may be none yet
        Ok(durable_record::write(&path, &manifest::to_json(self), Durability::Kept)?)
    }

    /// Adds an image; a tag it takes leaves the image that had it.
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

    /// By id, full name, digest, or the beginning of an id, in this order.
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

    /// The files that must stay.
    pub(super) fn referenced_files(&self, content: &ContentStore) -> HashSet<PathBuf> {
        let blobs = self
            .images
            .values()
            .flat_map(|record| &record.blobs)
            .map(|digest| content.blob(digest));
        blobs.chain(self.chains().map(|chain| content.layer(chain))).collect()
    }

    /// Forgets the sizes of stacks that nobody has any more.
    pub(super) fn prune_layer_sizes(&mut self) {
        let used: HashSet<Digest> = self.chains().cloned().collect();
        self.layers.retain(|chain, _| used.contains(chain));
    }

    /// The stacks that images are made of or containers stand on.
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
