//! Errors of the image store, with the messages that Kubernetes users know.

use std::{io, sync::Arc};

/// An image error. Cheap to clone, because everyone who waits for the same pull gets it.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}: not found")]
    NotFound(String),
    #[error("{reference}: unauthorized: {reason}")]
    Unauthorized { reference: String, reason: String },
    #[error("invalid reference format: {0}")]
    Reference(String),
    /// The content does not match its digest, violates the image format or exceeds a limit. A retry does not help.
    #[error("{0}")]
    Malformed(String),
    #[error("image {0} is pinned")]
    Pinned(String),
    /// The registry could not be reached or returned a server error. A retry may help.
    #[error("{0}")]
    Registry(String),
    #[error("{0}")]
    Io(Arc<io::Error>),
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(super) fn malformed(reason: impl Into<String>) -> Self {
        Self::Malformed(reason.into())
    }
}

/// Readers that validate data report errors as `io::Error`; this conversion restores the original error.
impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        match error.downcast::<Error>() {
            Ok(own) => own,
            Err(error) => Self::Io(Arc::new(error)),
        }
    }
}

impl From<rustix::io::Errno> for Error {
    fn from(error: rustix::io::Errno) -> Self {
        Self::Io(Arc::new(error.into()))
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        Self::other(error)
    }
}
