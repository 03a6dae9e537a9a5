//! resource/v1beta1.

mod device_class;
mod resource_claim;
mod resource_claim_template;
mod resource_slice;

pub use self::{
    device_class::{DeviceClass, DeviceClassConfiguration, DeviceClassSpec},
    resource_claim::{
        AllocatedDeviceStatus, AllocationResult, CELDeviceSelector, CapacityRequirements,
        DeviceAllocationConfiguration, DeviceAllocationResult, DeviceClaim,
        DeviceClaimConfiguration, DeviceConfiguration, DeviceConstraint, DeviceDerivedAttribute,
        DeviceRequest, DeviceRequestAllocationResult, DeviceSelector, DeviceSubRequest,
        DeviceToleration, NetworkDeviceData, OpaqueDeviceConfiguration, ResourceClaim,
        ResourceClaimConsumerReference, ResourceClaimSpec, ResourceClaimStatus,
    },
    resource_claim_template::{ResourceClaimTemplate, ResourceClaimTemplateSpec},
    resource_slice::{
        BasicDevice, CapacityRequestPolicy, CapacityRequestPolicyRange, Counter, CounterSet,
        Device, DeviceAttribute, DeviceCapacity, DeviceCounterConsumption, DeviceTaint,
        NodeAllocatableMapping, NodeAllocatableOverhead, NodeAllocatableResource, ResourcePool,
        ResourceSlice, ResourceSliceSpec,
    },
};
