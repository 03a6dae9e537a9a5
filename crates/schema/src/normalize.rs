//! One form for each object: constant defaults filled, what is empty left out,
//! and what Go writes although it is empty written.

use object::{Field, Plain, Struct, Type, Value};

/// Fills constant defaults; drops fields that the shape does not know or leaves out.
pub fn normalize(shape: &Struct, object: &mut Value) {
    object.retain(|name, value| match shape.field(name) {
        Some(field) if is_hollow(field, value) => false,
        Some(field) => !field.omits(value) || field.default.is_null() && field.zero().is_some(),
        None => matches!(name, "apiVersion" | "kind"),
    });
    for field in shape.flat() {
        if object.get(&field.name).is_null() {
            fill(field, object);
        } else if nested(&field.ty) {
            normalize_value(&field.ty, &mut object[&*field.name]);
        }
    }
}

fn fill(field: &Field, object: &mut Value) {
    let Some(mut zero) = field.zero() else { return };
    normalize_value(&field.ty, &mut zero);
    object[&*field.name] = zero;
}

fn normalize_value(ty: &Type, value: &mut Value) {
    match (ty, value) {
        (Type::Object(shape), value) => normalize(shape, value),
        (Type::Either(shape, _), value) if value.is_object() => normalize(shape, value),
        (Type::Either(shape, Plain::List), Value::List(items)) => {
            items.make_mut().iter_mut().for_each(|value| normalize(shape, value));
        }
        (Type::List(item), Value::List(items)) if nested(item) => {
            items.make_mut().iter_mut().for_each(|value| normalize_value(item, value));
        }
        (Type::Map(item), value) if nested(item) => value.retain(|_, value| {
            normalize_value(item, value);
            true
        }),
        _ => {}
    }
}

/// An empty list or map is none at all: protobuf, in which objects are stored, cannot tell.
fn is_hollow(field: &Field, value: &Value) -> bool {
    matches!(*field.ty, Type::List(_) | Type::Map(_)) && value.is_zero()
}

/// Whether there can be anything to do inside.
fn nested(ty: &Type) -> bool {
    matches!(ty, Type::Object(_) | Type::Either(..) | Type::List(_) | Type::Map(_))
}
