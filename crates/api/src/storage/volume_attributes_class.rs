//! storage/v1: VolumeAttributesClass.

use macros::api;
use object::{Map, ObjectMeta};
use schema::{ErrorList, FieldPath, Kind, ResourceNames, Scope, TableColumn};

use super::storage_class::{check_driver, check_parameters};

/// What volumes of a class can be changed to while they are in use.
#[api]
pub struct VolumeAttributesClass {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// The driver that the class is for. It never changes.
    driver_name: Must<String>,
    /// Parameters that are passed to the driver. Cannot be changed.
    parameters: Map<String>,
}

impl Kind for VolumeAttributesClass {
    const NAMES: ResourceNames = ResourceNames::new(
        "storage.k8s.io",
        "v1",
        "VolumeAttributesClass",
        "volumeattributesclasses",
    )
    .short(&["vac"]);
    const UPDATE_CHECKS_GENERATE_NAME: bool = true;
    const FORMER_API_VERSIONS: &'static [&'static str] =
        &["storage.k8s.io/v1alpha1", "storage.k8s.io/v1beta1"];
    const SCOPE: Scope = Scope::Cluster;
    const SHOWS_DELETED: bool = true;
    const COLUMNS: &'static [TableColumn<Self>] = &[
        TableColumn::NAME,
        TableColumn::text("DriverName", |class, _| class.driver_name().into()),
        TableColumn::AGE,
    ];

    fn validate(&self, errs: &mut ErrorList) {
        match self.driver_name() {
            "" => errs.required(&FieldPath::Root.field("driverName"), ""),
            name => check_driver(&FieldPath::Root.field("driverName"), name, errs),
        }
        let at = FieldPath::Root.field("parameters");
        check_parameters(self.parameters(), &at, errs);
        if self.parameters().is_empty() {
            errs.required(&at, "must contain at least one key/value pair");
        }
    }

    fn validate_update(&self, old: &Self, errs: &mut ErrorList) {
        if self.driver_name() != old.driver_name() {
            errs.forbidden(
                &FieldPath::Root.field("driverName"),
                "updates to driverName are forbidden.",
            );
        }
        if self.parameters() != old.parameters() {
            errs.forbidden(
                &FieldPath::Root.field("parameters"),
                "updates to parameters are forbidden.",
            );
        }
        self.validate(errs);
    }
}
