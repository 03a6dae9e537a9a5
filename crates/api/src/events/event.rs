//! events/v1: Event.

use macros::api;
use object::{Lens, MicroTime, ObjectMeta, Time, Value, View};
use schema::{
    ErrorList, FieldPath, Kind, ResourceNames, SelectableField, StorageConfig, TableColumn,
    validate_finalizers, validate_name,
};

use crate::{
    core::{self, EventSource, ObjectReference},
    rules::ValidateField,
    shown::{format_go, format_go_option},
};

/// A report of something that happened to an object.
#[api]
pub struct Event {
    /// Standard object metadata: name, namespace, labels, annotations.
    #[api(no_omitempty)]
    metadata: ObjectMeta,
    /// When the event first occurred, in microseconds.
    event_time: Must<MicroTime>,
    /// Data about the series, if the event occurs repeatedly.
    series: Option<EventSeries>,
    /// Name of the controller that reports the event.
    reporting_controller: String,
    /// Instance of the controller, such as its pod or node.
    reporting_instance: String,
    /// Action that was taken or failed.
    action: String,
    /// Machine-readable reason: one CamelCase word, such as FailedScheduling.
    reason: String,
    /// The object that it is about.
    regarding: ObjectReference,
    /// Second object that is involved, if any.
    related: Option<ObjectReference>,
    /// What happened, for people.
    note: String,
    /// Type of the event: Normal or Warning.
    type_: String,
    /// The reporting component, as in older versions.
    deprecated_source: EventSource,
    /// When it first happened, as older versions keep it.
    deprecated_first_timestamp: Time,
    /// When it last happened, as older versions keep it.
    deprecated_last_timestamp: Time,
    /// How often it happened, as older versions keep it.
    deprecated_count: i32,
}

#[api]
pub struct EventSeries {
    /// Number of occurrences so far.
    count: Must<i32>,
    /// When the event last occurred.
    last_observed_time: Must<MicroTime>,
}

impl Kind for Event {
    const NAMES: ResourceNames =
        ResourceNames::new("events.k8s.io", "v1", "Event", "events").short(&["ev"]);
    const FORMER_API_VERSIONS: &'static [&'static str] = &["events.k8s.io/v1beta1", "v1"];
    const STORAGE: StorageConfig = StorageConfig::new("events", "core/v1");
    const CREATED_BY_UPDATE: bool = true;
    const COLUMNS: &'static [TableColumn<Self>] = &[
        TableColumn::text("Last Seen", |event, now| event.stored().last_seen(now).into()),
        TableColumn::text("Type", |event, _| event.type_().into()),
        TableColumn::text("Reason", |event, _| event.reason().into()),
        TableColumn::text("Object", |event, _| event.regarding().cell()),
        TableColumn::wide_text("Subobject", |event, _| event.regarding().field_path().into()),
        TableColumn::wide_text("Source", |event, _| event.stored().reporter().into()),
        TableColumn::text("Message", |event, _| event.note().trim().into()),
        TableColumn::wide_text("First Seen", |event, now| event.stored().first_seen(now).into()),
        TableColumn::wide_text("Count", |event, _| event.stored().times().into()),
        TableColumn { priority: 1, ..TableColumn::NAME },
    ];
    const INDEXES: &'static [SelectableField<Self>] = &[
        SelectableField::with_watch_topic("regarding.uid", |event| event.regarding().uid().into()),
        SelectableField::filter_only("regarding.kind", |event| event.regarding().kind().into()),
        SelectableField::filter_only("regarding.namespace", |event| {
            event.regarding().namespace().into()
        }),
        SelectableField::filter_only("regarding.name", |event| event.regarding().name().into()),
        SelectableField::filter_only("regarding.apiVersion", |event| {
            event.regarding().api_version().into()
        }),
        SelectableField::filter_only("regarding.resourceVersion", |it| {
            it.regarding().resource_version().into()
        }),
        SelectableField::filter_only("regarding.fieldPath", |event| {
            event.regarding().field_path().into()
        }),
        SelectableField::filter_only("reason", |event| event.reason().into()),
        SelectableField::filter_only("type", |event| event.type_().into()),
        SelectableField::filter_only("reportingController", |event| {
            event.reporting_controller().into()
        }),
    ];

    fn validate_version(object: &Value, old: Option<&Value>, errs: &mut ErrorList) {
        for error in errs.0.iter_mut().filter(|error| error.path == "reportingComponent") {
            "reportingController".clone_into(&mut error.path);
        }
        let event = core::Event::view(object);
        validate_finalizers(event.metadata(), errs);
        match old {
            None => {
                validate_name(schema::name_validation::dns_subdomain, event.metadata(), errs);
                check_new(event, errs);
            }
            Some(old) => check_changed(event, core::Event::view(old), errs),
        }
    }

    fn to_stored(object: &mut Value) {
        for (ours, stored) in NAMES {
            rename(object, ours, stored);
        }
        object["apiVersion"] = "v1".into();
    }

    fn from_stored(object: &mut Value) {
        for (ours, stored) in NAMES {
            rename(object, stored, ours);
        }
        object["apiVersion"] = Self::NAMES.api_version().into();
    }
}

