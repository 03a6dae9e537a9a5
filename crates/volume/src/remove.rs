//! Unmounting and removal of volumes.

use std::{
    fs,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
};

use crate::Error;

/// Unmounts everything at or below `folder`, then removes it. The content of mounts is never touched; a missing
/// directory is no error.
pub fn unmount_and_remove(folder: &Path) -> Result<(), Error> {
    let what = folder.display().to_string();
    for _ in 0..8 {
        let mounts = mount_points_under(folder)?;
        if mounts.is_empty() {
            break;
        }
        for mount in mounts {
            sys::mount::detach_exact(&mount).map_err(Error::io(mount.display().to_string()))?;
        }
    }
    if let Some(mount) = mount_points_under(folder)?.first() {
        return Err(Error::Invalid(format!("{} is still mounted", mount.display())));
    }
    sys::tree::remove(folder).map_err(Error::io(what))
}

/// The mount points at or below a directory, deepest first.
pub fn mount_points_under(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let table = fs::read("/proc/self/mountinfo").map_err(Error::io("/proc/self/mountinfo"))?;
    let mut found: Vec<PathBuf> = table
        .split(|byte| *byte == b'\n')
        .filter_map(|line| line.split(|byte| *byte == b' ').nth(4))
        .map(|path| PathBuf::from(std::ffi::OsString::from_vec(unescape(path))))
        .filter(|path| path.starts_with(folder))
        .collect();
    found.sort_by_key(|path| std::cmp::Reverse(path.components().count()));
    Ok(found)
}

/// Decodes the octal escapes of spaces and other characters in mountinfo.
fn unescape(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len());
    let mut rest = path;
    while let [first, tail @ ..] = rest {
        let octal = |digits: &[u8]| {
            digits.iter().try_fold(0_u8, |n, digit| {
                let digit = digit.checked_sub(b'0').filter(|digit| *digit < 8)?;
                n.checked_mul(8)?.checked_add(digit)
            })
        };
        let escape = tail.split_at_checked(3).filter(|_| *first == b'\\');
        let escape = escape.and_then(|(digits, after)| Some((octal(digits)?, after)));
        let (byte, after) = escape.unwrap_or((*first, tail));
        out.push(byte);
        rest = after;
    }
    out
}

#[test]
fn paths_with_spaces_are_read() {
    assert_eq!(unescape(br"/a\040b\134c"), br"/a b\c");
}
