//! CEL types of kinds, for type checking.

use std::sync::Arc;

use cel::DeclType;
use object::{Lens, ObjectMeta, StructSchema, Text, Type, Value};

/// The type of a built-in kind.
pub(super) fn of_shape(shape: &StructSchema) -> Arc<DeclType> {
    DeclType::from_json_schema(&whole(structure(shape, &mut Vec::new())), false)
}

/// The type of a custom resource, from the schema of its CRD.
pub(super) fn of_schema(schema: &Value) -> Arc<DeclType> {
    DeclType::from_json_schema(&whole(schema.clone()), false)
}

/// Adds apiVersion, kind and metadata, which every object has.
fn whole(mut schema: Value) -> Value {
    schema["type"] = "object".into();
    schema["properties"]["apiVersion"] = simple("string", "");
    schema["properties"]["kind"] = simple("string", "");
    schema["properties"]["metadata"] = structure(ObjectMeta::SHAPE, &mut Vec::new());
    schema
}

/// The schema of a struct. `within` are the enclosing types: a recursive type has no fields inside
/// itself.
fn structure(shape: &StructSchema, within: &mut Vec<Text>) -> Value {
    let mut schema = simple("object", "");
    schema["properties"] = Value::object();
    if within.contains(&shape.name) {
        return schema;
    }
    within.push(shape.name.clone());
    for field in shape.json_fields() {
        if let Some(own) = of(&field.ty, within) {
            schema["properties"][field.name.as_str()] = own;
        }
    }
    within.pop();
    schema
}

/// The schema of a field. `None`: upstream's OpenAPI document has no type for it, so expressions
/// cannot use it.
fn of(ty: &Type, within: &mut Vec<Text>) -> Option<Value> {
    Some(match ty {
        Type::Bool => simple("boolean", ""),
        Type::Int32 | Type::Int64 | Type::UInt64 => simple("integer", ""),
        Type::Float => simple("number", ""),
        Type::Text | Type::Enum(_) | Type::Duration => simple("string", ""),
        Type::Bytes => simple("string", "byte"),
        Type::Time | Type::MicroTime => simple("string", "date-time"),
        Type::IntOrString => open(),
        Type::Quantity | Type::StructOr(..) => return None,
        Type::Any if within.last().is_some_and(|own| own == "JSONSchemaProps") => return None,
        Type::Any => {
            let mut schema = simple("object", "");
            schema["properties"] = Value::object();
            schema
        }
        Type::List(of_item) => {
            let mut schema = simple("array", "");
            schema["items"] = of(of_item, within)?;
            schema
        }
        Type::Map(of_value) => {
            let mut schema = simple("object", "");
            schema["additionalProperties"] = of(of_value, within)?;
            schema
        }
        Type::Object(shape) => structure(shape, within),
    })
}

fn simple(ty: &str, format: &str) -> Value {
    let mut schema = Value::object();
    schema["type"] = ty.into();
    if !format.is_empty() {
        schema["format"] = format.into();
    }
    schema
}

/// The schema of an integer or string.
fn open() -> Value {
    let mut schema = Value::object();
    schema["x-kubernetes-int-or-string"] = true.into();
    schema
}
