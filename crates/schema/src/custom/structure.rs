//! Validates that a schema is structural: every field is specified, with its type, outside of
//! `allOf`, `anyOf`, `oneOf` and `not`.

use super::schema::{AdditionalProperties, JsonSchema};
use crate::{ErrorList, FieldPath, pattern::compile};

/// The position of a node in its schema.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NodeLevel {
    Root,
    Item,
    Field,
}

/// The error for an OpenAPI keyword in the schema that CRDs do not support.
pub fn unsupported_keyword(schema: &JsonSchema) -> Option<&'static str> {
    let tree = schema.tree();
    let has = |name: &str| !tree.get(name).is_zero();
    for (name, why) in [
        ("id", "OpenAPIV3Schema 'id' is not supported"),
        ("$schema", "OpenAPIV3Schema 'schema' is not supported"),
        ("$ref", "OpenAPIV3Schema '$ref' is not supported"),
        ("patternProperties", "OpenAPIV3Schema 'patternProperties' is not supported"),
        ("dependencies", "OpenAPIV3Schema 'dependencies' is not supported"),
        ("definitions", "OpenAPIV3Schema 'definitions' is not supported"),
    ] {
        if has(name) {
            return Some(why);
        }
    }
    if !tree.get("additionalItems").is_null() {
        return Some("OpenAPIV3Schema 'additionalItems' is not supported");
    } else if tree.get("x-kubernetes-preserve-unknown-fields").as_bool() == Some(false) {
        return Some(
            "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined",
        );
    } else if !tree.get("items").items().is_empty() {
        return Some("OpenAPIV3Schema 'items' must be a schema, but is an array");
    }
    let additional = match schema.additional() {
        AdditionalProperties::Schema(schema) => Some(schema),
        _ => None,
    };
    let lists = ["allOf", "anyOf", "oneOf"].into_iter().flat_map(|list| schema.schema_list(list));
    let named = schema.properties().map(|(_, schema)| schema);
    let ones = [schema.items(), schema.not(), additional].into_iter().flatten();
    lists.chain(named).chain(ones).find_map(unsupported_keyword)
}

/// Reports what keeps a schema from being structural.
pub fn validate_structural(schema: &JsonSchema, at: &FieldPath, errs: &mut ErrorList) {
    node(schema, NodeLevel::Root, at, errs);
    conditions(schema, schema, at, &at.to_string(), errs);
}

fn node(schema: &JsonSchema, level: NodeLevel, at: &FieldPath, errs: &mut ErrorList) {
    if schema.ty() == "array" && schema.items().is_none() {
        errs.required(&at.field("items"), "must be specified");
    }
    at.if_present("items", schema.items(), |items, at| node(items, NodeLevel::Item, at, errs));
    let properties = at.field("properties");
    for (name, property) in schema.properties() {
        node(property, NodeLevel::Field, &properties.key(name), errs);
    }
    let additional = at.field("additionalProperties");
    let has_additional = !matches!(schema.additional(), AdditionalProperties::Unset);
    if has_additional && level == NodeLevel::Root {
        errs.forbidden(&additional, "must not be used at the root");
    }
    if let AdditionalProperties::Schema(inner) = schema.additional() {
        node(inner, NodeLevel::Field, &additional, errs);
    }
    extensions(schema, at, errs);
    validate_value_validations(
        schema,
        [is_int_or_string(schema, "anyOf"), first_is_int_or_string(schema)],
        level,
        at,
        errs,
    );
    check_type(schema, level, at, errs);
    if schema.is_embedded_resource() && has_additional {
        errs.forbidden(&additional, "must not be used if x-kubernetes-embedded-resource is set");
    }
    if level == NodeLevel::Root && !matches!(schema.ty(), "" | "object") {
        errs.invalid(&at.field("type"), schema.ty(), "must be object at the root");
    }
    metadata(schema, level, at, errs);
    if schema.is_embedded_resource()
        && !schema.preserves_unknown_fields()
        && schema.properties().len() == 0
    {
        let why = "must not be empty if x-kubernetes-embedded-resource is true without \
                   x-kubernetes-preserve-unknown-fields";
        errs.required(&properties, why);
    }
}

fn extensions(schema: &JsonSchema, at: &FieldPath, errs: &mut ErrorList) {
    if !schema.is_int_or_string() {
        return;
    }
    for (name, set) in [
        ("x-kubernetes-preserve-unknown-fields", schema.preserves_unknown_fields()),
        ("x-kubernetes-embedded-resource", schema.is_embedded_resource()),
    ] {
        if set {
            errs.invalid(
                &at.field(name),
                true,
                "must be false if x-kubernetes-int-or-string is true",
            );
        }
    }
}

