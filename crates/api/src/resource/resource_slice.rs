//! resource/v1 and v1beta2: ResourceSlice.

use macros::api;
use object::{List, Map, ObjectMeta, Quantity, Time};
use schema::{
    ErrorList, FieldPath, Kind, ResourceNames, Scope, SelectableField, TableColumn, WarningList,
    WriteContext,
};

use crate::{core::NodeSelector, generation};

/// Devices of one pool that a driver offers.
#[api]
pub struct ResourceSlice {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// The devices, and where they can be used.
    spec: Must<ResourceSliceSpec>,
}

#[api]
pub struct ResourceSliceSpec {
    /// The driver that offers the devices. It never changes.
    driver: Must<String>,
    /// The pool that the devices belong to.
    pool: Must<ResourcePool>,
    /// The node that has the devices. It never changes.
    node_name: Option<String>,
    /// The nodes that can use the devices.
    node_selector: Option<NodeSelector>,
    /// Whether all nodes can use the devices.
    all_nodes: Option<bool>,
    /// The devices.
    devices: List<Device>,
    /// Whether each device says itself which nodes can use it.
    #[api(feature_gate = "DRAPartitionableDevices")]
    per_device_node_selection: Option<bool>,
    /// Counters that several devices draw from.
    #[api(feature_gate = "DRAPartitionableDevices", validations(MaxItems(8), UniqueBy("name")))]
    shared_counters: List<CounterSet>,
    /// The attribute that distinguishes kinds of partitions.
    #[api(go_type = "$.FullyQualifiedName", feature_gate = "DRAPartitionableDevicesType")]
    #[api(validations(Format("resource-fully-qualified-name")))]
    partition_type_attribute: Option<String>,
    /// What the kubelet need not ask the driver to do.
    #[api(set, go_type = "[]$.SkipNodeOperation", feature_gate = "DRAOptionalNodeOperations")]
    #[api(validations(
        Unique,
        Each(OneOfValues("*", "NodePrepareResources", "NodeUnprepareResources"))
    ))]
    #[api(enum_values("*", "NodePrepareResources", "NodeUnprepareResources"))]
    skip_node_operations: List<String>,
}

#[api]
pub struct CounterSet {
    /// What the counters are called together.
    #[api(validations(Required, Format("short-name")))]
    name: Must<String>,
    /// The counters.
    #[api(required, validations(Required, EachKey(Format("short-name"))))]
    counters: Map<Counter>,
}

#[api]
pub struct Counter {
    /// How much there is.
    value: Must<Quantity>,
}

#[api]
pub struct ResourcePool {
    /// The pool's name.
    name: Must<String>,
    /// Which state of the pool this is: the highest counts.
    generation: Must<i64>,
    /// How many slices the pool has in that state.
    resource_slice_count: Must<i64>,
}

#[api]
pub struct Device {
    /// What the device is called in its pool.
    name: Must<String>,
    /// Properties by name.
    #[api(go_type = "map[$.QualifiedName]$.DeviceAttribute")]
    attributes: Map<DeviceAttribute>,
    /// Available amounts, by name.
    #[api(go_type = "map[$.QualifiedName]$.DeviceCapacity")]
    capacity: Map<DeviceCapacity>,
    /// What the device draws from counters of the slice.
    #[api(
        feature_gate = "DRAPartitionableDevices",
        validations(MaxItems(2), UniqueBy("counterSet"))
    )]
    consumes_counters: List<DeviceCounterConsumption>,
    /// The node that can use it.
    #[api(feature_gate = "DRAPartitionableDevices")]
    node_name: Option<String>,
    /// The nodes that can use it.
    #[api(feature_gate = "DRAPartitionableDevices")]
    node_selector: Option<NodeSelector>,
    /// Whether all nodes can use it.
    #[api(feature_gate = "DRAPartitionableDevices")]
    all_nodes: Option<bool>,
    /// What keeps pods away from it.
    taints: List<DeviceTaint>,
    /// Whether pods that use it are bound to its node.
    #[api(feature_gate = "DRADeviceBindingConditions")]
    binds_to_node: Option<bool>,
    /// Conditions that must hold before a pod is bound.
    #[api(feature_gate = "DRADeviceBindingConditions", validations(MaxItems(4)))]
    binding_conditions: List<String>,
    /// Conditions that mean that a pod cannot be bound.
    #[api(feature_gate = "DRADeviceBindingConditions", validations(MaxItems(4)))]
    binding_failure_conditions: List<String>,
    /// Whether several claims may use it at once.
    #[api(feature_gate = "DRAConsumableCapacity")]
    allow_multiple_allocations: Option<bool>,
    /// What it takes of the node's own resources.
    #[api(tag = 14, go_type = "map[v1.ResourceName]$.NodeAllocatableResource")]
    #[api(feature_gate = "DRANodeAllocatableResources")]
    node_allocatable_resources: Map<NodeAllocatableResource>,
}

#[api]
pub struct NodeAllocatableResource {
    /// How it follows from the device.
    #[api(tag = 3)]
    mapping: Option<NodeAllocatableMapping>,
    /// What comes on top.
    overhead: Option<NodeAllocatableOverhead>,
}

#[api]
pub struct NodeAllocatableMapping {
    /// The capacity that it follows from.
    #[api(go_type = "$.QualifiedName", validations(UnionMember))]
    capacity_key: Option<String>,
    /// How much for each unit of that.
    capacity_multiplier: Option<Quantity>,
    /// How much for the device.
    #[api(validations(UnionMember))]
    device_multiplier: Option<Quantity>,
}

#[api]
pub struct NodeAllocatableOverhead {
    /// For each pod.
    per_pod: Option<Quantity>,
    /// For each container.
    per_container: Option<Quantity>,
}

