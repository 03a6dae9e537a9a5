//! Managers whose entries are in another version than the request.

use std::{borrow::Cow, fmt};

use object::{StructSchema, Text, Value};

use super::{
    ApplyError, FieldManagerRequest,
    check::validate_applied,
    compare::{Comparison, collapse_to_atomic, compare},
    fields::from_field_paths,
    manager::ManagedFields,
    merge_type::MergeType,
};

/// Converts objects to the other versions of the kind.
pub trait VersionConverter: fmt::Debug + Sync {
    /// The schema of a version; `None`: the version no longer exists, and its entries are dropped.
    fn shape(&self, _api_version: &str) -> Result<Option<&StructSchema>, ApplyError> {
        Ok(None)
    }

    /// Converts an object to another version.
    fn convert(&self, object: &Value, _api_version: &str) -> Result<Value, ApplyError> {
        Ok(object.clone())
    }

    /// Like `FieldManagerRequest::reset_fields`, for other versions.
    fn reset(&self) -> &'static [&'static [&'static str]] {
        &[]
    }
}

/// The converter of kinds with a single version.
#[derive(Debug)]
pub struct SingleVersion;

impl VersionConverter for SingleVersion {}

impl<'a> FieldManagerRequest<'a> {
    /// The merge type of objects in a version, if the version exists.
    pub(super) fn root_merge_type(
        &self,
        version: &str,
    ) -> Result<Option<MergeType<'a>>, ApplyError> {
        let other = version != self.api_version;
        let shape = if other { self.converter.shape(version)? } else { Some(self.schema) };
        Ok(shape.map(MergeType::root))
    }

    /// Converts an object between versions; `to` must exist.
    pub(super) fn convert<'v>(
        &self,
        object: &'v Value,
        from: &str,
        to: &str,
    ) -> Result<Cow<'v, Value>, ApplyError> {
        if from == to {
            return Ok(Cow::Borrowed(object));
        }
        let made = self.converter.convert(object, to)?;
        match self.root_merge_type(to)?.and_then(|form| validate_applied(form, &made)) {
            Some(wrong) => Err(ApplyError::Failed(wrong)),
            None => Ok(Cow::Owned(made)),
        }
    }

    /// Drops entries of versions that no longer exist, and adapts the others to the current schema.
    pub(super) fn retain_known_versions(
        &self,
        live: &Value,
        mut all: ManagedFields,
    ) -> Result<ManagedFields, ApplyError> {
        let mut seen: Vec<(Text, Option<MergeType>)> = Vec::new();
        for entry in &mut all.0 {
            let known = seen.iter().find(|(version, _)| *version == entry.version);
            let form = if let Some((_, form)) = known {
                *form
            } else {
                let form = self.root_merge_type(&entry.version)?;
                if form.is_some() {
                    self.convert(live, self.api_version, &entry.version)?;
                }
                seen.push((entry.version.clone(), form));
                form
            };
            match form {
                None => entry.fields.0.clear(),
                Some(form) if collapse_to_atomic(form, &mut entry.fields) => entry.encoded = None,
                Some(_) => {}
            }
        }
        all.remove_empty();
        Ok(all)
    }

    /// Compares `old` and `new` in this version and in the versions of all managers.
    pub(super) fn changes(
        &self,
        old: &Value,
        new: &Value,
        managers: &ManagedFields,
    ) -> Result<VersionedComparison, ApplyError> {
        let own = compare(MergeType::root(self.schema), old, new)
            .exclude_fields(&from_field_paths(self.reset_fields));
        let mut all = vec![(Text::from(self.api_version), own)];
        for entry in &managers.0 {
            if all.iter().any(|(version, _)| *version == entry.version) {
                continue;
            }
            if let Some(form) = self.root_merge_type(&entry.version)? {
                let seen = |object| self.convert(object, self.api_version, &entry.version);
                let new =
                    seen(new).map_err(|error| error.context("failed to convert new object"))?;
                let change = compare(form, &*seen(old)?, &new);
                all.push((
                    entry.version.clone(),
                    change.exclude_fields(&from_field_paths(self.converter.reset())),
                ));
            }
        }
        Ok(VersionedComparison(all))
    }
}

/// The changes of a write in each version, its own first.
pub(super) struct VersionedComparison(Vec<(Text, Comparison)>);

impl VersionedComparison {
    /// The changes in the version of the request.
    pub(super) fn own(&self) -> &Comparison {
        &self.0[0].1
    }

    pub(super) fn of(&self, version: &str) -> Option<&Comparison> {
        self.0.iter().find(|(own, _)| own == version).map(|(_, change)| change)
    }
}
