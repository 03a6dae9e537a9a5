//! resource/v1 and v1beta2: ResourceClaim.

use macros::api;
use object::{Condition, List, Map, ObjectMeta, Quantity, Time, Value};
use schema::{Column, Errors, Kind, METADATA, Names, Path, Subresource};

use super::claim_rules::check_status;
use crate::core::NodeSelector;

/// A claim of devices for the use of workloads.
#[api]
pub struct ResourceClaim {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// What is claimed. It never changes.
    #[api(always, checks(Immutable))]
    spec: ResourceClaimSpec,
    /// Whether the claim is fulfilled, and how.
    status: ResourceClaimStatus,
}

#[api]
pub struct ResourceClaimSpec {
    /// The devices that are asked for.
    #[api(always)]
    devices: DeviceClaim,
}

#[api]
pub struct DeviceClaim {
    /// What is asked for, each under a name.
    #[api(always, checks(MaxItems(32), UniqueBy("name")))]
    requests: List<DeviceRequest>,
    /// What must hold of the devices of several requests.
    #[api(checks(MaxItems(32)))]
    constraints: List<DeviceConstraint>,
    /// How the devices are to be set up.
    #[api(checks(MaxItems(32)))]
    config: List<DeviceClaimConfiguration>,
}

#[api]
pub struct DeviceRequest {
    /// What the request is called.
    name: Must<String>,
    /// The one thing that is asked for.
    exactly: Option<ExactDeviceRequest>,
    /// Alternatives, the best first.
    #[api(checks(MaxItems(8), UniqueBy("name")))]
    first_available: List<DeviceSubRequest>,
}

#[api]
pub struct ExactDeviceRequest {
    /// The class that the devices must be of.
    device_class_name: Must<String>,
    /// What devices must fulfil to be chosen.
    #[api(checks(MaxItems(32)))]
    selectors: List<DeviceSelector>,
    /// Whether some devices are wanted, or all: ExactCount, All.
    #[api(go = "$.DeviceAllocationMode", checks(Values("All", "ExactCount")))]
    #[api(values("All", "ExactCount"))]
    allocation_mode: String,
    /// How many devices are wanted.
    count: i64,
    /// Whether devices that are in use may be looked at.
    admin_access: Option<bool>,
    /// The taints of devices that do not matter.
    tolerations: List<DeviceToleration>,
    /// How much of each device is needed.
    #[api(gate = "DRAConsumableCapacity")]
    capacity: Option<CapacityRequirements>,
    /// Properties that are computed from those of a device.
    #[api(gate = "DRADerivedAttributes", checks(MaxItems(32)))]
    derived_attributes: List<DeviceDerivedAttribute>,
}

#[api]
pub struct CapacityRequirements {
    /// How much of what.
    #[api(go = "map[$.QualifiedName]resource.Quantity")]
    requests: Map<Quantity>,
}

#[api]
pub struct DeviceSelector {
    /// An expression that says so.
    cel: Option<CELDeviceSelector>,
}

#[api]
pub struct CELDeviceSelector {
    /// What must be true of a device.
    expression: Must<String>,
}

#[api]
pub struct DeviceDerivedAttribute {
    /// The property's name.
    #[api(go = "$.FullyQualifiedName", checks(Filled, Format("resource-fully-qualified-name")))]
    name: Must<String>,
    /// How it is computed.
    #[api(checks(Filled))]
    expression: Must<String>,
}

#[api]
pub struct DeviceToleration {
    /// The taint; empty: all.
    #[api(checks(Format("label-key")))]
    key: String,
    /// How the value is compared: Equal, Exists.
    #[api(default = "Equal", go = "$.DeviceTolerationOperator", checks(Values("Equal", "Exists")))]
    #[api(values("Equal", "Exists"))]
    operator: String,
    /// The value of the taint.
    value: String,
    /// The effect of the taint; empty: all.
    #[api(go = "$.DeviceTaintEffect", checks(Values("NoExecute", "NoSchedule", "None")))]
    #[api(values("NoExecute", "NoSchedule", "None"))]
    effect: String,
    /// How long a taint that evicts is tolerated.
    toleration_seconds: Option<i64>,
}

#[api]
pub struct DeviceSubRequest {
    /// What the alternative is called.
    name: Must<String>,
    /// The class that the devices must be of.
    #[api(checks(Filled, Format("long-name")))]
    device_class_name: Must<String>,
    /// What devices must fulfil to be chosen.
    #[api(checks(MaxItems(32)))]
    selectors: List<DeviceSelector>,
    /// Whether some devices are wanted, or all: ExactCount, All.
    #[api(go = "$.DeviceAllocationMode", checks(Values("All", "ExactCount")))]
    #[api(values("All", "ExactCount"))]
    allocation_mode: String,
    /// How many devices are wanted.
    count: i64,
    /// The taints of devices that do not matter.
    tolerations: List<DeviceToleration>,
    /// How much of each device is needed.
    #[api(gate = "DRAConsumableCapacity")]
    capacity: Option<CapacityRequirements>,
    /// Properties that are computed from those of a device.
    #[api(gate = "DRADerivedAttributes", checks(MaxItems(32)))]
    derived_attributes: List<DeviceDerivedAttribute>,
}

