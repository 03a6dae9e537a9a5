//! core/v1: PersistentVolumeClaim.

use crate::{advice::CommonWarnings, columns, rules::ValidateField};
use macros::api;
use object::{Lens, List, Map, ObjectMeta, Quantity, Time, Value, names};
use schema::{ErrorList, FieldPath, Kind, ResourceNames, Subresource, TableColumn, WarningList};

use super::{
    PersistentVolumeClaimSpec, TypedLocalObjectReference, TypedObjectReference,
    resources::rules::is_native,
};

/// A request for storage, to which a PersistentVolume is bound.
#[api]
pub struct PersistentVolumeClaim {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// Requested properties of the volume.
    spec: PersistentVolumeClaimSpec,
    /// Observed status of the claim.
    status: PersistentVolumeClaimStatus,
}

#[api]
pub struct PersistentVolumeClaimStatus {
    /// Pending, Bound or Lost.
    #[api(default = "Pending", unpublished_default, go_type = "v1.PersistentVolumeClaimPhase")]
    #[api(enum_values("Bound", "Lost", "Pending"))]
    phase: String,
    /// Access modes of the bound volume.
    #[api(go_type = "[]v1.PersistentVolumeAccessMode", enum_values = &ACCESS_MODES)]
    access_modes: List<String>,
    /// Size of the bound volume.
    #[api(go_type = "v1.ResourceList")]
    capacity: Map<Quantity>,
    /// Current conditions of the object.
    #[api(keys("type"), merge, merge_key = "type")]
    conditions: List<PersistentVolumeClaimCondition>,
    /// Size that is reserved for the claim, including an expansion that is under way.
    #[api(go_type = "v1.ResourceList")]
    allocated_resources: Map<Quantity>,
    /// How far the growth is.
    #[api(tag = 7, go_type = "map[v1.ResourceName]v1.ClaimResourceStatus")]
    #[api(enum_values(
        "ControllerResizeInProgress",
        "ControllerResizeInfeasible",
        "NodeResizeInProgress",
        "NodeResizeInfeasible",
        "NodeResizePending"
    ))]
    #[api(granular)]
    allocated_resource_statuses: Map<String>,
    /// The attributes class in use.
    current_volume_attributes_class_name: Option<String>,
    /// How far a change of attributes is.
    modify_volume_status: Option<ModifyVolumeStatus>,
    /// Health of the volume, as its driver reports it.
    health_status: Option<VolumeHealthStatus>,
}

#[api]
pub struct ModifyVolumeStatus {
    /// The attributes class that is on its way.
    target_volume_attributes_class_name: String,
    /// Pending, InProgress or Infeasible.
    #[api(go_type = "v1.PersistentVolumeClaimModifyVolumeStatus")]
    #[api(enum_values("InProgress", "Infeasible", "Pending"))]
    status: Must<String>,
}

#[api]
pub struct PersistentVolumeClaimCondition {
    /// Type of the condition.
    #[api(go_type = "v1.PersistentVolumeClaimConditionType")]
    type_: Must<String>,
    /// Status of the condition: True, False or Unknown.
    #[api(go_type = "v1.ConditionStatus")]
    status: Must<String>,
    /// When the condition was last checked.
    last_probe_time: Time,
    /// When the condition last went from one status to another.
    last_transition_time: Time,
    /// Machine-readable reason: one CamelCase word.
    reason: String,
    /// Human-readable details.
    message: String,
}

#[api]
pub struct VolumeHealthStatus {
    /// What is wrong with the volume.
    #[api(keys("status", "reason"), merge, merge_key = "status")]
    health_conditions: List<VolumeHealthCondition>,
    /// When that last changed.
    last_transition_time: Time,
}

#[api]
pub struct VolumeHealthCondition {
    /// How bad it is: Degraded, Inaccessible or DataLoss.
    #[api(
        go_type = "v1.VolumeHealthStatusType",
        enum_values("DataLoss", "Degraded", "Inaccessible")
    )]
    status: Must<String>,
    /// Machine-readable reason: one CamelCase word.
    reason: Must<String>,
    /// Human-readable details.
    message: String,
}

/// What named the class before there was a field.
const OLD_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

impl PersistentVolumeClaimSpec {
    pub(crate) fn warn(&self, at: &FieldPath, warnings: &mut WarningList) {
        let at = at.field("resources");
        warnings.fractional_bytes(&at.field("requests"), self.resources().requests(), "storage");
        warnings.fractional_bytes(&at.field("limits"), self.resources().limits(), "storage");
    }
}

