//! Parts of a CRD as Go prints them: with the names of the internal type, and with all
//! that is not set.

use object::Value;

use crate::rules::json;

/// The zero value of a field that is not set.
#[derive(Clone, Copy)]
enum ZeroValue {
    Text,
    False,
    Zero,
    Null,
}

use ZeroValue::{False, Null, Text, Zero};

/// The fields of a schema: Go's name, the API's, and what it is when absent.
const SCHEMA: &[(&str, &str, ZeroValue)] = &[
    ("ID", "id", Text),
    ("Schema", "$schema", Text),
    ("Ref", "$ref", Null),
    ("Description", "description", Text),
    ("Type", "type", Text),
    ("Nullable", "nullable", False),
    ("Format", "format", Text),
    ("Title", "title", Text),
    ("Default", "default", Null),
    ("Maximum", "maximum", Null),
    ("ExclusiveMaximum", "exclusiveMaximum", False),
    ("Minimum", "minimum", Null),
    ("ExclusiveMinimum", "exclusiveMinimum", False),
    ("MaxLength", "maxLength", Null),
    ("MinLength", "minLength", Null),
    ("Pattern", "pattern", Text),
    ("MaxItems", "maxItems", Null),
    ("MinItems", "minItems", Null),
    ("UniqueItems", "uniqueItems", False),
    ("MultipleOf", "multipleOf", Null),
    ("Enum", "enum", Null),
    ("MaxProperties", "maxProperties", Null),
    ("MinProperties", "minProperties", Null),
    ("Required", "required", Null),
    ("Items", "items", Null),
    ("AllOf", "allOf", Null),
    ("OneOf", "oneOf", Null),
    ("AnyOf", "anyOf", Null),
    ("Not", "not", Null),
    ("Properties", "properties", Null),
    ("AdditionalProperties", "additionalProperties", Null),
    ("PatternProperties", "patternProperties", Null),
    ("Dependencies", "dependencies", Null),
    ("AdditionalItems", "additionalItems", Null),
    ("Definitions", "definitions", Null),
    ("ExternalDocs", "externalDocs", Null),
    ("Example", "example", Null),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields", Null),
    ("XEmbeddedResource", "x-kubernetes-embedded-resource", False),
    ("XIntOrString", "x-kubernetes-int-or-string", False),
    ("XListMapKeys", "x-kubernetes-list-map-keys", Null),
    ("XListType", "x-kubernetes-list-type", Null),
    ("XMapType", "x-kubernetes-map-type", Null),
    ("XValidations", "x-kubernetes-validations", Null),
];

const RULE: &[(&str, &str, ZeroValue)] = &[
    ("Rule", "rule", Text),
    ("Message", "message", Text),
    ("MessageExpression", "messageExpression", Text),
    ("Reason", "reason", Null),
    ("FieldPath", "fieldPath", Text),
    ("OptionalOldSelf", "optionalOldSelf", Null),
];

const COLUMN: &[(&str, &str, ZeroValue)] = &[
    ("Name", "name", Text),
    ("Type", "type", Text),
    ("Format", "format", Text),
    ("Description", "description", Text),
    ("Priority", "priority", Zero),
    ("JSONPath", "jsonPath", Text),
];

const VERSION: &[(&str, &str, ZeroValue)] = &[
    ("Name", "name", Text),
    ("Served", "served", False),
    ("Storage", "storage", False),
    ("Deprecated", "deprecated", False),
    ("DeprecationWarning", "deprecationWarning", Null),
    ("Schema", "schema", Null),
    ("Subresources", "subresources", Null),
    ("AdditionalPrinterColumns", "additionalPrinterColumns", Null),
    ("SelectableFields", "selectableFields", Null),
];

const SCALE: &[(&str, &str, ZeroValue)] = &[
    ("SpecReplicasPath", "specReplicasPath", Text),
    ("StatusReplicasPath", "statusReplicasPath", Text),
    ("LabelSelectorPath", "labelSelectorPath", Null),
];

