//! Runs functions in other network namespaces: a short-lived thread enters the namespace, so that the caller's own
//! never changes.

use super::{Error, Result};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

/// An open network namespace.
#[derive(Debug)]
pub struct NetworkNamespace(File);

impl NetworkNamespace {
    /// Opens a network namespace by a path such as /proc/PID/ns/net.
    pub fn open(path: &Path) -> Result<Self> {
        File::open(path).map(Self).map_err(Error::Namespace)
    }

    /// The namespace of the calling thread.
    pub fn current() -> Result<Self> {
        Self::open(Path::new("/proc/thread-self/ns/net"))
    }

    /// Creates an empty network namespace, which exists as long as something holds it open.
    pub fn create() -> Result<Self> {
        let made = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                // SAFETY: only this thread's network namespace changes, and the thread ends right after; memory and
                // descriptors stay shared.
                unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET) }?;
                File::open("/proc/thread-self/ns/net")
            });
            thread.join()
        });
        made.map_err(|_| panicked())?.map(Self).map_err(Error::Namespace)
    }

    /// Pins the namespace at a path, by a bind mount on an empty file.
    pub fn pin(&self, path: &Path) -> Result<()> {
        use std::os::fd::AsRawFd;
        File::create(path).map_err(Error::Namespace)?;
        let source = format!("/proc/self/fd/{}", self.0.as_raw_fd());
        rustix::mount::mount_bind(source, path).map_err(|e| Error::Namespace(e.into()))
    }
}

impl AsFd for NetworkNamespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Runs `work` on a thread inside `namespace` and returns its result.
pub fn run_in_netns<T: Send>(
    namespace: &NetworkNamespace,
    work: impl FnOnce() -> T + Send,
) -> Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("netns".to_owned())
            .spawn_scoped(scope, || {
                move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
                Ok(work())
            })
            .map_err(Error::Namespace)?;
        thread
            .join()
            .map_err(|_| panicked())?
            .map_err(|e: rustix::io::Errno| Error::Namespace(e.into()))
    })
}

fn panicked() -> Error {
    Error::Namespace(io::Error::other("the thread in the namespace panicked"))
}