impl Kind for PersistentVolumeClaim {
    const NAMES: ResourceNames =
        ResourceNames::new("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
            .short(&["pvc"]);
    const UPDATE_CHECKS_GENERATE_NAME: bool = true;
    const SHOWS_DELETED: bool = true;
    const SUBRESOURCES: &'static [Subresource] =
        &[Subresource::status("PersistentVolumeClaim").writes_metadata()];
    const COLUMNS: &'static [TableColumn<Self>] = &[
        TableColumn::NAME,
        TableColumn::text("Status", |claim, _| {
            if claim.is_terminating() {
                "Terminating".into()
            } else {
                claim.status().phase().into()
            }
        }),
        TableColumn::text("Volume", |claim, _| claim.spec().volume_name().into()),
        TableColumn::text("Capacity", |claim, _| match claim.spec().volume_name() {
            "" => "".into(),
            _ => claim.status().capacity().get("storage").unwrap_or_default().to_string().into(),
        }),
        TableColumn::text("Access Modes", |claim, _| match claim.spec().volume_name() {
            "" => "".into(),
            _ => access_modes(claim.status().access_modes()),
        }),
        TableColumn::text("StorageClass", |claim, _| claim.class().into()),
        TableColumn::text("VolumeAttributesClass", |claim, _| {
            claim.spec().volume_attributes_class_name().unwrap_or("<unset>").into()
        }),
        TableColumn::AGE,
        TableColumn::wide_text("VolumeMode", |claim, _| claim.spec().volume_mode().into()),
    ];

    fn warn(&self, _old: Option<&Self>, warnings: &mut WarningList) {
        if self.metadata().annotations().get(OLD_CLASS).is_some() {
            let why = "deprecated since v1.8; use \"storageClassName\" attribute instead";
            warnings.push_at(&FieldPath::METADATA.field("annotations").key(OLD_CLASS), why);
        }
        self.spec().warn(&FieldPath::SPEC, warnings);
    }

    fn validate_update(&self, old: &Self, errs: &mut ErrorList) {
        self.validate(errs);
        // Claims of old may have sources of any group, and no source changes.
        let group = |source| old.tree().get("spec").get(source).get("apiGroup").as_str();
        if group("dataSource").or(group("dataSourceRef")).is_some() {
            errs.0.retain(|error| !error.path.ends_with(".apiGroup"));
        }
        self.check_kept(old, errs);
    }

    fn validate(&self, errs: &mut ErrorList) {
        self.spec().check(&FieldPath::SPEC, errs);
    }

    fn validate_status(&self, _old: &Self, errs: &mut ErrorList) {
        self.status().check(&FieldPath::STATUS, errs);
    }

    fn prepare_create(&mut self) {
        self.set_status(PersistentVolumeClaimStatus::new().with_phase("Pending"));
        self.spec_mut().drop_foreign_source();
        self.spec_mut().drop_strange_source();
        self.spec_mut().align_sources();
    }

    fn prepare_update(&mut self, old: &Self) {
        let old = old.spec();
        if old.data_source_ref().is_none() {
            self.spec_mut().drop_foreign_source();
        }
        if old.data_source().is_none() && old.data_source_ref().is_none() {
            self.spec_mut().drop_strange_source();
        }
        self.spec_mut().align_sources();
    }

    fn prepare_status(&mut self, old: &Self) {
        if old.status().health_status().is_none() {
            self.status_mut().clear_health_status();
        }
    }
}

impl PersistentVolumeClaim {
    /// Within another object, a claim says itself what it is.
    pub(crate) fn tell_kind(&mut self) {
        self.0["apiVersion"] = Self::NAMES.version.into();
        self.0["kind"] = Self::NAMES.kind.into();
    }

    /// The storage class, also as clients of old wrote it.
    pub fn class(&self) -> &str {
        let annotation = self.metadata().annotations().get(CLASS_ANNOTATION);
        annotation.or(self.spec().storage_class_name()).unwrap_or_default()
    }
}

/// Where the storage class was named before it had a field.
pub(super) const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// `RWO,ROX`.
pub(super) fn access_modes(modes: &List<String>) -> Value {
    const SHORT: [(&str, &str); 4] = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let has = |mode: &str| modes.iter().any(|other| other == mode);
    columns::join(SHORT.iter().filter(|(mode, _)| has(mode)).map(|(_, short)| *short)).into()
}

/// How a volume may be mounted; `none` says what is wrong where nothing is said.
pub(crate) fn check_modes(modes: &List<String>, none: &str, at: &FieldPath, errs: &mut ErrorList) {
    if modes.is_empty() {
        errs.required(at, none);
    }
    for mode in modes.iter() {
        errs.one_of(at, mode, &ACCESS_MODES);
    }
    let once = |mode: &str| mode == "ReadWriteOncePod";
    let other = |mode: &str| ACCESS_MODES.contains(&mode) && !once(mode);
    if modes.iter().any(once) && modes.iter().any(other) {
        errs.forbidden(at, "may not use ReadWriteOncePod with other access modes");
    }
}

