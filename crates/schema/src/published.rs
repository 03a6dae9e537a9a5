//! The defaults that the schema tells to clients, which are not only those of the kinds:
//! a plain field that is always written is empty when nobody has set it.

use object::{FieldSchema, Type, Value};

/// What clients may take for granted where the field is absent.
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