fn check_type(schema: &JsonSchema, level: NodeLevel, at: &FieldPath, errs: &mut ErrorList) {
    let here = at.field("type");
    let object = "must be object if x-kubernetes-embedded-resource is true";
    match (schema.is_embedded_resource(), schema.ty()) {
        (true, "object") => {}
        (true, "") => errs.required(&here, object),
        (true, other) => errs.invalid(&here, other, object),
        (false, "") if !schema.is_int_or_string() && !schema.preserves_unknown_fields() => {
            let why = match level {
                NodeLevel::Root => "must not be empty at the root",
                NodeLevel::Item => "must not be empty for specified array items",
                NodeLevel::Field => "must not be empty for specified object fields",
            };
            errs.required(&here, why);
        }
        (false, _) => {}
    }
}

/// Validates apiVersion, kind and metadata: they are implied, and a schema can only restrict names.
fn metadata(schema: &JsonSchema, level: NodeLevel, at: &FieldPath, errs: &mut ErrorList) {
    let properties = at.field("properties");
    let whole = level == NodeLevel::Root || schema.is_embedded_resource();
    for name in ["kind", "apiVersion"] {
        if let Some(property) = schema.property(name).filter(|p| whole && p.ty() != "string") {
            errs.invalid(&properties.key(name).field("type"), property.ty(), "must be string");
        }
    }
    let Some(metadata) = schema.property("metadata") else { return };
    let here = properties.key("metadata");
    if whole && metadata.ty() != "object" {
        errs.invalid(&here.field("type"), metadata.ty(), "must be object");
    }
    let named = metadata.properties().all(|(name, _)| matches!(name, "name" | "generateName"));
    let plain = metadata
        .tree()
        .entries()
        .all(|(name, value)| matches!(name, "type" | "default" | "properties") || value.is_zero());
    if level == NodeLevel::Root && !(named && plain) {
        let why = "must not specify anything other than name and generateName, but metadata is \
                   implicitly specified";
        errs.forbidden(&here, why);
    }
}

/// Validates the value validations of a node. `[any, first]` tells which of them are the
/// int-or-string pattern.
fn validate_value_validations(
    schema: &JsonSchema,
    [any, first]: [bool; 2],
    level: NodeLevel,
    at: &FieldPath,
    errs: &mut ErrorList,
) {
    for (list, skip) in [("anyOf", any), ("allOf", false), ("oneOf", false)] {
        if skip {
            continue;
        }
        for (i, clause) in schema.schema_list(list).enumerate() {
            let skip = list == "allOf" && first && i == 0;
            nested(clause, skip, level, &at.field(list).index(i), errs);
        }
    }
    at.if_present("not", schema.not(), |not, at| nested(not, false, level, at, errs));
    let pattern = schema.text("pattern");
    if !pattern.is_empty()
        && let Err(why) = compile(pattern)
    {
        let why = format!("must be a valid regular expression, but isn't: {why}");
        errs.invalid(&at.field("pattern"), pattern, why);
    }
}

/// Validates a schema inside of `allOf`, `anyOf`, `oneOf` or `not`, which may not specify fields.
fn nested(
    schema: &JsonSchema,
    skip_any: bool,
    level: NodeLevel,
    at: &FieldPath,
    errs: &mut ErrorList,
) {
    validate_value_validations(schema, [skip_any, false], level, at, errs);
    at.if_present("items", schema.items(), |items, at| nested(items, false, level, at, errs));
    let properties = at.field("properties");
    for (name, property) in schema.properties() {
        nested(property, false, NodeLevel::Field, &properties.key(name), errs);
    }
    let additional = match schema.additional() {
        AdditionalProperties::Unset => false,
        AdditionalProperties::Allowed(allowed) => allowed,
        AdditionalProperties::Schema(_) => true,
    };
    let tree = schema.tree();
    let has = |name: &str| !tree.get(name).is_zero();
    for (name, set, why) in [
        ("type", has("type"), "must be empty to be structural"),
        ("additionalProperties", additional, "must be undefined to be structural"),
        ("default", schema.default_value().is_some(), "must be undefined to be structural"),
        ("title", has("title"), "must be empty to be structural"),
        ("description", has("description"), "must be empty to be structural"),
        ("nullable", has("nullable"), "must be false to be structural"),
        (
            "x-kubernetes-preserve-unknown-fields",
            schema.preserves_unknown_fields(),
            "must be false to be structural",
        ),
        (
            "x-kubernetes-embedded-resource",
            schema.is_embedded_resource(),
            "must be false to be structural",
        ),
        ("x-kubernetes-int-or-string", schema.is_int_or_string(), "must be false to be structural"),
        (
            "x-kubernetes-list-map-keys",
            has("x-kubernetes-list-map-keys"),
            "must be empty to be structural",
        ),
        (
            "x-kubernetes-list-type",
            schema.list_type().is_some(),
            "must be undefined to be structural",
        ),
        (
            "x-kubernetes-map-type",
            schema.map_type().is_some(),
            "must be undefined to be structural",
        ),
        (
            "x-kubernetes-validations",
            has("x-kubernetes-validations"),
            "must be empty to be structural",
        ),
    ] {
        if set {
            errs.forbidden(&at.field(name), why);
        }
    }
    if schema.property("metadata").is_some() {
        errs.forbidden(&properties.key("metadata"), "must not be specified in a nested context");
    }
}

