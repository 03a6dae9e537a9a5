//! apiextensions/v1: CustomResourceDefinition.

use macros::api;
use object::{Bytes, List, Map, ObjectMeta, OrBool, OrList, OrTexts, Time, Value};
use schema::{Column, Errors, Kind, Names, Scope, Storage, Subresource, Warnings};

use super::{rules, warn};
use crate::columns::join;

#[api]
pub struct CustomResourceDefinition {
    #[api(tag = 1)]
    metadata: ObjectMeta,
    #[api(tag = 2, required, always)]
    spec: CustomResourceDefinitionSpec,
    #[api(tag = 3)]
    status: CustomResourceDefinitionStatus,
}

#[api]
pub struct CustomResourceDefinitionSpec {
    #[api(tag = 1, required, always)]
    group: String,
    #[api(tag = 3, required, always)]
    names: CustomResourceDefinitionNames,
    #[api(tag = 4, required, always)]
    scope: String,
    #[api(tag = 7, required, always)]
    versions: List<CustomResourceDefinitionVersion>,
    #[api(tag = 9)]
    conversion: Option<CustomResourceConversion>,
    #[api(tag = 10)]
    preserve_unknown_fields: bool,
}

#[api]
pub struct CustomResourceConversion {
    #[api(tag = 1, required, always)]
    strategy: String,
    #[api(tag = 2)]
    webhook: Option<WebhookConversion>,
}

#[api]
pub struct WebhookConversion {
    #[api(tag = 2)]
    client_config: Option<WebhookClientConfig>,
    #[api(tag = 3, required, always)]
    conversion_review_versions: List<String>,
}

#[api]
pub struct WebhookClientConfig {
    #[api(tag = 3)]
    url: Option<String>,
    #[api(tag = 1)]
    service: Option<ServiceReference>,
    #[api(tag = 2)]
    ca_bundle: Bytes,
}

#[api]
pub struct ServiceReference {
    #[api(tag = 1, required, always)]
    namespace: String,
    #[api(tag = 2, required, always)]
    name: String,
    #[api(tag = 3)]
    path: Option<String>,
    #[api(tag = 4)]
    port: Option<i32>,
}

#[api]
pub struct CustomResourceDefinitionVersion {
    #[api(tag = 1, required, always)]
    name: String,
    #[api(tag = 2, required, always)]
    served: bool,
    #[api(tag = 3, required, always)]
    storage: bool,
    #[api(tag = 7)]
    deprecated: bool,
    #[api(tag = 8)]
    deprecation_warning: Option<String>,
    #[api(tag = 4)]
    schema: Option<CustomResourceValidation>,
    #[api(tag = 5)]
    subresources: Option<CustomResourceSubresources>,
    #[api(tag = 6)]
    additional_printer_columns: List<CustomResourceColumnDefinition>,
    #[api(tag = 9)]
    selectable_fields: List<SelectableField>,
}

#[api]
pub struct SelectableField {
    #[api(tag = 1, required, always)]
    json_path: String,
}

#[api]
pub struct CustomResourceColumnDefinition {
    #[api(tag = 1, required, always)]
    name: String,
    #[api(tag = 2, required, always)]
    type_: String,
    #[api(tag = 3)]
    format: String,
    #[api(tag = 4)]
    description: String,
    #[api(tag = 5)]
    priority: i32,
    #[api(tag = 6, required, always)]
    json_path: String,
}

#[api]
pub struct CustomResourceValidation {
    #[api(tag = 1, name = "openAPIV3Schema")]
    open_apiv3_schema: Option<JSONSchemaProps>,
}

