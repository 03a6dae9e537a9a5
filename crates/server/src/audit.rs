//! What was done, by whom, to what: told to those who keep it. How much is told of a
//! request is a policy's matter.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use http::{HeaderMap, header::USER_AGENT};
use object::{MicroTime, Text, Value, from_json};

use crate::{Peer, RequestInfo, User};

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
pub trait Audit: fmt::Debug + Send + Sync {
    /// How much is told of a request, and whether field managers are left out.
    fn level(&self, user: &User, info: &RequestInfo) -> (AuditLevel, bool);
    /// Whether nothing is told of such a request at this stage.
    fn omits(&self, user: &User, info: &RequestInfo, stage: AuditStage) -> bool;
    fn tell(&self, event: Value);
}

tokio::task_local! {
    /// What is found out about the request that this task handles.
    static RECORD: Arc<Record>;
}

/// What is found out on the way.
#[derive(Debug, Default)]
pub(crate) struct Record {
    body: Mutex<Bytes>,
    annotations: Mutex<BTreeMap<String, String>>,
}

/// Runs a request with a record of its own.
pub(crate) async fn recorded<T>(record: Arc<Record>, task: impl Future<Output = T>) -> T {
    RECORD.scope(record, task).await
}

/// Keeps the body of the request for those who audit, if anybody does.
pub(crate) fn note_body(body: &Bytes) {
    let _ = RECORD.try_with(|record| {
        *record.body.lock().unwrap_or_else(PoisonError::into_inner) = body.clone();
    });
}

pub(crate) fn annotate(annotations: &BTreeMap<String, String>) {
    let _ = RECORD.try_with(|record| {
        let mut own = record.annotations.lock().unwrap_or_else(PoisonError::into_inner);
        own.extend(annotations.iter().map(|(key, value)| (key.clone(), value.clone())));
    });
}

/// One request, as it is told.
#[derive(Debug)]
pub(crate) struct Trail {
    audit: Arc<dyn Audit>,
    level: AuditLevel,
    omit_managers: bool,
    user: User,
    info: RequestInfo,
    event: Value,
    pub(crate) record: Arc<Record>,
}

impl Trail {
    /// `None` if nothing is told of this request.
    pub(crate) fn begin(
        audit: &Arc<dyn Audit>,
        id: &str,
        (user, info): (&User, &RequestInfo),
        (uri, headers, peer): (&str, &HeaderMap, &Peer),
        micros: i64,
    ) -> Option<Self> {
        let (level, omit_managers) = audit.level(user, info);
        if level == AuditLevel::None {
            return None;
        }
        let mut event = Value::object();
        event["kind"] = "Event".into();
        event["apiVersion"] = "audit.k8s.io/v1".into();
        event["level"] = name(level).into();
        event["auditID"] = id.into();
        event["requestURI"] = uri.into();
        event["verb"] = info.verb.clone().into();
        event["user"] = told(user);
        if let Some(address) = peer.address {
            event["sourceIPs"] = [address.ip().to_string()].into_iter().collect();
        }
        if let Some(agent) = headers.get(USER_AGENT).and_then(|value| value.to_str().ok()) {
            event["userAgent"] = agent.into();
        }
        if info.is_resource {
            event["objectRef"] = reference(info);
        }
        event["requestReceivedTimestamp"] = MicroTime::text(micros).into();
        let trail = Self {
            audit: audit.clone(),
            level,
            omit_managers,
            user: user.clone(),
            info: info.clone(),
            event,
            record: Arc::default(),
        };
        trail.tell(AuditStage::RequestReceived, micros);
        Some(trail)
    }

    /// Whether the answer is a list, which has an end though its size is not known.
    pub(crate) fn lists(&self) -> bool {
        self.info.verb == "list"
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.level == AuditLevel::RequestResponse
    }

    /// The decision on the request, for those who ask why.
    pub(crate) fn decided(&mut self, allowed: bool) {
        let decision = if allowed { "allow" } else { "forbid" };
        self.event["annotations"]["authorization.k8s.io/decision"] = decision.into();
    }

    /// Tells how it ended, or that an answer without end has begun.
    pub(crate) fn end(mut self, stage: AuditStage, code: u16, body: Option<&[u8]>, micros: i64) {
        let mut status = Value::object();
        status["metadata"] = Value::object();
        status["code"] = i64::from(code).into();
        let body = body.filter(|_| self.is_whole() || code >= 400);
        let mut answer = body.and_then(|bytes| from_json(bytes).ok()).unwrap_or_default();
        if answer.get("kind").as_str() == Some("Status") {
            for name in ["status", "reason", "message", "details"] {
                if !answer.get(name).is_null() {
                    status[name] = answer.get(name).clone();
                }
            }
        }
        self.event["responseStatus"] = status;
        if self.level >= AuditLevel::Request {
            let sent = self.record.body.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some(mut sent) = from_json(&sent).ok().filter(Value::is_object) {
                self.trim(&mut sent);
                self.event["requestObject"] = sent;
            }
        }
        if self.is_whole() && answer.is_object() {
            self.trim(&mut answer);
            self.event["responseObject"] = answer;
        }
        let noted = std::mem::take(
            &mut *self.record.annotations.lock().unwrap_or_else(PoisonError::into_inner),
        );
        for (key, value) in noted {
            self.event["annotations"][key.as_str()] = value.into();
        }
        self.tell(stage, micros);
    }

    fn trim(&self, object: &mut Value) {
        if self.omit_managers && object.get("metadata").is_object() {
            object["metadata"].remove("managedFields");
        }
    }

    fn tell(&self, stage: AuditStage, micros: i64) {
        if self.audit.omits(&self.user, &self.info, stage) {
            return;
        }
        let mut event = self.event.clone();
        event["stage"] = match stage {
            AuditStage::RequestReceived => "RequestReceived",
            AuditStage::ResponseStarted => "ResponseStarted",
            AuditStage::ResponseComplete => "ResponseComplete",
        }
        .into();
        event["stageTimestamp"] = MicroTime::text(micros).into();
        self.audit.tell(event);
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

fn told(user: &User) -> Value {
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
