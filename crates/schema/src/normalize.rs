//! Normalization: one form for equal objects. Constant defaults are set, empty values are dropped,
//! and the empty values that Go writes are written.

use object::{FieldId, FieldSchema, NULL, StructAlternative, StructSchema, Type, Value};

/// Sets constant defaults and drops fields that the type does not have or that Go omits. Values
/// that are already normalized stay shared.
pub fn normalize(shape: &StructSchema, object: &mut Value) {
    if let Some(new) = object_of(shape, object) {
        *object = new;
    }
}

/// The normalized object, without spare capacity; `None` if it is normalized.
fn object_of(shape: &StructSchema, object: &Value) -> Option<Value> {
    let index = shape.index()?;
    let (known, mut missing) = (object.interned_fields(), &*index.zero_fields);
    if matches!(object, Value::Map(_)) {
        let known = object.entries();
        let words = known.filter_map(|(name, value)| Some((FieldId::lookup(name)?, value.clone())));
        let words = Value::from_fields(words.collect());
        return object_of(shape, &words).or(Some(words));
    } else if known.is_empty() {
        return (!missing.is_empty()).then(|| Value::Object(index.zero_fields.clone()));
    }
    let mut new: Option<Vec<(FieldId, Value)>> = None;
    for (at, (word, value)) in known.iter().enumerate() {
        while let [zero, rest @ ..] = missing
            && zero.0 < *word
        {
            new.get_or_insert_with(|| known[..at].to_vec()).push(zero.clone());
            missing = rest;
        }
        let zero = missing.first().filter(|zero| zero.0 == *word);
        missing = &missing[usize::from(zero.is_some())..];
        let stays = match shape.field_by_id(*word) {
            None => matches!(word.as_str(), "apiVersion" | "kind"),
            Some(_) if value.is_null() => zero.is_some_and(|zero| zero.1.is_null()),
            Some(field) if is_hollow(field, value) => false,
            Some(field) => !field.is_omitted(value) || field.default.is_null() && zero.is_some(),
        };
        let value = match shape.field_by_id(*word).filter(|_| stays && !value.is_null()) {
            Some(field) => value_of(&field.ty, value),
            None => zero.map(|zero| zero.1.clone()).filter(|_| !stays),
        };
        match value {
            Some(value) => new.get_or_insert_with(|| known[..at].to_vec()).push((*word, value)),
            None if !stays => drop(new.get_or_insert_with(|| known[..at].to_vec())),
            None => new.iter_mut().for_each(|new| new.push(known[at].clone())),
        }
    }
    if !missing.is_empty() {
        new.get_or_insert_with(|| known.to_vec()).extend_from_slice(missing);
    }
    match new {
        Some(new) => Some(Value::from_fields(new)),
        None => object.map_children(|_| None),
    }
}

fn value_of(ty: &Type, value: &Value) -> Option<Value> {
    match ty {
        Type::Object(shape) => object_of(shape, value),
        Type::StructOr(shape, _) if value.is_object() => object_of(shape, value),
        Type::StructOr(shape, StructAlternative::List) => {
            value.map_children(|value| object_of(shape, value))
        }
        Type::List(item) | Type::Map(item) => value.map_children(|value| value_of(item, value)),
        _ => None,
    }
}

/// Restores the explicitly empty values of `given` in fields that satisfy `which`, so that
/// validation can distinguish them from absent ones, as Go can until an object is stored.
pub(crate) fn restore_empty(
    shape: &StructSchema,
    object: &mut Value,
    given: &Value,
    which: fn(&FieldSchema) -> bool,
) {
    for (field, value) in shape.present_fields(given) {
        if value.is_zero() {
            let there = !value.is_null() && object.is_object() && which(field);
            if field.get(object).is_null() && there {
                object[&*field.name] = value.clone();
            }
        } else if nested(&field.ty) && !field.get(object).is_null() {
            restore_value(&field.ty, &mut object[&*field.name], value, which);
        }
    }
}

/// Drops empty lists and maps that the old object lacks: they are no change. In new objects those
/// that Go writes stay.
pub(crate) fn drop_new_empty(shape: &StructSchema, new: &mut Value, old: &Value) {
    if !has_empty_collection(shape, new) {
        return;
    }
    new.retain(|name, value| match shape.field(name) {
        Some(field) if is_hollow(field, value) => {
            value.is_null()
                || !old.get(name).is_zero()
                || old.is_null() && field.attributes.no_omitempty
        }
        Some(field) => {
            drop_value(&field.ty, value, old.get(name));
            true
        }
        None => true,
    });
}

fn restore_value(ty: &Type, value: &mut Value, given: &Value, which: fn(&FieldSchema) -> bool) {
    match (ty, value) {
        (Type::Object(shape), value) => restore_empty(shape, value, given, which),
        (Type::List(item), Value::List(items)) if items.len() == given.items().len() => {
            for (value, given) in items.make_mut().iter_mut().zip(given.items()) {
                restore_value(item, value, given, which);
            }
        }
        (Type::Map(item), value) => value.retain(|name, value| {
            restore_value(item, value, given.get(name), which);
            true
        }),
        _ => {}
    }
}

fn drop_value(ty: &Type, new: &mut Value, old: &Value) {
    match (ty, new) {
        (Type::Object(shape), new) => drop_new_empty(shape, new, old),
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

/// Whether the object contains an explicitly empty list or map.
pub(crate) fn has_empty_collection(shape: &StructSchema, object: &Value) -> bool {
    shape.present_fields(object).any(|(field, value)| {
        !value.is_null() && (is_hollow(field, value) || has_hollow(&field.ty, value))
    })
}

fn has_hollow(ty: &Type, value: &Value) -> bool {
    match ty {
        Type::Object(shape) => has_empty_collection(shape, value),
        Type::List(item) if nested(item) => value.items().iter().any(|it| has_hollow(item, it)),
        Type::Map(item) if nested(item) => value.entries().any(|(_, it)| has_hollow(item, it)),
        _ => false,
    }
}

/// Whether the field is an empty list or map. Normalization drops it, because protobuf, in which
/// objects are stored, cannot represent it.
fn is_hollow(field: &FieldSchema, value: &Value) -> bool {
    is_collection(field) && value.is_zero()
}

/// Whether the field is a list or map.
pub(crate) fn is_collection(field: &FieldSchema) -> bool {
    matches!(*field.ty, Type::List(_) | Type::Map(_))
}

/// Whether values of the type can contain structs, lists or maps.
fn nested(ty: &Type) -> bool {
    matches!(ty, Type::Object(_) | Type::StructOr(..) | Type::List(_) | Type::Map(_))
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
        restore_empty(Object::SHAPE, &mut object, &given, is_collection);
        assert_eq!(object.get("metadata"), given.get("metadata"));
        let old = tree(r#"{"metadata":{"name":"a","labels":{"b":"c"}}}"#);
        drop_new_empty(Object::SHAPE, &mut object, &old);
        assert_eq!(object, tree(r#"{"metadata":{"name":"a","labels":{}}}"#));
    }
}