#[api]
pub struct DeviceConstraint {
    /// The requests that are concerned; none: all.
    #[api(checks(MaxItems(32), Unique))]
    requests: List<String>,
    /// A property that all devices must have alike.
    #[api(go = "$.FullyQualifiedName", checks(Format("resource-fully-qualified-name")))]
    match_attribute: Option<String>,
    /// A property that no two devices may have alike.
    #[api(go = "$.FullyQualifiedName", gate = "DRAConsumableCapacity")]
    #[api(checks(Format("resource-fully-qualified-name")))]
    distinct_attribute: Option<String>,
}

#[api]
pub struct DeviceClaimConfiguration {
    /// The requests that are concerned; none: all.
    #[api(checks(MaxItems(32), Unique))]
    requests: List<String>,
    /// Parameters that are passed to the driver.
    #[api(inline)]
    device_configuration: DeviceConfiguration,
}

#[api]
pub struct DeviceConfiguration {
    /// What only the driver understands.
    opaque: Option<OpaqueDeviceConfiguration>,
}

#[api]
pub struct OpaqueDeviceConfiguration {
    /// The driver that it is for.
    #[api(checks(Filled, Format("long-name-caseless"), MaxLength(63)))]
    driver: Must<String>,
    /// Parameters that are passed to the driver.
    #[api(raw)]
    parameters: Must<Value>,
}

#[api]
pub struct ResourceClaimStatus {
    /// What the claim was given.
    #[api(checks(NoModify))]
    allocation: Option<AllocationResult>,
    /// Who may use it.
    #[api(keys("uid"), merge, merge_key = "uid", checks(MaxItems(256), UniqueBy("uid")))]
    reserved_for: List<ResourceClaimConsumerReference>,
    /// How the devices are.
    #[api(tag = 4, keys("driver", "device", "pool", "shareID"))]
    #[api(checks(UniqueBy("driver", "device", "pool", "shareID")))]
    devices: List<AllocatedDeviceStatus>,
}

#[api]
pub struct ResourceClaimConsumerReference {
    /// The group of its resource.
    api_group: String,
    /// Its resource: pods.
    #[api(tag = 3)]
    resource: Must<String>,
    /// Its name.
    name: Must<String>,
    /// Its number.
    #[api(go = "types.UID")]
    uid: Must<String>,
}

#[api]
pub struct AllocationResult {
    /// The devices.
    devices: DeviceAllocationResult,
    /// The nodes that can reach them.
    #[api(tag = 3)]
    node_selector: Option<NodeSelector>,
    /// When they were given.
    #[api(tag = 5, gate = "DRADeviceBindingConditions")]
    allocation_timestamp: Option<Time>,
}

#[api]
pub struct DeviceAllocationResult {
    /// The devices, one by one.
    #[api(checks(MaxItems(32)))]
    results: List<DeviceRequestAllocationResult>,
    /// How they are to be set up.
    #[api(checks(MaxItems(64)))]
    config: List<DeviceAllocationConfiguration>,
}

#[api]
pub struct DeviceRequestAllocationResult {
    /// The request that it fulfils.
    request: Must<String>,
    /// The driver.
    #[api(checks(Format("long-name-caseless"), Filled, MaxLength(63)))]
    driver: Must<String>,
    /// The pool.
    #[api(checks(Filled, Format("resource-pool-name")))]
    pool: Must<String>,
    /// The device.
    device: Must<String>,
    /// Whether it is only looked at.
    admin_access: Option<bool>,
    /// The taints that did not matter.
    tolerations: List<DeviceToleration>,
    /// Conditions that must hold before a pod is bound.
    #[api(gate = "DRADeviceBindingConditions", checks(MaxItems(4)))]
    binding_conditions: List<String>,
    /// Conditions that mean that a pod cannot be bound.
    #[api(gate = "DRADeviceBindingConditions", checks(MaxItems(4)))]
    binding_failure_conditions: List<String>,
    /// The part of a device that is shared.
    #[api(name = "shareID", go = "types.UID", gate = "DRAConsumableCapacity")]
    #[api(checks(Format("uuid")))]
    share_id: Option<String>,
    /// How much of the device it takes.
    #[api(go = "map[$.QualifiedName]resource.Quantity", gate = "DRAConsumableCapacity")]
    consumed_capacity: Map<Quantity>,
    /// What the kubelet need not ask the driver to do.
    #[api(set, go = "[]$.SkipNodeOperation", gate = "DRAOptionalNodeOperations")]
    #[api(checks(Unique, Each(Values("*", "NodePrepareResources", "NodeUnprepareResources"))))]
    #[api(values("*", "NodePrepareResources", "NodeUnprepareResources"))]
    skip_node_operations: List<String>,
}

