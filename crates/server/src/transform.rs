//! Transformation of values between server and storage: encryption at rest.

use std::fmt;

use bytes::Bytes;
use object::Status;

/// Encrypts and decrypts stored values. The key can be authenticated along with the value, so that
/// stored bytes cannot be moved to another object.
pub trait Transformer: fmt::Debug + Send + Sync {
    fn to_storage(&self, key: &str, bytes: Bytes) -> Result<Bytes, Status>;
    #[expect(clippy::wrong_self_convention, reason = "the other direction of `to_storage`")]
    fn from_storage(&self, key: &str, bytes: &Bytes) -> Result<Bytes, Status>;
}

/// Stores values unencrypted.
#[derive(Clone, Copy, Debug)]
pub struct IdentityTransformer;

impl Transformer for IdentityTransformer {
    fn to_storage(&self, _: &str, bytes: Bytes) -> Result<Bytes, Status> {
        Ok(bytes)
    }

    fn from_storage(&self, _: &str, bytes: &Bytes) -> Result<Bytes, Status> {
        Ok(bytes.clone())
    }
}
