//! storage/v1: CSIStorageCapacity.

use macros::api;
use object::{LabelSelector, ObjectMeta, Quantity};
use schema::{Kind, Names, Storage};

#[api]
pub struct CSIStorageCapacity {
    #[api(tag = 1)]
    metadata: ObjectMeta,
    #[api(tag = 2)]
    node_topology: Option<LabelSelector>,
    #[api(tag = 3, required, always)]
    storage_class_name: String,
    #[api(tag = 4)]
    capacity: Option<Quantity>,
    #[api(tag = 5)]
    maximum_volume_size: Option<Quantity>,
}

impl Kind for CSIStorageCapacity {
    const NAMES: Names = Names {
        group: "storage.k8s.io",
        version: "v1",
        kind: "CSIStorageCapacity",
        plural: "csistoragecapacities",
        singular: "csistoragecapacity",
        short: &[],
        categories: &[],
    };
    const STORAGE: Storage = Storage::new("csistoragecapacities", "v1");
    const BLIND_UPDATES: bool = false;

    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }
}
