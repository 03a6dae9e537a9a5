//! Small files in which a node keeps what it must know after a restart.
//!
//! A record is written beside its place and renamed into it, so that a reader sees the old one
//! or the new one. After a power cut, or where somebody has put something else in its place, it
//! may still be anything: reading one never blocks and never takes more than its limit.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use rustix::fs::OFlags;

/// What a power cut may not take away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The record may be lost, or be empty.
    None,
    /// The record may be the one before, but is whole.
    Whole,
    /// The record stays.
    Kept,
}

/// How many things are put aside in the place of one record.
const MOST_ASIDE: u32 = 16;

/// The bytes of a record; none where there is no record. What is no file, or is empty or larger
/// than `limit`, is an error.
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

/// Puts a record in its place.
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

/// Whether a name in a folder of records is that of one which was never put in its place.
pub fn is_new(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    name.starts_with(b".") && name.ends_with(b".new")
}

/// Removes a record that was never put in its place: its writer was killed.
pub fn remove_new(path: &Path) {
    let _ = fs::remove_file(path); // the next start tries again
}

/// Renames what stands in the place of a record, so that a new one can be written and the old
/// one looked at. Gives its new path.
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
    // the last of many is not worth keeping; a folder may not be empty
    fs::remove_file(&last).or_else(|_| fs::remove_dir_all(&last))?;
    fs::rename(path, &last)?;
    Ok(last)
}

/// Whether something that stood in the place of this record was put aside.
pub fn was_put_aside(path: &Path) -> bool {
    fs::symlink_metadata(aside_path(path, 0)).is_ok()
}

/// Whether a name in a folder of records is that of one which was put aside.
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
