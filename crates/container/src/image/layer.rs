//! Unpacks a layer into a lower directory for overlayfs. Deletions become whiteout devices and opaque directories;
//! everything else keeps owner, mode, times and extended attributes.

use std::{
    ffi::OsStr,
    io::{self, BufReader, Read},
    os::unix::ffi::OsStrExt,
    path::PathBuf,
};

use flate2::bufread::MultiGzDecoder;
use rustix::{
    fs::{self, AtFlags, FileType, Mode, Timespec, Timestamps, XattrFlags},
    io::Errno,
};
use serde::{Deserialize, Serialize};
use tar::EntryType;

use super::{
    Digest, Error, Result,
    digest::DigestStream,
    disk_reserve::{DiskReserve, Reserving},
    entries::{TarEntry, TarReader},
    root::{self, EntryPath, ExtractRoot},
};

/// Limits for unpacking the layers of one image.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) bytes: u64,
    pub(super) entries: u64,
}

pub(super) const LIMITS: Limits = Limits { bytes: 64 << 30, entries: 2_000_000 };
/// Maximum expansion: the unpacked image may be this many times larger than its compressed layers. Programs and texts
/// compress to about a fifth. An image that is not larger than `FREE` may have any ratio.
const EXPANSION: u64 = 100;
const FREE: u64 = 512 << 20;
/// An entry takes an inode, and a directory a block, however well its header compresses: for each this many bytes of
/// the limit.
const BYTES_PER_ENTRY: u64 = 1 << 10;
/// Number of new inodes between two checks of the disk. A short path can create hundreds of directories.
const INODES_PER_CHECK: u64 = 1000;
/// Maximum memory in bytes for the paths of a layer's directories.
const HELD_PATHS: usize = 16 << 20;

impl Limits {
    /// The limits of an image whose compressed layers have this size.
    pub(super) fn of_compressed(bytes: u64) -> Self {
        let bytes = bytes.saturating_mul(EXPANSION).clamp(FREE, LIMITS.bytes);
        Self { bytes, entries: (bytes / BYTES_PER_ENTRY).min(LIMITS.entries) }
    }
}

/// Size and number of inodes of an unpacked layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskUsage {
    pub bytes: u64,
    pub inodes: u64,
}

/// Unpacks `blob`, compressed or not; returns the digest of the uncompressed layer. What it uses is subtracted from the
/// limits.
pub(super) fn unpack(
    blob: impl Read,
    root: &ExtractRoot,
    limits: &mut Limits,
) -> Result<(Digest, DiskUsage)> {
    let reserve = DiskReserve::new(root.as_dir().try_clone()?)?;
    let plain = Reserving::new(decompress(blob)?, root.as_dir().try_clone()?)?;
    let mut entries = TarReader::new(DigestStream::new(plain, limits.bytes));
    let mut unpacking =
        LayerUnpacker { root, usage: DiskUsage::default(), directories: Vec::new(), held: 0 };
    let mut checked = 0;
    while let Some(entry) = entries.next()? {
        if unpacking.usage.inodes >= limits.entries {
            let most = limits.entries;
            return Err(Error::malformed(format!(
                "layer with more than {most} entries, which is too many for the size of its image"
            )));
        }
        unpacking.add(&entry, &mut entries)?;
        if unpacking.usage.inodes - checked >= INODES_PER_CHECK {
            checked = unpacking.usage.inodes;
            reserve.check()?;
        }
    }
    unpacking.finish()?;
    let mut rest = entries.into_inner();
    io::copy(&mut rest, &mut io::sink())?; // the digest covers the padding, too
    let (_, digest, length) = rest.finish();
    limits.bytes = limits.bytes.saturating_sub(length);
    limits.entries = limits.entries.saturating_sub(unpacking.usage.inodes);
    Ok((digest, unpacking.usage))
}

/// Decompresses a blob. The format is detected by its first bytes, because media types are often wrong.
pub(super) fn decompress<'a>(blob: impl Read + 'a) -> Result<Box<dyn Read + 'a>> {
    let mut blob = BufReader::with_capacity(1 << 17, blob);
    let start = io::BufRead::fill_buf(&mut blob)?;
    Ok(if start.starts_with(&[0x1f, 0x8b]) {
        Box::new(MultiGzDecoder::new(blob))
    } else if start.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        let mut decoder = zstd::Decoder::with_buffer(blob)?;
        decoder.window_log_max(27)?; // 128 MiB, what the zstd program itself accepts
        Box::new(decoder)
    } else {
        Box::new(blob)
    })
}

