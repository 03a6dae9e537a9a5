//! Managers that speak another version of the kind than the one who writes.

use std::{borrow::Cow, fmt};

use object::{Struct, Text, Value};

use super::{
    ApplyError, Write,
    check::check,
    compare::{Change, compare, melt},
    fields::of_names,
    form::Form,
    manager::Managers,
};

/// The versions of a kind beside the one that is written.
pub trait Versions: fmt::Debug + Sync {
    /// The shape of a version; `None`: it is no more, and nobody holds anything in it.
    fn shape(&self, _api_version: &str) -> Result<Option<&Struct>, ApplyError> {
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
pub struct Alone;

impl Versions for Alone {}

impl<'a> Write<'a> {
    /// How objects of a version are merged, if there is that version.
    pub(super) fn form(&self, version: &str) -> Result<Option<Form<'a>>, ApplyError> {
        let other = version != self.api_version;
        let shape = if other { self.versions.shape(version)? } else { Some(self.shape) };
        Ok(shape.map(Form::root))
    }

    /// An object of the version `from` in the version `to`, which there is.
    pub(super) fn seen<'v>(
        &self,
        object: &'v Value,
        from: &str,
        to: &str,
    ) -> Result<Cow<'v, Value>, ApplyError> {
        if from == to {
            return Ok(Cow::Borrowed(object));
        }
        let made = self.versions.convert(object, to)?;
        match self.form(to)?.and_then(|form| check(form, &made)) {
            Some(wrong) => Err(ApplyError::Failed(wrong)),
            None => Ok(Cow::Owned(made)),
        }
    }

    /// The managers whose versions there are, each with its fields as they are merged today.
    pub(super) fn known(&self, live: &Value, mut all: Managers) -> Result<Managers, ApplyError> {
        let mut seen: Vec<(Text, Option<Form>)> = Vec::new();
        for entry in &mut all.0 {
            let known = seen.iter().find(|(version, _)| *version == entry.version);
            let form = if let Some((_, form)) = known {
                *form
            } else {
                let form = self.form(&entry.version)?;
                if form.is_some() {
                    self.seen(live, self.api_version, &entry.version)?;
                }
                seen.push((entry.version.clone(), form));
                form
            };
            match form {
                None => entry.fields.0.clear(),
                Some(form) if melt(form, &mut entry.fields) => entry.text = None,
                Some(_) => {}
            }
        }
        all.tidy();
        Ok(all)
    }

    /// What changes from `old` to `new`, in this version and in those of all managers.
    pub(super) fn changes(
        &self,
        old: &Value,
        new: &Value,
        managers: &Managers,
    ) -> Result<Changes, ApplyError> {
        let own = compare(Form::root(self.shape), old, new).cut(&of_names(self.reset));
        let mut all = vec![(Text::from(self.api_version), own)];
        for entry in &managers.0 {
            if all.iter().any(|(version, _)| *version == entry.version) {
                continue;
            }
            if let Some(form) = self.form(&entry.version)? {
                let seen = |object| self.seen(object, self.api_version, &entry.version);
                let new =
                    seen(new).map_err(|error| error.during("failed to convert new object"))?;
                let change = compare(form, &*seen(old)?, &new);
                all.push((entry.version.clone(), change.cut(&of_names(self.versions.reset()))));
            }
        }
        Ok(Changes(all))
    }
}

/// What a write changes, version by version; first in its own.
pub(super) struct Changes(Vec<(Text, Change)>);

impl Changes {
    pub(super) fn own(&self) -> &Change {
        &self.0[0].1
    }

    pub(super) fn of(&self, version: &str) -> Option<&Change> {
        self.0.iter().find(|(own, _)| own == version).map(|(_, change)| change)
    }
}
