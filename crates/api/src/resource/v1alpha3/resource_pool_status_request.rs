//! resource/v1alpha3: ResourcePoolStatusRequest.

use macros::api;
use object::{Condition, List, ObjectMeta, Quantity};
use schema::{Kind, METADATA, Names, Scope, Storage, Subresource};

#[api]
pub struct ResourcePoolStatusRequest {
    #[api(tag = 1)]
    metadata: ObjectMeta,
    #[api(tag = 2, required, always)]
    spec: ResourcePoolStatusRequestSpec,
    #[api(tag = 3)]
    status: Option<ResourcePoolStatusRequestStatus>,
}

#[api]
pub struct ResourcePoolStatusRequestSpec {
    #[api(tag = 1, required, always)]
    driver: String,
    #[api(tag = 2)]
    pool_name: Option<String>,
    #[api(tag = 3, default = 100)]
    limit: Option<i32>,
    #[api(tag = 4)]
    default_partition_type_attribute: Option<String>,
}

#[api]
pub struct ResourcePoolStatusRequestStatus {
    #[api(tag = 6)]
    pool_count: Option<i32>,
    #[api(tag = 2)]
    pools: List<PoolStatus>,
    #[api(tag = 3, keys("type"), merge, merge_key = "type")]
    conditions: List<Condition>,
}

#[api]
pub struct PoolStatus {
    #[api(tag = 1)]
    driver: String,
    #[api(tag = 2)]
    pool_name: String,
    #[api(tag = 9, required, always)]
    generation: i64,
    #[api(tag = 8)]
    resource_slice_count: Option<i32>,
    #[api(tag = 4)]
    total_devices: Option<i32>,
    #[api(tag = 5)]
    allocated_devices: Option<i32>,
    #[api(tag = 6)]
    available_devices: Option<i32>,
    #[api(tag = 7)]
    unavailable_devices: Option<i32>,
    #[api(tag = 3)]
    node_name: Option<String>,
    #[api(tag = 10)]
    validation_error: Option<String>,
    #[api(tag = 11)]
    partition_summary: List<PartitionTypeStatus>,
    #[api(tag = 13)]
    shareable_summary: Option<ShareableSummaryStatus>,
}

#[api]
pub struct PartitionTypeStatus {
    #[api(tag = 4)]
    attribute: String,
    #[api(tag = 1)]
    type_: String,
    #[api(tag = 2)]
    total: Option<i32>,
    #[api(tag = 3)]
    allocatable: Option<i32>,
}

#[api]
pub struct ShareableSummaryStatus {
    #[api(tag = 1)]
    fully_available_devices: Option<i32>,
    #[api(tag = 2)]
    partially_available_devices: Option<i32>,
    #[api(tag = 3)]
    capacity: List<ShareableCapacityStatus>,
}

#[api]
pub struct ShareableCapacityStatus {
    #[api(tag = 1)]
    name: String,
    #[api(tag = 2)]
    total: Option<Quantity>,
    #[api(tag = 3)]
    consumed: Option<Quantity>,
    #[api(tag = 4)]
    available: Option<Quantity>,
}

impl Kind for ResourcePoolStatusRequest {
    const NAMES: Names = Names {
        group: "resource.k8s.io",
        version: "v1alpha3",
        kind: "ResourcePoolStatusRequest",
        plural: "resourcepoolstatusrequests",
        singular: "resourcepoolstatusrequest",
        short: &[],
        categories: &[],
    };
    const SCOPE: Scope = Scope::Cluster;
    const STORAGE: Storage = Storage::new("resourcepoolstatusrequests", "v1alpha3");
    const STATUS_KEEPS: &'static [&'static str] = METADATA;
    const BLIND_UPDATES: bool = false;
    const DEFAULT_ON: bool = false;
    const SUBRESOURCES: &'static [Subresource] =
        &[Subresource::new("status", "ResourcePoolStatusRequest", &["get", "patch", "update"])];

    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }
}
