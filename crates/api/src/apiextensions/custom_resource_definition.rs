//! apiextensions/v1: CustomResourceDefinition.

use macros::api;
use object::{
    Bytes, Lens, List, Map, ObjectMeta, StructOrBool, StructOrList, StructOrStrings, Time, Value,
};
use schema::{
    ErrorList, Kind, ResourceNames, Scope, StorageConfig, Subresource, TableColumn, WarningList,
    validate_object_meta_repeated,
};

use super::{rules, warn};
use crate::columns::join;

/// A new kind of object that the API server serves.
#[api]
pub struct CustomResourceDefinition {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// Desired state.
    spec: Must<CustomResourceDefinitionSpec>,
    /// Observed state.
    status: CustomResourceDefinitionStatus,
}

#[api]
pub struct CustomResourceDefinitionSpec {
    /// The group that the new kind belongs to.
    group: Must<String>,
    /// What the new kind is called.
    #[api(tag = 3)]
    names: Must<CustomResourceDefinitionNames>,
    /// Whether its objects live in namespaces: Namespaced or Cluster.
    #[api(go_type = "v1.ResourceScope")]
    scope: Must<String>,
    /// The versions of the new kind.
    #[api(tag = 7)]
    versions: Must<List<CustomResourceDefinitionVersion>>,
    /// How objects go from one version to another.
    #[api(tag = 9)]
    conversion: Option<CustomResourceConversion>,
    /// No longer of use: must be false.
    preserve_unknown_fields: bool,
}

#[api]
pub struct CustomResourceConversion {
    /// None changes the version only; Webhook asks a server.
    #[api(go_type = "v1.ConversionStrategyType")]
    strategy: Must<String>,
    /// The server that converts.
    webhook: Option<WebhookConversion>,
}

#[api]
pub struct WebhookConversion {
    /// How to reach the server.
    #[api(tag = 2)]
    client_config: Option<WebhookClientConfig>,
    /// The versions of ConversionReview that the server reads, best first.
    conversion_review_versions: Must<List<String>>,
}

#[api]
pub struct WebhookClientConfig {
    /// URL of the webhook, with https. Either url or service is set.
    #[api(tag = 3)]
    url: Option<String>,
    /// Service that the webhook runs behind.
    #[api(tag = 1)]
    service: Option<ServiceReference>,
    /// The authorities, as PEM, that the server's certificate must come from.
    ca_bundle: Bytes,
}

#[api]
pub struct ServiceReference {
    /// The namespace of the service.
    namespace: Must<String>,
    /// The name of the service.
    name: Must<String>,
    /// The path to send requests to.
    path: Option<String>,
    /// The port of the service.
    port: Option<i32>,
}

#[api]
pub struct CustomResourceDefinitionVersion {
    /// The version, like v1beta1.
    name: Must<String>,
    /// Whether clients may ask for it.
    served: Must<bool>,
    /// Whether objects are stored in it; exactly one version is.
    storage: Must<bool>,
    /// Whether clients are warned of using it.
    #[api(tag = 7)]
    deprecated: bool,
    /// The words of that warning.
    deprecation_warning: Option<String>,
    /// What an object of this version looks like.
    #[api(tag = 4)]
    schema: Option<CustomResourceValidation>,
    /// Which further paths its objects have.
    subresources: Option<CustomResourceSubresources>,
    /// Additional columns of tables, after the name.
    additional_printer_columns: List<CustomResourceColumnDefinition>,
    /// Which fields lists can be selected by.
    #[api(tag = 9)]
    selectable_fields: List<SelectableField>,
}

#[api]
pub struct SelectableField {
    /// The path of the field.
    json_path: Must<String>,
}

#[api]
pub struct CustomResourceColumnDefinition {
    /// The column's heading.
    name: Must<String>,
    /// What the cells hold: integer, number, string, boolean or date.
    type_: Must<String>,
    /// How the value is written.
    format: String,
    /// What the column is about.
    description: String,
    /// 0 is always shown, more only when wide.
    priority: i32,
    /// Where the value is found in an object.
    json_path: Must<String>,
}

#[api]
pub struct CustomResourceValidation {
    /// The schema of objects.
    #[api(name = "openAPIV3Schema")]
    open_apiv3_schema: Option<JSONSchemaProps>,
}

