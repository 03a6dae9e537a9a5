//! resource/v1beta2: ResourceClaim.

use macros::api;
use object::{Condition, List, Map, ObjectMeta, Quantity, Time, Value};
use schema::{Kind, METADATA, Names, Storage, Subresource};

use crate::core::NodeSelector;

#[api]
pub struct ResourceClaim {
    #[api(tag = 1)]
    metadata: ObjectMeta,
    #[api(tag = 2, always)]
    spec: ResourceClaimSpec,
    #[api(tag = 3)]
    status: ResourceClaimStatus,
}

#[api]
pub struct ResourceClaimSpec {
    #[api(tag = 1, always)]
    devices: DeviceClaim,
}

#[api]
pub struct DeviceClaim {
    #[api(tag = 1, always)]
    requests: List<DeviceRequest>,
    #[api(tag = 2)]
    constraints: List<DeviceConstraint>,
    #[api(tag = 3)]
    config: List<DeviceClaimConfiguration>,
}

#[api]
pub struct DeviceRequest {
    #[api(tag = 1, required, always)]
    name: String,
    #[api(tag = 2)]
    exactly: Option<ExactDeviceRequest>,
    #[api(tag = 3)]
    first_available: List<DeviceSubRequest>,
}

#[api]
pub struct ExactDeviceRequest {
    #[api(tag = 1, required, always)]
    device_class_name: String,
    #[api(tag = 2)]
    selectors: List<DeviceSelector>,
    #[api(tag = 3, go = "v1beta2.DeviceAllocationMode")]
    allocation_mode: String,
    #[api(tag = 4)]
    count: i64,
    #[api(tag = 5)]
    admin_access: Option<bool>,
    #[api(tag = 6)]
    tolerations: List<DeviceToleration>,
    #[api(tag = 7)]
    capacity: Option<CapacityRequirements>,
    #[api(tag = 8)]
    derived_attributes: List<DeviceDerivedAttribute>,
}

#[api]
pub struct CapacityRequirements {
    #[api(tag = 1, go = "map[v1beta2.QualifiedName]resource.Quantity")]
    requests: Map<Quantity>,
}

#[api]
pub struct DeviceDerivedAttribute {
    #[api(tag = 1, required, always, go = "v1beta2.FullyQualifiedName")]
    name: String,
    #[api(tag = 2, required, always)]
    expression: String,
}

#[api]
pub struct DeviceSelector {
    #[api(tag = 1)]
    cel: Option<CELDeviceSelector>,
}

#[api]
pub struct CELDeviceSelector {
    #[api(tag = 1, required, always)]
    expression: String,
}

#[api]
pub struct DeviceToleration {
    #[api(tag = 1)]
    key: String,
    #[api(tag = 2, default = "Equal", go = "v1beta2.DeviceTolerationOperator")]
    operator: String,
    #[api(tag = 3)]
    value: String,
    #[api(tag = 4, go = "v1beta2.DeviceTaintEffect")]
    effect: String,
    #[api(tag = 5)]
    toleration_seconds: Option<i64>,
}

#[api]
pub struct DeviceSubRequest {
    #[api(tag = 1, required, always)]
    name: String,
    #[api(tag = 2, required, always)]
    device_class_name: String,
    #[api(tag = 3)]
    selectors: List<DeviceSelector>,
    #[api(tag = 4, go = "v1beta2.DeviceAllocationMode")]
    allocation_mode: String,
    #[api(tag = 5)]
    count: i64,
    #[api(tag = 6)]
    tolerations: List<DeviceToleration>,
    #[api(tag = 7)]
    capacity: Option<CapacityRequirements>,
    #[api(tag = 8)]
    derived_attributes: List<DeviceDerivedAttribute>,
}

#[api]
pub struct DeviceConstraint {
    #[api(tag = 1)]
    requests: List<String>,
    #[api(tag = 2, go = "v1beta2.FullyQualifiedName")]
    match_attribute: Option<String>,
    #[api(tag = 3, go = "v1beta2.FullyQualifiedName")]
    distinct_attribute: Option<String>,
}

#[api]
pub struct DeviceClaimConfiguration {
    #[api(tag = 1)]
    requests: List<String>,
    #[api(tag = 2, inline)]
    device_configuration: DeviceConfiguration,
}

