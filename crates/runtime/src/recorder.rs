//! Event recorder, with upstream's reasons.
//!
//! Recording never blocks and never fails: a task writes the events. A repeated event increments the count of the
//! first; many similar events are aggregated; more than a few per minute for one object are dropped (spam filter).

use std::{sync::Arc, time::Duration};

use client::{Api, ApiResource, Error, Patch};
use object::{Clock, NamespacedName, SystemClock, Text, Time, Value};
use schema::Kind;
use tokio::{sync::mpsc, time::sleep};
use tracing::{debug, warn};

use crate::{Backoff, Context, correlator::Correlator};

/// Capacity of the queue; further events are dropped.
const QUEUE_CAPACITY: usize = 1000;
/// What an event may say; in the group events.k8s.io a longer note is refused.
const LONGEST_MESSAGE: usize = 1024;
const MAX_TRIES: usize = 12;
const INITIAL_BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_secs(10);

/// The type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    Normal,
    Warning,
}

/// The object that an event is about (`involvedObject`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct InvolvedObject {
    pub api_version: Text,
    pub kind: Text,
    pub key: Option<NamespacedName>,
    pub uid: Text,
    pub resource_version: Text,
    /// A field of it: `spec.containers{web}`.
    pub field_path: Text,
}

/// Records events. Clones are cheap and share the writing task.
#[derive(Clone, Debug)]
pub struct EventRecorder {
    queue: mpsc::Sender<PendingEvent>,
}

#[derive(Clone, Debug)]
struct PendingEvent {
    involved: InvolvedObject,
    severity: EventType,
    reason: Text,
    message: String,
}

impl InvolvedObject {
    pub fn of<K: Kind>(object: &K) -> Self {
        let meta = object.meta();
        Self {
            api_version: K::NAMES.api_version().into(),
            kind: K::NAMES.kind.into(),
            key: Some(NamespacedName::from_meta(meta)),
            uid: meta.uid().into(),
            resource_version: meta.resource_version().into(),
            field_path: Text::default(),
        }
    }

    #[must_use]
    pub fn with_field_path(self, field_path: &str) -> Self {
        Self { field_path: field_path.into(), ..self }
    }

    fn key(&self) -> (&str, &str) {
        self.key.as_ref().map_or(("", ""), |key| (&key.namespace, &key.name))
    }
}

impl EventRecorder {
    /// Starts a recorder with the source `component` on `host` (empty if it is not tied to a host).
    pub fn start(cx: &Context, component: &str, host: &str) -> Self {
        Self::with_clock(cx, component, host, Arc::new(SystemClock))
    }

    pub fn with_clock(cx: &Context, component: &str, host: &str, clock: Arc<dyn Clock>) -> Self {
        let (told, mut waiting) = mpsc::channel(QUEUE_CAPACITY);
        let mut writer = EventWriter {
            api: Api::for_resource(cx.client(), events()),
            component: component.into(),
            host: host.into(),
            clock,
            correlator: Correlator::default(),
        };
        cx.spawn("events", async move {
            while let Some(told) = waiting.recv().await {
                let _ = panics::contain("events", writer.write(told)).await;
            }
        });
        Self { queue: told }
    }

    pub fn normal<K: Kind>(&self, object: &K, reason: &str, message: impl Into<String>) {
        self.record(InvolvedObject::of(object), EventType::Normal, reason, message.into());
    }

    pub fn warning<K: Kind>(&self, object: &K, reason: &str, message: impl Into<String>) {
        self.record(InvolvedObject::of(object), EventType::Warning, reason, message.into());
    }

    pub fn record(
        &self,
        about: InvolvedObject,
        severity: EventType,
        reason: &str,
        mut message: String,
    ) {
        message.truncate(message.floor_char_boundary(LONGEST_MESSAGE));
        let told = PendingEvent { involved: about, severity, reason: reason.into(), message };
        if let Err(error) = self.queue.try_send(told) {
            debug!(%error, "the event queue is full; dropping an event");
        }
    }
}