#[api]
pub struct JSONSchemaProps {
    /// Not used.
    id: String,
    /// Not used.
    #[api(name = "$schema", go_type = "v1.JSONSchemaURL")]
    schema: String,
    /// Not allowed.
    #[api(name = "$ref")]
    ref_: Option<String>,
    /// What the value means.
    description: String,
    /// What the value is: object, array, string, integer, number or boolean.
    type_: String,
    /// How a string or number is written.
    format: String,
    /// A short name for the value.
    title: String,
    /// Default of the value.
    default: Option<Value>,
    /// The largest number allowed.
    maximum: Option<f64>,
    /// Whether the number must be less than the maximum.
    exclusive_maximum: bool,
    /// The smallest number allowed.
    minimum: Option<f64>,
    /// Whether the number must be more than the minimum.
    exclusive_minimum: bool,
    /// How many characters there may be.
    max_length: Option<i64>,
    /// How many characters there must be.
    min_length: Option<i64>,
    /// What a string must match.
    pattern: String,
    /// How many items there may be.
    max_items: Option<i64>,
    /// How many items there must be.
    min_items: Option<i64>,
    /// Not allowed to be true: make it a set instead.
    unique_items: bool,
    /// What a number must be a multiple of.
    multiple_of: Option<f64>,
    /// The values that are allowed.
    #[api(go_type = "[]v1.JSON")]
    enum_: List<Value>,
    /// How many entries there may be.
    max_properties: Option<i64>,
    /// How many entries there must be.
    min_properties: Option<i64>,
    /// The entries that must be there.
    required: List<String>,
    /// The schema of the items.
    items: Option<StructOrList<JSONSchemaProps>>,
    /// All of these must hold, too.
    all_of: List<JSONSchemaProps>,
    /// Exactly one of these must hold, too.
    one_of: List<JSONSchemaProps>,
    /// At least one of these must hold, too.
    any_of: List<JSONSchemaProps>,
    /// This must not hold.
    not: Option<JSONSchemaProps>,
    /// The schemas of the named entries.
    properties: Map<JSONSchemaProps>,
    /// The schema of all other entries.
    additional_properties: Option<StructOrBool<JSONSchemaProps>>,
    /// Not allowed.
    pattern_properties: Map<JSONSchemaProps>,
    /// Not allowed.
    #[api(go_type = "v1.JSONSchemaDependencies")]
    dependencies: Map<StructOrStrings<JSONSchemaProps>>,
    /// Not allowed.
    additional_items: Option<StructOrBool<JSONSchemaProps>>,
    /// Not allowed.
    #[api(go_type = "v1.JSONSchemaDefinitions")]
    definitions: Map<JSONSchemaProps>,
    /// Where more is written about it.
    external_docs: Option<ExternalDocumentation>,
    /// An example of the value.
    example: Option<Value>,
    /// Whether null is allowed.
    nullable: bool,
    /// Whether entries without a schema are kept.
    #[api(name = "x-kubernetes-preserve-unknown-fields")]
    x_kubernetes_preserve_unknown_fields: Option<bool>,
    /// Whether the value is a whole object with kind and metadata.
    #[api(name = "x-kubernetes-embedded-resource")]
    x_kubernetes_embedded_resource: bool,
    /// Whether the value is a number or a string.
    #[api(name = "x-kubernetes-int-or-string")]
    x_kubernetes_int_or_string: bool,
    /// Fields that identify an item of the list.
    #[api(name = "x-kubernetes-list-map-keys")]
    x_kubernetes_list_map_keys: List<String>,
    /// How apply merges the list: atomic, set or map.
    #[api(name = "x-kubernetes-list-type")]
    x_kubernetes_list_type: Option<String>,
    /// How apply merges the object: granular or atomic.
    #[api(name = "x-kubernetes-map-type")]
    x_kubernetes_map_type: Option<String>,
    /// Expressions that must hold of the value.
    #[api(name = "x-kubernetes-validations", go_type = "v1.ValidationRules")]
    #[api(keys("rule"), merge, merge_key = "rule")]
    x_kubernetes_validations: List<ValidationRule>,
}

#[api]
pub struct ValidationRule {
    /// The expression in CEL; `self` is the value.
    rule: Must<String>,
    /// What is said when it does not hold.
    message: String,
    /// An expression that makes the message.
    message_expression: String,
    /// What kind of mistake it is.
    #[api(enum_values(
        "FieldValueDuplicate",
        "FieldValueForbidden",
        "FieldValueInvalid",
        "FieldValueRequired"
    ))]
    #[api(go_type = "v1.FieldValueErrorReason")]
    reason: Option<String>,
    /// The field that is to blame, below the value.
    field_path: String,
    /// Whether the rule also runs on creation, with `oldSelf` as an optional.
    optional_old_self: Option<bool>,
}

