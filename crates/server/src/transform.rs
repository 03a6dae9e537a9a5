//! What happens to a value between the server and the store: encryption.

use std::fmt;

use bytes::Bytes;
use object::Status;

/// Both directions for one value. The key is what the value is bound to, so that
/// stored bytes cannot be moved to another object.
pub trait Transformer: fmt::Debug + Send + Sync {
    fn to_storage(&self, key: &str, bytes: Bytes) -> Result<Bytes, Status>;
    #[expect(clippy::wrong_self_convention, reason = "the other direction of `to_storage`")]
    fn from_storage(&self, key: &str, bytes: &Bytes) -> Result<Bytes, Status>;
}

/// Leaves values as they are.
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
