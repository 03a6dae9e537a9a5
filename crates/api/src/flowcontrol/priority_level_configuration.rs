//! flowcontrol/v1: PriorityLevelConfiguration.

use macros::api;
use object::{List, ObjectMeta, Time};
use schema::{Kind, METADATA, Names, Scope, Storage, Subresource};

#[api]
pub struct PriorityLevelConfiguration {
    #[api(tag = 1)]
    metadata: ObjectMeta,
    #[api(tag = 2)]
    spec: PriorityLevelConfigurationSpec,
    #[api(tag = 3)]
    status: PriorityLevelConfigurationStatus,
}

#[api]
pub struct PriorityLevelConfigurationSpec {
    #[api(tag = 1, required, always, go = "v1.PriorityLevelEnablement")]
    type_: String,
    #[api(tag = 2)]
    limited: Option<LimitedPriorityLevelConfiguration>,
    #[api(tag = 3)]
    exempt: Option<ExemptPriorityLevelConfiguration>,
}

#[api]
pub struct LimitedPriorityLevelConfiguration {
    #[api(tag = 1)]
    nominal_concurrency_shares: Option<i32>,
    #[api(tag = 2)]
    limit_response: LimitResponse,
    #[api(tag = 3)]
    lendable_percent: Option<i32>,
    #[api(tag = 4)]
    borrowing_limit_percent: Option<i32>,
}

#[api]
pub struct LimitResponse {
    #[api(tag = 1, required, always, go = "v1.LimitResponseType")]
    type_: String,
    #[api(tag = 2)]
    queuing: Option<QueuingConfiguration>,
}

#[api]
pub struct QueuingConfiguration {
    #[api(tag = 1, always)]
    queues: i32,
    #[api(tag = 2, always)]
    hand_size: i32,
    #[api(tag = 3, always)]
    queue_length_limit: i32,
}

#[api]
pub struct ExemptPriorityLevelConfiguration {
    #[api(tag = 1)]
    nominal_concurrency_shares: Option<i32>,
    #[api(tag = 2)]
    lendable_percent: Option<i32>,
}

#[api]
pub struct PriorityLevelConfigurationStatus {
    #[api(tag = 1, keys("type"), merge, merge_key = "type")]
    conditions: List<PriorityLevelConfigurationCondition>,
}

#[api]
pub struct PriorityLevelConfigurationCondition {
    #[api(tag = 1, go = "v1.PriorityLevelConfigurationConditionType")]
    type_: String,
    #[api(tag = 2, go = "v1.ConditionStatus")]
    status: String,
    #[api(tag = 3)]
    last_transition_time: Time,
    #[api(tag = 4)]
    reason: String,
    #[api(tag = 5)]
    message: String,
}

impl Kind for PriorityLevelConfiguration {
    const NAMES: Names = Names {
        group: "flowcontrol.apiserver.k8s.io",
        version: "v1",
        kind: "PriorityLevelConfiguration",
        plural: "prioritylevelconfigurations",
        singular: "prioritylevelconfiguration",
        short: &[],
        categories: &[],
    };
    const SCOPE: Scope = Scope::Cluster;
    const STORAGE: Storage = Storage::new("prioritylevelconfigurations", "v1");
    const STATUS_KEEPS: &'static [&'static str] = METADATA;
    const GENERATION: bool = true;
    const SUBRESOURCES: &'static [Subresource] =
        &[Subresource::new("status", "PriorityLevelConfiguration", &["get", "patch", "update"])];

    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }
}
