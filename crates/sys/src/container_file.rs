//! Safe access to files that a container can write to or replace.
//!
//! Such a name may refer to anything: a symlink to a file of the host, a FIFO without a writer, a device, a sparse file
//! of terabytes. The name is therefore first opened with `O_PATH`, which has no side effects; only a regular file is
//! then opened for reading, through that descriptor and without blocking; and every read has a limit.
//!
//! The second step goes through `/proc/self/fd`, so the caller must still see the host's `/proc`: open files before
//! entering a container's mount namespace.

use std::{
    fs::File,
    io,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::fs::FileExt,
    },
    path::Path,
};

use rustix::{
    fs::{
        CWD, FileType, Mode, OFlags, ResolveFlags, fchmod, fstat, open as open_path, openat,
        openat2,
    },
    io::Errno,
};

use crate::descriptor;

/// Opens a file by a path of the host. The directories above it must be trusted; its own name need not be, and is not
/// followed if it is a symlink.
pub fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    reopen(&openat(CWD, path, flags, Mode::empty())?, OFlags::RDONLY)
}

/// Opens a file below a directory. No component of the path is trusted: it must not contain symlinks or `..`, nor be
/// absolute.
pub fn open_beneath(folder: impl AsFd, path: &Path) -> io::Result<File> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    reopen(&resolve_place(folder, path, resolve)?, OFlags::RDONLY)
}

/// Opens a file of a root file system as a process in that root would: symlinks are followed, but none leads out of the
/// root.
pub fn open_in_root(root: impl AsFd, path: &Path) -> io::Result<File> {
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    reopen(&resolve_place(root, path, resolve)?, OFlags::RDONLY)
}

/// Replaces the contents of a file and sets its mode; creates it if it is missing. The directory must be trusted. The
/// inode stays the same, so that bind mounts of the file see the new contents.
pub fn overwrite(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let create = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = match openat(CWD, path, create, Mode::from_raw_mode(0o600)) {
        Err(Errno::EXIST) => {
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let place = openat(CWD, path, flags, Mode::empty())?;
            reopen(&place, OFlags::WRONLY | OFlags::TRUNC)?
        }
        made => File::from(made?),
    };
    file.write_all_at(content, 0)?;
    Ok(fchmod(&file, Mode::from_raw_mode(mode))?)
}

/// The first bytes of a file, at most `limit`.
pub fn read_head(file: &File, limit: usize) -> io::Result<Vec<u8>> {
    read_at(file, 0, limit)
}

/// The last bytes of a file, at most `limit`.
pub fn read_tail(file: &File, limit: usize) -> io::Result<Vec<u8>> {
    let length = file.metadata()?.len();
    read_at(file, length.saturating_sub(u64::try_from(limit).unwrap_or(u64::MAX)), limit)
}

fn resolve_place(root: impl AsFd, path: &Path, resolve: ResolveFlags) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    descriptor::resolve(|| openat2(&root, path, flags, Mode::empty(), resolve))
}

/// Opens the file at `place`, if it is a regular file. `O_NONBLOCK` matters even then: a container may hold a lease on
/// the file, and breaking it takes 45 seconds.
fn reopen(place: &OwnedFd, how: OFlags) -> io::Result<File> {
    if FileType::from_raw_mode(fstat(place)?.st_mode) != FileType::RegularFile {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let path = format!("/proc/self/fd/{}", place.as_raw_fd());
    let flags = how | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(File::from(open_path(path, flags, Mode::empty())?))
}

fn read_at(file: &File, start: u64, limit: usize) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    let mut chunk = [0; 4096];
    while out.len() < limit {
        let wanted = chunk.len().min(limit - out.len());
        let at = start.saturating_add(u64::try_from(out.len()).unwrap_or(u64::MAX));
        match file.read_at(&mut chunk[..wanted], at) {
            Ok(0) => break,
            Ok(got) => out.extend_from_slice(&chunk[..got]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use rustix::fs::mknodat;

    use super::*;

    #[test]
    fn only_regular_files_are_opened_and_nothing_blocks() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "content").expect("written");
        symlink(at("file"), at("link")).expect("a link");
        mknodat(CWD, at("fifo"), FileType::Fifo, Mode::from_raw_mode(0o666), 0).expect("a FIFO");
        fs::create_dir(at("folder")).expect("a folder");
        symlink(folder.path(), at("folder/up")).expect("a link");
        for name in ["link", "fifo", "folder", "missing"] {
            assert!(open(&at(name)).is_err(), "{name}");
        }
        assert!(open(Path::new("/dev/zero")).is_err());
        let root = crate::descriptor::open_path(folder.path()).expect("open");
        for name in ["link", "fifo", "folder", "folder/up/file", "../file", "/file", ""] {
            assert!(open_beneath(&root, Path::new(name)).is_err(), "{name}");
        }
        for name in ["fifo", "folder", "link"] {
            assert!(open_in_root(&root, Path::new(name)).is_err(), "{name}: absolute links stay");
        }
        symlink("/../../file", at("inside")).expect("a link");
        for file in [
            open(&at("file")),
            open_beneath(&root, Path::new("file")),
            open_in_root(&root, Path::new("/inside")),
        ] {
            assert_eq!(read_head(&file.expect("opened"), 100).expect("read"), b"content");
        }
    }

    #[test]
    fn a_file_is_overwritten_where_it_is_and_nothing_else() {
        use std::os::unix::fs::MetadataExt;
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        overwrite(&at("file"), b"first content", 0o666).expect("written");
        let id = fs::metadata(at("file")).expect("made").ino();
        overwrite(&at("file"), b"second", 0o644).expect("written");
        let meta = fs::metadata(at("file")).expect("there");
        assert_eq!((meta.ino(), meta.mode() & 0o7777), (id, 0o644));
        assert_eq!(fs::read(at("file")).expect("read"), b"second");
        symlink(at("file"), at("link")).expect("a link");
        mknodat(CWD, at("fifo"), FileType::Fifo, Mode::from_raw_mode(0o666), 0).expect("a FIFO");
        for name in ["link", "fifo"] {
            assert!(overwrite(&at(name), b"x", 0o644).is_err(), "{name}");
        }
        assert_eq!(fs::read(at("file")).expect("read"), b"second");
    }

    #[test]
    fn a_sparse_file_costs_no_more_than_the_limit() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("sparse");
        File::create(&path).expect("made").set_len(8 << 40).expect("grown");
        let file = open(&path).expect("opened");
        assert_eq!(read_head(&file, 5000).expect("read").len(), 5000);
        assert_eq!(read_tail(&file, 10_000).expect("read").len(), 10_000);
        fs::write(&path, "short").expect("written");
        let file = open(&path).expect("opened");
        assert_eq!(read_tail(&file, 3).expect("read"), b"ort");
        assert_eq!(read_tail(&file, 100).expect("read"), b"short");
    }
}
