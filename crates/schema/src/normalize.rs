//! One form for each object: constant defaults filled, what is empty left out,
//! and what Go writes although it is empty written.

use object::{Field, NULL, Plain, Struct, Type, Value};

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

/// Brings back the empty lists and maps that were `given`, so that rules can tell them
/// from none: until an object is stored, Go can.
pub(crate) fn restore_hollow(shape: &Struct, object: &mut Value, given: &Value) {
    for (name, value) in given.entries() {
        let Some(field) = shape.field(name) else { continue };
        if is_hollow(field, value) {
            if object.get(name).is_null() && !value.is_null() && object.is_object() {
                object[name] = value.clone();
            }
        } else if has_hollow(&field.ty, value) && !object.get(name).is_null() {
            restore_value(&field.ty, &mut object[name], value);
        }
    }
}

/// Drops empty lists and maps where there were none before: nobody has changed anything.
pub(crate) fn drop_hollow(shape: &Struct, new: &mut Value, old: &Value) {
    if !hollow_within(shape, new) {
        return;
    }
    new.retain(|name, value| match shape.field(name) {
        Some(field) if is_hollow(field, value) => value.is_null() || !old.get(name).is_zero(),
        Some(field) => {
            drop_value(&field.ty, value, old.get(name));
            true
        }
        None => true,
    });
}

fn restore_value(ty: &Type, value: &mut Value, given: &Value) {
    match (ty, value) {
        (Type::Object(shape), value) => restore_hollow(shape, value, given),
        (Type::List(item), Value::List(items)) if items.len() == given.items().len() => {
            for (value, given) in items.make_mut().iter_mut().zip(given.items()) {
                restore_value(item, value, given);
            }
        }
        (Type::Map(item), value) => value.retain(|name, value| {
            restore_value(item, value, given.get(name));
            true
        }),
        _ => {}
    }
}

fn drop_value(ty: &Type, new: &mut Value, old: &Value) {
    match (ty, new) {
        (Type::Object(shape), new) => drop_hollow(shape, new, old),
        (Type::List(item), Value::List(items)) if nested(item) => {
            for (i, new) in items.make_mut().iter_mut().enumerate() {
                drop_value(item, new, old.items().get(i).unwrap_or(&NULL));
            }
        }
        (Type::Map(item), new) if nested(item) => new.retain(|name, new| {
            drop_value(item, new, old.get(name));
            true
        }),
        _ => {}
    }
}

/// Whether something in an object is there and empty.
fn hollow_within(shape: &Struct, object: &Value) -> bool {
    object.entries().any(|(name, value)| {
        shape.field(name).is_some_and(|field| {
            !value.is_null() && (is_hollow(field, value) || has_hollow(&field.ty, value))
        })
    })
}

fn has_hollow(ty: &Type, value: &Value) -> bool {
    match ty {
        Type::Object(shape) => hollow_within(shape, value),
        Type::List(item) if nested(item) => value.items().iter().any(|it| has_hollow(item, it)),
        Type::Map(item) if nested(item) => value.entries().any(|(_, it)| has_hollow(item, it)),
        _ => false,
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

#[cfg(test)]
mod tests {
    use object::{Lens, Object, from_json};

    use super::*;

    fn tree(text: &str) -> Value {
        from_json(text.as_bytes()).expect("the test writes JSON")
    }

    #[test]
    fn what_is_given_empty_can_be_told_from_nothing() {
        let given = tree(r#"{"metadata":{"name":"a","labels":{},"finalizers":[]}}"#);
        let mut object = given.clone();
        normalize(Object::SHAPE, &mut object);
        assert!(object.get("metadata").get("labels").is_null());
        restore_hollow(Object::SHAPE, &mut object, &given);
        assert_eq!(object.get("metadata"), given.get("metadata"));
        let old = tree(r#"{"metadata":{"name":"a","labels":{"b":"c"}}}"#);
        drop_hollow(Object::SHAPE, &mut object, &old);
        assert_eq!(object, tree(r#"{"metadata":{"name":"a","labels":{}}}"#));
    }
}
