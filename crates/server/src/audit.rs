//! What was done, by whom, to what: told to those who keep it. How much is told of a
//! request is a policy's matter.

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

use crate::{Peer, RequestInfo, UserInfo, filters::Caller};

/// So much is told of what a client calls itself.
const LONGEST_AGENT: usize = 1024;
/// What takes more microseconds is explained.
const SLOW: i64 = 500_000;

/// How much is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum AuditLevel {
    #[default]
    None,
    Metadata,
    Request,
    RequestResponse,
}

/// When something is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditStage {
    RequestReceived,
    ResponseStarted,
    ResponseComplete,
}

/// Keeps what is told.
pub trait AuditBackend: fmt::Debug + Send + Sync {
    /// How much is told of a request, and whether field managers are left out.
    fn level(&self, user: &UserInfo, info: &RequestInfo) -> (AuditLevel, bool);
    /// Whether nothing is told of such a request at this stage.
    fn omits(&self, user: &UserInfo, info: &RequestInfo, stage: AuditStage) -> bool;
    /// Tells an event. An error: what it is about must not happen, since it could not be told.
    fn process_event(&self, event: Value) -> Result<(), Untold>;
    /// A request was refused because of that.
    fn refused(&self);
}

/// An event could not be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Untold;

tokio::task_local! {
    /// What is found out about the request that this task handles.
    static RECORD: Arc<AuditContext>;
}

/// What is found out on the way.
#[derive(Debug, Default)]
pub(crate) struct AuditContext {
    /// Whether what is answered is told as well.
    logs_response: bool,
    sent: Mutex<Value>,
    answer: Mutex<Value>,
    annotations: Mutex<BTreeMap<String, String>>,
    layers: Mutex<LatencyBreakdown>,
}

/// How long a request has been in parts of the server.
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

/// Runs a request with a record of its own.
pub(crate) async fn with_audit_context<T>(
    record: Arc<AuditContext>,
    task: impl Future<Output = T>,
) -> T {
    RECORD.scope(record, task).await
}

/// Keeps what was sent for those who audit, if anybody does.
pub fn log_request_object(sent: impl FnOnce() -> Value) {
    let _ = RECORD.try_with(|record| *locked(&record.sent) = sent());
}

/// Keeps what is answered, if that is told.
pub(crate) fn log_response_object(answer: impl FnOnce() -> Value) {
    let _ = RECORD.try_with(|record| {
        if record.logs_response {
            record.note_answer(answer());
        }
    });
}

/// Keeps how a request has failed, or that it has not.
pub(crate) fn note_status(status: &Status) {
    let _ = RECORD.try_with(|record| record.note_answer(status.clone().into()));
}

/// Keeps how long a request was in a part of the server. What is done at once counts by what
/// takes longest.
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

/// Notes something for those who audit.
pub fn add_audit_annotation(key: &str, value: String) {
    annotate(&BTreeMap::from([(key.to_owned(), value)]));
}

pub(crate) fn annotate(annotations: &BTreeMap<String, String>) {
    let _ = RECORD.try_with(|record| {
        let mut own = locked(&record.annotations);
        own.extend(annotations.iter().map(|(key, value)| (key.clone(), value.clone())));
    });
}

/// One request, as it is told.
#[derive(Debug)]
pub(crate) struct RequestAudit {
    audit: Arc<dyn AuditBackend>,
    level: AuditLevel,
    omit_managers: bool,
    asker: Caller,
    info: RequestInfo,
    event: Value,
    /// In microseconds.
    arrived: i64,
    pub(crate) record: Arc<AuditContext>,
    /// Whether it could not be told that the request has come, and it must not go on.
    untold: bool,
}

impl RequestAudit {
    /// `None` if nothing is told of this request.
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

    /// Why the request must not go on.
    pub(crate) fn refusal(&self) -> Option<Status> {
        self.untold.then(|| {
            self.audit.refused();
            Status::internal("failed to store audit event")
        })
    }

    /// Whether the answer may take as long as it likes. Who has not got in is told of as if it
    /// did: that is all that there is to tell.
    pub(crate) fn is_long_running(&self) -> bool {
        let parts = ["proxy", "log", "exec", "attach", "portforward"];
        self.asker.authenticated.is_none()
            || self.info.verb == "watch"
            || parts.contains(&&*self.info.subresource)
    }

    /// As whom the request is handled, and whether it is, for those who ask why.
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

    /// Tells how it ended, or that an answer without end has begun.
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
        let _ = self.emit(event, stage, micros); // it has happened
    }

    /// Where the time of a slow request has gone.
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

/// What the sent object says of itself, where the path does not.
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

/// Where a request comes from, as far as those who passed it on say so, and who did last.
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

/// By what somebody has tried to get in.
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