#[api]
pub struct DeviceConfiguration {
    #[api(tag = 1)]
    opaque: Option<OpaqueDeviceConfiguration>,
}

#[api]
pub struct OpaqueDeviceConfiguration {
    #[api(tag = 1, required, always)]
    driver: String,
    #[api(tag = 2, required, always)]
    parameters: Value,
}

#[api]
pub struct ResourceClaimStatus {
    #[api(tag = 1)]
    allocation: Option<AllocationResult>,
    #[api(tag = 2, keys("uid"), merge, merge_key = "uid")]
    reserved_for: List<ResourceClaimConsumerReference>,
    #[api(tag = 4, keys("driver", "device", "pool", "shareID"))]
    devices: List<AllocatedDeviceStatus>,
}

#[api]
pub struct ResourceClaimConsumerReference {
    #[api(tag = 1)]
    api_group: String,
    #[api(tag = 3, required, always)]
    resource: String,
    #[api(tag = 4, required, always)]
    name: String,
    #[api(tag = 5, required, always, go = "types.UID")]
    uid: String,
}

#[api]
pub struct AllocationResult {
    #[api(tag = 1)]
    devices: DeviceAllocationResult,
    #[api(tag = 3, go = "v1.NodeSelector")]
    node_selector: Option<NodeSelector>,
    #[api(tag = 5)]
    allocation_timestamp: Option<Time>,
}

#[api]
pub struct DeviceAllocationResult {
    #[api(tag = 1)]
    results: List<DeviceRequestAllocationResult>,
    #[api(tag = 2)]
    config: List<DeviceAllocationConfiguration>,
}

#[api]
pub struct DeviceRequestAllocationResult {
    #[api(tag = 1, required, always)]
    request: String,
    #[api(tag = 2, required, always)]
    driver: String,
    #[api(tag = 3, required, always)]
    pool: String,
    #[api(tag = 4, required, always)]
    device: String,
    #[api(tag = 5)]
    admin_access: Option<bool>,
    #[api(tag = 6)]
    tolerations: List<DeviceToleration>,
    #[api(tag = 7)]
    binding_conditions: List<String>,
    #[api(tag = 8)]
    binding_failure_conditions: List<String>,
    #[api(tag = 9, name = "shareID", go = "types.UID")]
    share_id: Option<String>,
    #[api(tag = 10, go = "map[v1beta2.QualifiedName]resource.Quantity")]
    consumed_capacity: Map<Quantity>,
    #[api(tag = 11, set, go = "[]v1beta2.SkipNodeOperation")]
    skip_node_operations: List<String>,
}

#[api]
pub struct DeviceAllocationConfiguration {
    #[api(tag = 1, required, always, go = "v1beta2.AllocationConfigSource")]
    source: String,
    #[api(tag = 2)]
    requests: List<String>,
    #[api(tag = 3, inline)]
    device_configuration: DeviceConfiguration,
}

#[api]
pub struct AllocatedDeviceStatus {
    #[api(tag = 1, required, always)]
    driver: String,
    #[api(tag = 2, required, always)]
    pool: String,
    #[api(tag = 3, required, always)]
    device: String,
    #[api(tag = 7, name = "shareID")]
    share_id: Option<String>,
    #[api(tag = 4, keys("type"), always)]
    conditions: List<Condition>,
    #[api(tag = 5)]
    data: Option<Value>,
    #[api(tag = 6)]
    network_data: Option<NetworkDeviceData>,
}

#[api]
pub struct NetworkDeviceData {
    #[api(tag = 1)]
    interface_name: String,
    #[api(tag = 2)]
    ips: List<String>,
    #[api(tag = 3)]
    hardware_address: String,
}

impl Kind for ResourceClaim {
    const NAMES: Names = Names {
        group: "resource.k8s.io",
        version: "v1beta2",
        kind: "ResourceClaim",
        plural: "resourceclaims",
        singular: "resourceclaim",
        short: &[],
        categories: &[],
    };
    const STORAGE: Storage = Storage::new("resourceclaims", "v1");
    const STATUS_KEEPS: &'static [&'static str] = METADATA;
    const DEFAULT_ON: bool = false;
    const SUBRESOURCES: &'static [Subresource] =
        &[Subresource::new("status", "ResourceClaim", &["get", "patch", "update"])];

    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }
}
