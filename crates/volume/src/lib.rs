//! What pods keep and read: folders, files that change under them, and how both end.
//!
//! Nothing here knows the API: the kubelet says what a volume holds. All work below a
//! folder that containers can write to goes through descriptors, so that a link planted
//! there leads nowhere else.

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

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{what}: {error}")]
    Io { what: String, error: std::io::Error },
    /// The pod asks for something that cannot be; retrying helps only after a change.
    #[error("{0}")]
    Invalid(String),
}

impl Error {
    pub(crate) fn io<E: Into<std::io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> Self {
        let what = what.into();
        move |error| Self::Io { what, error: error.into() }
    }
}
