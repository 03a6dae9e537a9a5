//! Server-side apply. Each field manager sends the fields it wants to own, and the server records
//! the owners in `metadata.managedFields`.
//!
//! `apply` merges an apply configuration into the object; a field that another manager owns with a
//! different value is a conflict. `update_managed_fields` handles every other write: the manager
//! that changes a field becomes its owner.

mod check;
mod compare;
mod error;
mod fields;
mod last_applied;
mod manager;
mod merge;
mod merge_type;
mod scale;
mod versions;

use std::{borrow::Cow, mem};

use object::{StructSchema, Text, Value};

pub(crate) use self::merge_type::{LIST_ITEM, MAP_VALUE};
use self::{
    compare::{Comparison, ensure_named_fields_are_members, is_null_or_empty, to_field_set},
    fields::{EntryName, FieldSetNode, format_path, from_field_paths},
    last_applied::{retain_unexplained_conflicts, update_last_applied},
    manager::{ManagedEntry, ManagedFields, ManagerId, Operation},
    merge::{empty_object, merge, remove_fields},
    merge_type::MergeType,
    versions::VersionedComparison,
};
pub use self::{
    error::{ApplyError, Conflict},
    fields::FieldSet,
    scale::{from_scale_managed_fields, to_scale_managed_fields},
    versions::{SingleVersion, VersionConverter},
};

/// A write request, as far as managedFields depend on it: type, manager, subresource and time.
#[derive(Clone, Copy, Debug)]
pub struct FieldManagerRequest<'a> {
    pub schema: &'a StructSchema,
    pub api_version: &'a str,
    pub kind: &'a str,
    pub manager: &'a str,
    /// Empty for the object itself.
    pub subresource: &'a str,
    /// Fields that this write leaves unchanged, whatever the request contains: see
    /// [`crate::Subresource::reset_fields`].
    pub reset_fields: &'a [&'a [&'a str]],
    /// In RFC 3339 format.
    pub now: &'a str,
    /// The other versions, which entries of managedFields may have.
    pub converter: &'a dyn VersionConverter,
}

/// Maximum number of conflicts that are reported for one request.
const CONFLICTS: usize = 5_000;

/// Merges `applied` into `live` (`None`: the object is created). The result has its
/// `managedFields`, but no defaults or other fields that the server sets.
pub fn apply(
    write: &FieldManagerRequest,
    live: Option<&Value>,
    applied: &Value,
    force: bool,
) -> Result<Value, ApplyError> {
    validate_apply_request(write, applied)?;
    let live = live.cloned().unwrap_or_else(|| empty_object(write.schema));
    let books = live.get("metadata").get("managedFields");
    let failed = |error| ApplyError::Failed(format!("failed to decode managed fields: {error}"));
    let mut managers = ManagedFields::decode(books).map_err(failed)?;
    let live = strip_managed_fields(live);
    if managers.0.is_empty() {
        let before = FieldManagerRequest { manager: "before-first-apply", ..*write };
        managers = record_update(&before, &empty_object(write.schema), &live, managers)?;
    }
    if let Some(error) = check::validate_applied(MergeType::root(write.schema), applied) {
        let text = |name: &str| applied.get("metadata").get(name).as_str().unwrap_or_default();
        let (namespace, name) = (text("namespace"), text("name"));
        let kind = format_gvk(write.api_version, write.kind);
        return Err(ApplyError::Failed(format!(
            "failed to create typed patch object ({namespace}/{name}; {kind}): {error}"
        )));
    }
    let managers = write.retain_known_versions(&live, managers)?;
    let again = (write.manager == "kubectl").then(|| managers.clone());
    let (mut object, managers) =
        match (merge_applied(write, &live, applied, managers, force), again) {
            (Err(ApplyError::Conflict(conflicts)), Some(managers)) => {
                let left = retain_unexplained_conflicts(write, &live, conflicts);
                if !left.is_empty() {
                    return Err(ApplyError::Conflict(left));
                }
                merge_applied(write, &live, applied, managers, true)?
            }
            (done, _) => done?,
        };
    if write.manager == "kubectl" {
        update_last_applied(&mut object, applied);
    }
    set_managed_fields(&mut object, managers);
    Ok(object)
}

