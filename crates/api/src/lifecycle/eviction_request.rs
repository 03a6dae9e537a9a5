//! lifecycle/v1alpha1: EvictionRequest.

use macros::api;
use object::{Condition, List, ObjectMeta};
use schema::{Kind, METADATA, Names, Storage, Subresource};

#[api]
pub struct EvictionRequest {
    #[api(tag = 1)]
    metadata: ObjectMeta,
    #[api(tag = 2, required, always)]
    spec: EvictionRequestSpec,
    #[api(tag = 3)]
    status: EvictionRequestStatus,
}

#[api]
pub struct EvictionRequestSpec {
    #[api(tag = 1, required, always)]
    target: EvictionRequestTarget,
    #[api(tag = 2, required, always)]
    requester: String,
    #[api(tag = 3, required, always, go = "v1alpha1.EvictionRequestIntent")]
    intent: String,
}

#[api]
pub struct EvictionRequestTarget {
    #[api(tag = 1)]
    pod: Option<EvictionRequestPodReference>,
}

#[api]
pub struct EvictionRequestPodReference {
    #[api(tag = 1, required, always)]
    name: String,
    #[api(tag = 2, required, always, go = "types.UID")]
    uid: String,
}

#[api]
pub struct EvictionRequestStatus {
    #[api(tag = 1, keys("type"), merge, merge_key = "type")]
    conditions: List<Condition>,
    #[api(tag = 2)]
    observed_generation: Option<i64>,
}

impl Kind for EvictionRequest {
    const NAMES: Names = Names {
        group: "lifecycle.k8s.io",
        version: "v1alpha1",
        kind: "EvictionRequest",
        plural: "evictionrequests",
        singular: "evictionrequest",
        short: &[],
        categories: &[],
    };
    const STORAGE: Storage = Storage::new("evictionrequests", "v1alpha1");
    const STATUS_KEEPS: &'static [&'static str] = METADATA;
    const BLIND_UPDATES: bool = false;
    const DEFAULT_ON: bool = false;
    const SUBRESOURCES: &'static [Subresource] =
        &[Subresource::new("status", "EvictionRequest", &["get", "patch", "update"])];

    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }
}
