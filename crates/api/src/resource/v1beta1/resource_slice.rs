//! resource/v1beta1: ResourceSlice.

use macros::api;
use object::{List, Map, ObjectMeta, Value};
use schema::{Kind, ResourceNames, Scope, SelectableField, StorageConfig};

use crate::{
    core::NodeSelector,
    resource::{
        self, CounterSet, DeviceAttribute, DeviceCapacity, DeviceCounterConsumption, DeviceTaint,
        NodeAllocatableResource, ResourcePool,
    },
};

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
    node_name: String,
    /// The nodes that can use the devices.
    #[api(go_type = "v1.NodeSelector")]
    node_selector: Option<NodeSelector>,
    /// Whether all nodes can use the devices.
    all_nodes: bool,
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
    skip_node_operations: List<String>,
}

#[api]
pub struct Device {
    /// What the device is called in its pool.
    name: Must<String>,
    /// What there is to say about the device.
    basic: Option<BasicDevice>,
}

#[api]
pub struct BasicDevice {
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
    /// The node that can use the device.
    #[api(feature_gate = "DRAPartitionableDevices")]
    node_name: Option<String>,
    /// The nodes that can use the device.
    #[api(go_type = "v1.NodeSelector")]
    node_selector: Option<NodeSelector>,
    /// Whether all nodes can use the device.
    #[api(feature_gate = "DRAPartitionableDevices")]
    all_nodes: Option<bool>,
    /// What keeps pods away from the device.
    taints: List<DeviceTaint>,
    /// Whether pods that use the device are bound to its node.
    #[api(feature_gate = "DRADeviceBindingConditions")]
    binds_to_node: Option<bool>,
    /// Conditions that must hold before a pod is bound.
    #[api(feature_gate = "DRADeviceBindingConditions", validations(MaxItems(4)))]
    binding_conditions: List<String>,
    /// Conditions that mean that a pod cannot be bound.
    #[api(feature_gate = "DRADeviceBindingConditions", validations(MaxItems(4)))]
    binding_failure_conditions: List<String>,
    /// Whether several claims may use the device at once.
    #[api(feature_gate = "DRAConsumableCapacity")]
    allow_multiple_allocations: Option<bool>,
    /// What the device takes of the node's own resources.
    #[api(tag = 14, go_type = "map[v1.ResourceName]$.NodeAllocatableResource")]
    #[api(feature_gate = "DRANodeAllocatableResources")]
    node_allocatable_resources: Map<NodeAllocatableResource>,
}

impl Kind for ResourceSlice {
    const COMPILES: bool = true;
    const NAMES: ResourceNames =
        ResourceNames { version: "v1beta1", ..resource::ResourceSlice::NAMES };
    const FORMER_API_VERSIONS: &'static [&'static str] =
        resource::ResourceSlice::FORMER_API_VERSIONS;
    const SCOPE: Scope = Scope::Cluster;
    const STORAGE: StorageConfig = resource::ResourceSlice::STORAGE;
    const SHOWS_DELETED: bool = true;
    const DEFAULT_ON: bool = false;
    const DEPRECATED: &str = crate::UNTIL_38;
    const NO_INDEX: &'static str = "field label not supported for {kind}: {}";
    const INDEXES: &'static [SelectableField<Self>] = &[
        SelectableField::with_watch_topic("spec.nodeName", |slice| slice.spec().node_name().into()),
        SelectableField::filter_only("spec.driver", |slice| slice.spec().driver().into()),
    ];

    fn to_stored(object: &mut Value) {
        each_device(object, |device| {
            let basic = device.get("basic").clone();
            device.remove("basic");
            for (name, value) in basic.entries() {
                device[name] = value.clone();
            }
        });
    }

    fn from_stored(object: &mut Value) {
        each_device(object, |device| {
            let mut basic = device.clone();
            basic.remove("name");
            device.retain(|name, _| name == "name");
            device["basic"] = basic;
        });
    }
}

fn each_device(object: &mut Value, change: impl Fn(&mut Value)) {
    if object.get("spec").get("devices").is_null() {
        return;
    }
    if let Value::List(devices) = object.get_mut("spec").get_mut("devices") {
        devices.make_mut().iter_mut().for_each(change);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::from_json;

    #[test]
    fn devices_go_to_v1_and_back() {
        let text = r#"{"spec":{"devices":[{"name":"d","basic":{"allNodes":true}}]}}"#;
        let before = from_json(text.as_bytes()).expect("JSON");
        let mut slice = before.clone();
        ResourceSlice::to_stored(&mut slice);
        let devices = slice.get("spec").get("devices").items();
        assert_eq!(devices[0].get("allNodes").as_bool(), Some(true));
        ResourceSlice::from_stored(&mut slice);
        assert_eq!(slice, before);
    }
}
