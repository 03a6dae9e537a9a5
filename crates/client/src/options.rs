//! What requests may say besides the object, and what lists and deletes answer.

use object::{DeleteOptions, Preconditions, Text, Value};

/// Which objects are meant; empty: all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Selectors {
    pub labels: Text,
    pub fields: Text,
}

impl Selectors {
    pub fn labels(selector: impl Into<Text>) -> Self {
        Self { labels: selector.into(), ..Self::default() }
    }

    pub fn fields(selector: impl Into<Text>) -> Self {
        Self { fields: selector.into(), ..Self::default() }
    }
}

/// Which part of a list, and how fresh.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListParams {
    /// At most that many objects; 0: all.
    pub limit: u32,
    /// Where the last page ended.
    pub continue_: String,
    /// Empty: the newest state. `"0"`: any. Else at least that old.
    pub resource_version: String,
    /// `Exact` or `NotOlderThan`; empty: the server's choice.
    pub resource_version_match: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ObjectList<K> {
    pub items: Vec<K>,
    pub revision: u64,
    /// Where the next page begins; empty on the last.
    pub continue_: String,
    pub remaining: Option<i64>,
}

/// A change to an object.
#[derive(Clone, Debug)]
pub enum Patch {
    Json(Value),
    Merge(Value),
    Strategic(Value),
    /// Server-side apply; `force` takes over fields that others manage.
    Apply {
        object: Value,
        manager: String,
        force: bool,
    },
}

/// What a delete asks for.
#[derive(Clone, Debug, Default)]
pub struct DeleteParams {
    /// How long the object may take; as long as it says itself, if absent.
    pub grace_seconds: Option<i64>,
    /// Only the object with this uid is meant; empty: whichever has the name.
    pub uid: Text,
    /// Only in this version; empty: in any.
    pub resource_version: Text,
    pub propagation: Option<Propagation>,
    pub dry_run: bool,
}

/// What becomes of those that a deleted object owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    Orphan,
    Background,
    Foreground,
}

/// What has become of a deleted object.
#[derive(Clone, Debug, PartialEq)]
pub enum DeleteResult<T> {
    /// It is still there, and on its way out.
    Terminating(T),
    /// It is no more. What it was, if the server says so.
    Gone(Option<T>),
}

impl DeleteParams {
    /// The object with this uid and no other of its name.
    pub fn with_uid(uid: impl Into<Text>) -> Self {
        Self { uid: uid.into(), ..Self::default() }
    }

    pub(crate) fn body(&self) -> Value {
        let mut options = DeleteOptions::new();
        if let Some(seconds) = self.grace_seconds {
            options.set_grace_period_seconds(seconds);
        }
        let mut preconditions = Preconditions::new();
        if !self.uid.is_empty() {
            preconditions.set_uid(self.uid.clone());
        }
        if !self.resource_version.is_empty() {
            preconditions.set_resource_version(self.resource_version.clone());
        }
        if !(self.uid.is_empty() && self.resource_version.is_empty()) {
            options.set_preconditions(preconditions);
        }
        if let Some(propagation) = self.propagation {
            options.set_propagation_policy(match propagation {
                Propagation::Orphan => "Orphan",
                Propagation::Background => "Background",
                Propagation::Foreground => "Foreground",
            });
        }
        if self.dry_run {
            options.set_dry_run(["All"]);
        }
        let mut tree = Value::from(options);
        tree["kind"] = "DeleteOptions".into();
        tree["apiVersion"] = "v1".into();
        tree
    }
}
