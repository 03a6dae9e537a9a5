//! storage/v1: CSIStorageCapacity.

use macros::api;
use object::{LabelSelector, Lens, ObjectMeta, Quantity, Value};
use schema::{ErrorList, FieldPath, Kind, ResourceNames};

use crate::rules::{ValidateField, format_selector};

/// How much room a storage class has where.
#[api]
pub struct CSIStorageCapacity {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// The nodes that can reach the room. It never changes.
    node_topology: Option<LabelSelector>,
    /// The class that volumes would be of. It never changes.
    storage_class_name: Must<String>,
    /// How much room there is in all.
    capacity: Option<Quantity>,
    /// How large a single volume can be.
    maximum_volume_size: Option<Quantity>,
}

impl Kind for CSIStorageCapacity {
    const NAMES: ResourceNames =
        ResourceNames::new("storage.k8s.io", "v1", "CSIStorageCapacity", "csistoragecapacities")
            .singular("csistoragecapacity");
    const UPDATE_CHECKS_GENERATE_NAME: bool = true;
    const FORMER_API_VERSIONS: &'static [&'static str] =
        &["storage.k8s.io/v1alpha1", "storage.k8s.io/v1beta1"];
    const BLIND_UPDATES: bool = false;

    fn validate(&self, errs: &mut ErrorList) {
        errs.selector(&FieldPath::Root.field("nodeTopology"), self.node_topology());
        errs.subdomain(&FieldPath::Root.field("storageClassName"), self.storage_class_name());
        errs.non_negative_amount(&FieldPath::Root.field("capacity"), self.tree().get("capacity"));
    }

    fn validate_update(&self, old: &Self, errs: &mut ErrorList) {
        self.validate(errs);
        let (at, both) =
            (FieldPath::Root.field("nodeTopology"), (self.node_topology(), old.node_topology()));
        errs.immutable_formatted(&at, both, |new| new.map_or("null".to_owned(), format_selector));
        let class = |this: &Self| Value::from(this.storage_class_name());
        errs.immutable(&FieldPath::Root.field("storageClassName"), &class(self), &class(old));
    }
}