#[derive(Debug)]
struct EventWriter {
    api: Api<Value>,
    component: Text,
    host: Text,
    clock: Arc<dyn Clock>,
    correlator: Correlator,
}

impl EventWriter {
    async fn write(&mut self, mut told: PendingEvent) {
        let about = InvolvedObject { resource_version: Text::default(), ..told.involved.clone() };
        if !self.correlator.affords(&about) {
            debug!(reason = %told.reason, "too many events about one object; dropping one");
            return;
        }
        let group = (about, told.severity, told.reason.clone());
        if self.correlator.is_similar(&group, &told.message) {
            told.message = format!("(combined from similar events): {}", told.message);
        }
        let combined = told.message.starts_with("(combined");
        let same = self.correlator.event(&group, if combined { "" } else { &told.message });
        let mut retry = Backoff::new(INITIAL_BACKOFF, MAX_BACKOFF);
        for _ in 0..MAX_TRIES {
            match self.create_or_patch(&told, same).await {
                Ok(()) => return,
                Err(error) if error.is_transient() => {
                    debug!(%error, "cannot write an event yet; will retry");
                    sleep(retry.next_delay()).await;
                }
                Err(error) if error.is_namespace_terminating() => return,
                Err(error) => {
                    warn!(%error, reason = %told.reason, "cannot write an event; dropping it");
                    return;
                }
            }
        }
    }

    async fn create_or_patch(&mut self, told: &PendingEvent, same: u64) -> Result<(), Error> {
        let now = Time::format(self.clock.now());
        if let Some((key, count)) = self.correlator.written(same) {
            let mut patch = Value::object();
            patch["count"] = (count + 1).into();
            patch["lastTimestamp"] = now.clone().into();
            patch["message"] = (&*told.message).into();
            match self.api.patch(&key, &Patch::Merge(patch)).await {
                Ok(_) => {
                    self.correlator.remember(same, key, count + 1);
                    return Ok(());
                }
                Err(error) if error.is_not_found() => {} // events expire soon
                Err(error) => return Err(error),
            }
        }
        let event = self.event(told, &now);
        let (_, name) = told.involved.key();
        let made = self.api.create(event).await?;
        let made = object::Object::from(made);
        debug!(name, "recorded an event");
        self.correlator.remember(same, NamespacedName::from_meta(made.metadata()), 1);
        Ok(())
    }

    fn event(&self, told: &PendingEvent, now: &Text) -> Value {
        let about = &told.involved;
        let (namespace, name) = about.key();
        let home = if namespace.is_empty() { "default" } else { namespace };
        let mut event = Value::object();
        let stamp = format!("{name}.{:016x}", self.clock.now_micros().wrapping_mul(1000));
        event["metadata"]["name"] = stamp.into();
        event["metadata"]["namespace"] = home.into();
        let involved = &mut event["involvedObject"];
        for (field, text) in [
            ("kind", &*about.kind),
            ("namespace", namespace),
            ("name", name),
            ("uid", &*about.uid),
            ("apiVersion", &*about.api_version),
            ("resourceVersion", &*about.resource_version),
            ("fieldPath", &*about.field_path),
        ] {
            if !text.is_empty() {
                involved[field] = text.into();
            }
        }
        event["reason"] = told.reason.clone().into();
        event["message"] = (&*told.message).into();
        event["type"] = match told.severity {
            EventType::Normal => "Normal".into(),
            EventType::Warning => "Warning".into(),
        };
        event["count"] = 1.into();
        (event["firstTimestamp"], event["lastTimestamp"]) =
            (now.clone().into(), now.clone().into());
        event["source"]["component"] = self.component.clone().into();
        if !self.host.is_empty() {
            event["source"]["host"] = self.host.clone().into();
            event["reportingInstance"] = self.host.clone().into();
        }
        event["reportingComponent"] = self.component.clone().into();
        event
    }
}

fn events() -> ApiResource {
    ApiResource {
        group: Text::default(),
        version: "v1".into(),
        plural: "events".into(),
        kind: "Event".into(),
        namespaced: true,
    }
}
