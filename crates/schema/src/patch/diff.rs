//! Computes the strategic merge patch from one object to another.

use object::Value;

use super::{
    PatchError, entry,
    lists::{check_types, key_of, same, unique, without},
    patch_schema::{ListPatchMeta, PatchSchema, format_go_v},
    strategic::{DELETE_FROM, DIRECTIVE, ORDER, RETAIN_KEYS},
};

/// Which half of the difference to compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DiffPart {
    /// Added and changed fields; nothing is removed.
    Changes,
    /// Removed fields.
    Deletions,
}

/// The patch from `old` to `new`; with `retain` it has a `$retainKeys` directive.
pub(super) fn strategic_diff(
    old: &Value,
    new: &Value,
    place: PatchSchema,
    part: DiffPart,
    retain: bool,
) -> Result<Value, PatchError> {
    let mut patch = Value::object();
    for (name, after) in new.entries() {
        let before = entry(old, name);
        match (before, after) {
            (Some(before), after) if before == after => {}
            (Some(before), after) if before.is_object() && after.is_object() => {
                let inner = place.object(name)?;
                if inner.replace {
                    if part == DiffPart::Changes {
                        patch[name] = after.clone();
                    }
                    continue;
                }
                let change = strategic_diff(before, after, inner.of, part, inner.retain_keys)?;
                if change.entries().len() > 0 {
                    patch[name] = change;
                }
            }
            (Some(Value::List(before)), Value::List(after)) => {
                let rules = place.list(name)?;
                if rules.merge {
                    diff_list(before, after, rules, part)?.write(name, &mut patch);
                } else if part == DiffPart::Changes {
                    patch[name] = Value::List(after.clone());
                }
            }
            (_, after) if part == DiffPart::Changes => patch[name] = after.clone(),
            _ => {}
        }
    }
    let gone = |(name, value): &(&str, &Value)| !value.is_null() && entry(new, name).is_none();
    if part == DiffPart::Deletions {
        for (name, _) in old.entries().filter(|(name, _)| entry(new, name).is_none()) {
            patch[name] = Value::Null;
        }
    }
    if retain && (patch.entries().len() > 0 || old.entries().any(|entry| gone(&entry))) {
        let kept = new.entries().filter(|(_, value)| !value.is_null());
        let kept: Value = kept.map(|(name, _)| Value::from(name)).collect();
        if !kept.items().is_empty() {
            patch[RETAIN_KEYS] = kept;
        }
    }
    Ok(patch)
}

fn diff_list(
    old: &[Value],
    new: &[Value],
    rules: ListPatchMeta,
    part: DiffPart,
) -> Result<Change, PatchError> {
    if old.is_empty() {
        let items = if part == DiffPart::Changes { new.to_vec() } else { Vec::new() };
        return Ok(Change { items, ..Change::default() });
    }
    check_types(&[old, new])?;
    if old.first().is_some_and(Value::is_object) {
        objects(old, new, rules, part)
    } else {
        Ok(plain(old, new, part))
    }
}

/// The changes of one list, with its directives.
#[derive(Default)]
struct Change {
    items: Vec<Value>,
    deleted: Vec<Value>,
    order: Vec<Value>,
}

impl Change {
    fn write(self, name: &str, patch: &mut Value) {
        for (key, list) in [
            (name.to_owned(), self.items),
            (format!("{DELETE_FROM}/{name}"), self.deleted),
            (format!("{ORDER}/{name}"), self.order),
        ] {
            if !list.is_empty() {
                patch[&*key] = Value::List(list.into());
            }
        }
    }
}

fn objects(
    old: &[Value],
    new: &[Value],
    rules: ListPatchMeta,
    part: DiffPart,
) -> Result<Change, PatchError> {
    let key = rules.key;
    for item in old.iter().chain(new) {
        key_of(item, key)?;
    }
    let mut change = Change::default();
    for item in new {
        match old.iter().find(|other| same(other, item, key)) {
            Some(other) => {
                let mut inner = strategic_diff(other, item, rules.of, part, rules.retain_keys)?;
                if inner.entries().len() > 0 {
                    inner[key] = item.get(key).clone();
                    change.items.push(inner);
                }
            }
            None if part == DiffPart::Changes => change.items.push(item.clone()),
            None => {}
        }
    }
    if part == DiffPart::Deletions {
        let mut gone: Vec<_> =
            old.iter().filter(|a| !new.iter().any(|b| same(a, b, key))).collect();
        gone.sort_by_key(|item| format_go_v(item.get(key)));
        for item in gone {
            let mut directive = Value::object();
            directive[DIRECTIVE] = "delete".into();
            directive[key] = item.get(key).clone();
            change.items.push(directive);
        }
    }
    let moved = old.len() != new.len() || old.iter().zip(new).any(|(a, b)| !same(a, b, key));
    if !change.items.is_empty() || part == DiffPart::Changes && moved {
        change.order = new
            .iter()
            .map(|item| {
                let mut name = item.clone();
                name.retain(|field, _| field == key);
                name
            })
            .collect();
    }
    Ok(change)
}

fn plain(old: &[Value], new: &[Value], part: DiffPart) -> Change {
    let mut change = Change::default();
    match part {
        DiffPart::Changes => {
            change.items = unique(without(new, old));
            if old != new {
                change.order = new.to_vec();
            }
        }
        DiffPart::Deletions => {
            change.deleted = unique(without(old, new));
            change.deleted.sort_by_key(format_go_v);
            if !change.deleted.is_empty() {
                change.order = new.to_vec();
            }
        }
    }
    change
}

/// One half of the JSON merge patch from `old` to `new`.
pub(super) fn merge_patch_diff(old: &Value, new: &Value, part: DiffPart) -> Value {
    let mut patch = Value::object();
    for (name, after) in new.entries() {
        match entry(old, name) {
            Some(before) if before == after => {}
            Some(before) if before.is_object() && after.is_object() => {
                let change = merge_patch_diff(before, after, part);
                if change.entries().len() > 0 {
                    patch[name] = change;
                }
            }
            _ if after.is_null() == (part == DiffPart::Deletions) => patch[name] = after.clone(),
            _ => {}
        }
    }
    if part == DiffPart::Deletions {
        for (name, _) in old.entries().filter(|(name, _)| entry(new, name).is_none()) {
            patch[name] = Value::Null;
        }
    }
    patch
}