/// Merges `configuration` into `live` without regard to owners. It may not contain atomic lists,
/// maps or structs, because it is not known which part of them is meant.
pub fn merge_apply_configuration(
    shape: &StructSchema,
    live: &Value,
    configuration: &Value,
) -> Result<Value, String> {
    let form = MergeType::root(shape);
    if let Some(error) = check::validate_applied(form, configuration) {
        return Err(format!("failed to convert patch object to typed object: {error}"));
    }
    let mut whole = Vec::new();
    collect_atomic_paths(form, configuration, "", &mut whole);
    if !whole.is_empty() {
        return Err(format!(
            "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {}",
            whole.join(", ")
        ));
    }
    Ok(merge(form, live, configuration))
}

fn collect_atomic_paths(form: MergeType, value: &Value, at: &str, found: &mut Vec<String>) {
    let form = form.resolve(value);
    if form.is_leaf() && (value.is_object() || matches!(value, Value::List(_))) {
        found.push(at.to_owned());
    }
    for (name, value) in value.entries().filter(|_| !form.is_leaf()) {
        collect_atomic_paths(
            form.of_entry(EntryName::of(name)).0,
            value,
            &format!("{at}.{name}"),
            found,
        );
    }
    for (i, item) in value.items().iter().enumerate().filter(|_| form.is_list()) {
        collect_atomic_paths(form.of_item(), item, &format!("{at}[{i}]"), found);
    }
}

/// Updates managedFields for a write that is not an apply. `old` is `None` on creation. The only
/// error is `NeedsConversion`: where managedFields cannot be updated, they stay as they were.
pub fn update_managed_fields(
    write: &FieldManagerRequest,
    old: Option<&Value>,
    new: Value,
) -> Result<Value, ApplyError> {
    let books = |object: &Value| object.get("metadata").get("managedFields").clone();
    let (asked, before) = (books(&new), old.map(books).unwrap_or_default());
    let kept = ManagedFields::decode(&before).unwrap_or_default();
    let managers = if !write.subresource.is_empty() {
        kept
    } else if clears_managed_fields(&asked) {
        ManagedFields::default()
    } else {
        match ManagedFields::decode(&asked) {
            Ok(managers) if !managers.0.is_empty() => managers,
            _ => kept,
        }
    };
    let mut object = strip_managed_fields(new);
    // Once a client has cleared managedFields, they are not tracked again.
    if managers.0.is_empty() && old.is_some() {
        return Ok(object);
    }
    let old = old.cloned().map_or_else(|| empty_object(write.schema), strip_managed_fields);
    let known = write.retain_known_versions(&old, managers);
    match known.and_then(|managers| record_update(write, &old, &object, managers)) {
        Ok(mut managers) => {
            managers.cap_updaters();
            set_managed_fields(&mut object, managers);
        }
        Err(question @ ApplyError::NeedsConversion(_)) => return Err(question),
        Err(_) if before.is_null() => {}
        Err(_) => object["metadata"]["managedFields"] = before,
    }
    Ok(object)
}

fn validate_apply_request(write: &FieldManagerRequest, applied: &Value) -> Result<(), ApplyError> {
    let text = |name: &str| applied.get(name).as_str().unwrap_or_default();
    if (text("apiVersion"), text("kind")) != (write.api_version, write.kind) {
        let kind = format_gvk(text("apiVersion"), text("kind"));
        return Err(ApplyError::BadRequest(format!("invalid object type: {kind}")));
    }
    if !applied.get("metadata").get("managedFields").is_null() {
        return Err(ApplyError::BadRequest("metadata.managedFields must be nil".to_owned()));
    }
    Ok(())
}

/// Formats a GroupVersionKind as Go does.
fn format_gvk(api_version: &str, kind: &str) -> String {
    let slash = if api_version.contains('/') { "" } else { "/" };
    format!("{slash}{api_version}, Kind={kind}")
}

/// The object without managedFields.
fn strip_managed_fields(mut object: Value) -> Value {
    if !object.get("metadata").get("managedFields").is_null() {
        object["metadata"].remove("managedFields");
    }
    object
}

fn set_managed_fields(object: &mut Value, managers: ManagedFields) {
    if !managers.0.is_empty() {
        object["metadata"]["managedFields"] = managers.encode();
    }
}

/// Whether the client clears managedFields: an empty list, or one empty entry.
fn clears_managed_fields(books: &Value) -> bool {
    match books {
        Value::List(entries) => match &**entries {
            [] => true,
            [one] => one.entries().all(|(_, value)| value.is_null()),
            _ => false,
        },
        _ => false,
    }
}

