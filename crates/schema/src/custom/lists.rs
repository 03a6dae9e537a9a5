//! Validates lists of type set or map: no duplicate items.

#![deny(clippy::indexing_slicing, clippy::string_slice, clippy::unwrap_used, clippy::expect_used)]

use object::{Value, to_json};

use super::schema::{JsonSchema, get_entry};
use crate::{ErrorList, FieldPath};

/// Reports duplicate items in lists of type set or map, at any depth.
pub(super) fn validate_list_types(
    value: &Value,
    schema: &JsonSchema,
    at: &FieldPath,
    errs: &mut ErrorList,
) {
    match value {
        Value::List(items) => {
            match schema.list_type() {
                Some("set") => {
                    duplicate_indexes(items)
                        .for_each(|(i, item)| errs.duplicate(&at.index(i), item.clone()));
                }
                Some("map") => keyed(items, schema, at, errs),
                _ => {}
            }
            if let Some(inner) = schema.items() {
                at.for_each_item(items.iter(), |item, at| {
                    validate_list_types(item, inner, at, errs);
                });
            }
        }
        Value::Object(_) | Value::Map(_) => {
            for (name, value) in value.entries() {
                match (schema.property(name), schema.entry(name)) {
                    (Some(inner), _) => validate_list_types(value, inner, &at.field(name), errs),
                    (None, Some(inner)) => validate_list_types(value, inner, &at.key(name), errs),
                    (None, None) => {}
                }
            }
        }
        _ => {}
    }
}

fn keyed(items: &[Value], schema: &JsonSchema, at: &FieldPath, errs: &mut ErrorList) {
    let mut all = items.iter().enumerate();
    if let Some((i, odd)) = all.find(|(_, item)| !item.is_null() && !item.is_object()) {
        let why = "must be an object for an array of list-type map";
        return errs.invalid(&at.index(i), odd.clone(), why);
    }
    let keys: Vec<Value> = items.iter().map(|item| key(item, schema)).collect();
    duplicate_indexes(&keys).for_each(|(i, key)| errs.duplicate(&at.index(i), key.clone()));
}

/// The keys of an item of a map list.
fn key(item: &Value, schema: &JsonSchema) -> Value {
    let mut key = Value::object();
    for name in schema.list_keys() {
        if let Some(value) = get_entry(item, name) {
            key[name] = value.clone();
        }
    }
    key
}

/// The second occurrence of each duplicate item, with its index.
fn duplicate_indexes(items: &[Value]) -> impl Iterator<Item = (usize, &Value)> {
    let mut seen = std::collections::HashMap::new();
    items.iter().enumerate().filter(move |(_, item)| {
        let times = seen.entry(to_json(item)).or_insert(0_usize);
        *times += 1;
        *times == 2
    })
}
