//! resource/v1alpha3.

mod device_taint_rule;
mod resource_pool_status_request;

pub use self::{
    device_taint_rule::{
        DeviceTaint, DeviceTaintRule, DeviceTaintRuleSpec, DeviceTaintRuleStatus,
        DeviceTaintSelector,
    },
    resource_pool_status_request::{
        PartitionTypeStatus, PoolStatus, ResourcePoolStatusRequest, ResourcePoolStatusRequestSpec,
        ResourcePoolStatusRequestStatus, ShareableCapacityStatus, ShareableSummaryStatus,
    },
};
