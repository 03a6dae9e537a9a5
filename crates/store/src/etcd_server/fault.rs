//! Errors of the etcd API. The messages are etcd's, because clients compare them.

use tonic::{Code, Status};

/// An error of the etcd API.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub(crate) enum EtcdError {
    #[error("etcdserver: key is not provided")]
    EmptyKey,
    #[error("etcdserver: key not found")]
    KeyNotFound,
    #[error("etcdserver: value is provided")]
    ValueProvided,
    #[error("etcdserver: lease is provided")]
    LeaseProvided,
    #[error("etcdserver: too many operations in txn request")]
    TooManyOps,
    #[error("etcdserver: duplicate key given in txn request")]
    DuplicateKey,
    #[error("etcdserver: invalid sort option")]
    InvalidSort,
    #[error("etcdserver: mvcc: required revision has been compacted")]
    Compacted,
    #[error("etcdserver: mvcc: required revision is a future revision")]
    Future,
    #[error("etcdserver: mvcc: database space exceeded")]
    NoSpace,
    /// Like `NoSpace`, and the NOSPACE alarm must be raised.
    #[error("etcdserver: mvcc: database space exceeded")]
    Quota,
    #[error("etcdserver: requested lease not found")]
    LeaseNotFound,
    #[error("etcdserver: lease already exists")]
    LeaseExists,
    #[error("etcdserver: too large lease TTL")]
    TtlTooLarge,
    #[error("etcdserver: request is too large")]
    TooLarge,
    #[error("etcdserver: server stopped")]
    Stopped,
}

impl From<EtcdError> for Status {
    fn from(fault: EtcdError) -> Self {
        let code = match fault {
            EtcdError::Compacted | EtcdError::Future | EtcdError::TtlTooLarge => Code::OutOfRange,
            EtcdError::NoSpace | EtcdError::Quota => Code::ResourceExhausted,
            EtcdError::LeaseNotFound => Code::NotFound,
            EtcdError::LeaseExists => Code::FailedPrecondition,
            EtcdError::Stopped => Code::Unavailable,
            _ => Code::InvalidArgument,
        };
        Self::new(code, fault.to_string())
    }
}
