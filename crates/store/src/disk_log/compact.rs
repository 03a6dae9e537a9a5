//! Log compaction: writes a snapshot in the background and removes the files that it replaces.

use std::io;

use tracing::{error, info, warn};

use super::{
    Inner, STATE_RESERVE,
    files::{LogFiles, SpaceState, read},
    segment::Segment,
    snapshot::{self, Snapshot, SnapshotError},
};
use crate::{Checkpoint, Error, KeyStates, Record, disk::is_no_space, keys::KeyIndex};

impl Inner {
    /// Writes the snapshot described by `image`, and removes the files that it replaces.
    pub(super) fn compact(&self, image: &Checkpoint) {
        let (snapshot, segments) = {
            let files = self.files();
            (files.snapshots.last().cloned(), files.segments.clone())
        };
        let mut written = self.write(image, snapshot.as_ref(), &segments);
        if written.as_ref().is_err_and(no_room) {
            {
                let _files = self.files(); // so that `reserve` does not lose the file while it resizes it
                self.remove(STATE_RESERVE); // created again before the next segment
            }
            written = self.write(image, snapshot.as_ref(), &segments);
        }
        let mut files = self.files();
        files.compacting = false;
        match written {
            Ok(snapshot) => {
                info!(revision = snapshot.revision, bytes = snapshot.size, "wrote a snapshot");
                files.snapshots.push(snapshot);
                files.snapshot_backoff_bytes = 0;
                let give_up = files.room != SpaceState::Enough;
                self.retain(&mut files, give_up);
                if files.room == SpaceState::Full {
                    files.room = SpaceState::Enough; // there may be space now: creating the next segment will show
                    // Otherwise the little space left in this segment would keep all of it from being removed.
                    let end = files.end();
                    end.size = end.end;
                }
            }
            Err(error) => {
                error!(%error, "cannot write a snapshot; keeping the log and retrying after it has grown further");
                let _ = self.disk.remove(snapshot::NEXT); // the next attempt removes it, too
                files.snapshot_backoff_bytes = files.grown() + self.options.compact_threshold / 4;
            }
        }
    }

    fn write(
        &self,
        image: &Checkpoint,
        snapshot: Option<&Snapshot>,
        segments: &[Segment],
    ) -> Result<Snapshot, SnapshotError> {
        let from = snapshot.map_or(0, |snapshot| snapshot.revision);
        let all = |take: &mut dyn FnMut(Record)| {
            if let Some(snapshot) = snapshot {
                snapshot.read(1, take)?; // one thread: other work is more urgent
            }
            read(segments, from, &mut |record| {
                if record.revision <= image.revision {
                    take(record);
                }
            })
        };
        let heads = match &image.heads {
            Some(heads) => heads.clone(),
            None => heads(image.floor, all)?,
        };
        Snapshot::write(&*self.disk, image, &heads, self.clock.now(), all)
    }

    /// Removes files older than the retention time. If the disk is full, removes everything that the newest snapshot
    /// does not need.
    pub(super) fn retain(&self, files: &mut LogFiles, no_room: bool) {
        let retain = i64::try_from(self.options.retain.as_secs()).unwrap_or(i64::MAX);
        let old = self.clock.now().saturating_sub(retain);
        let keep = files.snapshots.iter().rposition(|snapshot| no_room || snapshot.made <= old);
        let Some(keep) = keep else { return };
        let base = files.snapshots[keep].revision;
        // Snapshots are removed first, because a snapshot needs all segments after it. One that cannot be removed is
        // read on the next start, and needs the rest.
        let gone = files.snapshots[..keep].iter().take_while(|state| self.remove(&state.name));
        let gone = gone.count();
        files.snapshots.drain(..gone);
        if gone < keep {
            return;
        }
        if let Err(error) = self.disk.sync() {
            warn!(%error, "cannot sync the directory; keeping old files");
            return;
        }
        let open = files.segments.len().saturating_sub(1);
        let replaced = files.segments[..open].iter().take_while(|s| s.last <= base).count();
        let kept = files.segments[replaced].base;
        files.segments.drain(..replaced);
        let names = self.disk.list().unwrap_or_default();
        for name in names.iter().filter(|n| Segment::base_of(n).is_some_and(|base| base < kept)) {
            self.remove(name);
        }
    }

    /// Removes a file; true if it no longer exists.
    fn remove(&self, name: &str) -> bool {
        match self.disk.remove(name) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            Err(error) => {
                warn!(name, %error, "cannot remove a file of the log");
                false
            }
        }
    }
}

/// The state of every key at revision `floor`.
fn heads(
    floor: u64,
    all: impl Fn(&mut dyn FnMut(Record)) -> Result<(), Error>,
) -> Result<KeyStates, Error> {
    let mut keys = KeyIndex::default();
    all(&mut |record| {
        if record.revision <= floor {
            keys.apply(&record);
        }
    })?;
    Ok(keys.heads())
}

fn no_room(failed: &SnapshotError) -> bool {
    matches!(failed, SnapshotError::Disk(error) if is_no_space(error))
}