#[api]
pub struct JSONSchemaProps {
    #[api(tag = 1)]
    id: String,
    #[api(tag = 2, name = "$schema")]
    schema: String,
    #[api(tag = 3, name = "$ref")]
    ref_: Option<String>,
    #[api(tag = 4)]
    description: String,
    #[api(tag = 5)]
    type_: String,
    #[api(tag = 6)]
    format: String,
    #[api(tag = 7)]
    title: String,
    #[api(tag = 8)]
    default: Option<Value>,
    #[api(tag = 9)]
    maximum: Option<f64>,
    #[api(tag = 10)]
    exclusive_maximum: bool,
    #[api(tag = 11)]
    minimum: Option<f64>,
    #[api(tag = 12)]
    exclusive_minimum: bool,
    #[api(tag = 13)]
    max_length: Option<i64>,
    #[api(tag = 14)]
    min_length: Option<i64>,
    #[api(tag = 15)]
    pattern: String,
    #[api(tag = 16)]
    max_items: Option<i64>,
    #[api(tag = 17)]
    min_items: Option<i64>,
    #[api(tag = 18)]
    unique_items: bool,
    #[api(tag = 19)]
    multiple_of: Option<f64>,
    #[api(tag = 20, go = "[]v1.JSON")]
    enum_: List<Value>,
    #[api(tag = 21)]
    max_properties: Option<i64>,
    #[api(tag = 22)]
    min_properties: Option<i64>,
    #[api(tag = 23)]
    required: List<String>,
    #[api(tag = 24)]
    items: Option<OrList<JSONSchemaProps>>,
    #[api(tag = 25)]
    all_of: List<JSONSchemaProps>,
    #[api(tag = 26)]
    one_of: List<JSONSchemaProps>,
    #[api(tag = 27)]
    any_of: List<JSONSchemaProps>,
    #[api(tag = 28)]
    not: Option<JSONSchemaProps>,
    #[api(tag = 29)]
    properties: Map<JSONSchemaProps>,
    #[api(tag = 30)]
    additional_properties: Option<OrBool<JSONSchemaProps>>,
    #[api(tag = 31)]
    pattern_properties: Map<JSONSchemaProps>,
    #[api(tag = 32)]
    dependencies: Map<OrTexts<JSONSchemaProps>>,
    #[api(tag = 33)]
    additional_items: Option<OrList<JSONSchemaProps>>,
    #[api(tag = 34)]
    definitions: Map<JSONSchemaProps>,
    #[api(tag = 35)]
    external_docs: Option<ExternalDocumentation>,
    #[api(tag = 36)]
    example: Option<Value>,
    #[api(tag = 37)]
    nullable: bool,
    #[api(tag = 38, name = "x-kubernetes-preserve-unknown-fields")]
    x_kubernetes_preserve_unknown_fields: Option<bool>,
    #[api(tag = 39, name = "x-kubernetes-embedded-resource")]
    x_kubernetes_embedded_resource: bool,
    #[api(tag = 40, name = "x-kubernetes-int-or-string")]
    x_kubernetes_int_or_string: bool,
    #[api(tag = 41, name = "x-kubernetes-list-map-keys")]
    x_kubernetes_list_map_keys: List<String>,
    #[api(tag = 42, name = "x-kubernetes-list-type")]
    x_kubernetes_list_type: Option<String>,
    #[api(tag = 43, name = "x-kubernetes-map-type")]
    x_kubernetes_map_type: Option<String>,
    #[api(tag = 44, name = "x-kubernetes-validations", keys("rule"), merge, merge_key = "rule")]
    x_kubernetes_validations: List<ValidationRule>,
}

#[api]
pub struct ValidationRule {
    #[api(tag = 1, required, always)]
    rule: String,
    #[api(tag = 2)]
    message: String,
    #[api(tag = 3)]
    message_expression: String,
    #[api(tag = 4)]
    reason: Option<String>,
    #[api(tag = 5)]
    field_path: String,
    #[api(tag = 6)]
    optional_old_self: Option<bool>,
}

#[api]
pub struct ExternalDocumentation {
    #[api(tag = 1)]
    description: String,
    #[api(tag = 2)]
    url: String,
}

#[api]
pub struct CustomResourceSubresources {
    #[api(tag = 1)]
    status: Option<CustomResourceSubresourceStatus>,
    #[api(tag = 2)]
    scale: Option<CustomResourceSubresourceScale>,
}

#[api]
pub struct CustomResourceSubresourceScale {
    #[api(tag = 1, required, always)]
    spec_replicas_path: String,
    #[api(tag = 2, required, always)]
    status_replicas_path: String,
    #[api(tag = 3)]
    label_selector_path: Option<String>,
}

#[api]
pub struct CustomResourceSubresourceStatus {}

