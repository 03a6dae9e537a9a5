//! storage/v1: StorageClass.

use std::collections::{BTreeMap, BTreeSet};

use macros::api;
use object::{List, Map, ObjectMeta};
use schema::{ErrorList, FieldPath, Kind, ResourceNames, Scope, TableColumn};

use crate::{core::TopologySelectorTerm, rules::ValidateField};

/// Describes how volumes are provisioned for claims that name this class.
#[api]
pub struct StorageClass {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// Driver that provisions the volumes. Cannot be changed.
    #[api(validations(Required, Immutable))]
    provisioner: Must<String>,
    /// Parameters that are passed to the driver. Cannot be changed.
    #[api(validations(Immutable))]
    parameters: Map<String>,
    /// What happens to a volume when its claim is deleted: Delete (default) or Retain.
    #[api(default = "Delete", unpublished_default, go_type = "v1.PersistentVolumeReclaimPolicy")]
    #[api(enum_values("Delete", "Recycle", "Retain"), validations(Immutable))]
    reclaim_policy: Option<String>,
    /// Mount options of the volumes.
    mount_options: List<String>,
    /// Whether claims can be made larger.
    allow_volume_expansion: Option<bool>,
    /// When volumes are provisioned and bound: Immediate (default) or WaitForFirstConsumer.
    #[api(default = "Immediate", unpublished_default, go_type = "v1.VolumeBindingMode")]
    #[api(enum_values("Immediate", "WaitForFirstConsumer"), validations(Immutable))]
    volume_binding_mode: Option<String>,
    /// Topologies, such as zones, in which volumes may be provisioned.
    allowed_topologies: List<TopologySelectorTerm>,
}

/// The mark of the class that claims get which name none, and its older form.
const DEFAULT: [&str; 2] = [
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
];

impl StorageClass {
    fn shown_name(&self) -> String {
        let notes = self.metadata().annotations();
        let default = DEFAULT.iter().any(|mark| notes.get(mark) == Some("true"));
        format!("{}{}", self.metadata().name(), if default { " (default)" } else { "" })
    }
}

impl Kind for StorageClass {
    const NAMES: ResourceNames =
        ResourceNames::new("storage.k8s.io", "v1", "StorageClass", "storageclasses").short(&["sc"]);
    const UPDATE_CHECKS_GENERATE_NAME: bool = true;
    const FORMER_API_VERSIONS: &'static [&'static str] = &["storage.k8s.io/v1beta1"];
    const SCOPE: Scope = Scope::Cluster;
    const SHOWS_DELETED: bool = true;
    const COLUMNS: &'static [TableColumn<Self>] = &[
        TableColumn { cell: |class, _| class.shown_name().into(), ..TableColumn::NAME },
        TableColumn::text("Provisioner", |class, _| class.provisioner().into()),
        TableColumn::text("ReclaimPolicy", |class, _| class.reclaim_policy().into()),
        TableColumn::text("VolumeBindingMode", |class, _| class.volume_binding_mode().into()),
        TableColumn::text("AllowVolumeExpansion", |class, _| {
            class.allow_volume_expansion().unwrap_or_default().into()
        }),
        TableColumn::AGE,
    ];

    fn validate(&self, errs: &mut ErrorList) {
        if !self.provisioner().is_empty() {
            check_driver(&FieldPath::Root.field("provisioner"), self.provisioner(), errs);
        }
        check_parameters(self.parameters(), &FieldPath::Root.field("parameters"), errs);
        if !self.reclaim_policy().is_empty() {
            let known = ["Delete", "Retain"];
            errs.one_of(&FieldPath::Root.field("reclaimPolicy"), self.reclaim_policy(), &known);
        }
        let modes = ["Immediate", "WaitForFirstConsumer"];
        errs.one_of(
            &FieldPath::Root.field("volumeBindingMode"),
            self.volume_binding_mode(),
            &modes,
        );
        let at = FieldPath::Root.field("allowedTopologies");
        let mut seen: BTreeSet<Labels> = BTreeSet::new();
        for (i, term) in self.allowed_topologies().iter().enumerate() {
            let labels = check_topology(term, &at.index(i), errs);
            let empty = labels.is_empty();
            if !seen.insert(labels) || empty {
                errs.duplicate(&at.index(i).field("matchLabelExpressions"), "");
            }
        }
    }
}

const MAX_PARAMETERS: usize = 512;
const MAX_SIZE: usize = 256 * 1024;

/// The values that each label may have.
type Labels<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

/// The name of a storage driver.
pub(super) fn check_driver(at: &FieldPath, name: &str, errs: &mut ErrorList) {
    let lower = name.to_lowercase();
    errs.invalid_each(at, &lower, object::names::qualified_name(&lower));
}

/// Validates the parameters for the driver.
pub(super) fn check_parameters(parameters: &Map<String>, at: &FieldPath, errs: &mut ErrorList) {
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

fn check_topology<'a>(
    term: &'a TopologySelectorTerm,
    at: &FieldPath,
    errs: &mut ErrorList,
) -> Labels<'a> {
    let mut labels = Labels::new();
    let at = at.field("matchLabelExpressions");
    at.for_each_item(term.match_label_expressions().iter(), |expression, at| {
        if expression.values().is_empty() {
            errs.required(&at.field("values"), "");
        }
        let mut values = BTreeSet::new();
        let list = at.field("values");
        list.for_each_item(expression.values().iter(), |value, at| {
            errs.unique(&mut values, at, value);
        });
        errs.qualified(&at.field("key"), expression.key());
        if labels.insert(expression.key(), values).is_some() {
            errs.duplicate(&at.field("key"), expression.key());
        }
    });
    labels
}
