//! storagemigration/v1: StorageVersionMigration.

use macros::api;
use object::{Condition, List, ObjectMeta};
use schema::{Kind, METADATA, Names, Scope, Storage, Subresource};

use crate::meta::GroupResource;

#[api]
pub struct StorageVersionMigration {
    #[api(tag = 1)]
    metadata: ObjectMeta,
    #[api(tag = 2)]
    spec: StorageVersionMigrationSpec,
    #[api(tag = 3)]
    status: StorageVersionMigrationStatus,
}

#[api]
pub struct StorageVersionMigrationSpec {
    #[api(tag = 1, required, always)]
    resource: GroupResource,
}

#[api]
pub struct StorageVersionMigrationStatus {
    #[api(tag = 1, keys("type"), merge, merge_key = "type")]
    conditions: List<Condition>,
    #[api(tag = 2)]
    resource_version: String,
}

impl Kind for StorageVersionMigration {
    const NAMES: Names = Names {
        group: "storagemigration.k8s.io",
        version: "v1",
        kind: "StorageVersionMigration",
        plural: "storageversionmigrations",
        singular: "storageversionmigration",
        short: &[],
        categories: &[],
    };
    const SCOPE: Scope = Scope::Cluster;
    const STORAGE: Storage = Storage::new("storageversionmigrations", "v1beta1");
    const STATUS_KEEPS: &'static [&'static str] = METADATA;
    const BLIND_UPDATES: bool = false;
    const SUBRESOURCES: &'static [Subresource] =
        &[Subresource::new("status", "StorageVersionMigration", &["get", "patch", "update"])];

    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }
}