impl Event {
    /// As it is stored: what is said of that one is said of this, too.
    fn stored(&self) -> core::Event {
        let mut tree = self.tree().clone();
        Self::to_stored(&mut tree);
        tree.into()
    }
}

/// How fields are called here, and in core/v1, where events are stored.
const NAMES: [(&str, &str); 7] = [
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
    ("reportingController", "reportingComponent"),
];

fn rename(object: &mut Value, from: &str, to: &str) {
    let value = object.get(from).clone();
    object.remove(from);
    if !value.is_null() {
        object[to] = value;
    }
}

/// Here, events are of the new kind, and have nothing of the old.
fn check_new(event: &core::Event, errs: &mut ErrorList) {
    let root = FieldPath::Root;
    check_series(event, errs);
    errs.required_field(&root, "eventTime", event.event_time());
    if !matches!(event.type_(), "Normal" | "Warning") {
        let why = format!("has invalid value: {}", event.type_());
        errs.invalid(&root.field("type"), "", why);
    }
    for (name, is_set) in [
        ("firstTimestamp", !event.first_timestamp().is_empty()),
        ("lastTimestamp", !event.last_timestamp().is_empty()),
        ("count", event.count() != 0),
        ("source", !event.source().component().is_empty() || !event.source().host().is_empty()),
    ] {
        if is_set {
            errs.invalid(&root.field(name), "", "needs to be unset");
        }
    }
}

fn check_series(event: &core::Event, errs: &mut ErrorList) {
    let at = FieldPath::Root.field("series");
    if let Some(series) = event.series() {
        if series.count() < 2 {
            errs.invalid(&at.field("count"), "", "should be at least 2");
        }
        errs.required_field(&at, "lastObservedTime", series.last_observed_time());
    }
}

/// What has happened has happened; only how often may change.
fn check_changed(event: &core::Event, old: &core::Event, errs: &mut ErrorList) {
    if event.series() != old.series() {
        check_series(event, errs);
    }
    let kept = "field is immutable";
    for (name, new, old) in [
        ("involvedObject", Some(event.involved_object()), Some(old.involved_object())),
        ("related", event.related(), old.related()),
    ] {
        if new != old {
            errs.invalid_formatted(&FieldPath::Root.field(name), format_go_option(new), kept);
        }
    }
    if event.source() != old.source() {
        errs.invalid_formatted(&FieldPath::Root.field("source"), format_go(event.source()), kept);
    }
    for (stored, name) in [
        ("reason", "reason"),
        ("message", "message"),
        ("firstTimestamp", "firstTimestamp"),
        ("lastTimestamp", "lastTimestamp"),
        ("count", "count"),
        ("type", "type"),
        ("eventTime", "eventTime"),
        ("action", "action"),
        ("reportingComponent", "reportingController"),
        ("reportingInstance", "reportingInstance"),
    ] {
        let (new, old) = (event.tree().get(stored), old.tree().get(stored));
        let empty = if stored.ends_with("stamp") || stored.ends_with("Time") {
            Value::Null
        } else if stored == "count" {
            Value::Int(0)
        } else {
            "".into()
        };
        let or_empty = |value: &Value| if value.is_null() { empty.clone() } else { value.clone() };
        errs.immutable(&FieldPath::Root.field(name), &or_empty(new), &or_empty(old));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_stored_as_in_core_and_comes_back() {
        let event = Event::new().with_note("n").with_reporting_controller("c");
        let mut tree = Value::from(event);
        Event::to_stored(&mut tree);
        assert_eq!(tree.get("message").as_str(), Some("n"));
        assert_eq!(tree.get("reportingComponent").as_str(), Some("c"));
        Event::from_stored(&mut tree);
        let event = Event::from(tree);
        assert_eq!((event.note(), event.reporting_controller()), ("n", "c"));
    }
}
