//! The published OpenAPI schema of a custom resource.

use object::Value;

use super::schema::{AdditionalProperties, JsonSchema};
use crate::ResourceNames;

const META: &str = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// The name of the schema: the reversed group, version and kind.
pub(crate) fn name(names: &ResourceNames) -> String {
    let group: Vec<_> = names.group.rsplit('.').collect();
    format!("{}.{}.{}", group.join("."), names.version, names.kind)
}

/// The OpenAPI v3 schema of a kind.
pub(super) fn kind(schema: Option<&JsonSchema>, version: &Value, names: &ResourceNames) -> Value {
    let mut published = Value::object();
    if let Some(schema) = schema {
        published = schema.tree().clone();
        embedded(&mut published);
        add_object_properties(&mut published);
    } else {
        // Listing a few properties would imply that there are no others.
        published["type"] = "object".into();
    }
    let mut gvk = Value::object();
    gvk["group"] = names.group.into();
    gvk["version"] = names.version.into();
    gvk["kind"] = names.kind.into();
    published["x-kubernetes-group-version-kind"] = [gvk].into_iter().collect();
    let selectable = version.get("selectableFields").items().iter().map(|field| {
        let path = field.get("jsonPath").as_str().unwrap_or_default();
        let mut field = Value::object();
        field["fieldPath"] = path.trim_start_matches('.').into();
        field
    });
    let selectable: Vec<Value> = selectable.collect();
    if !selectable.is_empty() {
        published["x-kubernetes-selectable-fields"] = selectable.into_iter().collect();
    }
    published
}

/// Converts a published schema to OpenAPI v2, which supports fewer keywords.
pub(crate) fn to_openapi_v2(published: &Value) -> Value {
    let mut older = published.clone();
    if JsonSchema::view(published).preserves_unknown_fields() {
        older.retain(|name, _| name == "type" || name == "x-kubernetes-group-version-kind");
        return older;
    }
    simplify(&mut older);
    older
}

fn simplify(value: &mut Value) {
    let schema = JsonSchema::view(value);
    let refers = |schema: &JsonSchema| !schema.tree().get("$ref").is_null();
    if schema.schema_list("allOf").next().is_some_and(refers) {
        return;
    }
    let (nullable, preserves) = (schema.is_nullable(), schema.preserves_unknown_fields());
    let open: Vec<String> = schema
        .properties()
        .filter(|(_, property)| property.is_nullable())
        .map(|(name, _)| name.to_owned())
        .collect();
    let optional =
        matches!(schema.additional(), AdditionalProperties::Schema(inner) if inner.is_nullable());
    value.retain(|name, _| match name {
        "allOf" | "anyOf" | "oneOf" | "not" => false,
        "nullable" | "type" => !nullable,
        "items" | "properties" => !nullable && !preserves,
        "required" => !optional,
        _ => true,
    });
    let ty = value.get("type").as_str().unwrap_or_default();
    if ty == "array" && value.get("items").is_null() || ty == "object" && preserves {
        value.remove("type");
    }
    if !open.is_empty() {
        let kept: Vec<Value> = value
            .get("required")
            .items()
            .iter()
            .filter(|name| !open.iter().any(|open| name.as_str() == Some(open)))
            .cloned()
            .collect();
        value.remove("required");
        if !kept.is_empty() {
            value["required"] = kept.into_iter().collect();
        }
    }
    below(value, &mut simplify);
}

/// Adds apiVersion, kind and metadata to embedded resources.
fn embedded(value: &mut Value) {
    below(value, &mut embedded);
    if JsonSchema::view(value).is_embedded_resource() {
        add_object_properties(value);
        let mut required: Vec<Value> = value.get("required").items().to_vec();
        for name in ["kind", "apiVersion"] {
            if !required.iter().any(|known| known.as_str() == Some(name)) {
                required.push(name.into());
            }
        }
        value["required"] = required.into_iter().collect();
    }
}

fn add_object_properties(value: &mut Value) {
    for (name, doc) in [
        ("apiVersion", "APIVersion defines the group and version that the object is written in."),
        ("kind", "Kind tells what the object is."),
    ] {
        let mut property = Value::object();
        property["type"] = "string".into();
        property["description"] = doc.into();
        value["properties"][name] = property;
    }
    let mut reference = Value::object();
    reference["$ref"] = META.into();
    let mut meta = Value::object();
    meta["allOf"] = [reference].into_iter().collect();
    meta["description"] =
        "Standard object's metadata: its name, its labels, its owners, its history.".into();
    value["properties"]["metadata"] = meta;
}

/// Applies `change` to every direct subschema.
fn below(value: &mut Value, change: &mut dyn FnMut(&mut Value)) {
    for name in ["items", "additionalProperties"] {
        if value.get(name).is_object() {
            change(value.get_mut(name));
        }
    }
    if value.get("properties").is_object() {
        value.get_mut("properties").retain(|_, property| {
            change(property);
            true
        });
    }
}
