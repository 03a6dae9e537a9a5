//! Executables that cannot be overwritten through `/proc/PID/exe`.
//!
//! A container's first process executes the runtime until it executes its own program, and its `/proc/self/exe` is the
//! runtime's own file, which a malicious image can get hold of (CVE-2019-5736). Programs that run near containers are
//! therefore started through a descriptor with the same contents that can never be written.

use std::{
    ffi::OsStr,
    fs::File,
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    path::Path,
};

use rustix::fs::{
    CWD, MemfdFlags, Mode, OFlags, SealFlags, fchmod, fcntl_add_seals, memfd_create, openat,
};

use crate::mount;

/// Opens a descriptor to execute `path` by, as `/proc/self/fd/N`.
///
/// It is a file of a read-only overlay, which shares the page cache with the file itself; where the kernel does not
/// support that, a sealed copy in memory. `empty` is an empty directory that the overlay needs as a second layer.
pub fn protected(path: &Path, empty: &Path) -> io::Result<OwnedFd> {
    through_overlay(path, empty).or_else(|_| sealed_copy(path))
}

fn through_overlay(path: &Path, empty: &Path) -> io::Result<OwnedFd> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
    let path = path.canonicalize()?;
    let (folder, name) =
        (path.parent().ok_or_else(invalid)?, path.file_name().ok_or_else(invalid)?);
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let layers =
        [openat(CWD, folder, flags, Mode::empty())?, openat(CWD, empty, flags, Mode::empty())?];
    // By descriptor, because the kernel accepts at most 255 bytes here.
    let names = layers.each_ref().map(|layer| format!("/proc/self/fd/{}", layer.as_raw_fd()));
    let tree = mount::overlay(&names, None)?;
    mount::set_attributes(&tree, mount::READ_ONLY | mount::NO_SUID | mount::NO_DEV, false)?;
    open_file(&tree, name)
}

fn open_file(folder: impl AsFd, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(folder, name, flags, Mode::empty())?)
}

fn sealed_copy(path: &Path) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let mut copy = File::from(memfd_create("executable", flags)?);
    io::copy(&mut File::open(path)?, &mut copy)?;
    fchmod(&copy, Mode::from_raw_mode(0o500))?;
    fcntl_add_seals(
        &copy,
        SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE,
    )?;
    Ok(copy.into())
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, OpenOptions},
        os::unix::fs::PermissionsExt,
        process::Command,
    };

    use super::*;

    fn program(folder: &Path) -> std::path::PathBuf {
        let path = folder.join("program");
        fs::write(&path, "#!/bin/sh\necho ran\n").expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("allowed");
        path
    }

    fn runs(executable: &OwnedFd) -> bool {
        let path = format!("/proc/{}/fd/{}", std::process::id(), executable.as_raw_fd());
        let output = Command::new(path).output().expect("started");
        output.stdout == b"ran\n"
    }

    /// What a container would do with `/proc/PID/exe`.
    fn write(executable: &OwnedFd) -> io::Result<File> {
        let path = format!("/proc/self/fd/{}", executable.as_raw_fd());
        OpenOptions::new().write(true).truncate(true).open(path)
    }

    #[test]
    fn it_runs_and_cannot_be_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let empty = tempfile::tempdir().expect("a folder");
        let path = program(folder.path());
        let overlay = through_overlay(&path, empty.path()).expect("this kernel has overlays");
        for executable in [overlay, sealed_copy(&path).expect("copied")] {
            assert!(runs(&executable));
            write(&executable).expect_err("never");
            // Replaced as by an upgrade: the open descriptor keeps the old contents.
            fs::rename(program(&fs::canonicalize(empty.path()).expect("a folder")), &path)
                .expect("replaced");
            assert!(runs(&executable));
        }
        assert!(fs::read_to_string(&path).expect("still there").contains("ran"));
    }
}
