//! The root file system of a container, built from descriptors in its own mount namespace: nothing is visible outside,
//! and nothing remains when its last process exits.

use std::{
    fs::File,
    io,
    os::fd::{AsFd, OwnedFd},
    path::Path,
};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, mknodat, statat, symlinkat};
use sys::{
    descriptor::{
        create_dir_in, create_file_in, make_plain_folder, null_mount, open_path, open_path_in,
    },
    mount, namespace,
};

use super::{
    bind::{NamespaceFiles, bind, from_child},
    user::Accounts,
};
use crate::spec::{ContainerSpec, Device, Mount, MountSource};

/// The host's files that must be opened before the host's mount namespace is left.
#[derive(Debug)]
pub(super) struct PreparedRootfs {
    root: OwnedFd,
    /// One entry for each mount of the specification.
    sources: Vec<Option<OwnedFd>>,
    devices: Vec<Stat>,
    processes: Processes,
}

/// Which procfs a container gets.
#[derive(Debug)]
pub(super) enum Processes {
    /// That of the PID namespace of this process.
    Own,
    /// That of another PID namespace, not attached yet.
    Other(OwnedFd),
}

type Result<T> = std::result::Result<T, String>;

/// Adds the failed operation to an error.
pub(super) trait ErrorContext<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: std::fmt::Display> ErrorContext<T> for std::result::Result<T, E> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| format!("{}: {error}", what()))
    }
}

/// Opens all sources on the host.
pub(super) fn prepare(
    spec: &ContainerSpec,
    users: Option<&File>,
    processes: Processes,
) -> Result<PreparedRootfs> {
    let root = overlay(spec, users).doing(|| "mount the root file system".into())?;
    let recursive =
        |mount: &Mount| matches!(mount.source, MountSource::Bind { only_this: false, .. });
    let files = match spec.mounts.iter().any(recursive) {
        true => NamespaceFiles::of_this_host().doing(|| "read the table of mounts".into())?,
        false => NamespaceFiles::default(),
    };
    let sources =
        spec.mounts.iter().map(|mount| open_source(mount, &files)).collect::<Result<_>>()?;
    let device = |device: &Device| {
        let stat = open_path(&device.host).and_then(|host| Ok(fstat(host)?));
        stat.doing(|| format!("open device {}", device.host.display()))
    };
    let devices = spec.devices.iter().map(device).collect::<Result<_>>()?;
    Ok(PreparedRootfs { root, sources, devices, processes })
}

/// A procfs of a PID namespace.
pub(super) fn processes_of(pids: &File) -> Result<OwnedFd> {
    mount::processes(pids, QUIET)
        .or_else(|_| processes_from_inside(pids))
        .doing(|| "show the processes of the pid namespace".into())
}

/// Creates the procfs on kernels before 6.17, where only a process in the PID namespace can do it: forks one for that
/// purpose.
fn processes_from_inside(pids: &File) -> io::Result<OwnedFd> {
    let own = namespace::open("/proc/self/ns/pid")?;
    namespace::setns(pids, namespace::PID)?;
    let made = from_child(0, || mount::new_filesystem("proc", &[], QUIET));
    namespace::setns(own, namespace::PID)?;
    made
}

/// Mount flags of file systems without programs: nosuid, nodev, noexec.
const QUIET: u64 = mount::NO_SUID | mount::NO_DEV | mount::NO_EXEC;

/// Maximum number of terminals of a container. The kernel has a few thousand for all containers together, and an exec
/// with a terminal needs one.
const MOST_TERMINALS: &str = "256";

fn overlay(spec: &ContainerSpec, users: Option<&File>) -> io::Result<OwnedFd> {
    let path = |path: &Path| {
        path.to_str().map(str::to_owned).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))
    };
    let mut held = Vec::new(); // idmapped layers, kept open until the overlay exists
    let mut layers = Vec::new();
    for layer in spec.root.layers.iter().rev() {
        layers.push(path(&idmap_layer(layer, users, &mut held)?)?);
    }
    let upper = path(&spec.root.upper)?;
    let work = path(&spec.root.work)?;
    let above = Some((upper.as_str(), work.as_str()));
    match mount::overlay(&layers, above) {
        // kernels before 6.15 accept only attached layers
        Err(error) if !held.is_empty() && error.raw_os_error() == Some(22) => {
            let beside = spec.root.upper.with_file_name("mapped");
            let attached = MountGuard::new(held, &beside)?;
            let paths: io::Result<Vec<String>> = attached.0.iter().map(|at| path(at)).collect();
            mount::overlay(&paths?, above)
        }
        made => made,
    }
}

