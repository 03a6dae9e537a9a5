//! What the schemas of a CRD must keep.

use std::collections::BTreeSet;

use object::Value;
use schema::{
    ErrorList, FieldPath,
    custom::{
        AdditionalProperties, JsonSchema, resolve_field_path, unsupported_keyword,
        validate_defaults, validate_structural,
    },
};

use super::go;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
/// What may stand at the root of a schema whose status is checked by itself.
const AT_ROOT: [&str; 22] = [
    "Description",
    "Type",
    "Format",
    "Title",
    "Maximum",
    "ExclusiveMaximum",
    "Minimum",
    "ExclusiveMinimum",
    "MaxLength",
    "MinLength",
    "Pattern",
    "MaxItems",
    "MinItems",
    "UniqueItems",
    "MultipleOf",
    "Required",
    "Items",
    "Properties",
    "ExternalDocs",
    "Example",
    "XPreserveUnknownFields",
    "XValidations",
];
const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// What is asked of a schema. An update asks for no more than the old form kept.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub(super) struct SchemaValidationOptions {
    /// There must be one.
    pub(super) schema: bool,
    pub(super) types: bool,
    pub(super) structural: bool,
    /// Defaults have no unknown fields.
    pub(super) pruned: bool,
    /// Items of sets are taken whole.
    pub(super) sets: bool,
    /// Keys of lists are always there.
    pub(super) keys: bool,
}

impl Default for SchemaValidationOptions {
    fn default() -> Self {
        Self { schema: true, types: true, structural: true, pruned: true, sets: true, keys: true }
    }
}

/// Checks the `schema` of a version; `status`: its status is written by itself.
pub(super) fn check_schema(
    holder: &Value,
    status: bool,
    strictness: SchemaValidationOptions,
    at: &FieldPath,
    errs: &mut ErrorList,
) {
    let tree = holder.get("openAPIV3Schema");
    if !tree.is_object() {
        return;
    }
    let (schema, at) = (JsonSchema::view(tree), at.field("openAPIV3Schema"));
    let before = errs.0.len();
    if status {
        check_root(schema, &at, errs);
    }
    if schema.is_nullable() {
        errs.forbidden(&at.field("nullable"), "nullable cannot be true at the root");
    }
    let refused = unsupported_keyword(schema);
    if strictness.structural && refused.is_none() {
        let found = errs.0.len();
        validate_structural(schema, &at, errs);
        if errs.0.len() == found {
            validate_defaults(schema, &at, strictness.pruned, errs);
        }
    }
    let place = NodeContext { strictness, defaults: Ok(()), meta: false };
    node(schema, true, place, &at, errs);
    if let (true, Some(why)) = (strictness.structural && errs.0.len() == before, refused) {
        errs.invalid(&at, "", why);
    }
}

pub(super) fn has_unknown_type(schema: &JsonSchema) -> bool {
    !schema.ty().is_empty() && !TYPES.contains(&schema.ty())
}

/// A set whose items are looked into.
pub(super) fn has_non_atomic_set_items(schema: &JsonSchema) -> bool {
    let Some(items) = schema.items().filter(|_| schema.list_type() == Some("set")) else {
        return false;
    };
    match items.ty() {
        "array" => !matches!(items.list_type(), None | Some("atomic")),
        "object" => items.map_type() != Some("atomic"),
        _ => false,
    }
}

/// Sets and maps must declare their items, and maps the keys that identify an item.
pub(super) fn validate_list_map_keys(schema: &JsonSchema, at: &FieldPath, errs: &mut ErrorList) {
    let (Some(items), Some(ty @ ("set" | "map"))) = (schema.items(), schema.list_type()) else {
        return;
    };
    let at = at.field("items");
    if items.is_nullable() {
        let why = format!("cannot be nullable when x-kubernetes-list-type is {ty}");
        errs.forbidden(&at.field("nullable"), why);
    }
    if ty == "set" {
        return;
    }
    let properties = at.field("properties");
    let required: BTreeSet<_> = items.required().collect();
    for key in schema.list_keys() {
        let Some(property) = items.property(key) else { continue };
        let here = properties.key(key);
        if !required.contains(key) && property.default_value().is_none() {
            let why = "this property is in x-kubernetes-list-map-keys, so it must have a default \
                       or be a required property";
            errs.required(&here.field("default"), why);
        }
        if property.is_nullable() {
            let why = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errs.forbidden(&here.field("nullable"), why);
        }
    }
}

/// Where a node stands.
#[derive(Clone, Copy)]
struct NodeContext<'a> {
    strictness: SchemaValidationOptions,
    /// Whether there may be defaults; if not, the reason.
    defaults: Result<(), &'a str>,
    /// Within what every object has.
    meta: bool,
}

