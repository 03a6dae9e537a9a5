//! core/v1: Event.

use std::time::Duration;

use macros::api;
use object::{MicroTime, ObjectMeta, Time};
use schema::{
    ErrorList, FieldPath, Kind, ResourceNames, SelectableField, TableColumn, ValidateName, age,
    name_validation,
};

use crate::rules::ValidateField;

use super::ObjectReference;

/// A report of something that happened to an object.
#[api]
pub struct Event {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: Must<ObjectMeta>,
    /// Object that the event is about.
    involved_object: Must<ObjectReference>,
    /// Machine-readable reason: one CamelCase word, such as FailedScheduling.
    reason: String,
    /// Human-readable description of what happened.
    message: String,
    /// Component that reported the event.
    source: EventSource,
    /// When the event first occurred.
    first_timestamp: Time,
    /// When the event last occurred.
    last_timestamp: Time,
    /// Number of times the event occurred.
    count: i32,
    /// Type of the event: Normal or Warning.
    type_: String,
    /// When the event first occurred, in microseconds.
    event_time: MicroTime,
    /// Data about the series, if the event occurs repeatedly.
    series: Option<EventSeries>,
    /// Action that was taken or failed.
    action: String,
    /// Second object that is involved, if any.
    related: Option<ObjectReference>,
    /// Controller that reported the event, such as kubernetes.io/kubelet.
    #[api(no_omitempty)]
    reporting_component: String,
    /// Instance of the controller, such as its pod or node.
    #[api(no_omitempty)]
    reporting_instance: String,
}

#[api]
pub struct EventSource {
    /// Component that reported the event.
    component: String,
    /// Node of the component.
    host: String,
}

#[api]
pub struct EventSeries {
    /// Number of occurrences so far.
    count: i32,
    /// When the event last occurred.
    last_observed_time: MicroTime,
}

impl Kind for Event {
    const NAMES: ResourceNames = ResourceNames::new("", "v1", "Event", "events").short(&["ev"]);
    const FORMER_API_VERSIONS: &'static [&'static str] =
        &["events.k8s.io/v1", "events.k8s.io/v1beta1"];
    const CREATED_BY_UPDATE: bool = true;
    const TTL: Option<Duration> = Some(Duration::from_hours(1));
    const COLUMNS: &'static [TableColumn<Self>] = &[
        TableColumn::text("Last Seen", |event, now| event.last_seen(now).into()),
        TableColumn::text("Type", |event, _| event.type_().into()),
        TableColumn::text("Reason", |event, _| event.reason().into()),
        TableColumn::text("Object", |event, _| event.involved_object().cell()),
        TableColumn::wide_text("Subobject", |it, _| it.involved_object().field_path().into()),
        TableColumn::wide_text("Source", |event, _| event.reporter().into()),
        TableColumn::text("Message", |event, _| event.message().trim().into()),
        TableColumn::wide_text("First Seen", |event, now| event.first_seen(now).into()),
        TableColumn::wide_text("Count", |event, _| event.times().into()),
        TableColumn { priority: 1, ..TableColumn::NAME },
    ];
    const INDEXES: &'static [SelectableField<Self>] = &[
        SelectableField::with_watch_topic("involvedObject.uid", |event| {
            event.involved_object().uid().into()
        }),
        SelectableField::filter_only("involvedObject.kind", |event| {
            event.involved_object().kind().into()
        }),
        SelectableField::filter_only("involvedObject.namespace", |it| {
            it.involved_object().namespace().into()
        }),
        SelectableField::filter_only("involvedObject.name", |event| {
            event.involved_object().name().into()
        }),
        SelectableField::filter_only("involvedObject.apiVersion", |it| {
            it.involved_object().api_version().into()
        }),
        SelectableField::filter_only("involvedObject.resourceVersion", |event| {
            event.involved_object().resource_version().into()
        }),
        SelectableField::filter_only("involvedObject.fieldPath", |it| {
            it.involved_object().field_path().into()
        }),
        SelectableField::filter_only("reason", |event| event.reason().into()),
        SelectableField::filter_only("type", |event| event.type_().into()),
        SelectableField::filter_only("reportingComponent", |event| {
            event.reporting_component().into()
        }),
        SelectableField::filter_only("source", |event| match event.source().component() {
            "" => event.reporting_component().into(),
            component => component.into(),
        }),
    ];
    const NAME: ValidateName = name_validation::path_segment;
    const ANY_FINALIZER: bool = true;

    fn validate(&self, errs: &mut ErrorList) {
        let (mine, its) = (self.metadata().namespace(), self.involved_object().namespace());
        let plain = self.event_time().is_empty();
        let fits = match its {
            "" if plain => matches!(mine, "" | "default"),
            "" => matches!(mine, "default" | "kube-system"),
            its => !plain || mine == its,
        };
        if !fits {
            let at = FieldPath::Root.field("involvedObject");
            errs.invalid(&at.field("namespace"), its, "does not match event.namespace");
        }
        if plain {
            return;
        }
        errs.required_field(&FieldPath::Root, "reportingComponent", self.reporting_component());
        errs.qualified(&FieldPath::Root.field("reportingComponent"), self.reporting_component());
        for (name, text) in [
            ("reportingInstance", self.reporting_instance()),
            ("action", self.action()),
            ("reason", self.reason()),
        ] {
            errs.required_field(&FieldPath::Root, name, text);
            if text.len() > MAX_WORD {
                let why = format!("can have at most {MAX_WORD} characters");
                errs.invalid(&FieldPath::Root.field(name), "", why);
            }
        }
        if self.message().len() > MAX_MESSAGE {
            let why = format!("can have at most {MAX_MESSAGE} characters");
            errs.invalid(&FieldPath::Root.field("message"), "", why);
        }
    }
}

impl Event {
    /// Who saw it: component and host.
    pub(crate) fn reporter(&self) -> String {
        let source = self.source();
        let first = |a: &str, b: &str| if a.is_empty() { b.to_owned() } else { a.to_owned() };
        let who = first(source.component(), self.reporting_component());
        match first(source.host(), self.reporting_instance()) {
            host if host.is_empty() => who,
            host => format!("{who}, {host}"),
        }
    }

    pub(crate) fn first_seen(&self, now: i64) -> String {
        match self.first_timestamp() {
            "" => age(self.event_time(), now),
            first => age(first, now),
        }
    }

    pub(crate) fn last_seen(&self, now: i64) -> String {
        match (self.series(), self.last_timestamp()) {
            (Some(series), _) => age(series.last_observed_time(), now),
            (None, "") => self.first_seen(now),
            (None, last) => age(last, now),
        }
    }

    pub(crate) fn times(&self) -> i32 {
        match (self.series(), self.count()) {
            (Some(series), _) => series.count(),
            (None, 0) => 1,
            (None, count) => count,
        }
    }
}

/// How long the parts of an event may be.
const MAX_WORD: usize = 128;
const MAX_MESSAGE: usize = 1024;
