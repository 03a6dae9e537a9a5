//! Mounts by descriptor: mount trees are created detached, configured, then attached.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    path::Path,
};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, open, openat2};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags,
    fsconfig_create, fsconfig_set_fd, fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen,
    move_mount, open_tree, unmount,
};

pub const READ_ONLY: u64 = 1;
pub const NO_SUID: u64 = 2;
pub const NO_DEV: u64 = 4;
pub const NO_EXEC: u64 = 8;
const ID_MAP: u64 = 0x0010_0000;

/// Mount propagation between mount namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    Private,
    Slave,
    Shared,
}

/// Creates a detached mount of a new file system. Options without a value are flags.
pub fn new_filesystem(
    kind: &str,
    options: &[(&str, Option<&str>)],
    attributes: u64,
) -> io::Result<OwnedFd> {
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in options {
        match value {
            Some(value) => fsconfig_set_string(&context, *key, *value)?,
            None => fsconfig_set_flag(&context, *key)?,
        }
    }
    fsconfig_create(&context)?;
    let attributes = MountAttrFlags::from_bits_retain(u32::try_from(attributes).expect("32 bits"));
    Ok(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
}

/// A procfs of a PID namespace, created from outside of it. Fails on kernels before 6.17.
pub fn processes(pids: impl AsFd, attributes: u64) -> io::Result<OwnedFd> {
    let context = fsopen("proc", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_fd(&context, "pidns", pids)?;
    fsconfig_create(&context)?;
    let attributes = MountAttrFlags::from_bits_retain(u32::try_from(attributes).expect("32 bits"));
    Ok(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
}

/// Creates an overlay of lower directories, topmost first. `upper` is the upper directory and the work directory;
/// without it the overlay is read-only.
pub fn overlay(layers: &[impl AsRef<str>], upper: Option<(&str, &str)>) -> io::Result<OwnedFd> {
    let mut above = Vec::new();
    if let Some((upper, work)) = upper {
        above.extend([("upperdir", Some(upper)), ("workdir", Some(work))]);
    }
    let each = layers.iter().map(|layer| ("lowerdir+", Some(layer.as_ref())));
    let options: Vec<_> = each.chain(above.iter().copied()).collect();
    match new_filesystem("overlay", &options, 0) {
        // kernels before 6.7 take all layers as one option
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            overlay_with_lowerdir(layers, &above)
        }
        made => made,
    }
}

/// Creates an overlay with the `lowerdir` option. The layers are named by their descriptors, because an option has at
/// most 255 bytes.
fn overlay_with_lowerdir(
    layers: &[impl AsRef<str>],
    above: &[(&str, Option<&str>)],
) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = |path: &str| Ok(open(path, flags, Mode::empty())?);
    let opened: Vec<OwnedFd> =
        layers.iter().map(|layer| folder(layer.as_ref())).collect::<io::Result<_>>()?;
    let names: Vec<String> = opened.iter().map(|layer| layer.as_raw_fd().to_string()).collect();
    let word = names.join(":");
    let mut options = vec![("lowerdir", Some(word.as_str()))];
    options.extend(above);
    let here = folder(".")?;
    rustix::process::chdir("/proc/self/fd")?;
    let made = new_filesystem("overlay", &options, 0);
    rustix::process::fchdir(here)?;
    made
}

/// A detached copy of the mounts at `file` (any descriptor, also with `O_PATH`).
pub fn clone_tree(file: impl AsFd, recursive: bool) -> io::Result<OwnedFd> {
    let mut flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH;
    if recursive {
        flags |= OpenTreeFlags::AT_RECURSIVE;
    }
    Ok(open_tree(file, "", flags)?)
}

/// Attaches a detached mount tree at `target`.
pub fn attach_tree(tree: impl AsFd, target: impl AsFd) -> io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(move_mount(tree, "", target, "", flags)?)
}

/// `struct mount_attr`.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

/// Sets attributes of the mount at `tree`, and of all mounts below it if `recursive`.
pub fn set_attributes(tree: impl AsFd, attributes: u64, recursive: bool) -> io::Result<()> {
    mount_setattr(tree, &Attributes { set: attributes, ..Attributes::default() }, recursive)
}

/// Clears attributes of the mount at `tree`.
pub fn clear_attributes(tree: impl AsFd, attributes: u64) -> io::Result<()> {
    mount_setattr(tree, &Attributes { clear: attributes, ..Attributes::default() }, false)
}

/// Sets the propagation of the mount at `tree`, and of all mounts below it if `recursive`.
pub fn set_propagation(tree: impl AsFd, how: Propagation, recursive: bool) -> io::Result<()> {
    let propagation = match how {
        Propagation::Private => libc::MS_PRIVATE,
        Propagation::Slave => libc::MS_SLAVE,
        Propagation::Shared => libc::MS_SHARED,
    };
    mount_setattr(tree, &Attributes { propagation, ..Attributes::default() }, recursive)
}

/// Makes a detached tree an idmapped mount: file owners appear as the user namespace maps them.
pub fn set_id_map(tree: impl AsFd, user_namespace: impl AsFd, recursive: bool) -> io::Result<()> {
    let user_namespace =
        u64::try_from(user_namespace.as_fd().as_raw_fd()).expect("descriptors are not negative");
    mount_setattr(
        tree,
        &Attributes { set: ID_MAP, user_namespace, ..Attributes::default() },
        recursive,
    )
}

fn mount_setattr(tree: impl AsFd, attributes: &Attributes, recursive: bool) -> io::Result<()> {
    const AT_RECURSIVE: i32 = 0x8000;
    let flags = libc::AT_EMPTY_PATH | if recursive { AT_RECURSIVE } else { 0 };
    // SAFETY: an open descriptor, an empty string and a structure of the size that is passed.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_fd().as_raw_fd(),
            c"".as_ptr(),
            flags,
            std::ptr::from_ref(attributes),
            size_of::<Attributes>(),
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Detaches the mount at `path` lazily, even if it is busy.
pub fn lazy_unmount(path: &Path) -> io::Result<()> {
    Ok(unmount(path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW)?)
}

/// Detaches the mount at `path`, which must not contain symlinks. Unlike `lazy_unmount`, this is safe for paths through
/// directories that a container can write to.
pub fn detach_exact(path: &Path) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let place = openat2(CWD, path, flags, Mode::empty(), resolve)?;
    let path = format!("/proc/self/fd/{}", place.as_raw_fd());
    Ok(unmount(path, UnmountFlags::DETACH)?)
}

/// Makes the current directory, which must be a mount, the root of this mount namespace, and detaches the old root.
pub fn pivot_root() -> io::Result<()> {
    rustix::process::pivot_root(c".", c".")?;
    unmount(c".", UnmountFlags::DETACH)?;
    Ok(rustix::process::chdir(c"/")?)
}
