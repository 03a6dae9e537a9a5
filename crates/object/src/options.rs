//! Options and metadata of API requests: ListMeta, DeleteOptions, Preconditions.

use macros::api;

use crate::List;

/// Facts about a list.
#[api]
pub struct ListMeta {
    /// No longer filled.
    self_link: String,
    /// The version of the whole list.
    resource_version: String,
    /// Where the next page begins.
    continue_: String,
    /// How many objects the following pages have.
    remaining_item_count: Option<i64>,
    /// Which part of a sharded list this is.
    shard_info: Option<ShardInfo>,
}

/// Which part of a sharded list this is.
#[api]
pub struct ShardInfo {
    /// Which part of the collection the list covers.
    selector: Must<String>,
}

/// How an object shall be deleted.
#[api]
pub struct DeleteOptions {
    /// The seconds it may take; 0 means at once.
    grace_period_seconds: Option<i64>,
    /// What must hold for the object, or nothing is deleted.
    preconditions: Option<Preconditions>,
    /// Kept for old clients: whether dependents stay.
    orphan_dependents: Option<bool>,
    /// What becomes of dependents: Orphan, Background or Foreground.
    #[api(go_type = "v1.DeletionPropagation")]
    propagation_policy: Option<String>,
    /// `All`: decide, but change nothing.
    dry_run: List<String>,
    /// Delete though the stored object cannot be read.
    ignore_store_read_error_with_cluster_breaking_potential: Option<bool>,
}

/// What must hold for an object before it is changed.
#[api]
pub struct Preconditions {
    /// The uid that the object must have.
    #[api(go_type = "types.UID")]
    uid: Option<String>,
    /// The version that the object must have.
    resource_version: Option<String>,
}
