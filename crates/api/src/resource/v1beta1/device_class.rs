//! resource/v1beta1: DeviceClass.

use macros::api;
use object::{List, ObjectMeta};
use schema::{Kind, Names, Scope, Storage};

use super::{DeviceConfiguration, DeviceSelector};

#[api]
pub struct DeviceClass {
    #[api(tag = 1)]
    metadata: ObjectMeta,
    #[api(tag = 2, always)]
    spec: DeviceClassSpec,
}

#[api]
pub struct DeviceClassSpec {
    #[api(tag = 1)]
    selectors: List<DeviceSelector>,
    #[api(tag = 2)]
    config: List<DeviceClassConfiguration>,
    #[api(tag = 4)]
    extended_resource_name: Option<String>,
}

#[api]
pub struct DeviceClassConfiguration {
    #[api(tag = 1, inline)]
    device_configuration: DeviceConfiguration,
}

impl Kind for DeviceClass {
    const NAMES: Names = Names {
        group: "resource.k8s.io",
        version: "v1beta1",
        kind: "DeviceClass",
        plural: "deviceclasses",
        singular: "deviceclass",
        short: &[],
        categories: &[],
    };
    const SCOPE: Scope = Scope::Cluster;
    const STORAGE: Storage = Storage::new("deviceclasses", "v1");
    const DEFAULT_ON: bool = false;

    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }
}