#[api]
pub struct DeviceAllocationConfiguration {
    /// Who wants it: FromClass, FromClaim.
    #[api(go = "$.AllocationConfigSource", checks(Filled, Values("FromClaim", "FromClass")))]
    #[api(values("FromClaim", "FromClass"))]
    source: Must<String>,
    /// The requests that are concerned; none: all.
    #[api(checks(MaxItems(32), Unique))]
    requests: List<String>,
    /// Parameters that are passed to the driver.
    #[api(inline)]
    device_configuration: DeviceConfiguration,
}

#[api]
pub struct AllocatedDeviceStatus {
    /// The driver.
    driver: Must<String>,
    /// The pool.
    pool: Must<String>,
    /// The device.
    device: Must<String>,
    /// The part of a device that is shared.
    #[api(tag = 7, name = "shareID", gate = "DRAConsumableCapacity", checks(Format("uuid")))]
    share_id: Option<String>,
    /// What holds of the device.
    #[api(tag = 4, keys("type"), always)]
    conditions: List<Condition>,
    /// What else the driver says.
    #[api(raw)]
    data: Option<Value>,
    /// How the device is seen in the network.
    network_data: Option<NetworkDeviceData>,
}

#[api]
pub struct NetworkDeviceData {
    /// The interface's name.
    #[api(checks(MaxBytes(256)))]
    interface_name: String,
    /// Its addresses, with the sizes of their networks.
    #[api(checks(MaxItems(16), Unique))]
    ips: List<String>,
    /// Its hardware address.
    #[api(checks(MaxBytes(128)))]
    hardware_address: String,
}

impl Kind for ResourceClaim {
    const COMPILES: bool = true;
    const NAMES: Names = Names::new("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims");
    const SHOWS_DELETED: bool = true;
    const STATUS_KEEPS: &'static [&'static str] = METADATA;
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::status("ResourceClaim")];

    const NEEDS: Option<&'static schema::Part> = Some(&crate::parts::DYNAMIC_RESOURCES);
    const COLUMNS: &'static [Column<Self>] =
        &[Column::NAME, Column::text("State", |claim, _| claim.state().into()), Column::AGE];

    fn default_fields(&mut self) {
        self.spec_mut().default_fields();
    }

    fn prepare_status(&mut self, old: &Self) {
        self.status_mut().drop_deallocated(old.status());
    }

    fn validate(&self, errs: &mut Errors) {
        self.spec().devices().check(&Path::SPEC.field("devices"), errs);
    }

    fn validate_update(&self, _old: &Self, _errs: &mut Errors) {}

    fn validate_status(&self, old: &Self, errs: &mut Errors) {
        check_status(self, old, errs);
    }
}

impl ResourceClaim {
    fn state(&self) -> String {
        let mut states = Vec::new();
        let (deleted, status) = (self.metadata().is_terminating(), self.status());
        if deleted {
            states.push("deleted");
        }
        match status.allocation() {
            None if deleted => {}
            None => states.push("pending"),
            Some(_) => states.push("allocated"),
        }
        if status.allocation().is_some() && !status.reserved_for().is_empty() {
            states.push("reserved");
        }
        states.join(",")
    }
}

impl ResourceClaimSpec {
    pub(super) fn default_fields(&mut self) {
        if self.devices().requests().is_empty() {
            return;
        }
        for request in self.devices_mut().requests_mut().iter_mut() {
            if request.exactly().is_some() {
                let exactly = request.exactly_mut();
                let (mode, count) = allocation(exactly.allocation_mode(), exactly.count());
                exactly.set_allocation_mode(mode);
                exactly.set_count(count);
            }
            if request.first_available().is_empty() {
                continue;
            }
            for sub in request.first_available_mut().iter_mut() {
                let (mode, count) = allocation(sub.allocation_mode(), sub.count());
                sub.set_allocation_mode(mode);
                sub.set_count(count);
            }
        }
    }
}

/// How many devices a request is for, if it does not say.
pub(crate) fn allocation(mode: &str, count: i64) -> (String, i64) {
    let mode = if mode.is_empty() { "ExactCount" } else { mode };
    let count = if mode == "ExactCount" && count == 0 { 1 } else { count };
    (mode.to_owned(), count)
}
