//! What can go wrong with an image, in the words users of a kubelet know.

use std::{io, sync::Arc};

/// Cheap to clone: everyone who waits for one pull gets the same answer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}: not found")]
    NotFound(String),
    #[error("{reference}: unauthorized: {reason}")]
    Unauthorized { reference: String, reason: String },
    #[error("invalid reference format: {0}")]
    Reference(String),
    /// The content breaks its digest, the image format or one of our limits. Trying again does not help.
    #[error("{0}")]
    Malformed(String),
    #[error("image {0} is pinned")]
    Pinned(String),
    /// The registry could not be reached or answered with an error of its own. Trying again may help.
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

/// Readers that check what passes through them report by `io::Error`; here their own error comes out again.
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
