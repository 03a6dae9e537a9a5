//! All of a member as a file that etcd's own tools take.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Read, Seek, SeekFrom},
    path::Path,
};

use bytes::Bytes;
use prost::Message as _;
use ring::digest::{Context, SHA256};

use super::{keyspace::Version, maintenance::VERSION, member::Member, state::State};
use crate::{bolt, wire::KeyValue};

/// How much is sent at once.
const PART: usize = 64 << 10;

/// A file that is gone when this is; its sum comes last.
#[derive(Debug)]
pub(super) struct Backup {
    file: File,
    left: u64,
    sum: Option<Context2>,
}

/// `Context` has no `Debug`.
struct Context2(Context);

impl std::fmt::Debug for Context2 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sha256")
    }
}

impl Backup {
    pub(super) fn make(member: &Member, scratch: &Path) -> io::Result<Self> {
        let (versions, leases, floor, index) = {
            let inner = member.inner();
            let state = &inner.state;
            let all = state.keys.versions(state.durable).into_iter();
            let all: Vec<(Bytes, Version)> = all.map(|(k, v)| (k.clone(), v.clone())).collect();
            let leases: Vec<_> = state.leases.0.iter().map(|(id, lease)| (*id, lease.ttl)).collect();
            (all, leases, state.keys.floor, state.durable_position())
        };
        let path = scratch.join(format!("snapshot-{}.tmp", std::process::id()));
        let mut file = File::options().read(true).write(true).create(true).truncate(true).open(&path)?;
        fs::remove_file(&path)?; // it lives as long as it is open
        write(&mut file, &versions, &leases, floor, index)?;
        file.sync_all()?;
        let left = file.seek(SeekFrom::End(0))?;
        file.seek(SeekFrom::Start(0))?;
        Ok(Self { file, left, sum: Some(Context2(Context::new(&SHA256))) })
    }

    /// The next part, and how much remains.
    pub(super) fn next(&mut self) -> io::Result<Option<(Vec<u8>, u64)>> {
        let Some(sum) = &mut self.sum else { return Ok(None) };
        if self.left == 0 {
            let sum = self.sum.take().map(|sum| sum.0.finish().as_ref().to_vec());
            return Ok(sum.map(|sum| (sum, 0)));
        }
        let length = usize::try_from(self.left).unwrap_or(PART).min(PART);
        let mut part = vec![0; length];
        self.file.read_exact(&mut part)?;
        sum.0.update(&part);
        self.left -= length as u64;
        Ok(Some((part, self.left + 32)))
    }
}

/// What etcd says of the same keys: a sum over all versions that are kept.
pub(super) fn hash(state: &State, revision: u64) -> u32 {
    let floor = state.keys.floor;
    let mut sum = crc32c::crc32c(b"key");
    for (key, version) in state.keys.versions(revision) {
        let gone = version.lineage.revision <= floor && version.value.is_none();
        if !gone {
            sum = crc32c::crc32c_append(sum, &place(version));
            sum = crc32c::crc32c_append(sum, &stored(key, version));
        }
    }
    sum
}

type Items = Vec<(Vec<u8>, Vec<u8>)>;

fn write(
    file: &mut File,
    versions: &[(Bytes, Version)],
    leases: &[(i64, i64)],
    floor: u64,
    index: u64,
) -> io::Result<()> {
    let lease = |(id, ttl): &(i64, i64)| {
        // Its message: number 1 is the lease, number 2 how long it was granted for.
        let mut value = Vec::new();
        prost::encoding::int64::encode(1, id, &mut value);
        prost::encoding::int64::encode(2, ttl, &mut value);
        (id.to_be_bytes().to_vec(), value)
    };
    let leases: Items = leases.iter().map(lease).collect();
    let mut meta: Items = vec![(b"consistent_index".to_vec(), index.to_be_bytes().to_vec())];
    if floor > 0 {
        meta.push((b"finishedCompactRev".to_vec(), revision(floor, 0)));
        meta.push((b"scheduledCompactRev".to_vec(), revision(floor, 0)));
    }
    meta.push((b"storageVersion".to_vec(), VERSION.into()));
    meta.push((b"term".to_vec(), 2_u64.to_be_bytes().to_vec()));
    let keys = versions.iter().map(|(key, version)| (place(version), stored(key, version)));
    let none = || -> Box<dyn Iterator<Item = (Vec<u8>, Vec<u8>)>> { Box::new(std::iter::empty()) };
    let mut out = BufWriter::new(file);
    bolt::write(&mut out, [
        ("alarm", none()),
        ("auth", none()),
        ("authRoles", none()),
        ("authUsers", none()),
        ("cluster", none()),
        ("key", Box::new(keys)),
        ("lease", Box::new(leases.into_iter())),
        ("members", none()),
        ("members_removed", none()),
        ("meta", Box::new(meta.into_iter())),
    ])
}

/// Where etcd keeps a version: under its revision, and a mark if it is a deletion.
fn place(version: &Version) -> Vec<u8> {
    let mut place = revision(version.lineage.revision, version.sub.into());
    if version.value.is_none() {
        place.push(b't');
    }
    place
}

/// What it keeps there: of a deletion, the key alone.
fn stored(key: &Bytes, version: &Version) -> Vec<u8> {
    match version.value {
        Some(_) => version.shown(key),
        None => KeyValue { key: key.clone(), ..KeyValue::default() },
    }
    .encode_to_vec()
}

fn revision(main: u64, sub: u64) -> Vec<u8> {
    let mut bytes = main.to_be_bytes().to_vec();
    bytes.push(b'_');
    bytes.extend_from_slice(&sub.to_be_bytes());
    bytes
}
