//! Merges two objects, and removes fields from an object.

#![deny(clippy::indexing_slicing, clippy::string_slice, clippy::unwrap_used, clippy::expect_used)]

use std::collections::{HashMap, HashSet};

use object::{StructSchema, Type, Value};

use super::{
    compare::zip_entries,
    fields::{EntryName, FieldSet, PathElement},
    merge_type::MergeType,
};

/// Merges `applied`, which has been validated, into `live`.
pub(super) fn merge(form: MergeType, live: &Value, applied: &Value) -> Value {
    merged(form, Some(live), Some(applied)).unwrap_or_else(Value::object)
}

/// Removes these fields from `object`. `None`: nothing is left.
pub(super) fn remove_fields(form: MergeType, object: &Value, fields: &FieldSet) -> Option<Value> {
    let form = form.resolve(object);
    if form.is_leaf() {
        return (!object.is_object() && !matches!(object, Value::List(_))).then(|| object.clone());
    }
    if form.is_list() {
        let kept: Vec<_> = object
            .items()
            .iter()
            .filter_map(|item| {
                match form.path_element(item).ok().and_then(|step| fields.get(&step)) {
                    Some(node) if node.member => None,
                    Some(node) => Some(
                        remove_fields(form.of_item(), item, &node.children).unwrap_or_default(),
                    ),
                    None => Some(item.clone()),
                }
            })
            .collect();
        return (!kept.is_empty()).then(|| kept.into_iter().collect());
    }
    let mut kept = object.clone();
    kept.retain(|name, value| {
        let name = EntryName::of(name);
        match fields.get(&PathElement::field(name)) {
            Some(node) if node.member => false,
            Some(node) if !node.children.is_empty() => {
                let left = remove_fields(form.of_entry(name).0, value, &node.children);
                left.map(|left| *value = left).is_some()
            }
            _ => true,
        }
    });
    Some(kept).filter(|kept| kept.entries().len() > 0)
}

fn merged(form: MergeType, live: Option<&Value>, applied: Option<&Value>) -> Option<Value> {
    let (Some(old), Some(new)) = (live, applied) else { return applied.or(live).cloned() };
    // Equal values stay shared, so that later steps need not compare them.
    if old == new {
        return Some(old.clone());
    }
    let form = form.resolve(new);
    if form.is_leaf() || empty(old) && empty(new) {
        return Some(new.clone());
    }
    if form.is_list() {
        let items = merged_items(form, old.items(), new.items());
        return (!items.is_empty()).then(|| shared(Value::List(items.into()), old));
    }
    let entries = zip_entries(live, applied).filter_map(|(name, live, applied)| {
        Some((name.text.into(), merged(form.of_entry(name).0, live, applied)?))
    });
    let entries: Vec<_> = entries.collect();
    (!entries.is_empty()).then(|| shared(Value::from_entries(entries), old))
}

fn shared(new: Value, old: &Value) -> Value {
    if new == *old { old.clone() } else { new }
}

fn empty(value: &Value) -> bool {
    value.items().is_empty() && value.entries().len() == 0
}

/// Merges lists. Items of `new` come in its order; items that only `old` has stay before the item
/// that followed them.
fn merged_items(form: MergeType, old: &[Value], new: &[Value]) -> Vec<Value> {
    let steps = |items: &[Value]| -> Vec<PathElement> {
        items
            .iter()
            .map(|item| form.path_element(item).unwrap_or(PathElement::Text("".into())))
            .collect()
    };
    let (old_steps, new_steps) = (steps(old), steps(new));
    if old_steps == new_steps {
        let merge = |(old, new)| merged(form.of_item(), Some(old), Some(new)).unwrap_or_default();
        return old.iter().zip(new).map(merge).collect();
    }
    let before: HashMap<_, _> = old_steps.iter().zip(old).collect();
    let after: HashSet<_> = new_steps.iter().collect();
    let both = |step: &PathElement, item: &Value| {
        merged(form.of_item(), before.get(step).copied(), Some(item)).unwrap_or_default()
    };
    let mut shared = new_steps.iter().filter(|step| before.contains_key(step)).peekable();
    let (mut out, mut done) = (Vec::with_capacity(old.len().max(new.len())), HashSet::new());
    let (mut left, mut right) = (0, 0);
    while left < old.len() || right < new.len() {
        if let (Some(step), Some(item)) = (old_steps.get(left), old.get(left)) {
            if !after.contains(step) {
                out.push(item.clone());
                left += 1;
                continue;
            }
            let same = new_steps.get(right) == Some(step);
            if !same && right < new.len() && shared.peek().is_some_and(|next| *next != step) {
                left += 1; // is added later
                continue;
            }
            left += usize::from(same || done.contains(step));
        }
        if let (Some(step), Some(item)) = (new_steps.get(right), new.get(right)) {
            out.push(both(step, item));
            done.insert(step);
            shared.next_if_eq(&step);
            right += 1;
        }
    }
    out
}

/// The zero value of a struct: an object before any field is set.
pub(super) fn empty_object(shape: &StructSchema) -> Value {
    let mut object = Value::object();
    for field in shape.json_fields().filter(|field| field.default.is_null()) {
        match &*field.ty {
            Type::Object(inner) if !field.attributes.optional && !field.attributes.omit_zero => {
                object[&*field.name] = empty_object(inner);
            }
            _ => {
                if let Some(zero) = field.zero_value() {
                    object[&*field.name] = zero;
                }
            }
        }
    }
    object
}
