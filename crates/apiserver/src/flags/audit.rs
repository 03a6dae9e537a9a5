//! Audit events: how they are written, and who waits for that.

use clap::Args;

#[derive(Args, Clone, Debug)]
pub struct AuditFlags {
    /// How events stand in the file: json, or legacy, a line of text each.
    #[arg(long, default_value = "json", value_parser = ["json", "legacy"])]
    pub audit_log_format: String,
    /// Whether requests wait until their events are in the file: blocking, or batch.
    #[arg(long, default_value = "blocking", value_parser = ["blocking", "batch"])]
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
}

impl AuditFlags {
    /// How many events may wait for the file; `None`: requests wait instead.
    pub(crate) fn log_buffer(&self) -> Option<usize> {
        let size = usize::try_from(self.audit_log_batch_buffer_size).unwrap_or(usize::MAX);
        (self.audit_log_mode == "batch").then_some(size)
    }
}