#[api]
pub struct DeviceCounterConsumption {
    /// The counters.
    #[api(validations(Required, Format("short-name")))]
    counter_set: Must<String>,
    /// How much of each.
    #[api(required, validations(Required, EachKey(Format("short-name"))))]
    counters: Map<Counter>,
    /// What devices must have in common to be used together.
    #[api(feature_gate = "DRADeviceCompatibilityGroups")]
    #[api(validations(MaxItems(2), Each(Format("short-name")), Unique))]
    compatibility_groups: List<String>,
}

#[api]
pub struct DeviceCapacity {
    /// How much there is.
    value: Must<Quantity>,
    /// How much may be asked for.
    #[api(feature_gate = "DRAConsumableCapacity")]
    request_policy: Option<CapacityRequestPolicy>,
}

#[api]
pub struct CapacityRequestPolicy {
    /// What is taken when nothing is said.
    default: Option<Quantity>,
    /// The amounts that may be asked for.
    #[api(tag = 3)]
    valid_values: List<Quantity>,
    /// The range of amounts that may be asked for.
    valid_range: Option<CapacityRequestPolicyRange>,
}

#[api]
pub struct CapacityRequestPolicyRange {
    /// The least.
    #[api(required)]
    min: Option<Quantity>,
    /// The most.
    max: Option<Quantity>,
    /// In what steps.
    step: Option<Quantity>,
}

#[api]
pub struct DeviceAttribute {
    /// A number.
    #[api(tag = 2, validations(UnionMember))]
    int: Option<i64>,
    /// Yes or no.
    #[api(validations(UnionMember))]
    bool: Option<bool>,
    /// A text.
    #[api(validations(UnionMember))]
    string: Option<String>,
    /// A version.
    #[api(validations(UnionMember))]
    version: Option<String>,
    /// Numbers.
    #[api(feature_gate = "DRAListTypeAttributes", validations(UnionMember))]
    ints: List<i64>,
    /// Several of yes and no.
    #[api(feature_gate = "DRAListTypeAttributes", validations(UnionMember))]
    bools: List<bool>,
    /// Texts.
    #[api(feature_gate = "DRAListTypeAttributes", validations(UnionMember))]
    strings: List<String>,
    /// Versions.
    #[api(feature_gate = "DRAListTypeAttributes", validations(UnionMember))]
    versions: List<String>,
}

#[api]
pub struct DeviceTaint {
    /// What the taint is called.
    key: Must<String>,
    /// Its value.
    value: String,
    /// What it does: NoSchedule, NoExecute, None.
    #[api(
        go_type = "$.DeviceTaintEffect",
        validations(Required, OneOfValues("NoExecute", "NoSchedule", "None"))
    )]
    #[api(enum_values("NoExecute", "NoSchedule", "None"))]
    effect: Must<String>,
    /// Since when it is there.
    time_added: Option<Time>,
}

impl Kind for ResourceSlice {
    const COMPILES: bool = true;
    const NAMES: ResourceNames =
        ResourceNames::new("resource.k8s.io", "v1", "ResourceSlice", "resourceslices");
    const FORMER_API_VERSIONS: &'static [&'static str] =
        &["resource.k8s.io/v1beta1", "resource.k8s.io/v1beta2"];
    const SCOPE: Scope = Scope::Cluster;
    const SHOWS_DELETED: bool = true;
    const GENERATION: bool = true;
    const COUNTS_DORMANT: bool = true;

    const COLUMNS: &'static [TableColumn<Self>] = &[
        TableColumn::NAME,
        TableColumn::text("Node", |slice, _| slice.spec().node_name().unwrap_or_default().into()),
        TableColumn::text("Driver", |slice, _| slice.spec().driver().into()),
        TableColumn::text("Pool", |slice, _| slice.spec().pool().name().into()),
        TableColumn::AGE,
    ];
    const NO_INDEX: &'static str = "field label not supported for {kind}: {}";
    const INDEXES: &'static [SelectableField<Self>] = &[
        SelectableField::with_watch_topic("spec.nodeName", |slice| {
            slice.spec().node_name().unwrap_or_default().into()
        }),
        SelectableField::filter_only("spec.driver", |slice| slice.spec().driver().into()),
    ];

    fn prepare_update(&mut self, old: &Self) {
        // A change counts even if it is dropped afterwards.
        let changed = self.spec() != old.spec();
        generation::bump_if(self.metadata_mut(), old.metadata(), changed);
    }

    fn stamp(&mut self, by: &WriteContext) {
        let fresh = |taint: &DeviceTaint| taint.time_added().is_none();
        if !self.spec().devices().iter().any(|device| device.taints().iter().any(fresh)) {
            return;
        }
        for device in self.spec_mut().devices_mut().iter_mut() {
            if device.taints().iter().any(fresh) {
                for taint in device.taints_mut().iter_mut().filter(|taint| fresh(taint)) {
                    taint.set_time_added(Time::format(by.now));
                }
            }
        }
    }

    fn validate(&self, errs: &mut ErrorList) {
        self.spec().check(None, &FieldPath::SPEC, errs);
    }

    fn validate_update(&self, old: &Self, errs: &mut ErrorList) {
        self.spec().check(Some(old.spec()), &FieldPath::SPEC, errs);
    }

    fn warn(&self, old: Option<&Self>, warnings: &mut WarningList) {
        let driver = self.spec().driver();
        let same = old.is_some_and(|old| old.spec().driver() == driver);
        if !same && driver != driver.to_lowercase() {
            warnings.push(format!(
                "spec.driver: driver names should be lowercase; {driver:?} contains uppercase \
                 characters"
            ));
        }
    }
}
