//! Managers that speak another version of the kind than the one who writes.

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

/// The versions of a kind beside the one that is written.
pub trait VersionConverter: fmt::Debug + Sync {
    /// The shape of a version; `None`: it is no more, and nobody holds anything in it.
    fn shape(&self, _api_version: &str) -> Result<Option<&StructSchema>, ApplyError> {
        Ok(None)
    }

    /// An object of one version in another.
    fn convert(&self, object: &Value, _api_version: &str) -> Result<Value, ApplyError> {
        Ok(object.clone())
    }

    /// As that of `Write`, in other versions.
    fn reset(&self) -> &'static [&'static [&'static str]] {
        &[]
    }
}

/// There are no other versions.
#[derive(Debug)]
pub struct SingleVersion;

impl VersionConverter for SingleVersion {}

impl<'a> FieldManagerRequest<'a> {
    /// How objects of a version are merged, if there is that version.
    pub(super) fn root_merge_type(
        &self,
        version: &str,
    ) -> Result<Option<MergeType<'a>>, ApplyError> {
        let other = version != self.api_version;
        let shape = if other { self.converter.shape(version)? } else { Some(self.schema) };
        Ok(shape.map(MergeType::root))
    }

    /// An object of the version `from` in the version `to`, which there is.
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

    /// The managers whose versions there are, each with its fields as they are merged today.
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

    /// What changes from `old` to `new`, in this version and in those of all managers.
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

/// What a write changes, version by version; first in its own.
pub(super) struct VersionedComparison(Vec<(Text, Comparison)>);

impl VersionedComparison {
    pub(super) fn own(&self) -> &Comparison {
        &self.0[0].1
    }

    pub(super) fn of(&self, version: &str) -> Option<&Comparison> {
        self.0.iter().find(|(own, _)| own == version).map(|(_, change)| change)
    }
}
