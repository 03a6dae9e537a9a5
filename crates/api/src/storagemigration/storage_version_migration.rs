//! storagemigration/v1 and v1beta1: StorageVersionMigration.

use macros::api;
use object::{Condition, Lens, List, ObjectMeta, View, names};
use schema::{
    CLIENT_METADATA_FIELDS, ErrorList, FieldPath, Kind, ResourceNames, Scope, StorageConfig,
    Subresource, TableColumn,
};

use crate::{meta::GroupResource, rules::ValidateField, shown::format_go};

/// A request to rewrite all objects of a resource in the storage version.
#[api]
pub struct StorageVersionMigration {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// Which resource.
    spec: StorageVersionMigrationSpec,
    /// How far it has come.
    status: StorageVersionMigrationStatus,
}

#[api]
pub struct StorageVersionMigrationSpec {
    /// The resource. It never changes.
    resource: Must<GroupResource>,
}

#[api]
pub struct StorageVersionMigrationStatus {
    /// What holds of the migration.
    #[api(keys("type"), merge, merge_key = "type")]
    conditions: List<Condition>,
    /// The state from which all objects are stored anew.
    resource_version: String,
}

impl Kind for StorageVersionMigration {
    const NAMES: ResourceNames = ResourceNames::new(
        "storagemigration.k8s.io",
        "v1",
        "StorageVersionMigration",
        "storageversionmigrations",
    );
    const UPDATE_CHECKS_GENERATE_NAME: bool = true;
    const FORMER_API_VERSIONS: &'static [&'static str] = &["storagemigration.k8s.io/v1beta1"];
    const SCOPE: Scope = Scope::Cluster;
    const STORAGE: StorageConfig = StorageConfig::new("storageversionmigrations", "v1beta1");
    const BLIND_UPDATES: bool = false;
    const STATUS_KEEPS: &'static [&'static str] = CLIENT_METADATA_FIELDS;
    const GATE: Option<&str> = Some("StorageVersionMigrator");
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::status("StorageVersionMigration")];

    const NEEDS: Option<&'static schema::Part> = Some(&crate::parts::STORAGE_MIGRATION);
    const COLUMNS: &'static [TableColumn<Self>] = &[
        TableColumn { format: "", ..TableColumn::NAME },
        TableColumn::text("Resource", |this, _| this.resource().into()),
        TableColumn::text("Status", |this, _| this.status().state().into()),
    ];

    fn validate(&self, errs: &mut ErrorList) {
        let (wanted, at) = (self.spec().resource(), FieldPath::SPEC.field("resource"));
        match wanted.resource() {
            "" => errs.required(&at.field("resource"), "resource is required to be set"),
            name => {
                let wrong = names::dns1035_label(name);
                if !wrong.is_empty() {
                    errs.invalid(&at.field("resource"), name, wrong.join(","));
                }
            }
        }
        let wrong = names::dns1123_subdomain(wanted.group());
        if !wanted.group().is_empty() && !wrong.is_empty() {
            errs.invalid(&at.field("group"), wanted.group(), wrong.join(","));
        }
    }

    fn validate_update(&self, old: &Self, errs: &mut ErrorList) {
        self.validate(errs);
        errs.immutable_formatted(&FieldPath::SPEC, (self.spec(), old.spec()), format_go);
    }

    fn validate_status(&self, old: &Self, errs: &mut ErrorList) {
        let (new, old) = (self.status(), old.status());
        let (version, here) = (new.resource_version(), FieldPath::STATUS.field("resourceVersion"));
        if let Some(why) = wrong_revision(version) {
            errs.invalid(&here, version, why);
        }
        errs.conditions(&FieldPath::STATUS.field("conditions"), new.conditions());
        if !old.resource_version().is_empty() && old.resource_version() != version {
            errs.invalid(&here, version, "field is immutable");
        }
        let mut told = |why: &str| {
            let conditions = new.tree().get("conditions");
            let shown = schema::format_go_value(List::<Condition>::TYPE, conditions);
            errs.invalid_formatted(&FieldPath::STATUS.field("conditions"), shown, why);
        };
        if new.is(SUCCEEDED) && new.is(FAILED) {
            told("Both success and failed conditions cannot be true at the same time");
        }
        if old.is(SUCCEEDED) && !new.is(SUCCEEDED) {
            told("Success condition cannot be set to false once it is true");
        }
        if old.is(FAILED) && !new.is(FAILED) {
            told("Failed condition cannot be set to false once it is true");
        }
    }
}

const SUCCEEDED: &str = "Succeeded";
const FAILED: &str = "Failed";

impl StorageVersionMigration {
    fn resource(&self) -> String {
        match (self.spec().resource().group(), self.spec().resource().resource()) {
            ("", resource) => resource.to_owned(),
            (group, resource) => format!("{resource}.{group}"),
        }
    }
}

impl StorageVersionMigrationStatus {
    fn is(&self, ty: &str) -> bool {
        let found = self.conditions().find(|condition| condition.type_() == ty);
        found.is_some_and(|condition| condition.status() == "True")
    }

    fn state(&self) -> &str {
        let known = |condition: &&Condition| {
            matches!(condition.type_(), "Running" | SUCCEEDED | FAILED)
                && condition.status() == "True"
        };
        self.conditions().iter().rfind(known).map_or("Unknown", Condition::type_)
    }
}

/// What is wrong with a resource version, if it is one at all.
fn wrong_revision(text: &str) -> Option<String> {
    match text {
        "" => None,
        text if text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0') => None,
        text => Some(format!("resource version is not well formed: {text}")),
    }
}
