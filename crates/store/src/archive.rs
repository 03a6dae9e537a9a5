//! etcd snapshot files: a bbolt database followed by its SHA-256. etcd's own tools (`etcdutl`) read and write the same
//! format.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write},
    path::Path,
};

use bytes::Bytes;
use prost::Message as _;
use ring::digest::{Context, SHA256};

use crate::{
    Disk, DiskLog, Error, KeyMetadata, Record,
    bolt::{self, Bolt},
    engine::INITIAL_REVISION,
    etcd_server::{key_from_text, key_to_text},
    wire::{KeyValue, to_i64},
};

/// How far the revision of a restored store is ahead of the saved one. Revisions that were assigned after the snapshot,
/// and are lost, must not be assigned again.
pub const RESTORE_REVISION_BUMP: u64 = 1_000_000_000;

/// The bbolt bucket for extra data saved with the store, such as certificates. It sorts after etcd's own buckets.
const BESIDE: &str = "tiphys";

/// Length of the SHA-256 checksum in bytes.
const SUM: u64 = 32;

/// One version of a key, with its position within its revision.
#[derive(Clone, Debug)]
pub(crate) struct SavedVersion {
    pub(crate) sub: u32,
    /// For a deletion only the key and the revision are set.
    pub(crate) kv: KeyValue,
    pub(crate) deleted: bool,
}

/// The content of a snapshot file.
#[derive(Debug)]
pub struct EtcdSnapshot {
    /// The newest revision.
    pub revision: u64,
    /// The number of versions of keys, deletions included.
    pub versions: usize,
    pub size: u64,
    /// The current value of every key.
    state: BTreeMap<Bytes, KeyValue>,
    /// The TTL of each lease in seconds.
    leases: BTreeMap<i64, i64>,
    /// Extra data saved with the store, by name. Other tools ignore it.
    pub beside: BTreeMap<String, Vec<u8>>,
}

impl EtcdSnapshot {
    /// Reads a snapshot file written by this store or by etcd. A file with a wrong checksum is rejected. A database
    /// without a checksum, such as the one in etcd's data directory, is accepted.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let name = path.display().to_string();
        let failed = |error: io::Error| Error::Disk(format!("read {name}: {error}"));
        let mut file = File::open(path).map_err(failed)?;
        let size = file.metadata().map_err(failed)?.len();
        if size % 512 == SUM && !is_whole(&mut file, size - SUM).map_err(failed)? {
            let what = "its sum is not that of its content";
            return Err(Error::Damaged { file: name, offset: size - SUM, what });
        }
        let wrong = |error: bolt::BoltError| {
            let (key, why) = (path.display().to_string(), error.to_string());
            Error::Corrupt { key, revision: 0, why }
        };
        let bolt = Bolt::new(file).map_err(wrong)?;
        let mut this = Self {
            revision: INITIAL_REVISION,
            versions: 0,
            size,
            state: BTreeMap::new(),
            leases: BTreeMap::new(),
            beside: BTreeMap::new(),
        };
        bolt.for_each("key", &mut |place, value| this.take(place, value)).map_err(wrong)?;
        bolt.for_each("lease", &mut |id, value| this.lease(id, value)).map_err(wrong)?;
        let take = &mut |name: &[u8], value: &[u8]| {
            this.beside.insert(String::from_utf8_lossy(name).into_owned(), value.to_vec());
            Ok(())
        };
        bolt.for_each(BESIDE, take).map_err(wrong)?;
        Ok(this)
    }

    pub fn keys(&self) -> usize {
        self.state.len()
    }

    /// Creates a store with this content in an empty directory, and returns its revision.
    pub fn restore(&self, disk: &dyn Disk, now: i64) -> Result<u64, Error> {
        let revision = self.revision + RESTORE_REVISION_BUMP;
        let mut records: Vec<_> = self.state.values().map(|kv| self.record(kv, now)).collect();
        records.extend(crate::etcd_server::initial_records(revision, &self.leases));
        records.sort_by_key(|record| record.revision);
        DiskLog::create_with_snapshot(disk, records, revision, now)?;
        Ok(revision)
    }

    /// The keys and values, to be written to another store.
    pub fn items(&self) -> impl Iterator<Item = (&Bytes, &Bytes)> {
        self.state.iter().map(|(key, kv)| (key, &kv.value))
    }

    fn record(&self, kv: &KeyValue, now: i64) -> Record {
        let number = |number: i64| u64::try_from(number).unwrap_or_default();
        let (revision, lease) = (number(kv.mod_revision), kv.lease);
        let lineage = KeyMetadata {
            mod_revision: revision,
            create_revision: number(kv.create_revision),
            version: number(kv.version),
            lease,
        };
        let expires = self.leases.get(&lease).map(|ttl| now.saturating_add(*ttl));
        let (key, bytes) = (key_to_text(&kv.key), Some(kv.value.clone()));
        Record { revision, key, bytes, expires, note: None, lineage }
    }

    fn take(&mut self, place: &[u8], value: &[u8]) -> Result<(), &'static str> {
        let main = place.get(..8).ok_or("a key that is no revision")?;
        let revision = u64::from_be_bytes(main.try_into().expect("eight"));
        let kv = KeyValue::decode(value).map_err(|_| "an invalid value")?;
        self.revision = self.revision.max(revision);
        self.versions += 1;
        if place.len() > 17 {
            self.state.remove(&kv.key);
        } else {
            self.state.insert(kv.key.clone(), kv);
        }
        Ok(())
    }

    fn lease(&mut self, id: &[u8], value: &[u8]) -> Result<(), &'static str> {
        let id = i64::from_be_bytes(id.try_into().map_err(|_| "a lease without a number")?);
        // Only field 2, the granted TTL, is used.
        let lease = StoredLease::decode(value).map_err(|_| "an invalid lease")?;
        self.leases.insert(id, lease.ttl);
        Ok(())
    }
}