#[api]
pub struct ExternalDocumentation {
    /// What is found there.
    description: String,
    /// Where it is found.
    url: String,
}

#[api]
pub struct CustomResourceSubresources {
    /// Whether the status has a path of its own.
    status: Option<CustomResourceSubresourceStatus>,
    /// Whether objects can be scaled, and by which fields.
    scale: Option<CustomResourceSubresourceScale>,
}

#[api]
pub struct CustomResourceSubresourceScale {
    /// Where the wanted number is.
    spec_replicas_path: Must<String>,
    /// Where the actual number is.
    status_replicas_path: Must<String>,
    /// Where the selector of the pods is, as a string.
    label_selector_path: Option<String>,
}

#[api]
pub struct CustomResourceSubresourceStatus {}

#[api]
pub struct CustomResourceDefinitionNames {
    /// The name in paths.
    plural: Must<String>,
    /// The name of one, on the command line.
    singular: String,
    /// Abbreviations for the command line.
    short_names: List<String>,
    /// The name in objects.
    kind: Must<String>,
    /// The name of lists of it.
    list_kind: String,
    /// The groups of resources it is listed with, like all.
    categories: List<String>,
}

#[api]
pub struct CustomResourceDefinitionStatus {
    /// Current conditions of the object.
    #[api(keys("type"), no_omitempty)]
    conditions: List<CustomResourceDefinitionCondition>,
    /// The names that are in use.
    #[api(no_omitempty)]
    accepted_names: CustomResourceDefinitionNames,
    /// The versions in which objects have ever been stored.
    #[api(no_omitempty)]
    stored_versions: List<String>,
    /// Generation of the object that this status was computed from.
    observed_generation: i64,
}

#[api]
pub struct CustomResourceDefinitionCondition {
    /// Type of the condition.
    #[api(go_type = "$.CustomResourceDefinitionConditionType")]
    type_: Must<String>,
    /// Status of the condition: True, False or Unknown.
    #[api(go_type = "$.ConditionStatus")]
    status: Must<String>,
    /// When the condition last went from one status to another.
    last_transition_time: Time,
    /// Machine-readable reason: one CamelCase word.
    reason: String,
    /// Human-readable details.
    message: String,
    /// Generation of the object that the condition was computed from.
    observed_generation: i64,
}

