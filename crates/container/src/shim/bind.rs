//! Copies the mounts of a bind mount's source.
//!
//! The kernel refuses (ELOOP) to attach a tree that contains the file of an older mount namespace, as snapd and
//! `unshare --mount=FILE` leave them on hosts. It leaves such files out when it copies a whole mount namespace, so the
//! tree is then cloned in a copy of the host's.

use std::{
    fs,
    io::{self, Read},
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
    path::{Path, PathBuf},
};

use sys::{descriptor::open_path, mount, namespace, process};

use crate::spec::{IdMaps, Propagation};

/// Mount points of the host at which a mount namespace is kept.
#[derive(Debug, Default)]
pub(super) struct NamespaceFiles(Vec<PathBuf>);

impl NamespaceFiles {
    pub(super) fn of_this_host() -> io::Result<Self> {
        Ok(Self::parse(&fs::read_to_string("/proc/self/mountinfo")?))
    }

    fn parse(mountinfo: &str) -> Self {
        let files = mountinfo.lines().filter_map(|line| {
            let mut fields = line.split(' ').skip(3);
            let (root, point) = (fields.next()?, fields.next()?);
            root.starts_with("mnt:[").then(|| PathBuf::from(point.replace("\\040", " ")))
        });
        Self(files.collect())
    }

    fn any_below(&self, path: &Path) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        self.0.iter().any(|file| file.starts_with(&path))
    }
}

/// A detached copy of the mounts at `path`.
pub(super) fn bind(
    path: &Path,
    propagation: Propagation,
    maps: Option<&IdMaps>,
    recursive: Option<&NamespaceFiles>,
) -> io::Result<OwnedFd> {
    let tree = match recursive {
        Some(files) if files.any_below(path) => clone_without_namespace_files(path)?,
        _ => mount::clone_tree(open_path(path)?, recursive.is_some())?,
    };
    let how = match propagation {
        Propagation::Private => mount::Propagation::Private,
        Propagation::HostToContainer => mount::Propagation::Slave,
        Propagation::Bidirectional => mount::Propagation::Shared,
    };
    mount::set_propagation(&tree, how, recursive.is_some())?;
    if let Some(maps) = maps {
        mount::set_id_map(&tree, super::users::create(maps)?, recursive.is_some())?;
    }
    Ok(tree)
}

fn clone_without_namespace_files(path: &Path) -> io::Result<OwnedFd> {
    from_child(namespace::MOUNT, || mount::clone_tree(open_path(path)?, true))
}

/// The descriptor that `make` returns in a child process in new namespaces of these kinds.
pub(super) fn from_child(
    namespaces: i32,
    make: impl FnOnce() -> io::Result<OwnedFd>,
) -> io::Result<OwnedFd> {
    let (ours, theirs) = UnixStream::pair()?;
    let child = process::fork(namespaces, || {
        let sent =
            make().and_then(|made| sys::descriptor::send_with_fds(&theirs, b"\0", &[made.as_fd()]));
        sent.map_or_else(|error| error.raw_os_error().unwrap_or(1), |_| 0)
    })?;
    drop(theirs);
    let mut passed = Vec::new();
    let received = sys::descriptor::receive_with_fds(&ours, &mut [0], &mut passed);
    let _ = (&ours).read(&mut [0]); // waits until it has exited
    process::wait(child)?;
    received?;
    passed.pop().ok_or_else(|| io::Error::other("the child process made none"))
}

#[test]
fn files_of_mount_namespaces_are_found() {
    let files = NamespaceFiles::parse(
        "22 28 0:20 / /proc rw,nosuid - proc proc rw\n\
         91 28 0:4 mnt:[4026532211] /run/snapd/ns/my\\040app.mnt rw - nsfs nsfs rw\n\
         92 28 0:4 net:[4026532219] /run/netns/a rw shared:5 - nsfs nsfs rw\n",
    );
    assert_eq!(files.0, [Path::new("/run/snapd/ns/my app.mnt")]);
    assert!(files.any_below(Path::new("/")));
    assert!(!files.any_below(Path::new("/run/netns")) && !files.any_below(Path::new("/etc")));
}
