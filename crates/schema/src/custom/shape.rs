//! Converts a CRD's schema to a type schema, for server-side apply.

use std::sync::{Arc, OnceLock};

use object::{
    FieldAttributes, FieldId, FieldSchema, ListType, ObjectMeta, SchemaRef, StructSchema, Text,
    Type, Value, View,
};

use super::{
    intern::{self, InternBudgetExceeded},
    schema::{AdditionalProperties, JsonSchema},
};
use crate::apply::{LIST_ITEM, MAP_VALUE};

/// The type schema of whole objects.
pub(super) fn to_type_schema(
    kind: &str,
    schema: Option<&JsonSchema>,
) -> Result<SchemaRef<StructSchema>, InternBudgetExceeded> {
    let none = JsonSchema::default();
    let known = schema.unwrap_or(&none);
    let mut shape = struct_schema(known, true)?;
    shape.name = kind.into();
    shape.preserve_unknown_fields |= schema.is_none();
    Ok(SchemaRef::Shared(Arc::new(shape)))
}

fn struct_schema(schema: &JsonSchema, whole: bool) -> Result<StructSchema, InternBudgetExceeded> {
    let mut fields = Vec::new();
    if whole {
        let ty = SchemaRef::Static(<ObjectMeta as View>::TYPE);
        fields.push(field("metadata", ty, FieldAttributes::DEFAULT));
    }
    for (name, property) in schema.properties() {
        if whole && matches!(name, "metadata" | "apiVersion" | "kind") {
            continue;
        }
        let rules = FieldAttributes { optional: true, ..rules(property)? };
        let default = property.default_value().cloned().unwrap_or_default();
        let ty = SchemaRef::Shared(Arc::new(type_of(property)?));
        fields.push(FieldSchema { default, ..field(name, ty, rules) });
    }
    if whole && schema.is_embedded_resource() {
        for name in ["apiVersion", "kind"] {
            let rules = FieldAttributes { optional: true, ..FieldAttributes::DEFAULT };
            fields.push(field(name, SchemaRef::Static(<String as View>::TYPE), rules));
        }
    }
    Ok(StructSchema {
        name: Text::default(),
        doc: schema.text("description").into(),
        rust_module: "",
        fields: SchemaRef::Shared(fields.into()),
        atomic: schema.map_type() == Some("atomic"),
        preserve_unknown_fields: schema.preserves_unknown_fields(),
        index: OnceLock::new(),
    })
}

fn field(name: &str, ty: SchemaRef<Type>, rules: FieldAttributes) -> FieldSchema {
    let (word, name) = (FieldId::lookup(name), name.into());
    FieldSchema {
        name,
        id: word,
        doc: Text::default(),
        ty,
        default: Value::Null,
        attributes: rules,
    }
}

fn type_of(schema: &JsonSchema) -> Result<Type, InternBudgetExceeded> {
    Ok(match schema.ty() {
        _ if schema.is_int_or_string() => Type::IntOrString,
        "object" => match schema.additional() {
            AdditionalProperties::Schema(inner) if schema.properties().len() == 0 => {
                let (ty, rules) = (SchemaRef::Shared(Arc::new(type_of(inner)?)), rules(inner)?);
                if rules.list_type == ListType::Atomic && !rules.atomic && !rules.granular {
                    return Ok(Type::Map(ty));
                }
                pseudo_field_type(field(MAP_VALUE, ty, rules), schema)?
            }
            _ => {
                let mut shape = struct_schema(schema, schema.is_embedded_resource())?;
                shape.preserve_unknown_fields |= schema.properties().len() == 0;
                Type::Object(SchemaRef::Shared(Arc::new(shape)))
            }
        },
        "array" => match schema.items() {
            Some(items) if items.ty() == "array" => {
                let item =
                    field(LIST_ITEM, SchemaRef::Shared(Arc::new(type_of(items)?)), rules(items)?);
                Type::List(SchemaRef::Shared(Arc::new(pseudo_field_type(item, items)?)))
            }
            Some(items) => Type::List(SchemaRef::Shared(Arc::new(type_of(items)?))),
            None => Type::List(SchemaRef::Static(&Type::Any)),
        },
        // For server-side apply, a string with a format is any scalar, like a time.
        "string" if !matches!(schema.text("format"), "" | "byte") => Type::Time,
        "string" => Type::Text,
        "integer" => Type::Int64,
        "number" => Type::Float,
        "boolean" => Type::Bool,
        _ => Type::Any,
    })
}

