//! policy/v1: more.

use macros::api;
use object::{DeleteOptions, ObjectMeta};

#[api]
pub struct Eviction {
    /// Name, labels and the like.
    metadata: ObjectMeta,
    /// How the pod is deleted.
    delete_options: Option<DeleteOptions>,
}
