//! Parameters of requests, and results of lists and deletions.

use object::{DeleteOptions, Preconditions, Text, Value};

/// Label and field selectors; empty selects everything.
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

/// Paging and consistency of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListParams {
    /// Maximum number of objects; 0 means all.
    pub limit: u32,
    /// The continue token of the previous page.
    pub continue_: String,
    /// Empty: the most recent. `"0"`: any version. Otherwise not older than this.
    pub resource_version: String,
    /// `Exact` or `NotOlderThan`; empty leaves it to the server.
    pub resource_version_match: String,
}

/// One page of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectList<K> {
    pub items: Vec<K>,
    pub revision: u64,
    /// The continue token of the next page; empty on the last page.
    pub continue_: String,
    pub remaining: Option<i64>,
}

/// A patch of an object.
#[derive(Clone, Debug)]
pub enum Patch {
    Json(Value),
    Merge(Value),
    Strategic(Value),
    /// Server-side apply; `force` takes over fields of other managers.
    Apply {
        object: Value,
        manager: String,
        force: bool,
    },
}

/// Options of a deletion.
#[derive(Clone, Debug, Default)]
pub struct DeleteParams {
    /// Grace period in seconds; `None` for the object's own.
    pub grace_seconds: Option<i64>,
    /// Precondition: the uid; empty for any.
    pub uid: Text,
    /// Precondition: the resourceVersion; empty for any.
    pub resource_version: Text,
    pub propagation: Option<Propagation>,
    pub dry_run: bool,
}

/// What happens to the dependents of a deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    Orphan,
    Background,
    Foreground,
}

/// The result of a deletion.
#[derive(Clone, Debug, PartialEq)]
pub enum DeleteResult<T> {
    /// The object still exists and is terminating.
    Terminating(T),
    /// The object has been deleted. Contains its last state if the server returned it.
    Gone(Option<T>),
}

impl DeleteParams {
    /// Deletes only the object with this uid.
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
