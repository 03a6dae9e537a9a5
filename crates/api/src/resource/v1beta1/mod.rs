//! resource/v1beta1, where it differs from v1: requests and devices nest in another way.

mod resource_claim;
mod resource_claim_template;
mod resource_slice;

pub use self::{
    resource_claim::{
        DeviceClaim, DeviceRequest, DeviceSubRequest, ResourceClaim, ResourceClaimSpec,
    },
    resource_claim_template::{ResourceClaimTemplate, ResourceClaimTemplateSpec},
    resource_slice::{BasicDevice, Device, ResourceSlice, ResourceSliceSpec},
};
