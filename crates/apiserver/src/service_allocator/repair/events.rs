//! Events about repairs: one for each finding, as long as it is kept.

use api::core::Service;
use object::{MicroTime, ObjectMeta, Value};
use ring::digest::{SHA256, digest};
use server::Registry;
use tracing::warn;

use crate::bootstrap::internal_context;

/// The object that an event is about.
#[derive(Clone, Copy, Debug)]
pub(super) struct EventSubject<'a> {
    version: &'static str,
    kind: &'static str,
    meta: &'a ObjectMeta,
}

impl<'a> EventSubject<'a> {
    pub(super) fn service(service: &'a Service) -> Self {
        Self { version: "v1", kind: "Service", meta: service.metadata() }
    }

    pub(super) fn address(meta: &'a ObjectMeta) -> Self {
        Self { version: "networking.k8s.io/v1", kind: "IPAddress", meta }
    }
}

/// Records a warning event. A failure to record it does not stop the repair.
pub(super) async fn warn(
    registry: &Registry,
    about: EventSubject<'_>,
    (who, reason, action): (&str, &str, &str),
    note: &str,
) {
    let made = match registry.kind("events.k8s.io", "events") {
        Ok(kind) => {
            let event = event(registry.clock().now_micros(), about, (who, reason, action), note);
            let namespace = namespace(about.meta).to_owned();
            registry.create(&mut internal_context(), &kind, &namespace, event).await.map(drop)
        }
        Err(status) => Err(status),
    };
    match made {
        Err(status) if !status.has_reason("AlreadyExists") => {
            warn!(reason, note, why = status.message(), "cannot write an event");
        }
        _ => {}
    }
}

fn event(
    now: i64,
    about: EventSubject<'_>,
    (who, reason, action): (&str, &str, &str),
    note: &str,
) -> Value {
    let EventSubject { version, kind, meta } = about;
    let seed = format!("{}/{reason}/{note}", meta.uid());
    let hash = digest(&SHA256, seed.as_bytes());
    let hash: String = hash.as_ref()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    let mut event = Value::object();
    event["metadata"]["name"] = format!("{}.{hash}", meta.name().replace(':', "-")).into();
    event["metadata"]["namespace"] = namespace(meta).into();
    event["eventTime"] = MicroTime::format(now).into();
    event["reportingController"] = who.into();
    event["reportingInstance"] = who.into();
    for (field, value) in
        [("reason", reason), ("action", action), ("note", note), ("type", "Warning")]
    {
        event[field] = value.into();
    }
    let regarding = &mut event["regarding"];
    for (field, value) in [
        ("apiVersion", version),
        ("kind", kind),
        ("namespace", meta.namespace()),
        ("name", meta.name()),
        ("uid", meta.uid()),
    ] {
        regarding[field] = value.into();
    }
    event
}

/// The namespace of an event; `default` for a cluster-scoped object.
fn namespace(meta: &ObjectMeta) -> &str {
    if meta.namespace().is_empty() { "default" } else { meta.namespace() }
}
