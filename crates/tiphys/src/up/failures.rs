//! Records of why a process of the cluster did not start: the supervisor writes them, `up` reports them at once.

use std::{
    fs::{self, File},
    io::{Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

use super::{DataDir, layout::write_private};

const PARTS: [&str; 2] = ["control", "node"];
/// Number of bytes at the end of a log in which the last line is searched.
const TAIL: u64 = 64 << 10;

/// Records that a process has exited this many times in a row soon after its start.
pub(super) fn note(layout: &DataDir, part: &str, in_a_row: u32, why: &str) {
    let _ = write_private(&path(layout, part), format!("{in_a_row}\n{why}").as_bytes());
}

/// Deletes the records.
pub(super) fn clear(layout: &DataDir) {
    for part in PARTS {
        let _ = fs::remove_file(path(layout, part));
    }
}

/// The error of a process that cannot start. One exit may be an accident; the second in a row is a failure.
pub(super) fn find(layout: &DataDir) -> Option<String> {
    PARTS.into_iter().find_map(|part| {
        let text = fs::read_to_string(path(layout, part)).ok()?;
        let (in_a_row, why) = text.split_once('\n')?;
        let failed = in_a_row.parse::<u32>().ok()? >= 2;
        let why = why.strip_prefix(&format!("{part}: ")).unwrap_or(why);
        failed.then(|| format!("{part} cannot start: {why}"))
    })
}

/// The last line of a log behind this offset.
pub(super) fn last_line(log: &Path, from: u64) -> Option<String> {
    let mut file = File::open(log).ok()?;
    let end = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(from.max(end.saturating_sub(TAIL)))).ok()?;
    let mut bytes = Vec::new();
    file.take(TAIL).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    text.lines().rfind(|line| !line.trim().is_empty()).map(str::to_owned)
}

fn path(layout: &DataDir, part: &str) -> PathBuf {
    layout.path("run").join(format!("{part}.failure"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_failure_in_a_row_is_reported_with_its_own_error() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("run")).unwrap();
        let layout = DataDir::new(folder.path());
        note(&layout, "node", 1, "node: no room");
        assert_eq!(find(&layout), None);
        note(&layout, "node", 2, "node: no room");
        assert_eq!(find(&layout).as_deref(), Some("node cannot start: no room"));
        clear(&layout);
        assert_eq!(find(&layout), None);
    }

    #[test]
    fn the_last_line_is_that_of_the_last_start() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("control.log");
        fs::write(&log, "old\n").unwrap();
        assert_eq!(last_line(&log, 4), None);
        fs::write(&log, "old\nfirst\ncontrol: broken\n\n").unwrap();
        assert_eq!(last_line(&log, 4).as_deref(), Some("control: broken"));
    }
}
