//! storage/v1.

mod csi_driver;
mod csi_node;
mod csi_storage_capacity;
mod storage_class;
mod volume_attachment;
mod volume_attributes_class;

pub use self::{
    csi_driver::{CSIDriver, CSIDriverSpec, TokenRequest},
    csi_node::{
        CSINode, CSINodeDriver, CSINodeSpec, CSINodeStatus, StorageHealth, StorageHealthCondition,
        VolumeNodeResources,
    },
    csi_storage_capacity::CSIStorageCapacity,
    storage_class::StorageClass,
    volume_attachment::{
        VolumeAttachment, VolumeAttachmentSource, VolumeAttachmentSpec, VolumeAttachmentStatus,
        VolumeError,
    },
    volume_attributes_class::VolumeAttributesClass,
};