impl PersistentVolumeClaimSpec {
    pub(crate) fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        let (modes, here) = (self.access_modes(), at.field("accessModes"));
        check_modes(modes, "at least 1 access mode is required", &here, errs);
        errs.selector(&at.field("selector"), self.selector());
        let at_size = at.field("resources");
        match self.resources().requests().get("storage") {
            None => errs.required(&at_size.key("storage"), ""),
            Some(size) if size.sign() <= 0 => {
                let why = "must be greater than zero";
                errs.invalid(&at_size.key("storage"), size.to_string(), why);
            }
            Some(_) => {}
        }
        let class = |name, class: Option<&str>, errs: &mut ErrorList| {
            errs.optional_format(
                &at.field(name),
                class.unwrap_or_default(),
                names::dns1123_subdomain,
            );
        };
        class("storageClassName", self.storage_class_name(), errs);
        errs.one_of(&at.field("volumeMode"), self.volume_mode(), &["Block", "Filesystem"]);
        self.check_sources(at, errs);
        class("volumeAttributesClassName", self.volume_attributes_class_name(), errs);
    }

    fn check_sources(&self, at: &FieldPath, errs: &mut ErrorList) {
        let (source, reference) = (self.data_source(), self.data_source_ref());
        if let Some(source) = source {
            let parts = (source.api_group(), source.kind(), source.name());
            check_source(parts, &at.field("dataSource"), errs);
        }
        let Some(reference) = reference else { return };
        let parts = (reference.api_group(), reference.kind(), reference.name());
        check_source(parts, &at.field("dataSourceRef"), errs);
        let namespace = reference.namespace().filter(|namespace| !namespace.is_empty());
        at.field("dataSourceRef").if_present("namespace", namespace, |it, at| errs.label(at, it));
        let Some(source) = source else { return };
        let why = match namespace {
            Some(_) => "may not be specified when dataSourceRef.namespace is specified",
            None if (source.api_group(), source.kind(), source.name()) != parts => {
                "must match dataSourceRef"
            }
            None => return,
        };
        errs.invalid_formatted(at, "{}".into(), why);
    }

    /// `dataSource` names a claim or a snapshot, unless who writes it knows `dataSourceRef`.
    fn drop_strange_source(&mut self) {
        let known = |source: &TypedLocalObjectReference| {
            let group = source.api_group().unwrap_or_default();
            matches!(
                (group, source.kind()),
                ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot")
            )
        };
        let dropped = self.data_source().is_some_and(|source| !known(source));
        if dropped && self.data_source_ref().is_none() {
            self.clear_data_source();
        }
    }

    /// Sources in other namespaces are not taken.
    fn drop_foreign_source(&mut self) {
        let foreign = self.data_source_ref().and_then(TypedObjectReference::namespace);
        if foreign.is_some_and(|namespace| !namespace.is_empty()) {
            self.clear_data_source_ref();
        }
    }

    /// The two fields for a source say the same.
    pub(crate) fn align_sources(&mut self) {
        match (self.data_source(), self.data_source_ref()) {
            (Some(source), None) => {
                let same = TypedObjectReference::from(source.tree().clone());
                self.set_data_source_ref(same);
            }
            (None, Some(source)) if source.namespace().is_none_or(str::is_empty) => {
                let same = TypedLocalObjectReference::from(source.tree().clone());
                self.set_data_source(same);
            }
            _ => {}
        }
    }
}

const RESIZES: [&str; 5] = [
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
];

impl PersistentVolumeClaimStatus {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        for (name, size) in self.capacity().iter() {
            check_size(&size, &at.field("capacity").key(name), errs);
        }
        let statuses = at.field("allocatedResourceStatuses");
        for (name, status) in self.allocated_resource_statuses().iter() {
            check_size_name(name, &statuses, errs);
            if !RESIZES.contains(&status) {
                errs.not_supported(&statuses, name, &RESIZES);
            }
        }
        let sizes = at.field("allocatedResources");
        for (name, size) in self.allocated_resources().iter() {
            let before = errs.0.len();
            check_size_name(name, &sizes, errs);
            if errs.0.len() == before {
                check_size(&size, &sizes.key(name), errs);
            }
        }
    }
}

