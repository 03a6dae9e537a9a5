//! coordination/v1alpha2: LeaseCandidate.

use macros::api;
use object::{MicroTime, ObjectMeta};
use schema::{Kind, Names, Storage};

/// Says who would hold a lease.
#[api]
pub struct LeaseCandidate {
    /// Name, labels and the like.
    metadata: ObjectMeta,
    /// What is wanted.
    spec: LeaseCandidateSpec,
}

#[api]
pub struct LeaseCandidateSpec {
    /// The lease that it would hold.
    #[api(required, always)]
    lease_name: String,
    /// When it was last asked whether it is there.
    ping_time: Option<MicroTime>,
    /// When it last said so.
    renew_time: Option<MicroTime>,
    /// The version of its program.
    #[api(required, always)]
    binary_version: String,
    /// The version that the program behaves as.
    emulation_version: String,
    /// How the holder should be chosen.
    #[api(go = "v1.CoordinatedLeaseStrategy")]
    strategy: String,
}

impl Kind for LeaseCandidate {
    const NAMES: Names = Names::new(
        "coordination.k8s.io",
        "v1alpha2",
        "LeaseCandidate",
        "leasecandidates",
        "leasecandidate",
    );
    const STORAGE: Storage = Storage::new("leasecandidates", "v1beta1");
    const BLIND_UPDATES: bool = false;
    const ANY_FINALIZER: bool = true;
    const CREATED_BY_UPDATE: bool = true;
    const DEFAULT_ON: bool = false;
    const DEPRECATED: &str = crate::UNTIL_38;
}