impl Kind for CustomResourceDefinition {
    const COMPILES: bool = true;
    const NAMES: ResourceNames = ResourceNames::new(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
    )
    .short(&["crd", "crds"])
    .categories(&["api-extensions"]);
    const SEPARATE_SERVER: bool = true;
    const FORMER_API_VERSIONS: &'static [&'static str] = &["apiextensions.k8s.io/v1beta1"];
    const SCOPE: Scope = Scope::Cluster;
    const STORAGE: StorageConfig =
        StorageConfig::json("apiextensions.k8s.io/customresourcedefinitions", "v1");
    const BLIND_UPDATES: bool = false;
    const ANY_FINALIZER: bool = true;
    const GENERATION: bool = true;
    const SUBRESOURCES: &'static [Subresource] =
        &[Subresource::status("CustomResourceDefinition").writes_metadata().without_table()];
    const COLUMNS: &'static [TableColumn<Self>] = &[
        TableColumn::NAME,
        TableColumn::text("Scope", |crd, _| crd.spec().scope().into()),
        TableColumn::text("Versions", |crd, _| served(crd).into()),
        TableColumn::CREATED_AT,
        TableColumn::wide_text("Group", |crd, _| crd.spec().group().into()),
        TableColumn::wide_text("Kind", |crd, _| crd.spec().names().kind().into()),
        TableColumn::wide_text("ShortNames", |crd, _| {
            join(crd.spec().names().short_names().iter()).into()
        }),
        TableColumn::new("Established", "boolean", |crd: &Self, _| {
            crd.is_true("Established").into()
        })
        .wide(),
    ];

    fn default_fields(&mut self) {
        let names = self.spec().names();
        let kind = names.kind().to_owned();
        if names.singular().is_empty() && !kind.is_empty() {
            self.spec_mut().names_mut().set_singular(kind.to_lowercase());
        }
        if self.spec().names().list_kind().is_empty() && !kind.is_empty() {
            self.spec_mut().names_mut().set_list_kind(format!("{kind}List"));
        }
        if self.spec().conversion().is_none() {
            let none = CustomResourceConversion::new().with_strategy("None");
            self.spec_mut().set_conversion(none);
        }
        let service = self.spec().conversion().and_then(CustomResourceConversion::webhook);
        let service = service.and_then(WebhookConversion::client_config);
        if service.and_then(WebhookClientConfig::service).is_some_and(|own| own.port().is_none()) {
            let webhook = self.spec_mut().conversion_mut().webhook_mut();
            webhook.client_config_mut().service_mut().set_port(443);
        }
        self.note_stored(true);
    }

    fn from_stored(object: &mut Value) {
        super::older::from_v1beta1(object);
    }

    fn prepare_create(&mut self) {
        self.set_status(CustomResourceDefinitionStatus::new());
        self.note_stored(true);
    }

    fn prepare_update(&mut self, _old: &Self) {
        self.note_stored(false);
    }

    fn prepare_delete(&mut self, now: i64) {
        let finalizers = self.metadata().finalizers();
        if !finalizers.iter().any(|name| name == CLEANUP_FINALIZER) {
            self.metadata_mut().finalizers_mut().push(CLEANUP_FINALIZER);
        }
        self.metadata_mut().clear_deletion_grace_period_seconds();
        // Upstream marks it without counting that as a change.
        let counted = self.metadata().generation();
        self.metadata_mut().set_generation(counted.saturating_sub(1));
        self.set_condition(
            CrdConditionUpdate {
                ty: "Terminating",
                status: "True",
                reason: "InstanceDeletionPending",
                message: "CustomResourceDefinition marked for deletion; CustomResource deletion \
                          will begin soon",
            },
            now,
        );
    }

    fn validate(&self, errs: &mut ErrorList) {
        rules::check_new(self, errs);
    }

    fn validate_update(&self, old: &Self, errs: &mut ErrorList) {
        validate_object_meta_repeated(self.tree(), old.tree(), false, errs);
        rules::check_changed(self, old, errs);
    }

    fn validate_status(&self, old: &Self, errs: &mut ErrorList) {
        validate_object_meta_repeated(self.tree(), old.tree(), false, errs);
        rules::check_status(self, errs);
    }

    fn warn(&self, old: Option<&Self>, warnings: &mut WarningList) {
        warn::warn(self, old, warnings);
    }
}

/// The served versions, by name.
fn served(crd: &CustomResourceDefinition) -> String {
    let versions = crd.spec().versions().iter().filter(|version| version.served());
    let mut names: Vec<_> = versions
        .map(|version| {
            format!("{}{}", version.name(), if version.storage() { "(storage)" } else { "" })
        })
        .collect();
    names.sort();
    names.join(",")
}

/// Keeps a CRD that is to go until its objects are gone.
pub const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// What a condition is to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrdConditionUpdate<'a> {
    pub ty: &'a str,
    pub status: &'a str,
    pub reason: &'a str,
    pub message: &'a str,
}

impl CustomResourceDefinition {
    pub fn condition(&self, ty: &str) -> Option<&CustomResourceDefinitionCondition> {
        self.status().conditions().find(|condition| condition.type_() == ty)
    }

    pub fn is_true(&self, ty: &str) -> bool {
        self.condition(ty).is_some_and(|condition| condition.status() == "True")
    }

    /// Says something new, or the same again; the moment is that of the last change.
    pub fn set_condition(&mut self, condition: CrdConditionUpdate, now: i64) {
        let old = self.condition(condition.ty);
        let since = old.filter(|old| old.status() == condition.status);
        let since = since.map(|old| old.last_transition_time().to_owned());
        let new = CustomResourceDefinitionCondition::new()
            .with_type(condition.ty)
            .with_status(condition.status)
            .with_last_transition_time(since.unwrap_or_else(|| Time::format(now).into()))
            .with_reason(condition.reason)
            .with_message(condition.message);
        let conditions = self.status_mut().conditions_mut();
        conditions.upsert(new, |own| own.type_() == condition.ty);
    }

    /// What is stored is stored in the storage version, from now on.
    fn note_stored(&mut self, only_first: bool) {
        let storage = self.spec().versions().iter().find(|version| version.storage());
        let Some(storage) = storage.map(|version| version.name().to_owned()) else { return };
        let stored = self.status().stored_versions();
        let known = stored.iter().any(|name| name == storage);
        if !known && (!only_first || stored.is_empty()) {
            self.status_mut().stored_versions_mut().push(storage.as_str());
        }
    }
}
