//! The field defaults in published schemas. Besides declared defaults these are the zero values of
//! fields that Go always writes: structs that are no pointers, and scalars without `omitempty`.

use object::{FieldSchema, Type, Value};

/// The default of an absent field in OpenAPI schemas and in server-side apply.
pub(crate) fn openapi_default(field: &FieldSchema) -> Option<Value> {
    let (rules, ty) = (&field.attributes, &*field.ty);
    if !field.default.is_null() && !rules.unpublished_default {
        return Some(field.default.clone());
    } else if rules.optional {
        return None;
    }
    match ty {
        Type::Object(_) if !rules.omit_zero => Some(Value::object()),
        _ if !rules.no_omitempty => None,
        Type::Bool => Some(false.into()),
        Type::Int32 | Type::Int64 | Type::UInt64 | Type::Float => Some(0.into()),
        Type::Text | Type::Enum(_) => Some("".into()),
        _ => None,
    }
}
