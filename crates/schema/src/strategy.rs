//! The hooks of a kind on untyped values, grouped by concern. Built-in kinds implement them through
//! `Kind`, whose methods are documented in more detail.

use std::fmt;

use object::{Text, Value};

use crate::{
    ErrorList, GracefulDeletion, Part, WarningList, WriteContext, kind::CLIENT_METADATA_FIELDS,
};

/// All hooks of a kind.
pub trait Strategy:
    Preparation + Validation + Columns + Conversion + fmt::Debug + Send + Sync
{
}

impl<T: Preparation + Validation + Columns + Conversion + fmt::Debug + Send + Sync> Strategy for T {}

/// The hooks that change an object: defaults, and what the server sets before it stores the object.
pub trait Preparation {
    /// Sets defaults that depend on other fields.
    fn default_fields(&self, _object: &mut Value) {}
    /// Sets defaults that depend on the request, such as its time.
    fn default_from_request(&self, _object: &mut Value, _by: &WriteContext) {}
    /// Changes the object before it is created.
    fn prepare_for_create(&self, _object: &mut Value) {}
    /// Changes the object before the main resource is updated.
    fn prepare_for_update(&self, _object: &mut Value, _old: &Value) {}
    /// Changes the object before its status is updated.
    fn prepare_status(&self, _object: &mut Value, _old: &Value) {}
    /// Changes the object before a subresource that has hooks is updated.
    fn prepare_subresource(&self, _object: &mut Value, _part: &str, _old: &Value) {}
    /// Records the user or the time of a write in the object.
    fn record_request_info(&self, _object: &mut Value, _old: Option<&Value>, _by: &WriteContext) {}
    /// Whether disabled fields count as a change of the generation before they are dropped.
    fn generation_counts_disabled_fields(&self) -> bool {
        false
    }
    /// Metadata fields that an update of the status leaves unchanged; `*`: all.
    fn status_reset_metadata(&self) -> &'static [&'static str] {
        CLIENT_METADATA_FIELDS
    }
    /// The grace period of a deletion that requests `_asked` seconds.
    fn check_graceful_delete(&self, _object: &Value, _asked: Option<i64>) -> GracefulDeletion {
        GracefulDeletion::None
    }
    /// Changes an object that is being deleted and not removed at once.
    fn prepare_delete(&self, _object: &mut Value, _now: i64) {}
    /// Marks an object that is being deleted, each time that its deletion is requested.
    fn mark_terminating(&self, _object: &mut Value) {}
}

/// The hooks that judge an object: errors and warnings.
pub trait Validation {
    /// Validates a new object, or an update if `_old` is set.
    fn validate(&self, _object: &Value, _old: Option<&Value>, _errs: &mut ErrorList) {}
    /// Validates an update of a subresource.
    fn validate_subresource(
        &self,
        _object: &Value,
        _part: &str,
        _old: &Value,
        _errs: &mut ErrorList,
    ) {
    }
    /// Validates an update of the status.
    fn validate_status(&self, _object: &Value, _old: &Value, _errs: &mut ErrorList) {}
    /// Like `validate_status`, at this time (seconds since 1970).
    fn validate_status_at(&self, object: &Value, old: &Value, _now: i64, errs: &mut ErrorList) {
        self.validate_status(object, old, errs);
    }
    /// Validates what only this served version requires.
    fn validate_served_version(
        &self,
        _object: &Value,
        _old: Option<&Value>,
        _errs: &mut ErrorList,
    ) {
    }
    /// Whether an update without a resourceVersion is allowed.
    fn allow_unconditional_update(&self) -> bool {
        false
    }
    /// Whether validation of updates distinguishes empty lists and maps from absent ones.
    fn distinguishes_empty(&self) -> bool {
        false
    }
    /// Whether validation of this object may take so long that it must not block other requests.
    fn is_expensive(&self, _object: &Value) -> bool {
        false
    }
    /// Collects warnings for the client.
    fn warnings(&self, _object: &Value, _old: Option<&Value>, _warnings: &mut WarningList) {}
    /// Collects warnings about an update of the status.
    fn warn_status(&self, _object: &Value, _warnings: &mut WarningList) {}
    /// The component that the object needs and that a cluster may lack.
    fn needs(&self, _object: &Value) -> Option<&'static Part> {
        None
    }
}

/// How tables show an object, and the fields that select it.
pub trait Columns {
    /// The cells of the object's table row at this time (seconds since 1970).
    fn table_cells(&self, _object: &Value, _now: i64) -> Vec<Value> {
        Vec::new()
    }
    /// Sort key of the object in a table; objects with equal keys are sorted by name.
    fn table_sort_key(&self, _object: &Value) -> i64 {
        0
    }
    /// Reason and message of the row condition `Completed`.
    fn completed_condition(&self, _object: &Value) -> Option<(&'static str, &'static str)> {
        None
    }
    /// The field selectors of the kind, besides name and namespace.
    fn selectable_fields(&self) -> Vec<&str> {
        Vec::new()
    }
    /// The error for an unknown field selector: see `Kind::NO_INDEX`.
    fn unsupported_field_message(&self) -> &'static str {
        "field label not supported: {}"
    }
    /// The selectable fields that have a topic in the watch cache.
    fn watch_topic_fields(&self) -> Vec<&str> {
        Vec::new()
    }
    /// The value of a selectable field.
    fn selectable_field_value(&self, _object: &Value, _name: &str) -> Option<Text> {
        None
    }
}

/// How an object is converted between its versions.
pub trait Conversion {
    /// The decode error of a value that Go's conversion cannot parse.
    fn decode_error(&self, _object: &Value) -> Option<String> {
        None
    }
    /// Converts an object from this version to the storage version.
    fn convert_to_storage(&self, _object: &mut Value) {}
    /// Converts an object from the storage version to this version.
    fn convert_from_storage(&self, _object: &mut Value) {}
}

/// The strategy of kinds without hooks.
#[derive(Debug)]
pub(crate) struct NoStrategy;

impl Preparation for NoStrategy {}
impl Validation for NoStrategy {}
impl Columns for NoStrategy {}
impl Conversion for NoStrategy {}
