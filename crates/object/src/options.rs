//! What a call may ask for besides the object.

use macros::api;

use crate::List;

/// Facts about a list.
#[api]
pub struct ListMeta {
    #[api(tag = 1)]
    self_link: String,
    /// The version of the whole list.
    #[api(tag = 2)]
    resource_version: String,
    /// Where the next page begins.
    #[api(tag = 3)]
    continue_: String,
    /// How many objects the following pages have.
    #[api(tag = 4)]
    remaining_item_count: Option<i64>,
    /// Which part of a sharded list this is.
    #[api(tag = 5)]
    shard_info: Option<ShardInfo>,
}

/// Which part of a sharded list this is.
#[api]
pub struct ShardInfo {
    #[api(tag = 1, always)]
    selector: String,
}

/// How an object shall be deleted.
#[api]
pub struct DeleteOptions {
    /// The seconds it may take; 0 means at once.
    #[api(tag = 1)]
    grace_period_seconds: Option<i64>,
    /// What must hold for the object, or nothing is deleted.
    #[api(tag = 2)]
    preconditions: Option<Preconditions>,
    /// Kept for old clients: whether dependents stay.
    #[api(tag = 3)]
    orphan_dependents: Option<bool>,
    /// What becomes of dependents: Orphan, Background or Foreground.
    #[api(tag = 4, go = "v1.DeletionPropagation")]
    propagation_policy: Option<String>,
    /// `All`: decide, but change nothing.
    #[api(tag = 5)]
    dry_run: List<String>,
    /// Delete though the stored object cannot be read.
    #[api(tag = 6)]
    ignore_store_read_error_with_cluster_breaking_potential: Option<bool>,
}

/// What must hold for an object before it is changed.
#[api]
pub struct Preconditions {
    #[api(tag = 1, go = "types.UID")]
    uid: Option<String>,
    #[api(tag = 2)]
    resource_version: Option<String>,
}
