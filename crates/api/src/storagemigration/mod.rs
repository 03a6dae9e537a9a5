//! storagemigration/v1 and v1beta1.

mod storage_version_migration;

pub use self::storage_version_migration::{
    StorageVersionMigration, StorageVersionMigrationSpec, StorageVersionMigrationStatus,
};
