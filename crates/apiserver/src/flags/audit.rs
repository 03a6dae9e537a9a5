//! Flags about the audit log and the audit webhook.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::{ArgAction, Args};

use crate::{audit, config::duration};

#[derive(Args, Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct AuditFlags {
    /// How events stand in the file: json, or legacy, a line of text each.
    #[arg(long, default_value = "json", value_parser = ["json", "legacy"])]
    pub audit_log_format: String,
    /// Whether requests wait until their events are in the file: blocking, or batch; with
    /// blocking-strict a request is refused whose arrival cannot be written.
    #[arg(long, default_value = "blocking", value_parser = ["blocking", "blocking-strict", "batch"])]
    pub audit_log_mode: String,
    /// The version of events in the file.
    #[arg(long, default_value = "audit.k8s.io/v1", value_parser = ["audit.k8s.io/v1"])]
    pub audit_log_version: String,
    /// How many events wait to be written to the file; more are lost. Only in batch mode.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub audit_log_batch_buffer_size: u32,
    /// Whether requests wait until their events are sent: batch, they do not.
    #[arg(long, default_value = "batch", value_parser = ["batch"])]
    pub audit_webhook_mode: String,
    /// The version of events that are sent.
    #[arg(long, default_value = "audit.k8s.io/v1", value_parser = ["audit.k8s.io/v1"])]
    pub audit_webhook_version: String,
    /// How many events wait to be sent; more are lost.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub audit_webhook_batch_buffer_size: u32,
    /// How many events are written to the file at once. Only in batch mode.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub audit_log_batch_max_size: u32,
    /// How long events wait for others. Only in batch mode.
    #[arg(long, default_value = "0s")]
    pub audit_log_batch_max_wait: String,
    /// Whether batches are written only so often. Only in batch mode.
    #[arg(long, default_value_t = false, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub audit_log_batch_throttle_enable: bool,
    /// How many batches a second.
    #[arg(long, default_value_t = 0.0)]
    pub audit_log_batch_throttle_qps: f32,
    /// How many batches at once, if there were none before.
    #[arg(long, default_value_t = 0)]
    pub audit_log_batch_throttle_burst: u32,
    /// Whether files that were put aside are compressed.
    #[arg(long, default_value_t = false, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub audit_log_compress: bool,
    /// Whether large events lose their objects, and too large ones are left out.
    #[arg(long, default_value_t = false, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub audit_log_truncate_enabled: bool,
    /// How large events may be that are written at once, in bytes.
    #[arg(long, default_value_t = 10_485_760)]
    pub audit_log_truncate_max_batch_size: usize,
    /// How large an event may be, in bytes.
    #[arg(long, default_value_t = 102_400)]
    pub audit_log_truncate_max_event_size: usize,
    /// Whether batches are sent only so often.
    #[arg(long, default_value_t = true, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub audit_webhook_batch_throttle_enable: bool,
    /// How many batches a second.
    #[arg(long, default_value_t = 10.0)]
    pub audit_webhook_batch_throttle_qps: f32,
    /// How many batches at once, if there were none before.
    #[arg(long, default_value_t = 15)]
    pub audit_webhook_batch_throttle_burst: u32,
    /// How long to wait before a batch that was not taken is sent again.
    #[arg(long, default_value = "10s")]
    pub audit_webhook_initial_backoff: String,
    /// Whether large events lose their objects, and too large ones are left out.
    #[arg(long, default_value_t = false, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub audit_webhook_truncate_enabled: bool,
    /// How large events may be that are sent at once, in bytes.
    #[arg(long, default_value_t = 10_485_760)]
    pub audit_webhook_truncate_max_batch_size: usize,
    /// How large an event may be, in bytes.
    #[arg(long, default_value_t = 102_400)]
    pub audit_webhook_truncate_max_event_size: usize,
}

impl AuditFlags {
    pub(crate) fn check(&self) -> Result<()> {
        for (name, on, qps, burst) in [
            (
                "log",
                self.audit_log_batch_throttle_enable,
                self.audit_log_batch_throttle_qps,
                self.audit_log_batch_throttle_burst,
            ),
            (
                "webhook",
                self.audit_webhook_batch_throttle_enable,
                self.audit_webhook_batch_throttle_qps,
                self.audit_webhook_batch_throttle_burst,
            ),
        ] {
            let flag = format!("--audit-{name}-batch-throttle");
            ensure!(!on || qps > 0.0, "invalid {flag}-qps {qps}, must be a positive number");
            ensure!(!on || burst > 0, "invalid {flag}-burst {burst}, must be a positive number");
        }
        for (name, batch, event) in [
            ("log", self.audit_log_truncate_max_batch_size, self.audit_log_truncate_max_event_size),
            (
                "webhook",
                self.audit_webhook_truncate_max_batch_size,
                self.audit_webhook_truncate_max_event_size,
            ),
        ] {
            ensure!(
                event <= batch,
                "--audit-{name}-truncate-max-event-size must not be greater than \
                 --audit-{name}-truncate-max-batch-size"
            );
        }
        self.log_wait()?;
        self.backoff().map(drop)
    }

    /// Batching of the log file; `None` if requests wait for each write.
    pub(crate) fn log_batching(&self) -> Result<Option<audit::Batching>> {
        if self.audit_log_mode != "batch" {
            return Ok(None);
        }
        Ok(Some(audit::Batching {
            max_size: usize::try_from(self.audit_log_batch_max_size)?,
            wait: self.log_wait()?,
            buffer_size: usize::try_from(self.audit_log_batch_buffer_size)?,
            largest: self.log_largest().map(|(batch, _)| batch),
            pace: self.audit_log_batch_throttle_enable.then_some((
                self.audit_log_batch_throttle_qps,
                self.audit_log_batch_throttle_burst,
            )),
        }))
    }

    /// Batching of the webhook.
    pub(crate) fn webhook_batching(&self, most: usize, wait: Duration) -> Result<audit::Batching> {
        Ok(audit::Batching {
            max_size: most.max(1),
            wait,
            buffer_size: usize::try_from(self.audit_webhook_batch_buffer_size)?,
            largest: self.webhook_largest().map(|(batch, _)| batch),
            pace: self.audit_webhook_batch_throttle_enable.then_some((
                self.audit_webhook_batch_throttle_qps,
                self.audit_webhook_batch_throttle_burst,
            )),
        })
    }

    /// Maximum size of a batch and of an event in the log file, in bytes; `None` if events are not
    /// truncated.
    pub(crate) fn log_largest(&self) -> Option<(usize, usize)> {
        let sizes =
            (self.audit_log_truncate_max_batch_size, self.audit_log_truncate_max_event_size);
        self.audit_log_truncate_enabled.then_some(sizes)
    }

    /// Maximum size of a batch and of an event for the webhook, in bytes; `None` if events are not
    /// truncated.
    pub(crate) fn webhook_largest(&self) -> Option<(usize, usize)> {
        let sizes = (
            self.audit_webhook_truncate_max_batch_size,
            self.audit_webhook_truncate_max_event_size,
        );
        self.audit_webhook_truncate_enabled.then_some(sizes)
    }

    pub(crate) fn backoff(&self) -> Result<Duration> {
        duration(&self.audit_webhook_initial_backoff).context("--audit-webhook-initial-backoff")
    }

    fn log_wait(&self) -> Result<Duration> {
        duration(&self.audit_log_batch_max_wait).context("--audit-log-batch-max-wait")
    }
}