fn check_size(size: &Quantity, at: &FieldPath, errs: &mut ErrorList) {
    if size.sign() < 0 {
        errs.invalid(at, size.value(), "must be a valid resource quantity");
    }
}

fn check_size_name(name: &str, at: &FieldPath, errs: &mut ErrorList) {
    let wrong = names::qualified_name(name);
    if wrong.is_empty() && is_native(name) && name != "storage" {
        errs.not_supported(at, name, &["storage"]);
    }
    errs.invalid_each(at, name, wrong);
}

/// What a volume is filled from: group, kind and name.
fn check_source(source: (Option<&str>, &str, &str), at: &FieldPath, errs: &mut ErrorList) {
    let (group, kind, name) = source;
    errs.required_field(at, "name", name);
    errs.required_field(at, "kind", kind);
    match group.unwrap_or_default() {
        "" if kind != "PersistentVolumeClaim" => {
            let why = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
            errs.invalid(at, kind, why);
        }
        "" => {}
        group => errs.subdomain(&at.field("apiGroup"), group),
    }
}

/// How a volume can be used, in the order of names.
pub(crate) const ACCESS_MODES: [&str; 4] =
    ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

impl PersistentVolumeClaim {
    /// A claim can be bound, and a bound one can grow; all else stays.
    fn check_kept(&self, old: &Self, errs: &mut ErrorList) {
        let at = FieldPath::SPEC;
        let (mut new, mut before) = (self.spec().clone(), old.spec().clone());
        if before.volume_name().is_empty() {
            before.set_volume_name(new.volume_name());
        }
        if before.storage_class_name().is_none() {
            new.clear_storage_class_name();
        }
        if self.status().phase() == "Bound" {
            if let Some(size) = old.spec().resources().requests().get("storage") {
                new.resources_mut().requests_mut().insert("storage", size);
            }
            match before.volume_attributes_class_name() {
                Some(class) => new.set_volume_attributes_class_name(class),
                None => new.clear_volume_attributes_class_name(),
            }
        }
        if new != before {
            let why = "spec is immutable after creation except resources.requests and \
                       volumeAttributesClassName for bound claims\n@@ -1 +1 @@\n";
            errs.forbidden(&at, why);
        }
        let size =
            |claim: &Self| claim.spec().resources().requests().get("storage").unwrap_or_default();
        let capacity = old.status().capacity().get("storage").unwrap_or_default();
        if size(self) < size(old) && size(self) <= capacity {
            let why = "field can not be less than status.capacity";
            errs.forbidden(&at.field("resources").field("requests").field("storage"), why);
        }
        let class = self.spec().volume_attributes_class_name();
        let changed = class != old.spec().volume_attributes_class_name();
        if changed && old.status().current_volume_attributes_class_name().is_some() {
            let at = at.field("volumeAttributesClassName");
            let tail = "is forbidden when status.currentVolumeAttributesClassName is not nil";
            match class {
                None => errs.forbidden(&at, format!("update to nil {tail}")),
                Some("") => errs.forbidden(&at, format!("update to empty string {tail}")),
                Some(_) => {}
            }
        }
        let modes = (self.spec().volume_mode(), old.spec().volume_mode());
        errs.immutable(&FieldPath::Root.field("volumeMode"), &modes.0.into(), &modes.1.into());
    }
}

#[cfg(test)]
mod tests {
    use object::from_json;
    use schema::ResourceDefinition;

    use super::*;

    #[test]
    fn amounts_are_counted_in_thousandths() {
        let text = r#"{"status":{"capacity":{"storage":"1.00001"}}}"#;
        let mut claim = from_json(text.as_bytes()).expect("well formed");
        let kind = ResourceDefinition::from_kind::<PersistentVolumeClaim>();
        kind.coerce(&mut claim, &mut Vec::new()).expect("it fits");
        let amount = claim.get("status").get("capacity").get("storage");
        assert_eq!(amount.as_str(), Some("1001m"));
    }

    #[test]
    fn the_group_of_a_source_is_not_looked_at_twice() {
        let claim = |group: &str| {
            let text = format!(
                r#"{{"spec":{{"dataSource":{{"apiGroup":"{group}","kind":"K","name":"n"}}}}}}"#
            );
            from_json(text.as_bytes()).expect("well formed")
        };
        let told = |new: &Value, old: Option<&Value>| {
            let mut errs = ErrorList::default();
            ResourceDefinition::from_kind::<PersistentVolumeClaim>()
                .strategy
                .validate(new, old, &mut errs);
            errs.0.iter().any(|error| error.path == "spec.dataSource.apiGroup")
        };
        assert!(told(&claim("A"), None));
        assert!(!told(&claim("A"), Some(&claim("a"))));
    }
}
