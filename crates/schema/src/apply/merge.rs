//! Laying one object over another, and taking fields out of one.

use std::collections::{HashMap, HashSet};

use object::{Struct, Type, Value};

use super::{
    compare::{entry, names},
    fields::{Fields, Step, field},
    form::Form,
};

/// `live` with what `applied` says; `applied` has been checked.
pub(super) fn merge(form: Form, live: &Value, applied: &Value) -> Value {
    merged(form, Some(live), Some(applied)).unwrap_or_else(Value::object)
}

/// `object` without these fields. `None`: nothing is left.
pub(super) fn without(form: Form, object: &Value, fields: &Fields) -> Option<Value> {
    let form = form.for_value(object);
    if form.is_leaf() {
        return (!object.is_object() && !matches!(object, Value::List(_))).then(|| object.clone());
    }
    if form.is_list() {
        let kept: Vec<_> = object
            .items()
            .iter()
            .filter_map(|item| match form.step(item).ok().and_then(|step| fields.0.get(&step)) {
                Some(node) if node.member => None,
                Some(node) => Some(without(form.item(), item, &node.below).unwrap_or_default()),
                None => Some(item.clone()),
            })
            .collect();
        return (!kept.is_empty()).then(|| kept.into_iter().collect());
    }
    let mut kept = object.clone();
    kept.retain(|name, value| match fields.0.get(&field(name)) {
        Some(node) if node.member => false,
        Some(node) if !node.below.is_empty() => {
            let left = without(form.entry(name).0, value, &node.below);
            left.map(|left| *value = left).is_some()
        }
        _ => true,
    });
    Some(kept).filter(|kept| kept.entries().len() > 0)
}

fn merged(form: Form, live: Option<&Value>, applied: Option<&Value>) -> Option<Value> {
    let (Some(old), Some(new)) = (live, applied) else { return applied.or(live).cloned() };
    let form = form.for_value(new);
    if form.is_leaf() || empty(old) && empty(new) {
        return Some(new.clone());
    }
    if form.is_list() {
        let items = merged_items(form, old.items(), new.items());
        return (!items.is_empty()).then(|| items.into_iter().collect());
    }
    let mut out = Value::object();
    for name in names(live, applied) {
        if let Some(value) = merged(form.entry(name).0, entry(live, name), entry(applied, name)) {
            out[name] = value;
        }
    }
    Some(out).filter(|out| out.entries().len() > 0)
}

fn empty(value: &Value) -> bool {
    value.items().is_empty() && value.entries().len() == 0
}

/// Items that both have come in the order of `new`; those that only `old` has stay
/// before the one that they stood before.
fn merged_items(form: Form, old: &[Value], new: &[Value]) -> Vec<Value> {
    let steps = |items: &[Value]| -> Vec<Step> {
        items.iter().map(|item| form.step(item).unwrap_or_default()).collect()
    };
    let (old_steps, new_steps) = (steps(old), steps(new));
    let before: HashMap<_, _> = old_steps.iter().zip(old).collect();
    let after: HashSet<_> = new_steps.iter().collect();
    let both = |step: &Step, item: &Value| {
        merged(form.item(), before.get(step).copied(), Some(item)).unwrap_or_default()
    };
    let mut shared = new_steps.iter().filter(|step| before.contains_key(step)).peekable();
    let (mut out, mut done) = (Vec::with_capacity(old.len().max(new.len())), HashSet::new());
    let (mut left, mut right) = (0, 0);
    while left < old.len() || right < new.len() {
        if left < old.len() {
            let step = &old_steps[left];
            if !after.contains(step) {
                out.push(old[left].clone());
                left += 1;
                continue;
            }
            let same = new_steps.get(right) == Some(step);
            if !same && right < new.len() && shared.peek().is_some_and(|next| *next != step) {
                left += 1; // its turn comes later
                continue;
            }
            left += usize::from(same || done.contains(step));
        }
        if right < new.len() {
            let step = &new_steps[right];
            out.push(both(step, &new[right]));
            done.insert(step);
            shared.next_if_eq(&step);
            right += 1;
        }
    }
    out
}

/// What an object of this shape is before anybody has set anything.
pub(super) fn blank(shape: &Struct) -> Value {
    let mut object = Value::object();
    for field in shape.flat().filter(|field| field.default.is_null()) {
        match &*field.ty {
            Type::Object(inner) if !field.rules.optional && !field.rules.omit_zero => {
                object[&*field.name] = blank(inner);
            }
            _ => {
                if let Some(zero) = field.zero() {
                    object[&*field.name] = zero;
                }
            }
        }
    }
    object
}
