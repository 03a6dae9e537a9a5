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
use server::{Audit, AuditLevel, AuditStage, Counter, Name, Report, RequestInfo, Untold, User};

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
    /// What metrics call it.
    fn name(&self) -> &'static str;
    /// Whether the event is kept, or will be, as far as is known.
    fn keep(&self, event: &Value) -> bool;
}

#[derive(Debug)]
pub(crate) struct Auditor {
    policy: Policy,
    /// Who keeps events, and whether what one of them cannot keep must not happen.
    sinks: Vec<(Arc<dyn Sink>, bool)>,
    events: AtomicU64,
    levels: Counter,
    lost: Counter,
    refused: AtomicU64,
}

impl Auditor {
    pub(crate) fn new(policy: &Path, sinks: Vec<(Arc<dyn Sink>, bool)>) -> Result<Self> {
        let levels = Counter::new(Name {
            name: "apiserver_audit_level_total",
            help: "How much is told of requests.",
            labels: &["level"],
        });
        let lost = Counter::new(Name {
            name: "apiserver_audit_error_total",
            help: "Events that were not kept.",
            labels: &["plugin"],
        });
        let (policy, events, refused) =
            (Policy::read(policy)?, AtomicU64::new(0), AtomicU64::new(0));
        Ok(Self { policy, sinks, events, levels, lost, refused })
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

    fn tell(&self, event: Value) -> Result<(), Untold> {
        self.events.fetch_add(1, Relaxed);
        let mut told = Ok(());
        for (sink, strict) in &self.sinks {
            if !sink.keep(&event) {
                self.lost.count(&[sink.name()]);
                told = if *strict { Err(Untold) } else { told };
            }
        }
        told
    }

    fn refused(&self) {
        self.refused.fetch_add(1, Relaxed);
    }
}

impl Report for Auditor {
    fn report(&self, out: &mut String) {
        let (name, events) = ("apiserver_audit_event_total", self.events.load(Relaxed));
        let _ =
            writeln!(out, "# HELP {name} What was told.\n# TYPE {name} counter\n{name} {events}");
        self.levels.write(out);
        self.lost.write(out);
        let (name, refused) =
            ("apiserver_audit_requests_rejected_total", self.refused.load(Relaxed));
        let _ = writeln!(
            out,
            "# HELP {name} Requests that were refused since they could not be told.\n# TYPE {name} counter\n{name} {refused}"
        );
    }
}
