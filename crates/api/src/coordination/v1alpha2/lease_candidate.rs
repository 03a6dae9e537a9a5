//! coordination/v1alpha2: LeaseCandidate.

use macros::api;
use object::{MicroTime, ObjectMeta};
use schema::{Kind, Names, Storage};

#[api]
pub struct LeaseCandidate {
    #[api(tag = 1)]
    metadata: ObjectMeta,
    #[api(tag = 2)]
    spec: LeaseCandidateSpec,
}

#[api]
pub struct LeaseCandidateSpec {
    #[api(tag = 1, required, always)]
    lease_name: String,
    #[api(tag = 2)]
    ping_time: Option<MicroTime>,
    #[api(tag = 3)]
    renew_time: Option<MicroTime>,
    #[api(tag = 4, required, always)]
    binary_version: String,
    #[api(tag = 5)]
    emulation_version: String,
    #[api(tag = 6, go = "v1.CoordinatedLeaseStrategy")]
    strategy: String,
}

impl Kind for LeaseCandidate {
    const NAMES: Names = Names {
        group: "coordination.k8s.io",
        version: "v1alpha2",
        kind: "LeaseCandidate",
        plural: "leasecandidates",
        singular: "leasecandidate",
        short: &[],
        categories: &[],
    };
    const STORAGE: Storage = Storage::new("leasecandidates", "v1beta1");
    const BLIND_UPDATES: bool = false;
    const ANY_FINALIZER: bool = true;
    const CREATED_BY_UPDATE: bool = true;
    const DEFAULT_ON: bool = false;
    const DEPRECATED: &str = crate::UNTIL_38;

    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }
}
