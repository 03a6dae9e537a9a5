//! Damages a valid object in one or a few fields, chosen by the kind's schema: every field of every kind is covered,
//! whether the object has it or not.

use object::{FieldSchema, StructSchema, Type};
use serde_json::{Map, Value, json};

use super::values::{hostile, long, plausible, worst};
use crate::random::Random;

/// Maximum depth; deeper than any field of a non-recursive type.
const DEEPEST: usize = 24;

/// Sets one field of an object with this schema to a hostile value.
pub(crate) fn damage(shape: &StructSchema, object: &mut Value, random: &mut Random) {
    within(shape, object, random, 0);
}

fn within(shape: &StructSchema, object: &mut Value, random: &mut Random, depth: usize) {
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let Value::Object(fields) = object else { return };
    let Some(field) = choose(shape, fields, random) else { return };
    if field.name == "apiVersion" || field.name == "kind" && depth == 0 {
        return;
    }
    // A tree cannot contain duplicate names; `generate::encoded` writes them into the text.
    let slot = fields.entry(field.name.to_string()).or_insert(Value::Null);
    value(field, &field.ty, slot, random, depth + 1);
}

/// A field of the struct; fields that the object has are chosen more often.
fn choose<'a>(
    shape: &'a StructSchema,
    fields: &Map<String, Value>,
    random: &mut Random,
) -> Option<&'a FieldSchema> {
    let all: Vec<&FieldSchema> = shape.json_fields().collect();
    let present: Vec<&FieldSchema> =
        all.iter().copied().filter(|field| fields.contains_key(field.name.as_str())).collect();
    let from = if !present.is_empty() && random.one_in(2) { present } else { all };
    if from.is_empty() { None } else { Some(from[random.below(from.len())]) }
}

fn value(field: &FieldSchema, ty: &Type, slot: &mut Value, random: &mut Random, depth: usize) {
    let deeper = depth < DEEPEST && !random.one_in(8);
    match ty {
        Type::Object(shape) | Type::StructOr(shape, _) if deeper => {
            if !slot.is_object() {
                *slot = plausible(field, ty, random, 2);
            }
            within(shape, slot, random, depth);
        }
        Type::List(item) if deeper => {
            if slot.as_array().is_none_or(Vec::is_empty) {
                *slot = json!([plausible(field, item, random, 2)]);
            }
            let Value::Array(items) = slot else { return };
            let at = random.below(items.len());
            value(field, item, &mut items[at], random, depth + 1);
        }
        Type::Map(item) if deeper => {
            if slot.as_object().is_none_or(Map::is_empty) {
                *slot = json!({"a": plausible(field, item, random, 2)});
            }
            let Value::Object(entries) = slot else { return };
            let at = random.below(entries.len());
            if let Some((_, entry)) = entries.iter_mut().nth(at) {
                value(field, item, entry, random, depth + 1);
            }
        }
        _ => *slot = hostile(field, ty, random),
    }
}

/// A field of a kind.
pub(crate) struct Found<'a> {
    /// The struct that contains it.
    pub(crate) owner: String,
    pub(crate) path: Vec<&'a str>,
    pub(crate) ty: &'a Type,
}

/// All fields of a struct and of the structs within it.
pub(crate) fn paths(shape: &StructSchema) -> Vec<Found<'_>> {
    fn walk<'a>(shape: &'a StructSchema, above: &[&'a str], out: &mut Vec<Found<'a>>) {
        for field in shape.json_fields() {
            let path: Vec<&str> = above.iter().copied().chain([field.name.as_str()]).collect();
            let mut ty = &*field.ty;
            while let Type::List(item) | Type::Map(item) = ty {
                ty = item;
            }
            if let (Type::Object(shape) | Type::StructOr(shape, _), true) = (ty, path.len() < 7) {
                walk(shape, &path, out);
            }
            let owner = format!("{}::{}", shape.rust_module, shape.name);
            out.push(Found { owner, path, ty: &field.ty });
        }
    }
    let mut out = Vec::new();
    walk(shape, &[], &mut out);
    out
}

/// Sets the field at this path to a hostile value: one of the worst for 0 and 1, any for more.
pub(crate) fn damage_at(
    shape: &StructSchema,
    object: &mut Value,
    path: &[&str],
    (which, random): (usize, &mut Random),
) {
    let Some((first, rest)) = path.split_first() else { return };
    let Some(field) = shape.field(first) else { return };
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let Value::Object(fields) = object else { return };
    let mut slot = fields.entry((*first).to_owned()).or_insert(Value::Null);
    if rest.is_empty() {
        *slot = match &*field.ty {
            Type::List(item) if which < 2 => long(field, item, which == 0, random),
            ty => worst(ty, which).unwrap_or_else(|| hostile(field, ty, random)),
        };
        return;
    }
    let mut ty = &*field.ty;
    loop {
        match ty {
            Type::List(item) => {
                if slot.as_array().is_none_or(Vec::is_empty) {
                    *slot = json!([plausible(field, item, random, 2)]);
                }
                let Value::Array(items) = slot else { return };
                let at = random.below(items.len());
                (slot, ty) = (&mut items[at], item);
            }
            Type::Map(item) => {
                if slot.as_object().is_none_or(Map::is_empty) {
                    *slot = json!({"a": plausible(field, item, random, 2)});
                }
                let Some((_, entry)) = slot.as_object_mut().and_then(|map| map.iter_mut().next())
                else {
                    return;
                };
                (slot, ty) = (entry, item);
            }
            Type::Object(shape) | Type::StructOr(shape, _) => {
                if !slot.is_object() {
                    *slot = plausible(field, ty, random, 2);
                }
                return damage_at(shape, slot, rest, (which, random));
            }
            _ => return,
        }
    }
}
