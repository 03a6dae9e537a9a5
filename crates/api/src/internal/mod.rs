//! apiserverinternal/v1alpha1.

mod storage_version;

pub use self::storage_version::{
    ServerStorageVersion, StorageVersion, StorageVersionCondition, StorageVersionSpec,
    StorageVersionStatus,
};
