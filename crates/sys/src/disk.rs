//! Disk usage of directories.
//!
//! How long counting takes depends on whoever wrote the files, and many callers wait for the result. A count that takes
//! longer goes on in the background, and until it is done the previous result is returned.

use std::{
    collections::HashMap,
    io,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use rustix::fs::{CWD, Mode, OFlags, openat};

use crate::tree::{Found, walk};

/// How long a caller waits.
const SOON: Duration = Duration::from_millis(100);
/// Time limit of a count in the background; what was found by then is its result.
const LONGEST: Duration = Duration::from_mins(1);
/// Minimum age of a result before it is refreshed.
const FRESH: Duration = Duration::from_secs(10);
/// Maximum number of concurrent background counts.
const MOST: usize = 4;
/// Maximum number of large trees in the cache.
const MOST_KNOWN: usize = 1024;

/// Disk usage in bytes and number of entries below a directory. Files that disappear meanwhile do not count; symlinks
/// are not followed, mounts not entered. For a large tree it is the last cached result.
pub fn disk_usage(folder: &Path) -> (u64, u64) {
    if let Some(known) = KNOWN.get_or_refresh(folder) {
        return known;
    }
    let (counted, done) = count(folder, SOON);
    if !done {
        KNOWN.add(folder, counted);
    }
    counted
}

static KNOWN: Known = Known(Mutex::new(None));

/// Cache of the trees that are too large to be counted while a caller waits.
struct Known(Mutex<Option<HashMap<PathBuf, Entry>>>);

/// A cached result: bytes and entries.
#[derive(Clone, Copy)]
struct Entry {
    counted: (u64, u64),
    /// When it was counted; `None` while a count is running.
    at: Option<Instant>,
}

impl Known {
    fn lock(&self) -> MutexGuard<'_, Option<HashMap<PathBuf, Entry>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get_or_refresh(&'static self, folder: &Path) -> Option<(u64, u64)> {
        let mut guard = self.lock();
        let known = guard.as_mut()?;
        let counting = known.values().filter(|entry| entry.at.is_none()).count();
        let entry = known.get_mut(folder)?;
        let counted = entry.counted;
        if entry.at.is_some_and(|at| at.elapsed() > FRESH) && counting < MOST {
            entry.at = None;
            drop(guard);
            self.refresh(folder.to_owned());
        }
        Some(counted)
    }

    /// Counts in a thread of its own. A tree that has become small is dropped from the cache.
    fn refresh(&'static self, folder: PathBuf) {
        let thread = std::thread::Builder::new().name("disk usage".into());
        let back = folder.clone();
        let started = thread.spawn(move || {
            let began = Instant::now();
            let (counted, _) = count(&folder, LONGEST);
            let mut guard = self.lock();
            let Some(known) = guard.as_mut() else { return };
            if began.elapsed() < SOON {
                known.remove(&folder);
            } else {
                known.insert(folder, Entry { counted, at: Some(Instant::now()) });
            }
        });
        if started.is_err()
            && let Some(entry) = self.lock().as_mut().and_then(|known| known.get_mut(&back))
        {
            entry.at = Some(Instant::now()); // the next caller retries
        }
    }

    fn add(&'static self, folder: &Path, counted: (u64, u64)) {
        let mut guard = self.lock();
        let known = guard.get_or_insert_default();
        if known.len() >= MOST_KNOWN {
            known.retain(|folder, entry| entry.at.is_none() || folder.exists());
        }
        if known.len() < MOST_KNOWN {
            let at = Instant::now().checked_sub(FRESH + SOON);
            known.insert(folder.to_owned(), Entry { counted, at: at.or(Some(Instant::now())) });
            drop(guard);
            self.get_or_refresh(folder);
        }
    }
}

/// What was found in time, and whether that is everything.
fn count(folder: &Path, most: Duration) -> ((u64, u64), bool) {
    let (mut bytes, mut entries) = (0_u64, 0_u64);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(root) = openat(CWD, folder, flags, Mode::empty()) else { return ((0, 0), true) };
    let until = Instant::now() + most;
    let mut is_root = true;
    let walked = walk(root, &mut |found| {
        let (Found::Folder(_, stat) | Found::Other { stat, .. }) = found;
        if !std::mem::take(&mut is_root) {
            let blocks = u64::try_from(stat.st_blocks).unwrap_or_default();
            bytes = bytes.saturating_add(blocks.saturating_mul(512));
            entries += 1;
        }
        if entries.is_multiple_of(256) && Instant::now() > until {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(())
    });
    let late = walked.is_err_and(|error| error.kind() == io::ErrorKind::TimedOut);
    ((bytes, entries), !late)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_is_below_a_folder_counts() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("a")).expect("a folder");
        fs::write(folder.path().join("a/b"), vec![1; 10_000]).expect("a file");
        std::os::unix::fs::symlink("/", folder.path().join("a/root")).expect("a link");
        let (bytes, inodes) = disk_usage(folder.path());
        assert!(bytes >= 10_000 && inodes == 3, "{bytes} {inodes}");
        assert_eq!(disk_usage(&folder.path().join("nothing")), (0, 0));
    }

    #[test]
    fn a_large_tree_is_counted_in_the_background() {
        let folder = tempfile::tempdir_in("/dev/shm").expect("a folder");
        for at in 0..3000 {
            fs::write(folder.path().join(at.to_string()), "").expect("written");
        }
        // as if it had taken too long
        let ((_, some), done) = count(folder.path(), Duration::ZERO);
        assert!(!done && some < 3000);
        KNOWN.add(folder.path(), (0, some));
        let began = Instant::now();
        while disk_usage(folder.path()).1 != 3000 {
            assert!(began.elapsed() < Duration::from_secs(30), "never counted");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