/// Attaches trees; detaches them on drop.
struct MountGuard(Vec<std::path::PathBuf>);

impl MountGuard {
    fn new(trees: Vec<OwnedFd>, folder: &Path) -> io::Result<Self> {
        let mut attached = Self(Vec::new());
        for (number, tree) in trees.into_iter().enumerate() {
            let at = folder.join(number.to_string());
            std::fs::create_dir_all(&at)?;
            mount::attach_tree(tree, open_path(&at)?)?;
            attached.0.push(at);
        }
        Ok(attached)
    }
}

impl Drop for MountGuard {
    fn drop(&mut self) {
        for at in &self.0 {
            if let Err(error) = mount::lazy_unmount(at) {
                eprintln!("{}: {error}", at.display()); // the shim has no other log
            }
        }
    }
}

/// The path of a layer. In a user namespace it is an idmapped mount, so that the files appear with the owners of that
/// namespace.
fn idmap_layer(
    layer: &Path,
    users: Option<&File>,
    held: &mut Vec<OwnedFd>,
) -> io::Result<std::path::PathBuf> {
    let Some(users) = users else { return Ok(layer.to_owned()) };
    let tree = mount::clone_tree(open_path(layer)?, false)?;
    mount::set_id_map(&tree, users, false)?;
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&tree));
    held.push(tree);
    Ok(path.into())
}

fn open_source(mount: &Mount, files: &NamespaceFiles) -> Result<Option<OwnedFd>> {
    let doing = || format!("open the source of {}", mount.target.display());
    match &mount.source {
        MountSource::Bind { path, propagation, maps, only_this } => {
            bind(path, *propagation, maps.as_ref(), Some(files).filter(|_| !only_this))
                .doing(|| format!("bind {} to {}", path.display(), mount.target.display()))
                .map(Some)
        }
        MountSource::Layers { layers, sub_path } => {
            image_volume_tree(layers, sub_path).doing(doing).map(Some)
        }
        _ => Ok(None),
    }
}

/// The mount tree of an image volume, or of its sub path.
fn image_volume_tree(layers: &[std::path::PathBuf], sub_path: &Path) -> io::Result<OwnedFd> {
    let tree = match layers {
        [one] => mount::clone_tree(open_path(one)?, false)?,
        many => {
            let layers: Vec<_> = many.iter().rev().filter_map(|layer| layer.to_str()).collect();
            let tree = mount::overlay(&layers, None)?;
            mount::set_attributes(&tree, mount::READ_ONLY, false)?;
            tree
        }
    };
    if sub_path.as_os_str().is_empty() {
        return Ok(tree);
    }
    // the sub path is resolved inside the image, so that a symlink cannot lead out of it
    mount::clone_tree(open_path_in(&tree, sub_path)?, false)
}

impl PreparedRootfs {
    /// Attaches all mounts and makes the result the root directory. The container's namespaces have been entered
    /// before.
    pub(super) fn build(mut self, spec: &ContainerSpec) -> Result<Accounts> {
        let host = open_path(Path::new("/")).doing(|| "open /".into())?;
        mount::set_propagation(&host, mount::Propagation::Private, true)
            .doing(|| "leave the host's mounts".into())?;
        let target = open_path(&spec.root.target).doing(|| "open the bundle".into())?;
        mount::attach_tree(&self.root, target).doing(|| "attach the root".into())?;
        let root = &self.root;
        for (mount, source) in spec.mounts.iter().zip(self.sources) {
            attach_mount(root, mount, source, &mut self.processes)
                .doing(|| format!("mount {}", mount.target.display()))?;
            if mount.target == Path::new("/dev")
                && !matches!(mount.source, MountSource::Bind { .. })
            {
                links(root).doing(|| "fill /dev".into())?;
                for (device, like) in spec.devices.iter().zip(&self.devices) {
                    make_device(root, device, like)
                        .doing(|| format!("make device {}", device.target.display()))?;
                }
            }
        }
        let dev_bound = |mount: &Mount| {
            mount.target == Path::new("/dev") && matches!(mount.source, MountSource::Bind { .. })
        };
        if !spec.mounts.iter().any(dev_bound) {
            link(root, "pts/ptmx", "/dev/ptmx").doing(|| "fill /dev".into())?;
        }
        for path in &spec.read_only_paths {
            make_read_only(root, path).doing(|| format!("make {} read-only", path.display()))?;
        }
        for path in &spec.masked_paths {
            mask(root, path).doing(|| format!("mask {}", path.display()))?;
        }
        create_dir_in(root, &spec.process.cwd)
            .map(drop)
            .or_else(exists)
            .doing(|| format!("make the working directory {}", spec.process.cwd.display()))?;
        if spec.root.read_only {
            mount::set_attributes(root, mount::READ_ONLY, false)
                .doing(|| "make / read-only".into())?;
        }
        let accounts = Accounts::read(root);
        rustix::process::fchdir(root).doing(|| "enter the root".into())?;
        mount::pivot_root().doing(|| "change the root".into())?;
        Ok(accounts)
    }
}

