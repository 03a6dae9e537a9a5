//! Strategic merge patch: a merge patch that uses the schema, so that lists are merged item by
//! item. It may contain directives:
//!
//! ```text
//! $patch: replace | delete               for the object that contains it
//! $retainKeys: [a, b]                    drop all other fields
//! $setElementOrder/containers: [...]     the order of the merged list
//! $deleteFromPrimitiveList/args: [...]   values to remove from a list
//! ```

use std::mem;

use object::{StructSchema, Value};

use super::{
    PatchError, delete, entry,
    lists::{self, merge_list},
    not_an_object,
    patch_schema::{ListPatchMeta, PatchSchema, format_go_s, format_go_v, go_type},
};

pub(super) const DIRECTIVE: &str = "$patch";
pub(super) const RETAIN_KEYS: &str = "$retainKeys";
pub(super) const ORDER: &str = "$setElementOrder";
pub(super) const DELETE_FROM: &str = "$deleteFromPrimitiveList";

/// Merges `patch` into an object of this type. Directives are removed from the patch when they are
/// executed.
pub fn apply_strategic_merge_patch(
    shape: &StructSchema,
    doc: &Value,
    patch: &mut Value,
) -> Result<Value, PatchError> {
    if !patch.is_object() && !patch.is_null() {
        return Err(not_an_object(patch));
    }
    merge_object(doc.clone(), patch, PatchSchema::Struct(shape), Mode::Apply)
}

/// What a patch is merged into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// An object: directives are executed and removed.
    Apply,
    /// Another patch: directives and `null`s stay in the result.
    MergePatches,
}

/// Merges a patch into an object.
pub(super) fn merge_object(
    mut original: Value,
    patch: &mut Value,
    place: PatchSchema,
    mode: Mode,
) -> Result<Value, PatchError> {
    if let Some(directive) = entry(patch, DIRECTIVE) {
        return match directive.as_str() {
            Some("delete") => Ok(Value::object()),
            Some("replace") => {
                delete(patch, DIRECTIVE);
                Ok(patch.clone())
            }
            _ => Err(unknown_directive(directive, patch)),
        };
    }
    if !original.is_object() {
        original = original.expand_raw().filter(Value::is_object).unwrap_or_else(Value::object);
    }
    retain_keys(&mut original, patch, mode)?;
    ordered_lists(&mut original, patch, place, mode)?;
    let mut done = Ok(());
    patch.retain(|name, change| {
        if done.is_ok() {
            done = merge_entry(&mut original, name, change, place, mode);
        }
        true
    });
    done.map(|()| original)
}

fn merge_entry(
    original: &mut Value,
    name: &str,
    change: &mut Value,
    place: PatchSchema,
    mode: Mode,
) -> Result<(), PatchError> {
    let deletes = name.starts_with(DELETE_FROM);
    if deletes && mode == Mode::MergePatches {
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
            let new = merged(old, items.make_mut(), rules, deletes, mode)?;
            original[name] = Value::List(new.into());
        }
        (Some(old), change) if old.is_object() && change.is_object() => {
            let inner = place.object(name)?;
            let old = mem::take(original.get_mut(name));
            original[name] = if inner.replace {
                change.clone()
            } else {
                merge_object(old, change, inner.of, mode)?
            };
        }
        _ if deletes => {}
        (_, change) => {
            if mode == Mode::Apply {
                drop_nulls(change);
            }
            match without_directives(change) {
                Some(value) => original[name] = value,
                None => delete(original, name),
            }
        }
    }
    Ok(())
}

fn merged(
    old: Vec<Value>,
    change: &mut [Value],
    rules: ListPatchMeta,
    deletes: bool,
    mode: Mode,
) -> Result<Vec<Value>, PatchError> {
    if !rules.merge && !deletes {
        return Ok(change.to_vec());
    }
    merge_list(old, change, rules, deletes, mode)
}

fn take_list(object: &mut Value, name: &str) -> Vec<Value> {
    match mem::take(object.get_mut(name)) {
        Value::List(items) => items.into_iter().collect(),
        _ => Vec::new(),
    }
}

