//! Volume set-up and teardown: emptyDir, hostPath checks, projected files, fsGroup ownership, subPath mounts.
//!
//! This crate does not know API types; the kubelet passes in the content. Below directories that containers can write
//! to, all operations go through descriptors opened without following symlinks, so a container cannot redirect them out
//! of its volume.

#![deny(clippy::indexing_slicing, clippy::string_slice, clippy::unwrap_used, clippy::expect_used)]

mod empty;
mod files;
mod host;
mod owner;
mod remove;
mod sub_path;

pub use self::{
    empty::{EmptyDir, set_up_empty_dir},
    files::{FileProjection, Payload, write_atomically},
    host::check_host_path,
    owner::apply_fs_group,
    remove::{mount_points_under, unmount_and_remove},
    sub_path::{bind_mount, bind_mount_sub_path},
};

/// Why a volume operation failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{what}: {error}")]
    Io { what: String, error: std::io::Error },
    /// The pod's spec is invalid; retrying helps only after a change.
    #[error("{0}")]
    Invalid(String),
}

impl Error {
    pub(crate) fn io<E: Into<std::io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> Self {
        let what = what.into();
        move |error| Self::Io { what, error: error.into() }
    }
}