/// Accepts that a working directory cannot be created on a read-only file system; it may still exist.
fn exists(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::ReadOnlyFilesystem { Ok(()) } else { Err(error) }
}

fn attach_mount(
    root: &OwnedFd,
    at: &Mount,
    source: Option<OwnedFd>,
    processes: &mut Processes,
) -> io::Result<()> {
    let tree = match (&at.source, source) {
        (_, Some(tree)) => tree,
        (MountSource::Cgroups { controllers }, None) => return cgroups(root, at, controllers),
        (MountSource::Proc, None) => match std::mem::replace(processes, Processes::Own) {
            Processes::Own => mount::new_filesystem("proc", &[], QUIET)?,
            Processes::Other(tree) => tree,
        },
        (source, None) => new_filesystem(source)?,
    };
    if at.read_only {
        mount::set_attributes(&tree, mount::READ_ONLY, at.recursive_read_only)?;
    }
    let folder = FileType::from_raw_mode(fstat(&tree)?.st_mode) == FileType::Directory;
    let target = match &at.source {
        MountSource::Bind { .. } | MountSource::Layers { .. } => {
            let place = if folder {
                create_dir_in(root, &at.target)?
            } else {
                create_file_in(root, &at.target)?
            };
            refuse_proc(&place, &at.target)?;
            place
        }
        _ => own_place(root, &at.target)?,
    };
    mount::attach_tree(&tree, target)
}

/// Rejects volumes that are mounted into /proc by a symlink. Which paths of /proc a volume may cover was decided by
/// name, and a symlink in the image or in another volume must not circumvent that.
fn refuse_proc(place: &OwnedFd, target: &Path) -> io::Result<()> {
    const PROC: i64 = 0x9fa0;
    let leads_up = target.components().any(|part| part == std::path::Component::ParentDir);
    let is_named = target.starts_with("/proc") && !leads_up;
    if is_named || rustix::fs::fstatfs(place)?.f_type != PROC {
        return Ok(());
    }
    Err(io::Error::other("it leads into /proc"))
}

/// The mount point of one of the runtime's own file systems. It must not contain symlinks of the image: masked and
/// read-only paths are resolved by the same path again.
fn own_place(root: &OwnedFd, target: &Path) -> io::Result<OwnedFd> {
    make_plain_folder(root, target).map_err(|error| {
        let what = "a file system of the runtime must be mounted on ordinary directory";
        io::Error::new(error.kind(), format!("{what}: {error}"))
    })
}

fn new_filesystem(source: &MountSource) -> io::Result<OwnedFd> {
    match source {
        MountSource::Sys => mount::new_filesystem("sysfs", &[], QUIET),
        MountSource::Mqueue => mount::new_filesystem("mqueue", &[], QUIET),
        MountSource::DevPts => {
            let options = [
                ("newinstance", None),
                ("ptmxmode", Some("0666")),
                ("mode", Some("0620")),
                ("max", Some(MOST_TERMINALS)),
                ("gid", Some("5")),
            ];
            mount::new_filesystem("devpts", &options, mount::NO_SUID | mount::NO_EXEC).or_else(
                |_| mount::new_filesystem("devpts", &options[..4], mount::NO_SUID | mount::NO_EXEC),
            )
        }
        MountSource::Tmpfs { options, no_exec } => {
            let options: Vec<_> =
                options.iter().map(|(key, value)| (key.as_str(), Some(value.as_str()))).collect();
            mount::new_filesystem(
                "tmpfs",
                &options,
                mount::NO_SUID | if *no_exec { QUIET } else { 0 },
            )
        }
        MountSource::Bind { .. }
        | MountSource::Layers { .. }
        | MountSource::Cgroups { .. }
        | MountSource::Proc => Err(io::Error::other("no source was opened")),
    }
}

