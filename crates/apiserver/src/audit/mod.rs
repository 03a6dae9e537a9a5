//! Audit: a policy says how much of which request is told, a file and a webhook keep it.

mod batches;
mod file;
mod line;
mod policy;
mod queued;
mod truncated;
mod webhook;

use std::{
    fmt::Write as _,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use anyhow::Result;
use object::Value;
use server::{Audit, AuditLevel, AuditStage, Counter, Name, Report, RequestInfo, User};

pub(crate) use self::{
    batches::Batching,
    file::{LogFile, Rotation},
    policy::Policy,
    queued::{Drain, Queued},
    truncated::Truncated,
    webhook::{AuditWebhook, Sender},
};

/// Somebody who keeps events.
pub(crate) trait Sink: std::fmt::Debug + Send + Sync {
    fn keep(&self, event: &Value);
}

#[derive(Debug)]
pub(crate) struct Auditor {
    policy: Policy,
    sinks: Vec<Arc<dyn Sink>>,
    events: AtomicU64,
    levels: Counter,
}

impl Auditor {
    pub(crate) fn new(policy: &Path, sinks: Vec<Arc<dyn Sink>>) -> Result<Self> {
        let levels = Counter::new(Name {
            name: "apiserver_audit_level_total",
            help: "How much is told of requests.",
            labels: &["level"],
        });
        Ok(Self { policy: Policy::read(policy)?, sinks, events: AtomicU64::new(0), levels })
    }
}

impl Audit for Auditor {
    fn level(&self, user: &User, info: &RequestInfo) -> (AuditLevel, bool) {
        let (level, told) = self.policy.level(user, info);
        self.levels.count(&[match level {
            AuditLevel::None => "None",
            AuditLevel::Metadata => "Metadata",
            AuditLevel::Request => "Request",
            AuditLevel::RequestResponse => "RequestResponse",
        }]);
        (level, told)
    }

    fn omits(&self, user: &User, info: &RequestInfo, stage: AuditStage) -> bool {
        self.policy.omits(user, info, stage)
    }

    fn tell(&self, event: Value) {
        self.events.fetch_add(1, Relaxed);
        for sink in &self.sinks {
            sink.keep(&event);
        }
    }
}

impl Report for Auditor {
    fn report(&self, out: &mut String) {
        let (name, events) = ("apiserver_audit_event_total", self.events.load(Relaxed));
        let _ =
            writeln!(out, "# HELP {name} What was told.\n# TYPE {name} counter\n{name} {events}");
        self.levels.write(out);
        // Who cannot be told of a request does not stop it.
        let name = "apiserver_audit_requests_rejected_total";
        let _ = writeln!(
            out,
            "# HELP {name} Requests that were refused since they could not be told.\n# TYPE {name} counter\n{name} 0"
        );
    }
}