fn check_root(schema: &JsonSchema, at: &FieldPath, errs: &mut ErrorList) {
    for name in go::set_fields(schema.tree()) {
        if name == "Type" {
            if schema.ty() == "object" {
                continue;
            }
            let why = "only \"object\" is allowed as the type at the root of the schema if the \
                       status subresource is enabled";
            return errs.invalid(&at.field("type"), schema.ty(), why);
        } else if !AT_ROOT.contains(&name) {
            let why = format!(
                "only [{}] fields are allowed at the root of the schema if the status subresource \
                 is enabled",
                AT_ROOT.join(" ")
            );
            return errs.invalid_formatted(at, go::schema(schema.tree()), why);
        }
    }
}

fn node(schema: &JsonSchema, root: bool, place: NodeContext, at: &FieldPath, errs: &mut ErrorList) {
    refuse(schema, place, at, errs);
    if schema.flag("uniqueItems") {
        let why =
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errs.forbidden(&at.field("uniqueItems"), why);
    }
    additional(schema, place, at, errs);
    let properties = at.field("properties");
    for (name, property) in schema.properties() {
        let mut inner = place;
        let top = format!("in top-level {name}");
        if (root || schema.is_embedded_resource())
            && matches!(name, "metadata" | "kind" | "apiVersion")
        {
            inner.meta = true;
            if root {
                inner.defaults = Err(&top);
            }
        }
        node(property, false, inner, &properties.key(name), errs);
    }
    at.if_present("not", schema.not(), |not, at| node(not, false, place, at, errs));
    for list in ["allOf", "oneOf", "anyOf", "items"] {
        let here = at.field(list);
        here.for_each_item(schema.schema_list(list), |inner, at| {
            node(inner, false, place, at, errs);
        });
    }
    at.if_present("items", schema.items(), |items, at| node(items, false, place, at, errs));
    for map in ["definitions", "dependencies"] {
        for (name, inner) in schema.schema_map(map).filter(|(_, inner)| inner.tree().is_object()) {
            node(inner, false, place, &at.field(map).key(name), errs);
        }
    }
    extensions(schema, place, at, errs);
    rules(schema, at, errs);
}

fn additional(schema: &JsonSchema, place: NodeContext, at: &FieldPath, errs: &mut ErrorList) {
    let here = at.field("additionalProperties");
    let odd = !matches!(
        schema.additional(),
        AdditionalProperties::Unset | AdditionalProperties::Allowed(true)
    );
    if odd && schema.properties().len() > 0 {
        errs.forbidden(&here, "additionalProperties and properties are mutual exclusive");
    }
    if let AdditionalProperties::Schema(inner) = schema.additional() {
        let mut place = place;
        if place.meta {
            place.defaults = Err("inside additionalProperties applying to object metadata");
        }
        node(inner, false, place, &here, errs);
    }
}

/// What OpenAPI has and a CRD has not.
fn refuse(schema: &JsonSchema, place: NodeContext, at: &FieldPath, errs: &mut ErrorList) {
    let tree = schema.tree();
    let set = |name: &str| !tree.get(name).is_null();
    let filled = |name: &str| !tree.get(name).is_zero();
    if place.strictness.types && has_unknown_type(schema) {
        errs.not_supported(&at.field("type"), schema.ty(), &TYPES);
    }
    if let (Err(reason), Some(_)) = (place.defaults, schema.default_value()) {
        errs.forbidden(&at.field("default"), format!("must not be set {reason}"));
    }
    for (name, found) in [
        ("id", filled("id")),
        ("additionalItems", set("additionalItems")),
        ("patternProperties", filled("patternProperties")),
        ("definitions", filled("definitions")),
        ("dependencies", set("dependencies")),
        ("$ref", set("$ref")),
    ] {
        if found {
            errs.forbidden(&at.field(name), format!("{name} is not supported"));
        }
    }
    if schema.ty() == "null" {
        let why = "type cannot be set to null, use nullable as an alternative";
        errs.forbidden(&at.field("type"), why);
    }
    if !tree.get("items").items().is_empty() {
        errs.forbidden(&at.field("items"), "items must be a schema object and not an array");
    }
    if place.meta && schema.is_embedded_resource() {
        let why = "must not be used inside of resource meta";
        errs.forbidden(&at.field("x-kubernetes-embedded-resource"), why);
    }
}