/// Checks that every field in a value validation is specified outside of it. `said` is the path of
/// the value validation, `at` the path where the field is or should be specified.
fn conditions(
    clause: &JsonSchema,
    schema: &JsonSchema,
    at: &FieldPath,
    said: &str,
    errs: &mut ErrorList,
) {
    if let Some(not) = clause.not() {
        validate_completeness(not, Some(schema), at, &format!("{said}.not"), errs);
    }
    for list in ["allOf", "anyOf", "oneOf"] {
        for (i, inner) in clause.schema_list(list).enumerate() {
            validate_completeness(inner, Some(schema), at, &format!("{said}.{list}[{i}]"), errs);
        }
    }
}

fn validate_completeness(
    clause: &JsonSchema,
    schema: Option<&JsonSchema>,
    at: &FieldPath,
    said: &str,
    errs: &mut ErrorList,
) {
    let Some(schema) = schema else {
        return errs.required(at, format!("because it is defined in {said}"));
    };
    conditions(clause, schema, at, said, errs);
    if let Some(items) = clause.items() {
        validate_completeness(
            items,
            schema.items(),
            &at.field("items"),
            &format!("{said}.items"),
            errs,
        );
    }
    let properties = at.field("properties");
    for (name, property) in clause.properties() {
        let said = format!("{said}.properties[{name}]");
        validate_completeness(property, schema.property(name), &properties.key(name), &said, errs);
    }
}

/// Whether the schemas are exactly `type: integer` and `type: string`.
fn is_int_or_string(schema: &JsonSchema, list: &str) -> bool {
    let types = schema.schema_list(list).map(|clause| {
        let only = clause.tree().entries().all(|(name, value)| match name {
            // Unsupported keywords are reported elsewhere.
            "type" | "$ref" | "definitions" | "dependencies" | "patternProperties" => true,
            "allOf" | "anyOf" | "oneOf" | "enum" => value.items().is_empty(),
            _ => value.is_null(),
        });
        if only { clause.ty() } else { "" }
    });
    types.eq(["integer", "string"])
}

fn first_is_int_or_string(schema: &JsonSchema) -> bool {
    schema.schema_list("allOf").next().is_some_and(|first| is_int_or_string(first, "anyOf"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::tree;

    fn complaints(schema: &str) -> Vec<String> {
        let mut errs = ErrorList::default();
        validate_structural(
            &JsonSchema::from(tree(schema)),
            &FieldPath::Root.field("s"),
            &mut errs,
        );
        errs.0.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn clauses_of_a_number_or_text_may_have_empty_lists() {
        let schema = |clause: &str| {
            complaints(&format!(
                r#"{{"type":"object","properties":{{"port":{{"x-kubernetes-int-or-string":true,
                    "anyOf":[{{"type":"integer",{clause}}},{{"type":"string"}}]}}}}}}"#
            ))
        };
        assert!(schema(r#""allOf":[]"#).is_empty());
        assert!(!schema(r#""required":[]"#).is_empty());
    }

    #[test]
    fn a_structural_schema_passes() {
        let schema = r#"{"type":"object","properties":{"metadata":{"type":"object","properties":{"name":{"type":"string"}}},
            "spec":{"type":"object","properties":{"port":{"x-kubernetes-int-or-string":true,
            "anyOf":[{"type":"integer"},{"type":"string"}]},"a":{"type":"string"}},"anyOf":[{"required":["a"]}]}}}"#;
        assert_eq!(complaints(schema), [""; 0]);
    }

    #[test]
    fn what_conditions_speak_of_is_declared() {
        let schema = r#"{"type":"object","anyOf":[{"properties":{"a":{"pattern":"("}}}],
            "properties":{"b":{}, "l":{"type":"array"}}}"#;
        assert_eq!(
            complaints(schema),
            [
                "s.properties[b].type: Required value: must not be empty for specified object fields",
                "s.properties[l].items: Required value: must be specified",
                "s.anyOf[0].properties[a].pattern: Invalid value: \"(\": must be a valid regular \
                 expression, but isn't: error parsing regexp: missing closing ): `(`",
                "s.properties[a]: Required value: because it is defined in s.anyOf[0].properties[a]",
            ]
        );
    }

    #[test]
    fn what_openapi_has_and_crds_have_not() {
        let of = |text: &str| unsupported_keyword(&JsonSchema::from(tree(text)));
        assert_eq!(of(r#"{"properties":{"a":{"type":"string"}}}"#), None);
        let why = Some("OpenAPIV3Schema '$ref' is not supported");
        assert_eq!(of(r##"{"properties":{"a":{"not":{"$ref":"#/x"}}}}"##), why);
    }
}
