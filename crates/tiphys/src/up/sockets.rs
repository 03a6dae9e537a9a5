//! The listening sockets of `control`. The supervisor opens them and passes them on, so that connections are not
//! refused while `control` restarts.

use std::{
    fs,
    io::{ErrorKind, Read},
    net::{SocketAddr, TcpListener},
    os::{
        fd::{AsFd, OwnedFd},
        unix::{
            fs::{FileTypeExt, PermissionsExt},
            net::UnixListener,
        },
    },
    path::Path,
};

use anyhow::{Context as _, Result, bail};

use super::{
    ClusterConfig, components,
    ports::{Ports, UPSTREAM},
};
use crate::commands::ServingComponent as _;

/// The descriptors in the order in which they are passed, after the data directory.
#[derive(Debug)]
pub(crate) struct InheritedSockets {
    pub(crate) data: OwnedFd,
    pub(crate) tls: TcpListener,
    pub(crate) node: UnixListener,
    pub(crate) proxy: UnixListener,
    /// Listeners of the scheduler and the controller manager; `None` if the component is disabled. They stay unused
    /// if the component's flags set port 0.
    pub(crate) scheduler: Option<TcpListener>,
    pub(crate) controller_manager: Option<TcpListener>,
}

/// The index of the settings among the passed descriptors. `control` gets them as a descriptor because the file is
/// readable by root only.
const SETTINGS: usize = 6;

impl InheritedSockets {
    /// Opens the listeners.
    pub(super) fn open(dir: &Path, settings: &ClusterConfig) -> Result<Self> {
        let port = settings.port;
        let address = SocketAddr::from(([0, 0, 0, 0], port));
        let tls = match TcpListener::bind(address) {
            Ok(listener) => listener,
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                bail!("port {port} is taken by another program: choose one with --port")
            }
            Err(error) => return Err(error).with_context(|| format!("cannot listen on {address}")),
        };
        let scheduler = components::scheduler(settings, dir, None)?;
        let manager = components::controller_manager(settings, dir, None)?;
        Ok(Self {
            scheduler: unless(settings.is_disabled("scheduler"), scheduler.address())?,
            controller_manager: unless(settings.is_disabled("controllers"), manager.address())?,
            data: fs::File::open(dir)?.into(),
            tls,
            node: private_unix_listener(&dir.join("run/node.sock"))?,
            proxy: private_unix_listener(&dir.join("run/proxy.sock"))?,
        })
    }

    /// The ports that the components listen on; upstream's for those that are disabled.
    pub(super) fn ports(&self) -> Result<Ports> {
        let port = |listener: &Option<TcpListener>, usual| match listener {
            Some(listener) => listener.local_addr().map(|address| address.port()),
            None => Ok(usual),
        };
        Ok(Ports {
            scheduler: port(&self.scheduler, UPSTREAM.scheduler)?,
            controller_manager: port(&self.controller_manager, UPSTREAM.controller_manager)?,
        })
    }

    /// Duplicates of the descriptors, to be passed on.
    pub(super) fn copies(&self, settings: &Path) -> Result<Vec<OwnedFd>> {
        // the data directory stands in for a missing listener
        let data = self.data.as_fd();
        let all = [
            data,
            self.tls.as_fd(),
            self.node.as_fd(),
            self.proxy.as_fd(),
            self.scheduler.as_ref().map_or(data, AsFd::as_fd),
            self.controller_manager.as_ref().map_or(data, AsFd::as_fd),
        ];
        let copies: std::io::Result<Vec<OwnedFd>> =
            all.iter().map(rustix::fd::BorrowedFd::try_clone_to_owned).collect();
        let mut copies = copies?;
        let settings = fs::File::open(settings)
            .with_context(|| format!("cannot read {}", settings.display()))?;
        copies.push(settings.into());
        Ok(copies)
    }

    /// The text of the settings that the supervisor has passed.
    pub(super) fn passed_settings() -> Result<String> {
        let file =
            sys::spawn::take_passed_fd(SETTINGS).context("started by the supervisor only")?;
        let mut text = String::new();
        fs::File::from(file).read_to_string(&mut text).context("cannot read the settings")?;
        Ok(text)
    }

    /// Takes the descriptors that the supervisor has passed.
    pub(super) fn passed() -> Result<Self> {
        let take = |at| sys::spawn::take_passed_fd(at).context("started by the supervisor only");
        let sockets = Self {
            data: take(0)?,
            tls: take(1)?.into(),
            node: take(2)?.into(),
            proxy: take(3)?.into(),
            scheduler: listener(take(4)?)?,
            controller_manager: listener(take(5)?)?,
        };
        sockets.tls.set_nonblocking(true)?;
        sockets.node.set_nonblocking(true)?;
        sockets.proxy.set_nonblocking(true)?;
        Ok(sockets)
    }
}

/// Opens the listener of a component, unless it is left out.
fn unless(is_left_out: bool, wanted: SocketAddr) -> Result<Option<TcpListener>> {
    if is_left_out { Ok(None) } else { wanted_or_free(wanted).map(Some) }
}

/// The listener behind a passed descriptor; `None` if the descriptor is not a socket.
fn listener(passed: OwnedFd) -> Result<Option<TcpListener>> {
    let file = fs::File::from(passed);
    if !file.metadata()?.file_type().is_socket() {
        return Ok(None);
    }
    let listener = TcpListener::from(OwnedFd::from(file));
    listener.set_nonblocking(true)?;
    Ok(Some(listener))
}

/// Listens on the address, or on another free port if it is in use; `status` reports the port.
fn wanted_or_free(wanted: SocketAddr) -> Result<TcpListener> {
    match TcpListener::bind(wanted) {
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            let any = SocketAddr::new(wanted.ip(), 0);
            TcpListener::bind(any).with_context(|| format!("cannot listen on {any}"))
        }
        bound => bound.with_context(|| format!("cannot listen on {wanted}")),
    }
}

/// Listens on a Unix socket that only root may open: its connections are authenticated as a component.
fn private_unix_listener(path: &Path) -> Result<UnixListener> {
    let _ = fs::remove_file(path);
    // A path may be too long for a socket address; the path by its directory's descriptor is short.
    let folder = fs::File::open(path.parent().context("a socket has a folder")?)?;
    let name = path.file_name().context("a socket has a name")?;
    let fd = std::os::fd::AsRawFd::as_raw_fd(&folder);
    let short = Path::new("/proc/self/fd").join(fd.to_string()).join(name);
    let listener =
        UnixListener::bind(&short).with_context(|| format!("cannot make {}", path.display()))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}