/// A lease in the format of etcd's `lease` bucket.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct StoredLease {
    #[prost(int64, tag = "1")]
    pub(crate) id: i64,
    #[prost(int64, tag = "2")]
    pub(crate) ttl: i64,
}

/// Saves the store in a directory as a snapshot file. Another process may write to the store meanwhile.
pub fn save(disk: &dyn Disk, now: i64, out: &mut File) -> Result<(), Error> {
    save_beside(disk, now, &BTreeMap::new(), out)
}

/// Like `save`, and stores extra data in the same file.
pub fn save_beside(
    disk: &dyn Disk,
    now: i64,
    beside: &BTreeMap<String, Vec<u8>>,
    out: &mut File,
) -> Result<(), Error> {
    let (floor, records) = DiskLog::read_shared(disk)?;
    let (mut versions, mut leases, mut index) = (Vec::new(), BTreeMap::new(), INITIAL_REVISION);
    let (mut sub, mut last) = (0, 0);
    for record in records {
        index = index.max(record.revision);
        let Some(key) = key_from_text(&record.key) else { continue }; // an internal key of the engine
        let Record { bytes, expires, lineage, .. } = record;
        sub = if lineage.mod_revision == last { sub + 1 } else { 0 };
        last = lineage.mod_revision;
        let lease = match expires {
            // One lease per expiry time, so that the keys expire after a restore as well.
            Some(at) if bytes.is_some() => {
                leases.insert(at, (at - now).max(1));
                at
            }
            _ => lineage.lease,
        };
        let deleted = bytes.is_none();
        let kv = KeyValue {
            key,
            create_revision: to_i64(lineage.create_revision),
            mod_revision: to_i64(lineage.mod_revision),
            version: to_i64(lineage.version),
            value: bytes.unwrap_or_default(),
            lease,
        };
        versions.push(SavedVersion { sub, kv, deleted });
    }
    versions.sort_by_key(|saved| (saved.kv.mod_revision, saved.sub));
    write(out, &versions, (&leases, beside), floor, index)
        .and_then(|()| append_checksum(out))
        .map_err(|error| Error::Disk(format!("write the snapshot: {error}")))
}

