//! Auditing: builds an `audit.k8s.io/v1` Event for each stage of a request and sends it to the
//! audit backend. The audit policy decides the level of detail.

use std::{
    collections::BTreeMap,
    fmt,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use http::{
    HeaderMap,
    header::{AUTHORIZATION, USER_AGENT},
    request::Parts,
};
use object::{MicroTime, Object, Status, Text, Value, View};

use crate::{Peer, RequestInfo, UserInfo, deadline::STREAMING, filters::Caller};

/// Maximum length of the user agent in an event; the rest is truncated.
const LONGEST_AGENT: usize = 1024;
/// Requests that take longer, in microseconds, get latency annotations.
const SLOW: i64 = 500_000;

/// How much of a request is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum AuditLevel {
    #[default]
    None,
    Metadata,
    Request,
    RequestResponse,
}

/// The stage of a request at which an event is generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditStage {
    RequestReceived,
    ResponseStarted,
    ResponseComplete,
}

/// Decides the audit level of requests, and receives their events.
pub trait AuditBackend: fmt::Debug + Send + Sync {
    /// The audit level of a request, and whether `managedFields` are omitted from its objects.
    fn level(&self, user: &UserInfo, info: &RequestInfo) -> (AuditLevel, bool);
    /// Whether the policy omits events of this stage for such a request.
    fn omits(&self, user: &UserInfo, info: &RequestInfo, stage: AuditStage) -> bool;
    /// Processes an event. On error the request must be rejected, because its event could not be
    /// stored.
    fn process_event(&self, event: Value) -> Result<(), Untold>;
    /// Records that a request was rejected because its event could not be stored.
    fn refused(&self);
}

/// Error: an audit event could not be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Untold;

tokio::task_local! {
    /// Collects the audit data of the request that this task handles.
    static RECORD: Arc<AuditContext>;
}

/// Data collected for the audit event while a request is handled.
#[derive(Debug, Default)]
pub(crate) struct AuditContext {
    /// Whether the event includes the response object.
    logs_response: bool,
    sent: Mutex<Value>,
    answer: Mutex<Value>,
    annotations: Mutex<BTreeMap<String, String>>,
    layers: Mutex<LatencyBreakdown>,
}