fn cgroups(root: &OwnedFd, at: &Mount, controllers: &[String]) -> io::Result<()> {
    let attributes = QUIET | if at.read_only { mount::READ_ONLY } else { 0 };
    let target = own_place(root, &at.target)?;
    if controllers.is_empty() {
        return mount::attach_tree(mount::new_filesystem("cgroup2", &[], attributes)?, target);
    }
    let folder =
        mount::new_filesystem("tmpfs", &[("mode", Some("755"))], mount::NO_SUID | mount::NO_DEV)?;
    mount::attach_tree(&folder, target)?;
    for controller in controllers {
        let target = create_dir_in(&folder, Path::new(controller))?;
        mount::attach_tree(
            mount::new_filesystem("cgroup", &[(controller, None)], attributes)?,
            target,
        )?;
    }
    if at.read_only {
        mount::set_attributes(&folder, mount::READ_ONLY, false)?;
    }
    Ok(())
}

fn links(root: &OwnedFd) -> io::Result<()> {
    link(root, "/proc/self/fd", "/dev/fd")?;
    link(root, "/proc/self/fd/0", "/dev/stdin")?;
    link(root, "/proc/self/fd/1", "/dev/stdout")?;
    link(root, "/proc/self/fd/2", "/dev/stderr")
}

fn link(root: &OwnedFd, to: &str, at: &str) -> io::Result<()> {
    let at = Path::new(at);
    let folder = create_dir_in(root, at.parent().unwrap_or(Path::new("/")))?;
    match symlinkat(to, &folder, at.file_name().unwrap_or_default()) {
        Err(rustix::io::Errno::EXIST) | Ok(()) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn make_device(root: &OwnedFd, device: &Device, like: &Stat) -> io::Result<()> {
    let kind = FileType::from_raw_mode(like.st_mode);
    let parent = create_dir_in(root, device.target.parent().unwrap_or(Path::new("/")))?;
    let name = device.target.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let mode = Mode::from_raw_mode(like.st_mode & 0o7777);
    match mknodat(&parent, name, kind, mode, like.st_rdev) {
        Err(rustix::io::Errno::EXIST) => return Ok(()),
        done => done?,
    }
    let device = rustix::fs::openat(&parent, name, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty())?;
    rustix::fs::chmodat(&parent, name, mode, AtFlags::empty())?;
    let (uid, gid) =
        (rustix::fs::Uid::from_raw(like.st_uid), rustix::fs::Gid::from_raw(like.st_gid));
    Ok(rustix::fs::chownat(&device, "", Some(uid), Some(gid), AtFlags::EMPTY_PATH)?)
}

fn make_read_only(root: &OwnedFd, path: &Path) -> io::Result<()> {
    let Some(at) = found(root, path)? else { return Ok(()) };
    let tree = mount::clone_tree(&at, true)?;
    mount::set_attributes(&tree, mount::READ_ONLY, true)?;
    mount::attach_tree(tree, at)
}

fn mask(root: &OwnedFd, path: &Path) -> io::Result<()> {
    let Some(at) = found(root, path)? else { return Ok(()) };
    let folder = FileType::from_raw_mode(statat(&at, "", AtFlags::EMPTY_PATH)?.st_mode)
        == FileType::Directory;
    let cover = if folder {
        mount::new_filesystem(
            "tmpfs",
            &[("size", Some("0")), ("mode", Some("755"))],
            mount::READ_ONLY,
        )?
    } else {
        null_mount()? // the container's own /dev/null may be anything
    };
    mount::attach_tree(cover, at)
}

fn found(root: impl AsFd, path: &Path) -> io::Result<Option<OwnedFd>> {
    match open_path_in(root, path) {
        Ok(at) => Ok(Some(at)),
        Err(error) if matches!(error.raw_os_error(), Some(2 | 20)) => Ok(None), // no such path
        Err(error) => Err(error),
    }
}