/// State of unpacking one layer.
struct LayerUnpacker<'a> {
    root: &'a ExtractRoot,
    usage: DiskUsage,
    /// Directories and their modification times, which are set last because filling a directory changes them.
    directories: Vec<(PathBuf, (i64, u32))>,
    /// Bytes of their paths.
    held: usize,
}

impl LayerUnpacker<'_> {
    fn add(&mut self, entry: &TarEntry, data: &mut impl Read) -> Result<()> {
        let place = self.root.resolve_creating_parents(&entry.path)?;
        self.usage.inodes += 1 + self.root.take_made_parents();
        let Some(place) = place else {
            return if entry.kind.is_dir() { self.add_root(entry) } else { Ok(()) };
        };
        if let Some(hidden) = place.name.as_bytes().strip_prefix(b".wh.") {
            return whiteout(&place, OsStr::from_bytes(hidden));
        }
        match entry.kind {
            EntryType::Directory => self.add_directory(entry, &place),
            EntryType::Link => self.add_link(entry, &place),
            _ => {
                place.clear()?;
                self.add_leaf(entry, &place, data)?;
                set_attributes(entry, &place)?;
                set_times(&place, entry.modified)
            }
        }
    }

    fn add_root(&mut self, entry: &TarEntry) -> Result<()> {
        let (uid, gid) = owner(entry);
        fs::fchown(self.root.as_dir(), Some(uid), Some(gid))?;
        fs::fchmod(self.root.as_dir(), Mode::from_raw_mode(entry.mode))?;
        Ok(())
    }

    fn add_directory(&mut self, entry: &TarEntry, place: &EntryPath) -> Result<()> {
        let there = place
            .stat()?
            .is_some_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory);
        if !there {
            let hidden = place.clear()?;
            fs::mkdirat(&place.parent, &place.name, Mode::from_raw_mode(0o700))?;
            if hidden {
                root::make_opaque(&place.open_directory()?)?; // deleted and recreated in the same layer
            }
        }
        self.held += entry.path.as_os_str().len();
        if self.held > HELD_PATHS {
            return Err(Error::malformed("layer with too many long names of directories"));
        }
        self.directories.push((entry.path.clone(), entry.modified));
        set_attributes(entry, place)
    }

    /// Creates a hard link. It shares the attributes of its target, so none are set.
    fn add_link(&mut self, entry: &TarEntry, place: &EntryPath) -> Result<()> {
        let target = self.root.resolve_existing(&entry.link)?;
        let missing = || {
            let (path, link) = (entry.path.display(), entry.link.display());
            Error::malformed(format!(
                "archive entry {path} links to {link}, which is not in its layer"
            ))
        };
        let Some(stat) = target.stat()? else { return Err(missing()) };
        if place.stat()?.is_some_and(|old| (old.st_dev, old.st_ino) == (stat.st_dev, stat.st_ino)) {
            return Ok(());
        }
        place.clear()?;
        fs::linkat(&target.parent, &target.name, &place.parent, &place.name, AtFlags::empty())
            .map_err(|_| missing())
    }

    fn add_leaf(
        &mut self,
        entry: &TarEntry,
        place: &EntryPath,
        data: &mut impl Read,
    ) -> Result<()> {
        let node = |kind| {
            let device = fs::makedev(entry.device.0, entry.device.1);
            fs::mknodat(&place.parent, &place.name, kind, Mode::from_raw_mode(0o600), device)
        };
        match entry.kind {
            EntryType::Regular | EntryType::Continuous => {
                self.usage.bytes += io::copy(data, &mut place.create_file()?)?;
            }
            EntryType::Symlink => fs::symlinkat(&entry.link, &place.parent, &place.name)?,
            EntryType::Char => node(FileType::CharacterDevice)?,
            EntryType::Block => node(FileType::BlockDevice)?,
            EntryType::Fifo => node(FileType::Fifo)?,
            kind => {
                let path = entry.path.display();
                return Err(Error::malformed(format!(
                    "archive entry {path} of unknown type {kind:?}"
                )));
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        for (path, modified) in self.directories.drain(..).rev() {
            // A later entry may have replaced it; nothing is created for it again.
            let Ok(place) = self.root.resolve_existing(&path) else { continue };
            let still = place
                .stat()?
                .is_some_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory);
            if still {
                set_times(&place, modified)?;
            }
        }
        Ok(())
    }
}

