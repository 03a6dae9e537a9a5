//! resource/v1 and v1beta2: ResourceClaim.

use macros::api;
use object::{Condition, List, Map, ObjectMeta, Quantity, Time, Value};
use schema::{
    CLIENT_METADATA_FIELDS, ErrorList, FieldPath, Kind, ResourceNames, Subresource, TableColumn,
};

use super::claim_rules::check_status;
use crate::core::NodeSelector;

/// A claim of devices for the use of workloads.
#[api]
pub struct ResourceClaim {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// What is claimed. It never changes.
    #[api(no_omitempty, validations(Immutable))]
    spec: ResourceClaimSpec,
    /// Whether the claim is fulfilled, and how.
    status: ResourceClaimStatus,
}

#[api]
pub struct ResourceClaimSpec {
    /// The devices that are asked for.
    #[api(no_omitempty)]
    devices: DeviceClaim,
}

#[api]
pub struct DeviceClaim {
    /// What is asked for, each under a name.
    #[api(no_omitempty, validations(MaxItems(32), UniqueBy("name")))]
    requests: List<DeviceRequest>,
    /// What must hold of the devices of several requests.
    #[api(validations(MaxItems(32)))]
    constraints: List<DeviceConstraint>,
    /// How the devices are to be set up.
    #[api(validations(MaxItems(32)))]
    config: List<DeviceClaimConfiguration>,
}

#[api]
pub struct DeviceRequest {
    /// What the request is called.
    name: Must<String>,
    /// The one thing that is asked for.
    exactly: Option<ExactDeviceRequest>,
    /// Alternatives, the best first.
    #[api(validations(MaxItems(8), UniqueBy("name")))]
    first_available: List<DeviceSubRequest>,
}

#[api]
pub struct ExactDeviceRequest {
    /// The class that the devices must be of.
    device_class_name: Must<String>,
    /// What devices must fulfil to be chosen.
    #[api(validations(MaxItems(32)))]
    selectors: List<DeviceSelector>,
    /// Whether some devices are wanted, or all: ExactCount, All.
    #[api(go_type = "$.DeviceAllocationMode", validations(OneOfValues("All", "ExactCount")))]
    #[api(enum_values("All", "ExactCount"))]
    allocation_mode: String,
    /// How many devices are wanted.
    count: i64,
    /// Whether devices that are in use may be looked at.
    admin_access: Option<bool>,
    /// The taints of devices that do not matter.
    tolerations: List<DeviceToleration>,
    /// How much of each device is needed.
    #[api(feature_gate = "DRAConsumableCapacity")]
    capacity: Option<CapacityRequirements>,
    /// Properties that are computed from those of a device.
    #[api(feature_gate = "DRADerivedAttributes", validations(MaxItems(32)))]
    derived_attributes: List<DeviceDerivedAttribute>,
}

#[api]
pub struct CapacityRequirements {
    /// Requested amounts, by name.
    #[api(go_type = "map[$.QualifiedName]resource.Quantity")]
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
    #[api(
        go_type = "$.FullyQualifiedName",
        validations(Required, Format("resource-fully-qualified-name"))
    )]
    name: Must<String>,
    /// How it is computed.
    #[api(validations(Required))]
    expression: Must<String>,
}

#[api]
pub struct DeviceToleration {
    /// The taint; empty: all.
    #[api(validations(Format("label-key")))]
    key: String,
    /// How the value is compared: Equal, Exists.
    #[api(
        default = "Equal",
        go_type = "$.DeviceTolerationOperator",
        validations(OneOfValues("Equal", "Exists"))
    )]
    #[api(enum_values("Equal", "Exists"))]
    operator: String,
    /// The value of the taint.
    value: String,
    /// The effect of the taint; empty: all.
    #[api(
        go_type = "$.DeviceTaintEffect",
        validations(OneOfValues("NoExecute", "NoSchedule", "None"))
    )]
    #[api(enum_values("NoExecute", "NoSchedule", "None"))]
    effect: String,
    /// How long a taint that evicts is tolerated.
    toleration_seconds: Option<i64>,
}

#[api]
pub struct DeviceSubRequest {
    /// What the alternative is called.
    name: Must<String>,
    /// The class that the devices must be of.
    #[api(validations(Required, Format("long-name")))]
    device_class_name: Must<String>,
    /// What devices must fulfil to be chosen.
    #[api(validations(MaxItems(32)))]
    selectors: List<DeviceSelector>,
    /// Whether some devices are wanted, or all: ExactCount, All.
    #[api(go_type = "$.DeviceAllocationMode", validations(OneOfValues("All", "ExactCount")))]
    #[api(enum_values("All", "ExactCount"))]
    allocation_mode: String,
    /// How many devices are wanted.
    count: i64,
    /// The taints of devices that do not matter.
    tolerations: List<DeviceToleration>,
    /// How much of each device is needed.
    #[api(feature_gate = "DRAConsumableCapacity")]
    capacity: Option<CapacityRequirements>,
    /// Properties that are computed from those of a device.
    #[api(feature_gate = "DRADerivedAttributes", validations(MaxItems(32)))]
    derived_attributes: List<DeviceDerivedAttribute>,
}

#[api]
pub struct DeviceConstraint {
    /// The requests that are concerned; none: all.
    #[api(validations(MaxItems(32), Unique))]
    requests: List<String>,
    /// A property that all devices must have alike.
    #[api(go_type = "$.FullyQualifiedName", validations(Format("resource-fully-qualified-name")))]
    match_attribute: Option<String>,
    /// A property that no two devices may have alike.
    #[api(go_type = "$.FullyQualifiedName", feature_gate = "DRAConsumableCapacity")]
    #[api(validations(Format("resource-fully-qualified-name")))]
    distinct_attribute: Option<String>,
}

