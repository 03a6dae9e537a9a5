//! Strategic merge patch: a merge patch that knows the shape, so that lists are
//! merged item by item, and that may say how:
//!
//! ```text
//! $patch: replace | delete               of the object that it stands in
//! $retainKeys: [a, b]                    drop all other fields
//! $setElementOrder/containers: [...]     the order of the merged list
//! $deleteFromPrimitiveList/args: [...]   values to take out of a list
//! ```

use std::mem;

use object::{Struct, Value};

use super::{
    PatchError, delete, entry,
    lists::{self, merge_list},
    not_an_object,
    place::{Items, Place, go_type, shown, shown_as_text},
};

pub(super) const DIRECTIVE: &str = "$patch";
pub(super) const RETAIN_KEYS: &str = "$retainKeys";
pub(super) const ORDER: &str = "$setElementOrder";
pub(super) const DELETE_FROM: &str = "$deleteFromPrimitiveList";

/// Merges `patch` into an object of this shape.
pub fn strategic(shape: &Struct, doc: &Value, patch: &Value) -> Result<Value, PatchError> {
    if !patch.is_object() && !patch.is_null() {
        return Err(not_an_object(patch));
    }
    merge_object(doc.clone(), patch, Place::Struct(shape), Mode::Apply)
}

/// What a patch is merged into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// An object: directives are obeyed and go.
    Apply,
    /// Another patch: directives and `null`s stay for whoever applies the result.
    Combine,
}

pub(super) fn merge_object(
    mut original: Value,
    patch: &Value,
    place: Place,
    mode: Mode,
) -> Result<Value, PatchError> {
    if let Some(directive) = entry(patch, DIRECTIVE) {
        return directed(directive, patch);
    }
    if !original.is_object() {
        original = original.unpack().filter(Value::is_object).unwrap_or_else(Value::object);
    }
    retain_keys(&mut original, patch, mode)?;
    let ordered = ordered_lists(&mut original, patch, place, mode)?;
    for (name, change) in patch.entries() {
        let done = name == RETAIN_KEYS || name.starts_with(ORDER);
        if !done && !ordered.contains(&name) {
            merge_entry(&mut original, name, change, place, mode)?;
        }
    }
    Ok(original)
}

fn merge_entry(
    original: &mut Value,
    name: &str,
    change: &Value,
    place: Place,
    mode: Mode,
) -> Result<(), PatchError> {
    let deletes = name.starts_with(DELETE_FROM);
    if deletes && mode == Mode::Combine {
        original[name] = change.clone();
        return Ok(());
    }
    let name = if deletes {
        let list = name.strip_prefix(DELETE_FROM).and_then(|rest| rest.strip_prefix('/'));
        let bad = || PatchError::Malformed("invalid patch format of primitive list".to_owned());
        list.ok_or_else(bad)?
    } else {
        name
    };
    if change.is_null() {
        delete(original, name);
        if mode == Mode::Apply {
            return Ok(());
        }
    }
    match (entry(original, name), change) {
        (Some(Value::List(_)), Value::List(items)) => {
            let rules = place.list(name)?;
            let old = take_list(original, name);
            original[name] = Value::List(merged(old, items, rules, deletes, mode)?.into());
        }
        (Some(old), _) if old.is_object() && change.is_object() => {
            let inner = place.object(name)?;
            let old = mem::take(original.get_mut(name));
            original[name] = if inner.replace {
                change.clone()
            } else {
                merge_object(old, change, inner.of, mode)?
            };
        }
        _ if deletes => {}
        _ => match without_directives(change, mode == Mode::Apply) {
            Some(value) => original[name] = value,
            None => delete(original, name),
        },
    }
    Ok(())
}

fn merged(
    old: Vec<Value>,
    change: &[Value],
    rules: Items,
    deletes: bool,
    mode: Mode,
) -> Result<Vec<Value>, PatchError> {
    if deletes {
        return Ok(lists::without(&old, change));
    } else if !rules.merge {
        return Ok(change.to_vec());
    }
    merge_list(old, change, rules, mode)
}

fn take_list(object: &mut Value, name: &str) -> Vec<Value> {
    match mem::take(object.get_mut(name)) {
        Value::List(items) => items.into_iter().collect(),
        _ => Vec::new(),
    }
}

