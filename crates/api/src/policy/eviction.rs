//! policy/v1: more.

use macros::api;
use object::{DeleteOptions, ObjectMeta};

#[api]
pub struct Eviction {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// How the pod is deleted.
    delete_options: Option<DeleteOptions>,
}