/// A struct with one pseudo field, which describes how the values of a map or list are merged.
fn pseudo_field_type(
    field: FieldSchema,
    schema: &JsonSchema,
) -> Result<Type, InternBudgetExceeded> {
    let shape =
        StructSchema { fields: SchemaRef::Shared([field].into()), ..struct_schema(schema, false)? };
    Ok(Type::Object(SchemaRef::Shared(Arc::new(shape))))
}

/// The merge attributes of a field.
fn rules(schema: &JsonSchema) -> Result<FieldAttributes, InternBudgetExceeded> {
    let list = match schema.list_type() {
        Some("set") => ListType::Set,
        Some("map") => ListType::Map(intern::texts(schema.list_keys())?),
        _ => ListType::Atomic,
    };
    let atomic = schema.map_type() == Some("atomic");
    // An untyped value decides by itself how it is merged.
    let granular = schema.ty().is_empty() && !schema.is_int_or_string();
    Ok(FieldAttributes { list_type: list, atomic, granular, ..FieldAttributes::DEFAULT })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        apply::{FieldManagerRequest, SingleVersion, apply},
        sample::tree,
    };

    #[test]
    fn values_of_maps_are_merged_by_their_own_rules() {
        let schema = JsonSchema::from(tree(
            r#"{"type":"object","properties":{"spec":{"type":"object","additionalProperties":{
                "type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}}}}}"#,
        ));
        let shape = to_type_schema("Thing", Some(&schema)).expect("there is room");
        let by = |manager, live: Option<&Value>, spec: &str| {
            let (api_version, kind, now) = ("e.com/v1", "Thing", "2030-01-01T00:00:00Z");
            let (subresource, reset, versions) = ("", &[][..], &SingleVersion);
            let write = FieldManagerRequest {
                schema: &shape,
                api_version,
                kind,
                manager,
                subresource,
                reset_fields: reset,
                now,
                converter: versions,
            };
            let object = format!(r#"{{"apiVersion":"e.com/v1","kind":"Thing","spec":{spec}}}"#);
            apply(&write, live, &tree(&object), false).expect("no conflict")
        };
        let first = by("a", None, r#"{"x":["1"]}"#);
        let both = by("b", Some(&first), r#"{"x":["2"]}"#);
        assert_eq!(both["spec"], tree(r#"{"x":["1","2"]}"#));
        assert_eq!(by("a", Some(&both), "{}")["spec"], tree(r#"{"x":["2"]}"#));
    }

    #[test]
    fn text_of_a_format_is_any_scalar() {
        for (schema, scalar) in [
            (r#"{"type":"string"}"#, false),
            (r#"{"type":"string","format":"byte"}"#, false),
            (r#"{"type":"string","format":"uuid"}"#, true),
        ] {
            let ty = type_of(&JsonSchema::from(tree(schema))).expect("there is room");
            assert_eq!(matches!(ty, Type::Time), scalar, "{schema}");
        }
    }

    #[test]
    fn lists_in_lists_are_checked_by_their_own_rules() {
        let schema = JsonSchema::from(tree(
            r#"{"type":"object","properties":{"spec":{"type":"array","items":{"type":"array",
                "x-kubernetes-list-type":"set","items":{"type":"integer"}}}}}"#,
        ));
        let shape = to_type_schema("Thing", Some(&schema)).expect("there is room");
        let (api_version, kind, manager) = ("e.com/v1", "Thing", "a");
        let (now, subresource, reset, versions) =
            ("2030-01-01T00:00:00Z", "", &[][..], &SingleVersion);
        let write = FieldManagerRequest {
            schema: &shape,
            api_version,
            kind,
            manager,
            subresource,
            reset_fields: reset,
            now,
            converter: versions,
        };
        let thing = |spec: &str| {
            let object = format!(r#"{{"apiVersion":"e.com/v1","kind":"Thing","spec":{spec}}}"#);
            apply(&write, None, &tree(&object), false).map_err(|error| error.to_string())
        };
        let held = thing("[[1,2],[2]]").expect("each is a set");
        let entry = &held["metadata"]["managedFields"].items()[0];
        assert_eq!(entry["fieldsV1"].with_raw_expanded(), tree(r#"{"f:spec":{}}"#));
        let twice = thing("[[1],[2,2]]").expect_err("not a set");
        assert!(twice.ends_with(".spec[1]: duplicate entries for key [=2]"), "{twice}");
    }
}
