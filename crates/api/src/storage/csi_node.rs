//! storage/v1: CSINode.

use std::collections::BTreeSet;

use macros::api;
use object::{List, ObjectMeta, Time, Value, saturating_i32};
use schema::{
    CLIENT_METADATA_FIELDS, ErrorList, FieldPath, Kind, ResourceNames, Scope, Subresource,
    TableColumn,
};

use crate::{
    core::{persistent_volume_claim::ACCESS_MODES, volume::sources::check_csi_driver},
    rules::{ValidateField, format_go_fields},
};

/// The storage drivers of a node.
#[api]
pub struct CSINode {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// The drivers, as the kubelet sees them.
    spec: Must<CSINodeSpec>,
    /// How the storage of the node is.
    status: CSINodeStatus,
}

#[api]
pub struct CSINodeSpec {
    /// The drivers that run on the node.
    #[api(keys("name"), merge, merge_key = "name")]
    drivers: Must<List<CSINodeDriver>>,
}

#[api]
pub struct CSINodeDriver {
    /// The driver's name.
    name: Must<String>,
    /// What the driver calls the node.
    #[api(name = "nodeID")]
    node_id: Must<String>,
    /// The labels that say where the node can reach storage.
    #[api(no_omitempty)]
    topology_keys: List<String>,
    /// How many volumes the driver can attach.
    allocatable: Option<VolumeNodeResources>,
}

#[api]
pub struct VolumeNodeResources {
    /// How many volumes can be attached; absent: any number.
    count: Option<i32>,
}

#[api]
pub struct CSINodeStatus {
    /// What the drivers say about their storage.
    #[api(keys("name"), merge, merge_key = "name", feature_gate = "CSIVolumeHealth")]
    storage_health: List<StorageHealth>,
}

#[api]
pub struct StorageHealth {
    /// The driver's name.
    name: Must<String>,
    /// What is wrong with its storage.
    health_conditions: List<StorageHealthCondition>,
}

#[api]
pub struct StorageHealthCondition {
    /// How bad it is.
    #[api(
        go_type = "v1.StorageHealthStatusType",
        enum_values("StorageDegraded", "StorageUnreachable")
    )]
    status: Must<String>,
    /// Why, in a word.
    reason: Must<String>,
    /// Why, for people.
    message: String,
    /// The access mode that is concerned.
    #[api(go_type = "v1.PersistentVolumeAccessMode", enum_values = &ACCESS_MODES)]
    access_mode: Option<String>,
    /// The volume mode that is concerned.
    #[api(go_type = "v1.PersistentVolumeMode", enum_values("Block", "Filesystem"))]
    volume_mode: Option<String>,
    /// When it last changed.
    last_transition_time: Time,
}

impl Kind for CSINode {
    const NAMES: ResourceNames = ResourceNames::new("storage.k8s.io", "v1", "CSINode", "csinodes");
    const UPDATE_CHECKS_GENERATE_NAME: bool = true;
    const FORMER_API_VERSIONS: &'static [&'static str] = &["storage.k8s.io/v1beta1"];
    const SCOPE: Scope = Scope::Cluster;
    const SHOWS_DELETED: bool = true;
    const STATUS_KEEPS: &'static [&'static str] = CLIENT_METADATA_FIELDS;
    const BLIND_UPDATES: bool = false;
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::status("CSINode")];
    const COLUMNS: &'static [TableColumn<Self>] = &[
        TableColumn::NAME,
        TableColumn::new("Drivers", "integer", |node, _| {
            saturating_i32(node.spec().drivers().len()).into()
        }),
        TableColumn::AGE,
    ];

    fn validate(&self, errs: &mut ErrorList) {
        let at = FieldPath::SPEC.field("drivers");
        let mut names = BTreeSet::new();
        for (i, driver) in self.spec().drivers().iter().enumerate() {
            driver.check(&at.index(i), errs);
            errs.unique(&mut names, &at.index(i).field("name"), driver.name());
        }
    }

    fn validate_update(&self, old: &Self, errs: &mut ErrorList) {
        self.validate(errs);
        let fixed = |driver: &CSINodeDriver| {
            let mut fixed = driver.clone();
            fixed.clear_allocatable();
            fixed
        };
        let now = self.spec().drivers().by_key(|driver| driver.name());
        for old in old.spec().drivers().iter() {
            let new = now.get(old.name()).copied();
            if let Some(new) = new.filter(|new| fixed(new) != fixed(old)) {
                errs.invalid_formatted(
                    &FieldPath::SPEC.field("drivers"),
                    new.shown(),
                    "field is immutable",
                );
            }
        }
    }
}

const MAX_ID: usize = 256;

impl CSINodeDriver {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        check_csi_driver(&at.field("name"), self.name(), errs);
        errs.required_field(at, "nodeID", self.node_id());
        if self.node_id().len() > MAX_ID {
            let why = format!("must be {MAX_ID} characters or less");
            errs.invalid(&at.field("nodeID"), self.node_id(), why);
        }
        if let Some(n) = self.allocatable().and_then(VolumeNodeResources::count) {
            errs.non_negative(&at.field("allocatable").field("count"), n.into());
        }
        let mut seen = BTreeSet::new();
        for key in self.topology_keys().iter() {
            if key.is_empty() {
                errs.required(at, "");
            }
            errs.unique(&mut seen, at, key);
            errs.qualified(at, key);
        }
    }

    /// As Go prints it.
    fn shown(&self) -> String {
        format_go_fields(&[
            ("Name", self.name().into()),
            ("NodeID", self.node_id().into()),
            ("TopologyKeys", Value::from(self.topology_keys().clone())),
            ("Allocatable", Value::Null),
        ])
    }
}
