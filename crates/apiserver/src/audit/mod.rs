//! Audit: a policy says how much of which request is told, a file and a webhook keep it.

mod file;
mod policy;
mod webhook;

use std::{path::Path, sync::Arc};

use anyhow::Result;
use object::Value;
use server::{Audit, AuditLevel, AuditStage, RequestInfo, User};

pub(crate) use self::{
    file::{LogFile, Rotation},
    policy::Policy,
    webhook::{AuditWebhook, Batching, Sender},
};

/// Somebody who keeps events.
pub(crate) trait Sink: std::fmt::Debug + Send + Sync {
    fn keep(&self, event: &Value);
}

#[derive(Debug)]
pub(crate) struct Auditor {
    policy: Policy,
    sinks: Vec<Arc<dyn Sink>>,
}

impl Auditor {
    pub(crate) fn new(policy: &Path, sinks: Vec<Arc<dyn Sink>>) -> Result<Self> {
        Ok(Self { policy: Policy::read(policy)?, sinks })
    }
}

impl Audit for Auditor {
    fn level(&self, user: &User, info: &RequestInfo) -> (AuditLevel, bool) {
        self.policy.level(user, info)
    }

    fn omits(&self, user: &User, info: &RequestInfo, stage: AuditStage) -> bool {
        self.policy.omits(user, info, stage)
    }

    fn tell(&self, event: Value) {
        for sink in &self.sinks {
            sink.keep(&event);
        }
    }
}
