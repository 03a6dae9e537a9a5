//! Merging of duplicate fields, as Go's decoder does: the second value is merged over the first.

use crate::{FieldSchema, Type, Value};

/// Merges objects and lists; `null` leaves a field that is not a pointer in Go unchanged.
pub(super) fn merge_duplicate_field(
    field: Option<&FieldSchema>,
    before: Value,
    value: Value,
) -> Value {
    use Type::{Bool, Enum, Float, Int32, Int64, Object, Text};
    let Some(field) = field else { return value };
    let plain = matches!(*field.ty, Bool | Int32 | Int64 | Float | Text | Enum(_) | Object(_));
    let stays = value.is_null() && plain && !field.attributes.optional;
    if stays { before } else { merge_over(&field.ty, before, value) }
}

fn merge_over(ty: &Type, mut before: Value, value: Value) -> Value {
    match (ty, &value) {
        (Type::Object(_) | Type::Map(_), new) if new.is_object() && before.is_object() => {
            for (name, new) in new.entries() {
                let field = if let Type::Object(shape) = ty { shape.field(name) } else { None };
                let old = std::mem::take(&mut before[name]);
                before[name] = merge_duplicate_field(field, old, new.clone());
            }
            before
        }
        (Type::List(item), Value::List(new)) => {
            let old = before.items().iter().cloned().chain(std::iter::repeat(Value::Null));
            new.iter().zip(old).map(|(new, old)| merge_over(item, old, new.clone())).collect()
        }
        _ => value,
    }
}