pub(super) fn unknown_directive(directive: &Value, patch: &Value) -> PatchError {
    let (directive, patch) = (format_go_s(directive), format_go_v(patch));
    PatchError::Failed(format!("unknown patch type: {directive} in map: {patch}"))
}

/// Drops the fields that `$retainKeys` does not list.
fn retain_keys(original: &mut Value, patch: &mut Value, mode: Mode) -> Result<(), PatchError> {
    let Some(keys) = entry(patch, RETAIN_KEYS).cloned() else { return Ok(()) };
    delete(patch, RETAIN_KEYS);
    if mode == Mode::MergePatches {
        original[RETAIN_KEYS] = keys;
        return Ok(());
    }
    let bad = || PatchError::Malformed("invalid patch format of retainKeys".to_owned());
    let Value::List(keys) = keys else { return Err(bad()) };
    let kept = |name: &str| keys.iter().any(|key| key.as_str() == Some(name));
    let strays = patch.entries().any(|(name, value)| {
        let directive = name.starts_with(DELETE_FROM) || name.starts_with(ORDER);
        !value.is_null() && !directive && !kept(name)
    });
    if strays {
        return Err(bad());
    }
    original.retain(|name, _| kept(name));
    Ok(())
}

/// Merges the lists whose order the patch sets with `$setElementOrder`.
fn ordered_lists(
    original: &mut Value,
    patch: &mut Value,
    place: PatchSchema,
    mode: Mode,
) -> Result<(), PatchError> {
    let directives = patch.entries().filter(|(name, _)| name.starts_with(ORDER));
    let directives: Vec<_> =
        directives.map(|(name, order)| (name.to_owned(), order.clone())).collect();
    for (directive, order) in directives {
        delete(patch, &directive);
        let Value::List(order) = order else { return Err(bad_type(&order)) };
        if mode == Mode::MergePatches {
            original[&*directive] = Value::List(order.clone());
        }
        let name = directive.strip_prefix(ORDER).and_then(|rest| rest.strip_prefix('/'));
        let name = name.ok_or_else(|| {
            PatchError::Malformed("invalid patch format of setElementOrder list".to_owned())
        })?;
        let (old, change) = (list(original, name)?, list(patch, name)?);
        let rules = place.list(name)?;
        lists::check_order(change.as_deref().unwrap_or_default(), &order, rules.key)?;
        let before = old.clone().unwrap_or_default();
        let of_one_type = lists::check_types(&[&before, change.as_deref().unwrap_or_default()]);
        let new = match (old, change) {
            (None, None) => continue,
            (Some(old), None) => old,
            (None, Some(mut change)) => change.iter_mut().filter_map(without_directives).collect(),
            (Some(old), Some(mut change)) => merged(old, &mut change, rules, false, mode)?,
        };
        lists::check_found(&new, &order, rules.key)?;
        of_one_type?;
        original[name] = Value::List(lists::in_order(new, &order, &before, rules.key)?.into());
        delete(patch, name);
    }
    Ok(())
}

fn list(object: &Value, name: &str) -> Result<Option<Vec<Value>>, PatchError> {
    match entry(object, name) {
        None => Ok(None),
        Some(Value::List(items)) => Ok(Some(items.to_vec())),
        Some(other) => Err(bad_type(other)),
    }
}

fn bad_type(found: &Value) -> PatchError {
    let found = go_type(found);
    PatchError::Failed(format!("expected a []interface {{}}, but received a {found}"))
}

/// The value that a patch sets where there was none. `None`: the patch only deletes.
fn without_directives(value: &mut Value) -> Option<Value> {
    if entry(value, DIRECTIVE).is_some() {
        return None;
    }
    if let Value::List(items) = value {
        let items = items.make_mut().iter_mut();
        return Some(items.filter_map(without_directives).collect());
    }
    value.retain(|_, inner| without_directives(inner).map(|new| *inner = new).is_some());
    Some(value.clone())
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::List(items) => items.make_mut().iter_mut().for_each(drop_nulls),
        object => object.retain(|_, inner| {
            drop_nulls(inner);
            !inner.is_null()
        }),
    }
}

#[cfg(test)]
mod tests;
