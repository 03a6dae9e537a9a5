//! lifecycle/v1alpha1: Eviction.

use macros::api;
use object::{Condition, List, ObjectMeta, Time};
use schema::{Kind, METADATA, Names, Storage, Subresource};

#[api]
pub struct Eviction {
    #[api(tag = 1)]
    metadata: ObjectMeta,
    #[api(tag = 2, required, always)]
    spec: EvictionSpec,
    #[api(tag = 3)]
    status: EvictionStatus,
}

#[api]
pub struct EvictionSpec {
    #[api(tag = 1, required, always)]
    target: EvictionTarget,
}

#[api]
pub struct EvictionTarget {
    #[api(tag = 1)]
    pod: Option<EvictionPodReference>,
}

#[api]
pub struct EvictionPodReference {
    #[api(tag = 1, required, always)]
    name: String,
    #[api(tag = 2, required, always, go = "types.UID")]
    uid: String,
}

#[api]
pub struct EvictionStatus {
    #[api(tag = 1, keys("type"), merge, merge_key = "type")]
    conditions: List<Condition>,
    #[api(tag = 2)]
    observed_generation: Option<i64>,
    #[api(tag = 3, keys("name"), merge, merge_key = "name")]
    requesters: List<Requester>,
    #[api(tag = 4, keys("name"), merge, merge_key = "name")]
    target_responders: List<TargetResponder>,
    #[api(tag = 5, keys("name"), merge, merge_key = "name")]
    responders: List<ResponderStatus>,
}

#[api(atomic)]
pub struct Requester {
    #[api(tag = 1, required, always)]
    name: String,
    #[api(tag = 2, required, always, go = "v1alpha1.RequesterIntent")]
    intent: String,
}

#[api(atomic)]
pub struct TargetResponder {
    #[api(tag = 1, required, always)]
    name: String,
    #[api(tag = 2)]
    priority: Option<i32>,
    #[api(tag = 3, required, always, go = "v1alpha1.ResponderStateType")]
    state: String,
}

#[api]
pub struct ResponderStatus {
    #[api(tag = 1, required, always)]
    name: String,
    #[api(tag = 2)]
    start_time: Option<Time>,
    #[api(tag = 3)]
    heartbeat_time: Option<Time>,
    #[api(tag = 4)]
    expected_completion_time: Option<Time>,
    #[api(tag = 5)]
    completion_time: Option<Time>,
    #[api(tag = 6)]
    message: Option<String>,
}

impl Kind for Eviction {
    const NAMES: Names = Names {
        group: "lifecycle.k8s.io",
        version: "v1alpha1",
        kind: "Eviction",
        plural: "evictions",
        singular: "eviction",
        short: &[],
        categories: &[],
    };
    const STORAGE: Storage = Storage::new("evictions", "v1alpha1");
    const STATUS_KEEPS: &'static [&'static str] = METADATA;
    const BLIND_UPDATES: bool = false;
    const DEFAULT_ON: bool = false;
    const SUBRESOURCES: &'static [Subresource] =
        &[Subresource::new("status", "Eviction", &["get", "patch", "update"])];

    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }
}