/// Handles a whiteout entry: deletes a name of the lower layers, or makes a directory opaque.
fn whiteout(place: &EntryPath, hidden: &OsStr) -> Result<()> {
    match hidden.as_bytes() {
        b".wh..opq" => return root::make_opaque(&place.parent),
        other if other.starts_with(b".wh.") => return Ok(()), // bookkeeping of the old aufs driver
        b"" | b"." | b".." => {
            return Err(Error::malformed("archive entry with an invalid whiteout"));
        }
        _ => {}
    }
    let parent = place.parent.try_clone()?;
    let hidden = EntryPath { parent, name: hidden.to_owned() };
    match hidden.stat()? {
        None => {
            let mode = Mode::from_raw_mode(0o600);
            Ok(fs::mknodat(
                &hidden.parent,
                &hidden.name,
                FileType::CharacterDevice,
                mode,
                fs::makedev(0, 0),
            )?)
        }
        // The layer deletes the lower entry and has a directory with the same name: the lower one must not show
        // through.
        Some(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => {
            root::make_opaque(&hidden.open_directory()?)
        }
        Some(_) => Ok(()),
    }
}

/// Sets owner, mode and extended attributes. The owner comes first, because changing it clears set-id bits and
/// capabilities.
fn set_attributes(entry: &TarEntry, place: &EntryPath) -> Result<()> {
    let (uid, gid) = owner(entry);
    fs::chownat(&place.parent, &place.name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
    if entry.kind != EntryType::Symlink {
        fs::chmodat(&place.parent, &place.name, Mode::from_raw_mode(entry.mode), AtFlags::empty())?;
    }
    for (name, value) in entry.xattrs.iter().filter(|(name, _)| is_allowed_xattr(name)) {
        match fs::lsetxattr(place.proc_fd_path(), name.as_str(), value, XattrFlags::empty()) {
            Ok(()) | Err(Errno::NOTSUP) => {} // file systems without user attributes
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Whether an extended attribute is kept. `trusted.overlay.*` would control the overlay mount, and security labels are
/// assigned by the host.
fn is_allowed_xattr(xattr: &str) -> bool {
    xattr == "security.capability"
        || (xattr.starts_with("user.") && !xattr.starts_with("user.overlay."))
        || xattr.starts_with("system.posix_acl_")
}

fn set_times(place: &EntryPath, (seconds, nanos): (i64, u32)) -> Result<()> {
    let time = Timespec { tv_sec: seconds, tv_nsec: nanos.into() };
    let times = Timestamps { last_access: time, last_modification: time };
    Ok(fs::utimensat(&place.parent, &place.name, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

fn owner(entry: &TarEntry) -> (fs::Uid, fs::Gid) {
    (fs::Uid::from_raw(entry.owner.0), fs::Gid::from_raw(entry.owner.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A path creates its parents, which are no entries: a header of half a kilobyte for a hundred directories, each a
    /// block of the disk.
    #[test]
    fn parents_count_as_entries() {
        let mut archive = tar::Builder::new(Vec::new());
        for number in 0..100 {
            let mut header = tar::Header::new_ustar();
            header.set_size(0);
            let path = format!("{number}{}/f", "/d".repeat(100));
            header.set_path(path).expect("fits into a header");
            header.set_cksum();
            archive.append(&header, io::empty()).expect("in memory");
        }
        let layer = archive.into_inner().expect("in memory");
        let unpack_within = |entries| {
            let dir = tempfile::tempdir_in("/dev/shm").expect("a folder");
            let root = ExtractRoot::open(dir.path(), Vec::new()).expect("a folder");
            unpack(&layer[..], &root, &mut Limits { entries, ..LIMITS })
        };
        assert_eq!(unpack_within(20_000).expect("enough").1.inodes, 100 * 102);
        let error = unpack_within(5_000).expect_err("too many").to_string();
        assert!(error.contains("more than 5000 entries"), "{error}");
    }

    #[test]
    fn small_images_have_few_entries() {
        assert_eq!(Limits::of_compressed(1 << 20).entries, 1 << 19);
        assert_eq!(Limits::of_compressed(1 << 30).entries, LIMITS.entries);
    }
}
