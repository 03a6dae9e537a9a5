//! core/v1: Namespace.

use macros::api;
use object::{List, ObjectMeta, Text, Time};
use schema::{
    ErrorList, FieldPath, Kind, ResourceNames, Scope, SelectableField, Subresource,
    SubresourceField, TableColumn, ValidateName, name_validation, validate_finalizer_name, verbs,
};

/// Lets a namespace go only when it is empty.
const FINALIZER: &str = "kubernetes";

/// A scope for the names of objects, and for access and quota.
#[api]
pub struct Namespace {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// Desired behaviour of the namespace.
    spec: NamespaceSpec,
    /// Observed status of the namespace.
    status: NamespaceStatus,
}

#[api]
pub struct NamespaceSpec {
    /// Finalizers that must be removed before the namespace is deleted.
    #[api(go_type = "[]v1.FinalizerName")]
    finalizers: List<String>,
}

#[api]
pub struct NamespaceStatus {
    /// Active, or Terminating while it is being deleted.
    #[api(
        default = "Active",
        unpublished_default,
        go_type = "v1.NamespacePhase",
        enum_values("Active", "Terminating")
    )]
    phase: String,
    /// Current conditions of the object.
    #[api(keys("type"), merge, merge_key = "type")]
    conditions: List<NamespaceCondition>,
}

#[api]
pub struct NamespaceCondition {
    /// Type of the condition.
    #[api(go_type = "v1.NamespaceConditionType")]
    type_: Must<String>,
    /// Status of the condition: True, False or Unknown.
    #[api(go_type = "v1.ConditionStatus")]
    status: Must<String>,
    /// When the condition last went from one status to another.
    #[api(tag = 4)]
    last_transition_time: Time,
    /// Machine-readable reason: one CamelCase word.
    reason: String,
    /// Human-readable details.
    message: String,
}

impl Namespace {
    /// Whether new objects are no longer taken.
    pub fn is_closing(&self) -> bool {
        self.metadata().is_terminating() || self.status().phase() == "Terminating"
    }
}

/// What the `finalize` subresource writes.
const FINALIZERS: SubresourceField = SubresourceField { parent: "spec", name: "finalizers" };

impl Kind for Namespace {
    const NAMES: ResourceNames =
        ResourceNames::new("", "v1", "Namespace", "namespaces").short(&["ns"]);
    const UPDATE_CHECKS_GENERATE_NAME: bool = true;
    const FINALIZERS_IN_SPEC: bool = true;
    const SCOPE: Scope = Scope::Cluster;
    const VERBS: &'static [&'static str] = verbs::NO_COLLECTION;
    const SUBRESOURCES: &'static [Subresource] = &[
        Subresource::field("finalize", "Namespace", FINALIZERS).verbs(&["update"]),
        Subresource::status("Namespace").writes_metadata(),
    ];
    const COLUMNS: &'static [TableColumn<Self>] = &[
        TableColumn::NAME,
        TableColumn::text("Status", |namespace, _| namespace.status().phase().into()),
        TableColumn::AGE,
    ];
    const INDEXES: &'static [SelectableField<Self>] =
        &[SelectableField::filter_only("status.phase", |namespace| {
            namespace.status().phase().into()
        })];
    const NAME: ValidateName = name_validation::dns_label;

    fn validate(&self, errs: &mut ErrorList) {
        for finalizer in self.spec().finalizers().iter() {
            validate_finalizer_name(finalizer, &FieldPath::SPEC.field("finalizers"), errs);
        }
    }

    fn validate_update(&self, _old: &Self, _errs: &mut ErrorList) {}

    fn validate_part(&self, _part: &str, _old: &Self, errs: &mut ErrorList) {
        for (i, finalizer) in self.spec().finalizers().iter().enumerate() {
            validate_finalizer_name(finalizer, &FieldPath::SPEC.field("finalizers").index(i), errs);
        }
    }

    fn validate_status(&self, _old: &Self, errs: &mut ErrorList) {
        let (phase, at) = (self.status().phase(), FieldPath::STATUS);
        match (self.is_terminating(), phase) {
            (false, "Active") | (true, "Terminating") => {}
            (false, _) => {
                let why = "may only be 'Active' if `deletionTimestamp` is empty";
                errs.invalid(&at.field("Phase"), phase, why);
            }
            (true, _) => {
                let why = "may only be 'Terminating' if `deletionTimestamp` is not empty";
                errs.invalid(&at.field("Phase"), phase, why);
            }
        }
    }

    fn default_fields(&mut self) {
        if !self.metadata().name().is_empty() {
            let name = Text::from(self.metadata().name());
            self.metadata_mut().labels_mut().insert("kubernetes.io/metadata.name", name);
        }
    }

    fn prepare_create(&mut self) {
        self.default_fields(); // the name may be new
        self.set_status(NamespaceStatus::new());
        if !self.spec().finalizers().iter().any(|finalizer| finalizer == FINALIZER) {
            self.spec_mut().finalizers_mut().push(FINALIZER);
        }
    }

    fn mark_terminating(&mut self) {
        self.status_mut().set_phase("Terminating");
        self.metadata_mut().clear_deletion_grace_period_seconds();
    }

    fn prepare_update(&mut self, old: &Self) {
        self.spec_mut().set_finalizers(old.spec().finalizers().clone());
    }
}
