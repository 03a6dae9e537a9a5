//! storage/v1: StorageClass.

use std::collections::BTreeSet;

use macros::api;
use object::{Lens, List, Map, ObjectMeta};
use schema::{Column, Errors, Kind, Names, Path, Scope, Storage};

use crate::rules::Rules;

use crate::core::TopologySelectorTerm;

#[api]
pub struct StorageClass {
    #[api(tag = 1)]
    metadata: ObjectMeta,
    #[api(tag = 2, required, always)]
    provisioner: String,
    #[api(tag = 3)]
    parameters: Map<String>,
    #[api(tag = 4, default = "Delete", implied, go = "v1.PersistentVolumeReclaimPolicy")]
    reclaim_policy: Option<String>,
    #[api(tag = 5)]
    mount_options: List<String>,
    #[api(tag = 6)]
    allow_volume_expansion: Option<bool>,
    #[api(tag = 7, default = "Immediate", implied, go = "v1.VolumeBindingMode")]
    volume_binding_mode: Option<String>,
    #[api(tag = 8)]
    allowed_topologies: List<TopologySelectorTerm>,
}

impl Kind for StorageClass {
    const NAMES: Names = Names {
        group: "storage.k8s.io",
        version: "v1",
        kind: "StorageClass",
        plural: "storageclasses",
        singular: "storageclass",
        short: &["sc"],
        categories: &[],
    };
    const SCOPE: Scope = Scope::Cluster;
    const STORAGE: Storage = Storage::new("storageclasses", "v1");
    const COLUMNS: &'static [Column<Self>] = &[
        Column::NAME,
        Column::new("Provisioner", "string", |class, _| class.provisioner().into()),
        Column::new("ReclaimPolicy", "string", |class, _| class.reclaim_policy().into()),
        Column::new("VolumeBindingMode", "string", |class, _| class.volume_binding_mode().into()),
        Column::new("AllowVolumeExpansion", "string", |class, _| {
            class.allow_volume_expansion().unwrap_or_default().into()
        }),
        Column::AGE,
    ];

    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }

    fn validate(&self, errs: &mut Errors) {
        let at = Path::Root.field("provisioner");
        match self.provisioner() {
            "" => errs.required(&at, ""),
            name => {
                let lower = name.to_lowercase();
                errs.complaints(&at, &lower, object::names::qualified_name(&lower));
            }
        }
        self.check_parameters(&Path::Root.field("parameters"), errs);
        if !self.reclaim_policy().is_empty() {
            let known = ["Delete", "Retain"];
            errs.one_of(&Path::Root.field("reclaimPolicy"), self.reclaim_policy(), &known);
        }
        let modes = ["Immediate", "WaitForFirstConsumer"];
        let at = Path::Root.field("volumeBindingMode");
        errs.one_of(&at, self.volume_binding_mode(), &modes);
        let at = Path::Root.field("allowedTopologies");
        for (i, term) in self.allowed_topologies().iter().enumerate() {
            check_topology(term, &at.index(i), errs);
        }
    }

    fn validate_update(&self, old: &Self, errs: &mut Errors) {
        for name in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
            errs.immutable(&Path::Root.field(name), self.tree().get(name), old.tree().get(name));
        }
    }
}

const MAX_PARAMETERS: usize = 512;
const MAX_SIZE: usize = 256 * 1024;

impl StorageClass {
    fn check_parameters(&self, at: &Path, errs: &mut Errors) {
        let parameters = self.parameters();
        if parameters.iter().len() > MAX_PARAMETERS {
            return errs.too_long(at, MAX_PARAMETERS);
        }
        if parameters.get("").is_some() {
            errs.invalid(at, "", "field can not be empty.");
        }
        let size: usize = parameters.iter().map(|(name, value)| name.len() + value.len()).sum();
        if size > MAX_SIZE {
            errs.too_long(at, MAX_SIZE);
        }
    }
}

fn check_topology(term: &TopologySelectorTerm, at: &Path, errs: &mut Errors) {
    let mut keys = BTreeSet::new();
    for (i, expression) in term.match_label_expressions().iter().enumerate() {
        let at = at.field("matchLabelExpressions");
        let at = at.index(i);
        if expression.values().is_empty() {
            errs.required(&at.field("values"), "");
        }
        let mut values = BTreeSet::new();
        for (j, value) in expression.values().iter().enumerate() {
            if !values.insert(value) {
                errs.duplicate(&at.field("values").index(j), value);
            }
        }
        errs.qualified(&at.field("key"), expression.key());
        if !keys.insert(expression.key()) {
            errs.duplicate(&at.field("key"), expression.key());
        }
    }
}
