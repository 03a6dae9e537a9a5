//! policy/v1: more.

use macros::api;
use object::{DeleteOptions, ObjectMeta};

#[api]
pub struct Eviction {
    #[api(tag = 1)]
    metadata: ObjectMeta,
    #[api(tag = 2)]
    delete_options: Option<DeleteOptions>,
}
