//! resource/v1: ResourceSlice.

use macros::api;
use object::{List, Map, ObjectMeta, Quantity, Time};
use schema::{Kind, Names, Scope, Storage};

use crate::core::NodeSelector;

#[api]
pub struct ResourceSlice {
    #[api(tag = 1)]
    metadata: ObjectMeta,
    #[api(tag = 2, required, always)]
    spec: ResourceSliceSpec,
}

#[api]
pub struct ResourceSliceSpec {
    #[api(tag = 1, required, always)]
    driver: String,
    #[api(tag = 2, required, always)]
    pool: ResourcePool,
    #[api(tag = 3)]
    node_name: Option<String>,
    #[api(tag = 4)]
    node_selector: Option<NodeSelector>,
    #[api(tag = 5)]
    all_nodes: Option<bool>,
    #[api(tag = 6)]
    devices: List<Device>,
    #[api(tag = 7)]
    per_device_node_selection: Option<bool>,
    #[api(tag = 8)]
    shared_counters: List<CounterSet>,
    #[api(tag = 9, go = "v1.FullyQualifiedName")]
    partition_type_attribute: Option<String>,
    #[api(tag = 10, set, go = "[]v1.SkipNodeOperation")]
    skip_node_operations: List<String>,
}

#[api]
pub struct CounterSet {
    #[api(tag = 1, required, always)]
    name: String,
    #[api(tag = 2)]
    counters: Map<Counter>,
}

#[api]
pub struct Counter {
    #[api(tag = 1, required, always)]
    value: Quantity,
}

#[api]
pub struct ResourcePool {
    #[api(tag = 1, required, always)]
    name: String,
    #[api(tag = 2, required, always)]
    generation: i64,
    #[api(tag = 3, required, always)]
    resource_slice_count: i64,
}

#[api]
pub struct Device {
    #[api(tag = 1, required, always)]
    name: String,
    #[api(tag = 2, go = "map[v1.QualifiedName]v1.DeviceAttribute")]
    attributes: Map<DeviceAttribute>,
    #[api(tag = 3, go = "map[v1.QualifiedName]v1.DeviceCapacity")]
    capacity: Map<DeviceCapacity>,
    #[api(tag = 4)]
    consumes_counters: List<DeviceCounterConsumption>,
    #[api(tag = 5)]
    node_name: Option<String>,
    #[api(tag = 6)]
    node_selector: Option<NodeSelector>,
    #[api(tag = 7)]
    all_nodes: Option<bool>,
    #[api(tag = 8)]
    taints: List<DeviceTaint>,
    #[api(tag = 9)]
    binds_to_node: Option<bool>,
    #[api(tag = 10)]
    binding_conditions: List<String>,
    #[api(tag = 11)]
    binding_failure_conditions: List<String>,
    #[api(tag = 12)]
    allow_multiple_allocations: Option<bool>,
    #[api(tag = 14, go = "map[v1.ResourceName]v1.NodeAllocatableResource")]
    node_allocatable_resources: Map<NodeAllocatableResource>,
}

#[api]
pub struct NodeAllocatableResource {
    #[api(tag = 3)]
    mapping: Option<NodeAllocatableMapping>,
    #[api(tag = 4)]
    overhead: Option<NodeAllocatableOverhead>,
}

#[api]
pub struct NodeAllocatableMapping {
    #[api(tag = 1, go = "v1.QualifiedName")]
    capacity_key: Option<String>,
    #[api(tag = 2)]
    capacity_multiplier: Option<Quantity>,
    #[api(tag = 3)]
    device_multiplier: Option<Quantity>,
}

#[api]
pub struct NodeAllocatableOverhead {
    #[api(tag = 1)]
    per_pod: Option<Quantity>,
    #[api(tag = 2)]
    per_container: Option<Quantity>,
}

#[api]
pub struct DeviceCounterConsumption {
    #[api(tag = 1, required, always)]
    counter_set: String,
    #[api(tag = 2)]
    counters: Map<Counter>,
    #[api(tag = 3)]
    compatibility_groups: List<String>,
}

#[api]
pub struct DeviceCapacity {
    #[api(tag = 1, required, always)]
    value: Quantity,
    #[api(tag = 2)]
    request_policy: Option<CapacityRequestPolicy>,
}

#[api]
pub struct CapacityRequestPolicy {
    #[api(tag = 1)]
    default: Option<Quantity>,
    #[api(tag = 3)]
    valid_values: List<Quantity>,
    #[api(tag = 4)]
    valid_range: Option<CapacityRequestPolicyRange>,
}

#[api]
pub struct CapacityRequestPolicyRange {
    #[api(tag = 1)]
    min: Option<Quantity>,
    #[api(tag = 2)]
    max: Option<Quantity>,
    #[api(tag = 3)]
    step: Option<Quantity>,
}

#[api]
pub struct DeviceAttribute {
    #[api(tag = 2)]
    int: Option<i64>,
    #[api(tag = 3)]
    bool: Option<bool>,
    #[api(tag = 4)]
    string: Option<String>,
    #[api(tag = 5)]
    version: Option<String>,
    #[api(tag = 6)]
    ints: List<i64>,
    #[api(tag = 7)]
    bools: List<bool>,
    #[api(tag = 8)]
    strings: List<String>,
    #[api(tag = 9)]
    versions: List<String>,
}

#[api]
pub struct DeviceTaint {
    #[api(tag = 1, required, always)]
    key: String,
    #[api(tag = 2)]
    value: String,
    #[api(tag = 3, required, always, go = "v1.DeviceTaintEffect")]
    effect: String,
    #[api(tag = 4)]
    time_added: Option<Time>,
}

impl Kind for ResourceSlice {
    const NAMES: Names = Names {
        group: "resource.k8s.io",
        version: "v1",
        kind: "ResourceSlice",
        plural: "resourceslices",
        singular: "resourceslice",
        short: &[],
        categories: &[],
    };
    const SCOPE: Scope = Scope::Cluster;
    const STORAGE: Storage = Storage::new("resourceslices", "v1");
    const GENERATION: bool = true;

    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }
}
