//! apiextensions/v1: CustomResourceDefinition.

use macros::api;
use object::{Bytes, List, Map, ObjectMeta, OrBool, OrList, OrTexts, Time, Value};
use schema::{Kind, METADATA, Names, Scope, Storage, Subresource};

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
    #[api(tag = 20)]
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
    const STATUS_KEEPS: &'static [&'static str] = METADATA;
    const BLIND_UPDATES: bool = false;
    const GENERATION: bool = true;
    const SUBRESOURCES: &'static [Subresource] =
        &[Subresource::new("status", "CustomResourceDefinition", &["get", "patch", "update"])];

    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }
}