/// The time that a request spent in each layer of the server.
#[derive(Clone, Debug, Default)]
pub(crate) struct LatencyBreakdown(BTreeMap<&'static str, Duration>);

impl LatencyBreakdown {
    pub(crate) fn add(&mut self, layer: &'static str, took: Duration) {
        *self.0.entry(layer).or_default() += took;
    }
}

impl AuditContext {
    pub(crate) fn note_answer(&self, answer: Value) {
        *locked(&self.answer) = answer;
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a request with its own audit context.
pub(crate) async fn with_audit_context<T>(
    record: Arc<AuditContext>,
    task: impl Future<Output = T>,
) -> T {
    RECORD.scope(record, task).await
}

/// Records the request object, if the request is audited.
pub fn log_request_object(sent: impl FnOnce() -> Value) {
    let _ = RECORD.try_with(|record| *locked(&record.sent) = sent());
}

/// Records the response object, if the audit level includes it.
pub(crate) fn log_response_object(answer: impl FnOnce() -> Value) {
    let _ = RECORD.try_with(|record| {
        if record.logs_response {
            record.note_answer(answer());
        }
    });
}

/// Records the Status that a request is answered with.
pub(crate) fn note_status(status: &Status) {
    let _ = RECORD.try_with(|record| record.note_answer(status.clone().into()));
}

/// Adds to the time that a request spent in a layer of the server. Work that runs concurrently
/// (`at_once`) counts by the longest.
pub fn track_latency(layer: &'static str, took: Duration, at_once: bool) {
    let _ = RECORD.try_with(|record| {
        let layers = &mut *locked(&record.layers);
        if at_once {
            let longest = layers.0.entry(layer).or_default();
            *longest = took.max(*longest);
        } else {
            layers.add(layer, took);
        }
    });
}

/// Adds an audit annotation to the event of the current request.
pub fn add_audit_annotation(key: &str, value: String) {
    annotate(&BTreeMap::from([(key.to_owned(), value)]));
}

pub(crate) fn annotate(annotations: &BTreeMap<String, String>) {
    let _ = RECORD.try_with(|record| {
        let mut own = locked(&record.annotations);
        own.extend(annotations.iter().map(|(key, value)| (key.clone(), value.clone())));
    });
}

/// The audit of one request.
#[derive(Debug)]
pub(crate) struct RequestAudit {
    audit: Arc<dyn AuditBackend>,
    level: AuditLevel,
    omit_managers: bool,
    asker: Caller,
    info: RequestInfo,
    event: Value,
    /// Time of arrival, in microseconds since 1970.
    arrived: i64,
    pub(crate) record: Arc<AuditContext>,
    /// Whether the RequestReceived event could not be stored, so that the request must be rejected.
    untold: bool,
}

impl RequestAudit {
    /// Begins the audit of a request; `None` if the policy does not log it.
    pub(crate) fn begin(
        audit: &Arc<dyn AuditBackend>,
        id: &str,
        (asker, info): (Caller, &RequestInfo),
        (head, peer): (&Parts, &Peer),
        micros: i64,
    ) -> Option<Self> {
        let shown = asker.authenticated.clone().unwrap_or_default();
        let (level, omit_managers) = audit.level(&shown, info);
        if level == AuditLevel::None {
            return None;
        }
        let mut event = Value::object();
        event["kind"] = "Event".into();
        event["apiVersion"] = "audit.k8s.io/v1".into();
        event["level"] = name(level).into();
        event["auditID"] = id.into();
        event["requestURI"] = head.uri.path_and_query().map_or("/", |path| path.as_str()).into();
        event["verb"] = info.verb.clone().into();
        event["user"] = asker.authenticated.as_ref().map_or_else(Value::object, user_info);
        let addresses = addresses(&head.headers, peer);
        if !addresses.is_empty() {
            event["sourceIPs"] = addresses.iter().map(ToString::to_string).collect();
        }
        if let Some(agent) = head.headers.get(USER_AGENT).and_then(|value| value.to_str().ok()) {
            event["userAgent"] = match agent.get(..LONGEST_AGENT) {
                Some(first) if agent.len() > LONGEST_AGENT => format!("{first}...TRUNCATED").into(),
                _ => agent.into(),
            };
        }
        if info.is_resource {
            event["objectRef"] = reference(info);
        }
        event["requestReceivedTimestamp"] = MicroTime::format(micros).into();
        let whole = level == AuditLevel::RequestResponse;
        let layers = Mutex::new(asker.latency.clone());
        let record =
            Arc::new(AuditContext { logs_response: whole, layers, ..AuditContext::default() });
        let (audit, info, arrived) = (audit.clone(), info.clone(), micros);
        let untold = false;
        let mut trail =
            Self { audit, level, omit_managers, asker, info, event, arrived, record, untold };
        if trail.asker.authenticated.is_some() {
            trail.untold = trail.tell(AuditStage::RequestReceived, micros).is_err();
        } else {
            let said = attempted(head, peer);
            trail.event["responseStatus"]["message"] = said.into();
        }
        trail.add_decisions();
        Some(trail)
    }

    /// The error to answer with, if the request must not be handled.
    pub(crate) fn refusal(&self) -> Option<Status> {
        self.untold.then(|| {
            self.audit.refused();
            Status::internal("failed to store audit event")
        })
    }

    /// Whether the request is long-running and so gets a ResponseStarted event. A request that
    /// failed authentication counts as one: its only event has that stage.
    pub(crate) fn is_long_running(&self) -> bool {
        self.asker.authenticated.is_none()
            || self.info.verb == "watch"
            || STREAMING.contains(&&*self.info.subresource)
    }

    /// Adds the impersonated user and the authorization decision to the event.
    fn add_decisions(&mut self) {
        if let Some((user, right)) = &self.asker.impersonated {
            self.event["impersonatedUser"] = user_info(user);
            if !right.is_empty() {
                let constraint = right.as_str().into();
                self.event["authenticationMetadata"]["impersonationConstraint"] = constraint;
            }
        }
        if let Some((allowed, why)) = &self.asker.decision {
            let notes = &mut self.event["annotations"];
            let decision = if *allowed { "allow" } else { "forbid" };
            notes["authorization.k8s.io/decision"] = decision.into();
            notes["authorization.k8s.io/reason"] = why.as_str().into();
        }
    }

    /// Generates the ResponseStarted or ResponseComplete event.
    pub(crate) fn end(&self, stage: AuditStage, code: u16, micros: i64) {
        if self.asker.authenticated.is_none() && stage == AuditStage::ResponseComplete {
            return;
        }
        let mut event = self.event.clone();
        let mut answer = locked(&self.record.answer).clone();
        let status = &mut event["responseStatus"];
        status["metadata"] = Value::object();
        status["code"] = i64::from(code).into();
        let is_status = answer.get("kind").as_str().is_none_or(|kind| kind == "Status");
        for name in ["status", "reason", "message", "details"] {
            if is_status && !answer.get(name).is_null() && status.get(name).is_null() {
                status[name] = answer.get(name).clone();
            }
        }
        let mut sent = locked(&self.record.sent).clone();
        if self.info.is_resource && sent.is_object() {
            complete_object_ref(&mut event["objectRef"], &sent);
        }
        if self.level >= AuditLevel::Request && !sent.is_null() {
            self.trim(&mut sent);
            event["requestObject"] = sent;
        }
        if self.level == AuditLevel::RequestResponse && answer.is_object() {
            if is_status {
                answer["kind"] = "Status".into();
                answer["apiVersion"] = "v1".into();
                answer["metadata"] = Value::object();
            }
            self.trim(&mut answer);
            event["responseObject"] = answer;
        }
        for (key, value) in &*locked(&self.record.annotations) {
            event["annotations"][key.as_str()] = value.as_str().into();
        }
        let complete = stage == AuditStage::ResponseComplete && self.info.verb != "watch";
        if complete && micros - self.arrived > SLOW {
            self.add_latency_annotations(&mut event["annotations"], micros - self.arrived);
        }
        let _ = self.emit(event, stage, micros); // the request has already been handled
    }

    /// Annotates a slow request with its latency in each layer.
    fn add_latency_annotations(&self, notes: &mut Value, micros: i64) {
        let mut note = |layer: &str, nanos: i64| {
            notes[&*format!("apiserver.latency.k8s.io/{layer}")] =
                object::Duration::format_nanos(nanos).into();
        };
        for (layer, took) in &locked(&self.record.layers).0 {
            note(layer, i64::try_from(took.as_nanos()).unwrap_or(i64::MAX));
        }
        note("total", micros.saturating_mul(1000));
    }

    fn trim(&self, object: &mut Value) {
        if !self.omit_managers {
            return;
        }
        if object.get("metadata").is_object() {
            object["metadata"].remove("managedFields");
        }
        if object.get("items").items().is_empty() {
            return;
        }
        let bare = |item: &Value| {
            let mut item = item.clone();
            item["metadata"].remove("managedFields");
            item
        };
        object["items"] = object.get("items").items().iter().map(bare).collect();
    }

    fn tell(&self, stage: AuditStage, micros: i64) -> Result<(), Untold> {
        self.emit(self.event.clone(), stage, micros)
    }

    fn emit(&self, mut event: Value, stage: AuditStage, micros: i64) -> Result<(), Untold> {
        let shown = self.asker.authenticated.clone().unwrap_or_default();
        if self.audit.omits(&shown, &self.info, stage) {
            return Ok(());
        }
        event["stage"] = match stage {
            AuditStage::RequestReceived => "RequestReceived",
            AuditStage::ResponseStarted => "ResponseStarted",
            AuditStage::ResponseComplete => "ResponseComplete",
        }
        .into();
        event["stageTimestamp"] = MicroTime::format(micros).into();
        self.audit.process_event(event)
    }
}

fn name(level: AuditLevel) -> &'static str {
    match level {
        AuditLevel::None => "None",
        AuditLevel::Metadata => "Metadata",
        AuditLevel::Request => "Request",
        AuditLevel::RequestResponse => "RequestResponse",
    }
}

fn user_info(user: &UserInfo) -> Value {
    let mut told = Value::object();
    told["username"] = user.name.clone().into();
    if !user.uid.is_empty() {
        told["uid"] = user.uid.clone().into();
    }
    told["groups"] = user.groups.iter().map(Text::as_str).collect();
    for (key, values) in &user.extra {
        told["extra"][key.as_str()] = values.iter().map(String::as_str).collect();
    }
    told
}

/// Fills in the fields of the object reference that the request path does not contain from the
/// request object.
fn complete_object_ref(reference: &mut Value, sent: &Value) {
    let meta = Object::view(sent).metadata();
    for (name, value) in [
        ("namespace", meta.namespace()),
        ("name", meta.name()),
        ("uid", meta.uid()),
        ("resourceVersion", meta.resource_version()),
    ] {
        if !value.is_empty() && reference.get(name).is_null() {
            reference[name] = value.into();
        }
    }
}

/// The source IPs of a request: those of its `X-Forwarded-For` and `X-Real-Ip` headers, then the
/// peer of the connection.
fn addresses(headers: &HeaderMap, peer: &Peer) -> Vec<IpAddr> {
    let named = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let passed = named("x-forwarded-for").into_iter().flat_map(|list| list.split(','));
    let mut all: Vec<IpAddr> = passed.filter_map(|one| one.trim().parse().ok()).collect();
    if let Some(real) = named("x-real-ip").and_then(|one| one.parse().ok())
        && !all.contains(&real)
    {
        all.push(real);
    }
    let last = peer.address.map(|address| address.ip());
    all.extend(last.filter(|last| all.last() != Some(last)));
    all
}

/// The message for failed authentication: which kinds of credentials the client presented.
fn attempted(head: &Parts, peer: &Peer) -> String {
    let given = head.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let scheme = given.and_then(|text| text.trim().split_once(' ')).map(|(scheme, _)| scheme);
    let is = |name: &str| scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case(name));
    let ways =
        [("basic", is("basic")), ("bearer", is("bearer")), ("x509", peer.certificate.is_some())];
    let ways: Vec<_> = ways.iter().filter(|(_, tried)| *tried).map(|(name, _)| *name).collect();
    match ways.is_empty() {
        true => "Authentication failed, no credentials provided".to_owned(),
        false => format!("Authentication failed, attempted: {}", ways.join(", ")),
    }
}

fn reference(info: &RequestInfo) -> Value {
    let mut reference = Value::object();
    for (name, value) in [
        ("resource", &info.resource),
        ("namespace", &info.namespace),
        ("name", &info.name),
        ("apiGroup", &info.group),
        ("apiVersion", &info.version),
        ("subresource", &info.subresource),
    ] {
        if !value.is_empty() {
            reference[name] = value.clone().into();
        }
    }
    reference
}
