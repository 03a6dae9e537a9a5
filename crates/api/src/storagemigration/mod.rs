//! storagemigration/v1.

mod storage_version_migration;
pub mod v1beta1;

pub use self::storage_version_migration::{
    StorageVersionMigration, StorageVersionMigrationSpec, StorageVersionMigrationStatus,
};