#[api]
pub struct DeviceClaimConfiguration {
    /// The requests that are concerned; none: all.
    #[api(validations(MaxItems(32), Unique))]
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
    #[api(validations(Required, Format("long-name-caseless"), MaxLength(63)))]
    driver: Must<String>,
    /// Parameters that are passed to the driver.
    #[api(raw)]
    parameters: Must<Value>,
}

#[api]
pub struct ResourceClaimStatus {
    /// What the claim was given.
    #[api(validations(NoModify))]
    allocation: Option<AllocationResult>,
    /// Who may use it.
    #[api(keys("uid"), merge, merge_key = "uid", validations(MaxItems(256), UniqueBy("uid")))]
    reserved_for: List<ResourceClaimConsumerReference>,
    /// How the devices are.
    #[api(tag = 4, keys("driver", "device", "pool", "shareID"))]
    #[api(validations(UniqueBy("driver", "device", "pool", "shareID")))]
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
    #[api(go_type = "types.UID")]
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
    #[api(tag = 5, feature_gate = "DRADeviceBindingConditions")]
    allocation_timestamp: Option<Time>,
}

#[api]
pub struct DeviceAllocationResult {
    /// The devices, one by one.
    #[api(validations(MaxItems(32)))]
    results: List<DeviceRequestAllocationResult>,
    /// How they are to be set up.
    #[api(validations(MaxItems(64)))]
    config: List<DeviceAllocationConfiguration>,
}

#[api]
pub struct DeviceRequestAllocationResult {
    /// The request that it fulfils.
    request: Must<String>,
    /// The driver.
    #[api(validations(Format("long-name-caseless"), Required, MaxLength(63)))]
    driver: Must<String>,
    /// The pool.
    #[api(validations(Required, Format("resource-pool-name")))]
    pool: Must<String>,
    /// The device.
    device: Must<String>,
    /// Whether it is only looked at.
    admin_access: Option<bool>,
    /// The taints that did not matter.
    tolerations: List<DeviceToleration>,
    /// Conditions that must hold before a pod is bound.
    #[api(feature_gate = "DRADeviceBindingConditions", validations(MaxItems(4)))]
    binding_conditions: List<String>,
    /// Conditions that mean that a pod cannot be bound.
    #[api(feature_gate = "DRADeviceBindingConditions", validations(MaxItems(4)))]
    binding_failure_conditions: List<String>,
    /// The part of a device that is shared.
    #[api(name = "shareID", go_type = "types.UID", feature_gate = "DRAConsumableCapacity")]
    #[api(validations(Format("uuid")))]
    share_id: Option<String>,
    /// How much of the device it takes.
    #[api(
        go_type = "map[$.QualifiedName]resource.Quantity",
        feature_gate = "DRAConsumableCapacity"
    )]
    consumed_capacity: Map<Quantity>,
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
pub struct DeviceAllocationConfiguration {
    /// Who wants it: FromClass, FromClaim.
    #[api(
        go_type = "$.AllocationConfigSource",
        validations(Required, OneOfValues("FromClaim", "FromClass"))
    )]
    #[api(enum_values("FromClaim", "FromClass"))]
    source: Must<String>,
    /// The requests that are concerned; none: all.
    #[api(validations(MaxItems(32), Unique))]
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
    #[api(
        tag = 7,
        name = "shareID",
        feature_gate = "DRAConsumableCapacity",
        validations(Format("uuid"))
    )]
    share_id: Option<String>,
    /// What holds of the device.
    #[api(tag = 4, keys("type"), no_omitempty)]
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
    #[api(validations(MaxBytes(256)))]
    interface_name: String,
    /// Its addresses, with the sizes of their networks.
    #[api(validations(MaxItems(16), Unique))]
    ips: List<String>,
    /// Its hardware address.
    #[api(validations(MaxBytes(128)))]
    hardware_address: String,
}

impl Kind for ResourceClaim {
    const COMPILES: bool = true;
    const NAMES: ResourceNames =
        ResourceNames::new("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims");
    const UPDATE_CHECKS_GENERATE_NAME: bool = true;
    const FORMER_API_VERSIONS: &'static [&'static str] =
        &["resource.k8s.io/v1beta1", "resource.k8s.io/v1beta2"];
    const SHOWS_DELETED: bool = true;
    const STATUS_KEEPS: &'static [&'static str] = CLIENT_METADATA_FIELDS;
    const SUBRESOURCES: &'static [Subresource] =
        &[Subresource::status("ResourceClaim").without_table()];

    const NEEDS: Option<&'static schema::Part> = Some(&crate::parts::DYNAMIC_RESOURCES);
    const COLUMNS: &'static [TableColumn<Self>] = &[
        TableColumn::NAME,
        TableColumn::text("State", |claim, _| claim.state().into()),
        TableColumn::AGE,
    ];

    fn default_fields(&mut self) {
        self.spec_mut().default_fields();
    }

    fn prepare_status(&mut self, old: &Self) {
        self.status_mut().drop_deallocated(old.status());
    }

    fn validate(&self, errs: &mut ErrorList) {
        self.spec().devices().check(&FieldPath::SPEC.field("devices"), errs);
    }

    fn validate_update(&self, _old: &Self, _errs: &mut ErrorList) {}

    fn validate_status(&self, old: &Self, errs: &mut ErrorList) {
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
