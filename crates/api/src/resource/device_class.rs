//! resource/v1, v1beta2 and v1beta1: DeviceClass.

use macros::api;
use object::{List, ObjectMeta};
use schema::{
    ErrorList, FieldPath, Kind, ResourceNames, Scope, TableColumn, ValidateName, name_validation,
};

use super::{DeviceConfiguration, DeviceSelector};

/// Devices that can be asked for by one name.
#[api]
pub struct DeviceClass {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// Which devices, and how they are set up.
    #[api(no_omitempty)]
    spec: DeviceClassSpec,
}

#[api]
pub struct DeviceClassSpec {
    /// What devices must fulfil to be of the class.
    #[api(validations(MaxItems(32)))]
    selectors: List<DeviceSelector>,
    /// How the devices are set up.
    #[api(validations(MaxItems(32)))]
    config: List<DeviceClassConfiguration>,
    /// The resource of containers that stands for such a device.
    #[api(tag = 4, validations(Format("extended-resource-name")))]
    extended_resource_name: Option<String>,
}

#[api]
pub struct DeviceClassConfiguration {
    /// Parameters that are passed to the driver.
    #[api(inline)]
    device_configuration: DeviceConfiguration,
}

impl Kind for DeviceClass {
    const COMPILES: bool = true;
    const NAMES: ResourceNames =
        ResourceNames::new("resource.k8s.io", "v1", "DeviceClass", "deviceclasses");
    const FORMER_API_VERSIONS: &'static [&'static str] =
        &["resource.k8s.io/v1beta1", "resource.k8s.io/v1beta2"];
    const SCOPE: Scope = Scope::Cluster;
    const SHOWS_DELETED: bool = true;
    const NAME: ValidateName = name_validation::long_name;

    const GENERATION: bool = true;
    const COLUMNS: &'static [TableColumn<Self>] = &[TableColumn::NAME, TableColumn::AGE];

    fn validate(&self, errs: &mut ErrorList) {
        self.spec().check(false, &FieldPath::SPEC, errs);
    }

    fn validate_update(&self, old: &Self, errs: &mut ErrorList) {
        let stored = self.spec().selectors() == old.spec().selectors();
        self.spec().check(stored, &FieldPath::SPEC, errs);
    }
}

impl DeviceClassSpec {
    fn check(&self, stored: bool, at: &FieldPath, errs: &mut ErrorList) {
        at.field("selectors")
            .for_each_item(self.selectors().iter(), |it, at| it.check(stored, at, errs));
        for (i, config) in self.config().iter().enumerate() {
            config.device_configuration().check(&at.field("config").index(i), errs);
        }
    }
}
