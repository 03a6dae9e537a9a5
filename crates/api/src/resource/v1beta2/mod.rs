//! resource/v1beta2.

mod device_class;
mod device_taint_rule;
mod resource_claim;
mod resource_claim_template;
mod resource_slice;

pub use self::{
    device_class::{DeviceClass, DeviceClassConfiguration, DeviceClassSpec},
    device_taint_rule::{
        DeviceTaintRule, DeviceTaintRuleSpec, DeviceTaintRuleStatus, DeviceTaintSelector,
    },
    resource_claim::{
        AllocatedDeviceStatus, AllocationResult, CELDeviceSelector, CapacityRequirements,
        DeviceAllocationConfiguration, DeviceAllocationResult, DeviceClaim,
        DeviceClaimConfiguration, DeviceConfiguration, DeviceConstraint, DeviceDerivedAttribute,
        DeviceRequest, DeviceRequestAllocationResult, DeviceSelector, DeviceSubRequest,
        DeviceToleration, ExactDeviceRequest, NetworkDeviceData, OpaqueDeviceConfiguration,
        ResourceClaim, ResourceClaimConsumerReference, ResourceClaimSpec, ResourceClaimStatus,
    },
    resource_claim_template::{ResourceClaimTemplate, ResourceClaimTemplateSpec},
    resource_slice::{
        CapacityRequestPolicy, CapacityRequestPolicyRange, Counter, CounterSet, Device,
        DeviceAttribute, DeviceCapacity, DeviceCounterConsumption, DeviceTaint,
        NodeAllocatableMapping, NodeAllocatableOverhead, NodeAllocatableResource, ResourcePool,
        ResourceSlice, ResourceSliceSpec,
    },
};
