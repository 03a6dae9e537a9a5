//! resource/v1, v1beta2, v1beta1 and v1alpha3.

mod capacity_rules;
mod claim_rules;
mod device_class;
mod device_taint_rule;
mod resource_claim;
mod resource_claim_template;
mod resource_pool_status_request;
mod resource_slice;
mod slice_rules;
pub mod v1beta1;

pub(crate) use self::resource_claim::allocation;
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
    resource_pool_status_request::{
        PartitionTypeStatus, PoolStatus, ResourcePoolStatusRequest, ResourcePoolStatusRequestSpec,
        ResourcePoolStatusRequestStatus, ShareableCapacityStatus, ShareableSummaryStatus,
    },
    resource_slice::{
        CapacityRequestPolicy, CapacityRequestPolicyRange, Counter, CounterSet, Device,
        DeviceAttribute, DeviceCapacity, DeviceCounterConsumption, DeviceTaint,
        NodeAllocatableMapping, NodeAllocatableOverhead, NodeAllocatableResource, ResourcePool,
        ResourceSlice, ResourceSliceSpec,
    },
};
