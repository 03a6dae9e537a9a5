//! storage/v1: VolumeAttributesClass.

use macros::api;
use object::{Map, ObjectMeta};
use schema::{Kind, Names, Scope, Storage};

#[api]
pub struct VolumeAttributesClass {
    #[api(tag = 1)]
    metadata: ObjectMeta,
    #[api(tag = 2, required, always)]
    driver_name: String,
    #[api(tag = 3)]
    parameters: Map<String>,
}

impl Kind for VolumeAttributesClass {
    const NAMES: Names = Names {
        group: "storage.k8s.io",
        version: "v1",
        kind: "VolumeAttributesClass",
        plural: "volumeattributesclasses",
        singular: "volumeattributesclass",
        short: &["vac"],
        categories: &[],
    };
    const SCOPE: Scope = Scope::Cluster;
    const STORAGE: Storage = Storage::new("volumeattributesclasses", "v1");

    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }
}