type Items = Vec<(Vec<u8>, Vec<u8>)>;

/// Writes a bbolt database with etcd's buckets. `versions` must be sorted by revision.
pub(crate) fn write(
    file: &mut File,
    versions: &[SavedVersion],
    (leases, beside): (&BTreeMap<i64, i64>, &BTreeMap<String, Vec<u8>>),
    floor: u64,
    index: u64,
) -> io::Result<()> {
    let lease = |(id, ttl): (&i64, &i64)| {
        (id.to_be_bytes().to_vec(), StoredLease { id: *id, ttl: *ttl }.encode_to_vec())
    };
    let leases: Items = leases.iter().map(lease).collect();
    let mut meta: Items = vec![(b"consistent_index".to_vec(), index.to_be_bytes().to_vec())];
    if floor > 0 {
        meta.push((b"finishedCompactRev".to_vec(), place(floor, 0)));
        meta.push((b"scheduledCompactRev".to_vec(), place(floor, 0)));
    }
    meta.push((b"storageVersion".to_vec(), b"3.7.0".to_vec()));
    meta.push((b"term".to_vec(), 2_u64.to_be_bytes().to_vec()));
    let none = || -> Box<dyn Iterator<Item = (Vec<u8>, Vec<u8>)>> { Box::new(std::iter::empty()) };
    let mut out = BufWriter::new(file);
    bolt::write(
        &mut out,
        [
            ("alarm", none()),
            ("auth", none()),
            ("authRoles", none()),
            ("authUsers", none()),
            ("cluster", none()),
            ("key", Box::new(versions.iter().map(|saved| (saved.revision_key(), saved.stored())))),
            ("lease", Box::new(leases.into_iter())),
            ("members", none()),
            ("members_removed", none()),
            ("meta", Box::new(meta.into_iter())),
            (
                BESIDE,
                Box::new(beside.iter().map(|(name, bytes)| (name.clone().into(), bytes.clone()))),
            ),
        ],
    )
}

impl SavedVersion {
    /// The key in etcd's `key` bucket: the revision, and a mark if the version is a deletion.
    pub(crate) fn revision_key(&self) -> Vec<u8> {
        let mut place = place(u64::try_from(self.kv.mod_revision).unwrap_or_default(), self.sub);
        if self.deleted {
            place.push(b't');
        }
        place
    }

    /// The value in etcd's `key` bucket. For a deletion it holds only the key.
    pub(crate) fn stored(&self) -> Vec<u8> {
        if self.deleted {
            return KeyValue { key: self.kv.key.clone(), ..KeyValue::default() }.encode_to_vec();
        }
        self.kv.encode_to_vec()
    }
}

fn place(main: u64, sub: u32) -> Vec<u8> {
    let mut bytes = main.to_be_bytes().to_vec();
    bytes.push(b'_');
    bytes.extend_from_slice(&u64::from(sub).to_be_bytes());
    bytes
}

/// Appends the SHA-256 of the file to the file.
fn append_checksum(file: &mut File) -> io::Result<()> {
    let size = file.seek(SeekFrom::End(0))?;
    let sum = sum(file, size)?;
    file.seek(SeekFrom::End(0))?;
    file.write_all(sum.as_ref())?;
    file.sync_all()
}

fn is_whole(file: &mut File, size: u64) -> io::Result<bool> {
    let sum = sum(file, size)?;
    let mut said = [0; 32];
    file.read_exact(&mut said)?;
    Ok(sum.as_ref() == said)
}

fn sum(file: &mut File, size: u64) -> io::Result<ring::digest::Digest> {
    file.seek(SeekFrom::Start(0))?;
    let mut context = Context::new(&SHA256);
    let mut reader = BufReader::with_capacity(1 << 16, file.take(size));
    let mut part = vec![0; 1 << 16];
    loop {
        match reader.read(&mut part)? {
            0 => return Ok(context.finish()),
            count => context.update(&part[..count]),
        }
    }
}
