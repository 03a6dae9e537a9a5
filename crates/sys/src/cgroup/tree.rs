//! A cgroup and its descendants.
//!
//! A container that may write to its cgroup can create child cgroups and move into them, in one hierarchy and not in
//! another. Killing and removing a cgroup therefore covers all of them.

use std::{
    collections::BTreeSet,
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use super::Cgroup;

impl Cgroup {
    /// The processes of the cgroup and its descendants, in any hierarchy.
    pub fn processes(&self) -> BTreeSet<i32> {
        let mut all = BTreeSet::new();
        for (_, folder) in &self.dirs {
            for group in with_descendants(folder) {
                let text = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
                all.extend(text.lines().filter_map(|line| line.parse::<i32>().ok()));
            }
        }
        all.remove(&0); // 0 is a process outside of this PID namespace
        all
    }

    /// Removes the cgroup and its empty descendants.
    pub fn remove(&self) -> io::Result<()> {
        for (_, folder) in &self.dirs {
            for group in with_descendants(folder).iter().rev() {
                remove(group)?;
            }
        }
        Ok(())
    }
}

/// The directory of a cgroup and all directories below it, each after its parent. Empty if it does not exist.
pub(super) fn with_descendants(folder: &Path) -> Vec<PathBuf> {
    descendants_until(folder, |_| false)
}

/// Like `with_descendants`, but does not descend below cgroups that are `last`.
pub(super) fn descendants_until(folder: &Path, last: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
    let mut found = vec![folder.to_owned()];
    let mut at = 0;
    while let Some(group) = found.get(at) {
        // A cgroup directory has a link for itself, one in its parent, and one for each child.
        let Ok(data) = fs::symlink_metadata(group) else {
            found.remove(at);
            continue;
        };
        at += 1;
        if data.nlink() != 2 && !last(&found[at - 1]) {
            let entries = fs::read_dir(&found[at - 1]).into_iter().flatten().flatten();
            let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            found.extend(folders.map(|entry| entry.path()).collect::<Vec<_>>());
        }
    }
    found
}

fn remove(folder: &Path) -> io::Result<()> {
    for _ in 0..50 {
        match fs::remove_dir(folder) {
            // the kernel releases the last process a little after it was reaped
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                thread::sleep(Duration::from_millis(2));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            done => return done,
        }
    }
    fs::remove_dir(folder)
}