fn record_update(
    write: &FieldManagerRequest,
    old: &Value,
    new: &Value,
    managers: ManagedFields,
) -> Result<ManagedFields, ApplyError> {
    let changes = write.changes(old, new, &managers)?;
    let name = if write.manager.is_empty() { "unknown" } else { write.manager };
    let me = ManagerId {
        name: name.into(),
        operation: Operation::Update,
        version: write.api_version.into(),
        subresource: write.subresource.into(),
    };
    let mut managers = release_changed_fields(managers, &changes, None);
    let change = changes.own();
    let mine = change.modified.clone().union(&change.added);
    let before = managers.take(&me);
    let mut added = ManagedFields::default();
    added.insert(ManagedEntry {
        manager: me,
        version: write.api_version.into(),
        fields: mine,
        encoded: None,
        time: write.now.into(),
    });
    let line = match (added.0.pop(), before) {
        (Some(new), Some(old)) => {
            Some(ManagedEntry { fields: new.fields.union(&old.fields), ..new })
        }
        (new, old) => new.or(old),
    };
    managers.0.extend(line);
    Ok(managers)
}

/// Removes changed fields from the entries of all managers but `me`.
fn release_changed_fields(
    mut managers: ManagedFields,
    changes: &VersionedComparison,
    me: Option<&ManagerId>,
) -> ManagedFields {
    for entry in managers.0.iter_mut().filter(|entry| Some(&entry.manager) != me) {
        let taken = changes.of(&entry.version).map(Comparison::changed_fields).unwrap_or_default();
        if entry.fields.intersects(&taken) {
            entry.fields = mem::take(&mut entry.fields).difference(&taken);
            entry.encoded = None;
        }
    }
    managers.remove_empty();
    managers
}

fn merge_applied(
    write: &FieldManagerRequest,
    live: &Value,
    applied: &Value,
    mut managers: ManagedFields,
    force: bool,
) -> Result<(Value, ManagedFields), ApplyError> {
    let (form, reset) = (MergeType::root(write.schema), from_field_paths(write.reset_fields));
    let me = ManagerId {
        name: write.manager.into(),
        operation: Operation::Apply,
        version: Text::default(),
        subresource: write.subresource.into(),
    };
    let last = managers.take(&me);
    let mine = to_field_set(form, applied).recursive_difference(&reset);
    let mut object = merge(form, live, applied);
    if let Some(last) = &last {
        let pruned = prune(write, object, last, &mine, &managers);
        object = pruned.map_err(|error| error.context("failed to prune fields"))?;
    }
    let changes = write.changes(live, &object, &managers)?;
    let mut conflicts = Vec::new();
    if !force {
        let mut others: Vec<_> = managers.0.iter().collect();
        others.sort_by(|a, b| a.manager.cmp(&b.manager));
        for entry in others {
            let Some(Comparison { modified, added, .. }) = changes.of(&entry.version) else {
                continue;
            };
            let changed = modified.clone().union(added);
            let left = CONFLICTS - conflicts.len();
            for path in changed.intersection(&entry.fields).paths(left) {
                let (manager, field) = (entry.manager.display(), format_path(&path));
                conflicts.push(Conflict { manager, field, path });
            }
        }
    }
    if !conflicts.is_empty() {
        return Err(ApplyError::Conflict(conflicts));
    }
    let mut managers = release_changed_fields(managers, &changes, Some(&me));
    let same = *live == object;
    let time = match &last {
        Some(last) if same => last.time.clone(),
        _ if same => Text::default(),
        _ => write.now.into(),
    };
    managers.insert(ManagedEntry {
        manager: me,
        version: write.api_version.into(),
        fields: mine,
        encoded: None,
        time,
    });
    // Mostly the same fields are applied as before, so the encoded set is reused.
    if let (Some(new), Some(last)) = (managers.0.last_mut(), last)
        && new.fields == last.fields
    {
        new.encoded = last.encoded;
    }
    Ok((object, managers))
}