/// An object whose patch says what to do with the whole of it.
fn directed(directive: &Value, patch: &Value) -> Result<Value, PatchError> {
    match directive.as_str() {
        Some("delete") => Ok(Value::object()),
        Some("replace") => {
            let mut new = patch.clone();
            delete(&mut new, DIRECTIVE);
            Ok(new)
        }
        _ => Err(unknown_directive(directive, patch)),
    }
}

pub(super) fn unknown_directive(directive: &Value, patch: &Value) -> PatchError {
    let (directive, patch) = (shown_as_text(directive), shown(patch));
    PatchError::Failed(format!("unknown patch type: {directive} in map: {patch}"))
}

/// Drops the fields that `$retainKeys` does not name.
fn retain_keys(original: &mut Value, patch: &Value, mode: Mode) -> Result<(), PatchError> {
    let Some(keys) = entry(patch, RETAIN_KEYS) else { return Ok(()) };
    if mode == Mode::Combine {
        original[RETAIN_KEYS] = keys.clone();
        return Ok(());
    }
    let bad = || PatchError::Malformed("invalid patch format of retainKeys".to_owned());
    let Value::List(keys) = keys else { return Err(bad()) };
    let kept = |name: &str| keys.iter().any(|key| key.as_str() == Some(name));
    let strays = patch.entries().any(|(name, value)| {
        let directive =
            name == RETAIN_KEYS || name.starts_with(DELETE_FROM) || name.starts_with(ORDER);
        !value.is_null() && !directive && !kept(name)
    });
    if strays {
        return Err(bad());
    }
    original.retain(|name, _| kept(name));
    Ok(())
}

/// Merges the lists whose order the patch sets; their names are the result.
fn ordered_lists<'a>(
    original: &mut Value,
    patch: &'a Value,
    place: Place,
    mode: Mode,
) -> Result<Vec<&'a str>, PatchError> {
    let mut done = Vec::new();
    for (directive, order) in patch.entries().filter(|(name, _)| name.starts_with(ORDER)) {
        let Value::List(order) = order else { return Err(bad_type(order)) };
        if mode == Mode::Combine {
            original[directive] = Value::List(order.clone());
        }
        let name = directive.strip_prefix(ORDER).and_then(|rest| rest.strip_prefix('/'));
        let name = name.ok_or_else(|| {
            PatchError::Malformed("invalid patch format of setElementOrder list".to_owned())
        })?;
        let (old, change) = (list(original, name)?, list(patch, name)?);
        let rules = place.list(name)?;
        lists::check_order(change.unwrap_or_default(), order, rules.key)?;
        let new = match (old, change) {
            (None, None) => continue,
            (Some(old), None) => old.to_vec(),
            (None, Some(change)) => {
                change.iter().filter_map(|item| without_directives(item, false)).collect()
            }
            (Some(old), Some(change)) => merged(old.to_vec(), change, rules, false, mode)?,
        };
        let old = old.unwrap_or_default().to_vec();
        lists::check_types(&[&old, change.unwrap_or_default()])?;
        original[name] = Value::List(lists::in_order(new, order, &old, rules.key)?.into());
        done.push(name);
    }
    Ok(done)
}

fn list<'a>(object: &'a Value, name: &str) -> Result<Option<&'a [Value]>, PatchError> {
    match entry(object, name) {
        None => Ok(None),
        Some(Value::List(items)) => Ok(Some(items)),
        Some(other) => Err(bad_type(other)),
    }
}

fn bad_type(found: &Value) -> PatchError {
    let found = go_type(found);
    PatchError::Failed(format!("expected a []interface {{}}, but received a {found}"))
}

/// What a patch puts where nothing was. `None`: it was only there to delete.
fn without_directives(value: &Value, drop_nulls: bool) -> Option<Value> {
    if entry(value, DIRECTIVE).is_some() {
        return None;
    }
    let mut value = value.clone();
    match &mut value {
        Value::List(items) => {
            *items = items.iter().filter_map(|item| without_directives(item, drop_nulls)).collect();
        }
        object => object.retain(|_, inner| {
            if drop_nulls && inner.is_null() {
                return false;
            }
            without_directives(inner, drop_nulls).map(|new| *inner = new).is_some()
        }),
    }
    Some(value)
}

#[cfg(test)]
mod tests;