fn extensions(schema: &JsonSchema, place: NodeContext, at: &FieldPath, errs: &mut ErrorList) {
    let preserve = "x-kubernetes-preserve-unknown-fields";
    if schema.tree().get(preserve).as_bool() == Some(false) {
        errs.invalid(&at.field(preserve), false, "must be true or undefined");
    }
    let typed = |wanted: &str, extension: &str, errs: &mut ErrorList| {
        let why = format!("must be {wanted} if {extension} is specified");
        match schema.ty() {
            ty if ty == wanted => return true,
            "" => errs.required(&at.field("type"), why),
            other => errs.invalid(&at.field("type"), other, why),
        }
        false
    };
    if let Some(ty) = schema.map_type() {
        typed("object", "x-kubernetes-map-type", errs);
        if !matches!(ty, "atomic" | "granular") {
            errs.not_supported(&at.field("x-kubernetes-map-type"), ty, &["atomic", "granular"]);
        }
    }
    let list = at.field("x-kubernetes-list-type");
    if let Some(ty) = schema.list_type() {
        let typed = typed("array", "x-kubernetes-list-type", errs);
        if typed && place.strictness.sets && has_non_atomic_set_items(schema) {
            loose_set(schema, at, errs);
        }
        if !matches!(ty, "atomic" | "set" | "map") {
            errs.not_supported(&list, ty, &["atomic", "set", "map"]);
        }
    }
    if schema.list_keys().len() > 0 {
        let why = "must be map if x-kubernetes-list-map-keys is non-empty";
        match schema.list_type() {
            None => errs.required(&list, why),
            Some("map") => {}
            Some(other) => errs.invalid(&list, other, why),
        }
    }
    if schema.list_type() == Some("map") {
        list_map(schema, at, errs);
    }
    if place.strictness.keys {
        validate_list_map_keys(schema, at, errs);
    }
}

fn loose_set(schema: &JsonSchema, at: &FieldPath, errs: &mut ErrorList) {
    let Some(items) = schema.items() else { return };
    let name =
        if items.ty() == "array" { "x-kubernetes-list-type" } else { "x-kubernetes-map-type" };
    let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
    let at = at.field("items");
    let at = at.field(name);
    match items.list_type() {
        Some(ty) => errs.invalid(&at, ty, why),
        None => errs.invalid(&at, Value::Null, why),
    }
}

fn list_map(schema: &JsonSchema, at: &FieldPath, errs: &mut ErrorList) {
    let keys = schema.tree().get("x-kubernetes-list-map-keys");
    let (named, here) = (at.field("x-kubernetes-list-map-keys"), at.field("items"));
    if keys.items().is_empty() {
        errs.required(&named, "must not be empty if x-kubernetes-list-type is map");
    }
    let tree = schema.tree().get("items");
    if tree.is_null() {
        errs.required(&here, "must have a schema if x-kubernetes-list-type is map");
    }
    let Some(items) = schema.items() else {
        if !tree.is_null() {
            let why = "must only have a single schema if x-kubernetes-list-type is map";
            errs.invalid(&here, tree.clone(), why);
        }
        return;
    };
    if items.ty() != "object" {
        let why = "must be object if parent array's x-kubernetes-list-type is map";
        return errs.invalid(&here.field("type"), items.ty(), why);
    }
    let mut seen = BTreeSet::new();
    for key in schema.list_keys() {
        match items.property(key) {
            Some(property) if matches!(property.ty(), "array" | "object") => {
                let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                errs.invalid(&here.field("properties").key(key).field("type"), items.ty(), why);
            }
            Some(_) => {}
            None => {
                let why = "entries must all be names of item properties";
                errs.invalid(&named, keys.clone(), why);
            }
        }
        if !seen.insert(key) {
            errs.invalid(&named, keys.clone(), "must not contain duplicate entries");
        }
    }
}

/// Validates what can be checked about rules without compiling them.
fn rules(schema: &JsonSchema, at: &FieldPath, errs: &mut ErrorList) {
    let all = at.field("x-kubernetes-validations");
    all.for_each_item(schema.validations().iter(), |rule, at| {
        let text = |name: &str| rule.get(name).as_str().unwrap_or_default();
        let (code, message) = (text("rule"), text("message"));
        let broken = |text: &str| text.contains(['\n', '\r']);
        if code.trim().is_empty() {
            errs.required(&at.field("rule"), "rule is not specified");
        } else if !message.is_empty() && message.trim().is_empty() {
            errs.invalid(&at.field("message"), message, "must be non-empty if specified");
        } else if broken(message.trim()) {
            errs.invalid(&at.field("message"), message, "must not contain line breaks");
        } else if broken(code.trim()) && message.trim().is_empty() {
            let why = "message must be specified if rule contains line breaks";
            errs.required(&at.field("message"), why);
        }
        let expression = text("messageExpression");
        if !expression.is_empty() && expression.trim().is_empty() {
            let why = "messageExpression must be non-empty if specified";
            errs.required(&at.field("messageExpression"), why);
        }
        if let Some(reason) = rule.get("reason").as_str().filter(|own| !REASONS.contains(own)) {
            errs.not_supported(&at.field("reason"), reason, &REASONS);
        }
        let (path, here) = (text("fieldPath"), at.field("fieldPath"));
        if !path.is_empty() && path.trim().is_empty() {
            errs.invalid(&here, path, "must be non-empty if specified");
        }
        if broken(path) {
            errs.invalid(&here, path, "must not contain line breaks");
        }
        let leads =
            unsupported_keyword(schema).is_some() || resolve_field_path(schema, path, true).is_ok();
        if !path.is_empty() && !leads {
            errs.invalid(&here, path, "must be a valid path");
        }
    });
}