#[api]
pub struct CustomResourceDefinitionNames {
    #[api(tag = 1, required, always)]
    plural: String,
    #[api(tag = 2)]
    singular: String,
    #[api(tag = 3)]
    short_names: List<String>,
    #[api(tag = 4, required, always)]
    kind: String,
    #[api(tag = 5)]
    list_kind: String,
    #[api(tag = 6)]
    categories: List<String>,
}

#[api]
pub struct CustomResourceDefinitionStatus {
    #[api(tag = 1, keys("type"), always)]
    conditions: List<CustomResourceDefinitionCondition>,
    #[api(tag = 2, always)]
    accepted_names: CustomResourceDefinitionNames,
    #[api(tag = 3, always)]
    stored_versions: List<String>,
    #[api(tag = 4)]
    observed_generation: i64,
}

#[api]
pub struct CustomResourceDefinitionCondition {
    #[api(tag = 1, required, always)]
    type_: String,
    #[api(tag = 2, required, always)]
    status: String,
    #[api(tag = 3)]
    last_transition_time: Time,
    #[api(tag = 4)]
    reason: String,
    #[api(tag = 5)]
    message: String,
    #[api(tag = 6)]
    observed_generation: i64,
}

impl Kind for CustomResourceDefinition {
    const NAMES: Names = Names {
        group: "apiextensions.k8s.io",
        version: "v1",
        kind: "CustomResourceDefinition",
        plural: "customresourcedefinitions",
        singular: "customresourcedefinition",
        short: &["crd", "crds"],
        categories: &["api-extensions"],
    };
    const SCOPE: Scope = Scope::Cluster;
    const STORAGE: Storage = Storage::json("apiextensions.k8s.io/customresourcedefinitions", "v1");
    const BLIND_UPDATES: bool = false;
    const ANY_FINALIZER: bool = true;
    const GENERATION: bool = true;
    const SUBRESOURCES: &'static [Subresource] =
        &[Subresource::new("status", "CustomResourceDefinition", &["get", "patch", "update"])];
    const COLUMNS: &'static [Column<Self>] = &[
        Column::NAME,
        Column::new("Scope", "string", |crd: &Self, _| crd.spec().scope().into()),
        Column::new("Versions", "string", |crd: &Self, _| served(crd).into()),
        Column::CREATED,
        Column::new("Group", "string", |crd: &Self, _| crd.spec().group().into()).wide(),
        Column::new("Kind", "string", |crd: &Self, _| crd.spec().names().kind().into()).wide(),
        Column::new("ShortNames", "string", |crd: &Self, _| {
            join(crd.spec().names().short_names().iter()).into()
        })
        .wide(),
        Column::new("Established", "boolean", |crd: &Self, _| crd.is_true("Established").into())
            .wide(),
    ];

    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }

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
        if !finalizers.iter().any(|name| name == CLEANUP) {
            self.metadata_mut().finalizers_mut().push(CLEANUP);
        }
        self.metadata_mut().clear_deletion_grace_period_seconds();
        self.set_condition(
            Condition {
                ty: "Terminating",
                status: "True",
                reason: "InstanceDeletionPending",
                message: "CustomResourceDefinition marked for deletion; CustomResource deletion \
                          will begin soon",
            },
            now,
        );
    }

    fn validate(&self, errs: &mut Errors) {
        rules::check_new(self, errs);
    }

    fn validate_update(&self, old: &Self, errs: &mut Errors) {
        rules::check_changed(self, old, errs);
    }

    fn validate_status(&self, _old: &Self, errs: &mut Errors) {
        rules::check_status(self, errs);
    }

    fn warn(&self, old: Option<&Self>, warnings: &mut Warnings) {
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
pub const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// What a condition is to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition<'a> {
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
    pub fn set_condition(&mut self, condition: Condition, now: i64) {
        let old = self.condition(condition.ty);
        let since = old.filter(|old| old.status() == condition.status);
        let since = since.map(|old| old.last_transition_time().to_owned());
        let new = CustomResourceDefinitionCondition::new()
            .with_type(condition.ty)
            .with_status(condition.status)
            .with_last_transition_time(since.unwrap_or_else(|| Time::text(now).into()))
            .with_reason(condition.reason)
            .with_message(condition.message);
        let conditions = self.status_mut().conditions_mut();
        conditions.put(new, |own| own.type_() == condition.ty);
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
