//! resource/v1beta1: ResourceClaim.

use macros::api;
use object::{List, ObjectMeta, Value};
use schema::{CLIENT_METADATA_FIELDS, Kind, ResourceNames, StorageConfig, Subresource};

use crate::resource::{
    self, CapacityRequirements, DeviceClaimConfiguration, DeviceConstraint, DeviceDerivedAttribute,
    DeviceSelector, DeviceToleration, ResourceClaimStatus,
};

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
    /// The class that the devices must be of.
    #[api(no_omitempty)]
    device_class_name: String,
    /// What devices must fulfil to be chosen.
    #[api(validations(MaxItems(32)))]
    selectors: List<DeviceSelector>,
    /// Whether some devices are wanted, or all.
    #[api(go_type = "$.DeviceAllocationMode", validations(OneOfValues("All", "ExactCount")))]
    allocation_mode: String,
    /// How many devices are wanted.
    count: i64,
    /// Whether devices that are in use may be looked at.
    admin_access: Option<bool>,
    /// Alternatives, the best first.
    #[api(validations(MaxItems(8), UniqueBy("name")))]
    first_available: List<DeviceSubRequest>,
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
pub struct DeviceSubRequest {
    /// What the alternative is called.
    name: Must<String>,
    /// The class that the devices must be of.
    #[api(validations(Required, Format("long-name")))]
    device_class_name: Must<String>,
    /// What devices must fulfil to be chosen.
    #[api(validations(MaxItems(32)))]
    selectors: List<DeviceSelector>,
    /// Whether some devices are wanted, or all.
    #[api(go_type = "$.DeviceAllocationMode", validations(OneOfValues("All", "ExactCount")))]
    allocation_mode: String,
    /// How many devices are wanted.
    count: i64,
    /// The taints of devices that do not matter.
    #[api(tag = 7)]
    tolerations: List<DeviceToleration>,
    /// How much of each device is needed.
    #[api(feature_gate = "DRAConsumableCapacity")]
    capacity: Option<CapacityRequirements>,
    /// Properties that are computed from those of a device.
    #[api(feature_gate = "DRADerivedAttributes", validations(MaxItems(32)))]
    derived_attributes: List<DeviceDerivedAttribute>,
}

impl Kind for ResourceClaim {
    const COMPILES: bool = true;
    const NAMES: ResourceNames =
        ResourceNames { version: "v1beta1", ..resource::ResourceClaim::NAMES };
    const UPDATE_CHECKS_GENERATE_NAME: bool = true;
    const FORMER_API_VERSIONS: &'static [&'static str] =
        resource::ResourceClaim::FORMER_API_VERSIONS;
    const STORAGE: StorageConfig = resource::ResourceClaim::STORAGE;
    const SHOWS_DELETED: bool = true;
    const STATUS_KEEPS: &'static [&'static str] = CLIENT_METADATA_FIELDS;
    const DEFAULT_ON: bool = false;
    const DEPRECATED: &str = crate::UNTIL_38;
    const SUBRESOURCES: &'static [Subresource] = resource::ResourceClaim::SUBRESOURCES;

    fn default_fields(&mut self) {
        self.spec_mut().default_fields();
    }

    fn to_stored(object: &mut Value) {
        to_v1(&mut object["spec"]);
    }

    fn from_stored(object: &mut Value) {
        from_v1(&mut object["spec"]);
    }
}

impl ResourceClaimSpec {
    pub(super) fn default_fields(&mut self) {
        if self.devices().requests().is_empty() {
            return;
        }
        for request in self.devices_mut().requests_mut().iter_mut() {
            if !request.device_class_name().is_empty() {
                let (mode, count) =
                    resource::allocation(request.allocation_mode(), request.count());
                request.set_allocation_mode(mode);
                request.set_count(count);
            }
            if request.first_available().is_empty() {
                continue;
            }
            for request in request.first_available_mut().iter_mut() {
                let (mode, count) =
                    resource::allocation(request.allocation_mode(), request.count());
                request.set_allocation_mode(mode);
                request.set_count(count);
            }
        }
    }
}

/// What v1 has below `exactly`.
const EXACTLY: [&str; 8] = [
    "adminAccess",
    "allocationMode",
    "capacity",
    "count",
    "derivedAttributes",
    "deviceClassName",
    "selectors",
    "tolerations",
];

pub(super) fn to_v1(spec: &mut Value) {
    each_request(spec, |request| {
        for name in EXACTLY {
            let value = request.get(name).clone();
            request.remove(name);
            let plain = matches!(name, "allocationMode" | "count" | "deviceClassName");
            match (name, value.is_zero()) {
                _ if value.is_null() || plain && value.is_zero() => {}
                ("tolerations", true) => request["exactly"][name] = Value::Null,
                _ => request["exactly"][name] = value,
            }
        }
    });
}

pub(super) fn from_v1(spec: &mut Value) {
    each_request(spec, |request| {
        let exactly = request.get("exactly").clone();
        request.remove("exactly");
        for (name, value) in exactly.entries() {
            request[name] = value.clone();
        }
    });
}

fn each_request(spec: &mut Value, change: impl Fn(&mut Value)) {
    if spec.get("devices").get("requests").is_null() {
        return;
    }
    if let Value::List(requests) = spec.get_mut("devices").get_mut("requests") {
        requests.make_mut().iter_mut().for_each(change);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::from_json;

    #[test]
    fn requests_go_to_v1_and_back() {
        let text = r#"{"spec":{"devices":{"requests":[
            {"name":"a","deviceClassName":"c","allocationMode":"ExactCount","count":1},
            {"name":"b","firstAvailable":[{"name":"s","deviceClassName":"c"}]}]}}}"#;
        let before = from_json(text.as_bytes()).expect("JSON");
        let mut claim = before.clone();
        ResourceClaim::to_stored(&mut claim);
        let requests = claim.get("spec").get("devices").get("requests").items();
        assert_eq!(requests[0].get("exactly").get("count").as_i64(), Some(1));
        assert!(requests[1].get("exactly").is_null());
        ResourceClaim::from_stored(&mut claim);
        assert_eq!(claim, before);
        let odd = r#"{"spec":{"devices":{"requests":[{"name":"a","selectors":[]},
            {"name":"b","tolerations":[]},{"name":"c","count":0}]}}}"#;
        let mut odd = from_json(odd.as_bytes()).expect("JSON");
        ResourceClaim::to_stored(&mut odd);
        let requests = odd.get("spec").get("devices").get("requests").items();
        assert!(!requests[0].get("exactly").get("selectors").is_null(), "empty is not nothing");
        assert!(requests[1].get("exactly").is_object() && requests[2].get("exactly").is_null());
    }
}