/// Removes fields that the manager applied the `last` time and no longer applies, unless another
/// manager owns them.
fn prune(
    write: &FieldManagerRequest,
    merged: Value,
    last: &ManagedEntry,
    mine: &FieldSet,
    managers: &ManagedFields,
) -> Result<Value, ApplyError> {
    let own = |entry: &ManagedEntry| entry.version == write.api_version;
    let mut held = vec![(Text::from(write.api_version), mine.clone())];
    if own(last) && managers.0.iter().all(own) {
        // Fields that are still applied stay, with all their parents.
        if last.fields.is_subset(mine) {
            return Ok(merged);
        }
        let everybodys = managers.0.iter().fold(mine.clone(), |all, one| all.union(&one.fields));
        return Ok(prune_fields(MergeType::root(write.schema), &merged, &last.fields, &everybodys));
    }
    for entry in &managers.0 {
        match held.iter_mut().find(|(version, _)| *version == entry.version) {
            Some((_, fields)) => *fields = mem::take(fields).union(&entry.fields),
            None => held.push((entry.version.clone(), entry.fields.clone())),
        }
    }
    held.sort_by_key(|(version, _)| *version != last.version);
    let Some(form) = write.root_merge_type(&last.version)? else { return Ok(merged) };
    let merged = write
        .convert(&merged, write.api_version, &last.version)
        .map_err(|e| e.context("failed to convert merged object to last applied version"))?;
    let fields = ensure_named_fields_are_members(form, &last.fields);
    let mut version = &last.version;
    let (mut whole, mut pruned) = (merged.clone(), remove_fields_or_empty(form, &merged, &fields));
    for (next, held) in &held {
        let Some(form) = write.root_merge_type(next)? else { continue };
        whole = Cow::Owned(write.convert(&whole, version, next)?.into_owned());
        let kept = write.convert(&pruned, version, next)?;
        let kept = all_fields(form, &kept).union(&ensure_named_fields_are_members(form, held));
        pruned = remove_fields_or_empty(form, &whole, &all_fields(form, &whole).difference(&kept));
        version = next;
    }
    let kept = all_fields(form, &*write.convert(&pruned, version, &last.version)?);
    let gone = all_fields(form, &merged).difference(&kept).intersection(&fields);
    let pruned = remove_fields_or_empty(form, &merged, &gone);
    Ok(write.convert(&pruned, &last.version, write.api_version)?.into_owned())
}

/// Prunes within one version: field by field, because most fields are owned as before.
fn prune_fields(form: MergeType, merged: &Value, last: &FieldSet, everybodys: &FieldSet) -> Value {
    let mut pruned = merged.clone();
    for (step, node) in &last.0 {
        let Some(name) = step.name() else { continue };
        let (inner, named) = form.of_entry(name);
        let held = everybodys.get(step).filter(|held| !held.is_empty());
        let left = match held {
            Some(held) if node.is_within(held) => continue,
            None if named => Value::Null,
            Some(held) if named && matches!(inner, MergeType::Struct { .. }) => {
                prune_fields(inner, merged.get(name.text), &node.children, &held.children)
            }
            _ => {
                let alone = |node: &FieldSetNode| FieldSet(vec![(step.clone(), node.clone())]);
                let one = [(name.text.into(), merged.get(name.text).clone())];
                let held = held.map(alone).unwrap_or_default();
                let one = prune_by_field_sets(
                    form,
                    &Value::from_entries(one.into()),
                    &alone(node),
                    &held,
                );
                one.get(name.text).clone()
            }
        };
        if is_null_or_empty(&left) {
            pruned.remove(name.text);
        } else {
            pruned[name.text] = left;
        }
    }
    pruned
}

fn prune_by_field_sets(
    form: MergeType,
    merged: &Value,
    last: &FieldSet,
    everybodys: &FieldSet,
) -> Value {
    let (all, last) = (all_fields(form, merged), ensure_named_fields_are_members(form, last));
    let kept = all_fields(form, &remove_fields_or_empty(form, merged, &last))
        .union(&ensure_named_fields_are_members(form, everybodys));
    let pruned = remove_fields_or_empty(form, merged, &all.clone().difference(&kept));
    remove_fields_or_empty(
        form,
        merged,
        &all.difference(&all_fields(form, &pruned)).intersection(&last),
    )
}

/// The fields of an object, including all their parents.
fn all_fields(form: MergeType, object: &Value) -> FieldSet {
    ensure_named_fields_are_members(form, &to_field_set(form, object))
}

/// The object without these fields.
fn remove_fields_or_empty(form: MergeType, object: &Value, fields: &FieldSet) -> Value {
    remove_fields(form, object, fields).unwrap_or_else(Value::object)
}

#[cfg(test)]
mod tests;
