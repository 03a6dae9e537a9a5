//! Auditing: a policy sets the level of each request; a log file and a webhook receive the events.

mod batches;
mod file;
mod legacy_format;
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
use server::{
    AuditBackend, AuditLevel, AuditStage, CounterVec, MetricDesc, MetricsSource, RequestInfo,
    Untold, UserInfo,
};

pub(crate) use self::{
    batches::Batching,
    file::{LogFile, Rotation},
    policy::Policy,
    queued::{BufferedSink, BufferedWriter},
    truncated::TruncatingSink,
    webhook::{AuditWebhook, Sender},
};

/// A destination of audit events.
pub(crate) trait AuditSink: std::fmt::Debug + Send + Sync {
    /// The name that metrics use as the `plugin` label.
    fn name(&self) -> &'static str;
    /// Writes or queues the event; returns false if it was dropped.
    fn write(&self, event: &Value) -> bool;
}

/// The audit backend: applies the policy, and passes events on to all sinks.
#[derive(Debug)]
pub(crate) struct Auditor {
    policy: Policy,
    /// The sinks, each with whether a request must fail if the sink drops its event
    /// (`blocking-strict`).
    sinks: Vec<(Arc<dyn AuditSink>, bool)>,
    events: AtomicU64,
    levels: CounterVec,
    lost: CounterVec,
    refused: AtomicU64,
}

impl Auditor {
    pub(crate) fn new(policy: &Path, sinks: Vec<(Arc<dyn AuditSink>, bool)>) -> Result<Self> {
        let levels = CounterVec::new(MetricDesc {
            name: "apiserver_audit_level_total",
            help: "Requests by audit level.",
            labels: &["level"],
        });
        let lost = CounterVec::new(MetricDesc {
            name: "apiserver_audit_error_total",
            help: "Audit events that could not be written, by backend.",
            labels: &["plugin"],
        });
        let (policy, events, refused) =
            (Policy::read(policy)?, AtomicU64::new(0), AtomicU64::new(0));
        Ok(Self { policy, sinks, events, levels, lost, refused })
    }
}

impl AuditBackend for Auditor {
    fn level(&self, user: &UserInfo, info: &RequestInfo) -> (AuditLevel, bool) {
        let (level, told) = self.policy.level(user, info);
        self.levels.count(&[match level {
            AuditLevel::None => "None",
            AuditLevel::Metadata => "Metadata",
            AuditLevel::Request => "Request",
            AuditLevel::RequestResponse => "RequestResponse",
        }]);
        (level, told)
    }

    fn omits(&self, user: &UserInfo, info: &RequestInfo, stage: AuditStage) -> bool {
        self.policy.omits(user, info, stage)
    }

    fn process_event(&self, event: Value) -> Result<(), Untold> {
        self.events.fetch_add(1, Relaxed);
        let mut told = Ok(());
        for (sink, strict) in &self.sinks {
            if !sink.write(&event) {
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

impl MetricsSource for Auditor {
    fn report(&self, out: &mut String) {
        let (name, events) = ("apiserver_audit_event_total", self.events.load(Relaxed));
        let _ = writeln!(
            out,
            "# HELP {name} Audit events generated.\n# TYPE {name} counter\n{name} {events}"
        );
        self.levels.write(out);
        self.lost.write(out);
        let (name, refused) =
            ("apiserver_audit_requests_rejected_total", self.refused.load(Relaxed));
        let _ = writeln!(
            out,
            "# HELP {name} Requests rejected because their audit event could not be written.\n# TYPE {name} counter\n{name} {refused}"
        );
    }
}
