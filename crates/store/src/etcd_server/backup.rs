//! Snapshots and hashes of the member, as in etcd's maintenance API.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom},
    path::Path,
};

use bytes::Bytes;
use ring::digest::{Context, SHA256};

use super::{keyspace::Version, member::Member, state::State};
use crate::archive::{self, SavedVersion};

/// Size in bytes of one part of a snapshot stream.
const PART: usize = 64 << 10;

/// A snapshot in an unlinked temporary file, streamed with its SHA-256 at the end.
#[derive(Debug)]
pub(super) struct SnapshotReader {
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

impl SnapshotReader {
    pub(super) fn make(member: &Member, scratch: &Path) -> io::Result<Self> {
        let (versions, leases, floor, index) = {
            let inner = member.inner();
            let state = &inner.state;
            let all = state.keys.versions(state.durable).into_iter();
            let all: Vec<_> = all.map(|(key, version)| saved(key, version)).collect();
            let leases = state.leases.0.iter().map(|(id, lease)| (*id, lease.ttl)).collect();
            (all, leases, state.keys.compact_revision, state.durable_position())
        };
        let path = scratch.join(format!("snapshot-{}.tmp", std::process::id()));
        let mut file =
            File::options().read(true).write(true).create(true).truncate(true).open(&path)?;
        fs::remove_file(&path)?; // the content lives while the file is open
        archive::write(&mut file, &versions, (&leases, &BTreeMap::new()), floor, index)?;
        file.sync_all()?;
        let left = file.seek(SeekFrom::End(0))?;
        file.seek(SeekFrom::Start(0))?;
        Ok(Self { file, left, sum: Some(Context2(Context::new(&SHA256))) })
    }

    /// The next part, and the number of bytes that remain.
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

/// etcd's HashKV: a hash over all versions of keys. Of the versions up to the compaction revision only the visible ones
/// count, unless none is visible.
pub(super) fn hash(state: &State, revision: u64) -> u32 {
    let keys = &state.keys;
    let versions = keys.versions(revision);
    let seen = |key: &Bytes, version: &Version| {
        keys.at(key, revision).is_some_and(|now| now.position == version.position)
    };
    let any = versions.iter().any(|(key, version)| seen(key, version));
    let mut sum = crc32c::crc32c(b"key");
    for (key, version) in versions {
        let old = version.lineage.mod_revision <= keys.compact_revision;
        if !old || seen(key, version) || (!any && version.value.is_some()) {
            let saved = saved(key, version);
            sum = crc32c::crc32c_append(sum, &saved.revision_key());
            sum = crc32c::crc32c_append(sum, &saved.stored());
        }
    }
    sum
}

/// The version in the snapshot's format.
fn saved(key: &Bytes, version: &Version) -> SavedVersion {
    SavedVersion {
        sub: version.sub,
        kv: version.to_key_value(key),
        deleted: version.value.is_none(),
    }
}
