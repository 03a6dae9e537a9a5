//! Durable records: small files with the state that a node needs after a restart.
//!
//! A record is written to a temporary file and renamed into place, so that a reader sees the old or the new one. After
//! a power failure, or if somebody has replaced it, the file may still contain anything: reading never blocks and never
//! exceeds its limit.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use rustix::fs::OFlags;

/// What must survive a power failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Nothing: the record may be lost, or be empty.
    None,
    /// The record may be the previous one, but is complete.
    Whole,
    /// The new record.
    Kept,
}

/// Maximum number of files that are moved aside for one record.
const MOST_ASIDE: u32 = 16;

/// Reads a record; `None` if it does not exist. It is an error if it is not a regular file, is empty, or is larger than
/// `limit`.
pub fn read(path: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY;
    let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let wrong = |what: &str| Err(io::Error::new(io::ErrorKind::InvalidData, what));
    if !file.metadata()?.is_file() {
        return wrong("not a file");
    }
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    match bytes.len() as u64 {
        0 => wrong("empty"),
        size if size > limit => wrong("too large"),
        _ => Ok(Some(bytes)),
    }
}

/// Writes a record.
pub fn write(path: &Path, bytes: &[u8], durability: Durability) -> io::Result<()> {
    let new = new_path(path)?;
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            put_aside(&new)?;
        }
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(bytes)?;
    if durability != Durability::None {
        file.sync_data()?;
    }
    fs::rename(&new, path)?;
    if durability == Durability::Kept
        && let Some(folder) = path.parent()
    {
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

/// Whether this is the temporary file of a record.
pub fn is_new(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    name.starts_with(b".") && name.ends_with(b".new")
}

/// Removes the temporary file of a record whose writer was killed.
pub fn remove_new(path: &Path) {
    let _ = fs::remove_file(path); // the next start retries
}

/// Renames the file at a record's path, so that a new record can be written and the old file can be inspected. Returns
/// its new path.
pub fn put_aside(path: &Path) -> io::Result<PathBuf> {
    let mut last = None;
    for number in 0..MOST_ASIDE {
        let aside = aside_path(path, number);
        if fs::symlink_metadata(&aside).is_err() {
            fs::rename(path, &aside)?;
            return Ok(aside);
        }
        last = Some(aside);
    }
    let last = last.ok_or_else(|| io::Error::other("no name to put a record aside"))?;
    // the last of many is not worth keeping; it may be a directory with contents
    fs::remove_file(&last).or_else(|_| fs::remove_dir_all(&last))?;
    fs::rename(path, &last)?;
    Ok(last)
}

/// Whether a file was moved aside from the path of this record.
pub fn was_put_aside(path: &Path) -> bool {
    fs::symlink_metadata(aside_path(path, 0)).is_ok()
}

/// Whether this is a file that was moved aside.
pub fn is_aside(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().contains(".unreadable-"))
}

fn aside_path(path: &Path, number: u32) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".unreadable-{number}"));
    path.with_file_name(name)
}

fn new_path(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or_else(|| io::Error::other("a record without a name"))?;
    let mut new = OsString::from(".");
    new.push(name);
    new.push(".new");
    Ok(path.with_file_name(new))
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn a_record_is_whole_or_an_error_and_never_blocks() {
        let folder = std::env::temp_dir().join(format!("record-{}", std::process::id()));
        fs::create_dir(&folder).expect("a folder");
        let at = |name: &str| folder.join(name);
        assert_eq!(read(&at("none"), 10).expect("no record"), None);
        for durability in [Durability::None, Durability::Whole, Durability::Kept] {
            write(&at("good"), b"content", durability).expect("written");
        }
        assert_eq!(read(&at("good"), 7).expect("a record"), Some(b"content".to_vec()));
        assert!(read(&at("good"), 6).is_err(), "too large");
        fs::write(at("empty"), "").expect("written");
        fs::create_dir(at("folder")).expect("a folder");
        std::os::unix::fs::symlink("good", at("link")).expect("a link");
        mknodat(CWD, at("fifo"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).expect("a FIFO");
        for name in ["empty", "folder", "link", "fifo"] {
            assert!(read(&at(name), 10).is_err(), "{name}");
            for _ in 0..2 {
                let aside = put_aside(&at(name)).expect("put aside");
                assert!(is_aside(&aside) && fs::symlink_metadata(&aside).is_ok(), "{aside:?}");
                write(&at(name), b"new", Durability::None).expect("written");
            }
        }
        mknodat(CWD, at(".good.new"), FileType::Fifo, Mode::from_raw_mode(0o600), 0)
            .expect("a FIFO");
        write(&at("good"), b"other", Durability::Whole).expect("written");
        fs::create_dir_all(at(".good.new").join("below")).expect("a folder");
        write(&at("good"), b"last", Durability::Whole).expect("written");
        assert_eq!(read(&at("good"), 10).expect("a record"), Some(b"last".to_vec()));
        fs::remove_dir_all(&folder).expect("ours");
    }
}