/// Go's names of a schema's fields that are set, in Go's order; a pointer to little is set.
pub(super) fn set_fields(tree: &Value) -> impl Iterator<Item = &'static str> {
    let set = |(go, api, absent): &(&'static str, &str, ZeroValue)| {
        let value = tree.get(api);
        let set = if matches!(absent, Null) { !value.is_null() } else { !value.is_zero() };
        set.then_some(*go)
    };
    SCHEMA.iter().filter_map(set)
}

pub(super) fn schema(tree: &Value) -> String {
    fields(SCHEMA, tree, &|api, value| match api {
        "items" => match value {
            Value::List(_) => {
                format!("{{\"Schema\":null,\"JSONSchemas\":{}}}", list(value, schema))
            }
            value => format!("{{\"Schema\":{},\"JSONSchemas\":null}}", schema(value)),
        },
        "allOf" | "oneOf" | "anyOf" => list(value, schema),
        "not" => schema(value),
        "properties" | "patternProperties" | "definitions" => map(value, schema),
        "additionalProperties" | "additionalItems" => or_bool(value),
        "dependencies" => map(value, |value| match value {
            Value::List(_) => format!("{{\"Schema\":null,\"Property\":{}}}", json(value)),
            value => format!("{{\"Schema\":{},\"Property\":null}}", schema(value)),
        }),
        "externalDocs" => {
            fields(&[("Description", "description", Text), ("URL", "url", Text)], value, &plain)
        }
        "x-kubernetes-validations" => list(value, rule),
        _ => json(value),
    })
}

pub(super) fn rule(tree: &Value) -> String {
    fields(RULE, tree, &plain)
}

/// Versions, without what all of them have alike: `hoisted` names it.
pub(super) fn versions(tree: &Value, hoisted: &[&str]) -> String {
    if tree.is_null() {
        return "null".to_owned();
    }
    list(tree, |version| {
        let mut version = version.clone();
        hoisted.iter().for_each(|name| version.remove(name));
        fields(VERSION, &version, &|api, value| match api {
            "schema" => {
                fields(&[("OpenAPIV3Schema", "openAPIV3Schema", Null)], value, &|_, value| {
                    schema(value)
                })
            }
            "subresources" => {
                let parts = &[("Status", "status", Null), ("Scale", "scale", Null)];
                fields(parts, value, &|api, value| match api {
                    "scale" => fields(SCALE, value, &plain),
                    _ => "{}".to_owned(),
                })
            }
            "additionalPrinterColumns" => list(value, |column| fields(COLUMN, column, &plain)),
            "selectableFields" => {
                list(value, |field| fields(&[("JSONPath", "jsonPath", Text)], field, &plain))
            }
            _ => json(value),
        })
    })
}

fn fields(
    names: &[(&str, &str, ZeroValue)],
    tree: &Value,
    shown: &dyn Fn(&str, &Value) -> String,
) -> String {
    let fields = names.iter().map(|(go, api, absent)| {
        let value = match (tree.get(api), absent) {
            (Value::Null, Text) => "\"\"".to_owned(),
            (Value::Null, False) => "false".to_owned(),
            (Value::Null, Zero) => "0".to_owned(),
            (Value::Null, Null) => "null".to_owned(),
            (value, _) => shown(api, value),
        };
        format!("\"{go}\":{value}")
    });
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}

fn plain(_: &str, value: &Value) -> String {
    json(value)
}

fn or_bool(value: &Value) -> String {
    match value.as_bool() {
        Some(allows) => format!("{{\"Allows\":{allows},\"Schema\":null}}"),
        None => format!("{{\"Allows\":true,\"Schema\":{}}}", schema(value)),
    }
}

fn list(value: &Value, shown: impl Fn(&Value) -> String) -> String {
    format!("[{}]", value.items().iter().map(shown).collect::<Vec<_>>().join(","))
}

fn map(value: &Value, shown: impl Fn(&Value) -> String) -> String {
    let entries =
        value.entries().map(|(name, value)| format!("{}:{}", json(&name.into()), shown(value)));
    format!("{{{}}}", entries.collect::<Vec<_>>().join(","))
}
