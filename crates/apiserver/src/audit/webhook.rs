//! `--audit-webhook-config-file`: sends batches of audit events to a webhook.

use std::{sync::Arc, time::Duration};

use object::{Value, to_json};
use server::{Server, WebhookClient};
use tokio::sync::mpsc;
use tracing::warn;

use super::{AuditSink, Batching, batches::BatchReceiver};

const WITHIN: Duration = Duration::from_secs(30);
const TRIES: u32 = 5;
const GROWS: f32 = 1.5;

/// A sink that queues events for the webhook; it drops them when the queue is full.
#[derive(Debug)]
pub(crate) struct AuditWebhook {
    queue: mpsc::Sender<Value>,
}

/// The task that sends the batches, until the queue is closed.
#[derive(Debug)]
pub(crate) struct Sender {
    remote: WebhookClient,
    batches: BatchReceiver,
    /// Initial back-off before a failed batch is sent again.
    backoff: Duration,
}

impl AuditWebhook {
    pub(crate) fn new(
        remote: WebhookClient,
        batching: Batching,
        backoff: Duration,
    ) -> (Arc<Self>, Sender) {
        let (sender, batches) = BatchReceiver::new(batching);
        (Arc::new(Self { queue: sender }), Sender { remote, batches, backoff })
    }
}

impl AuditSink for AuditWebhook {
    fn name(&self) -> &'static str {
        "webhook"
    }

    fn write(&self, event: &Value) -> bool {
        let taken = self.queue.try_send(event.clone()).is_ok();
        if !taken {
            warn!("the audit webhook is too slow; dropping an event");
        }
        taken
    }
}

impl Sender {
    pub(crate) fn start(self, server: &Server) {
        server.background(self.run());
    }

    async fn run(mut self) {
        while let Some(batch) = self.batches.next().await {
            let _ = panics::contain("audit webhook", self.send(batch)).await;
        }
    }

    async fn send(&self, batch: Vec<Value>) {
        let mut list = Value::object();
        list["kind"] = "EventList".into();
        list["apiVersion"] = "audit.k8s.io/v1".into();
        list["metadata"] = Value::object();
        list["items"] = batch.into_iter().collect();
        let body = to_json(&list);
        let mut wait = self.backoff;
        for _ in 0..TRIES {
            match self.remote.post(body.clone(), WITHIN).await {
                Ok((code, _)) if code.is_success() => return,
                Ok((code, _)) => warn!(%code, "the audit webhook rejected events"),
                Err(error) => warn!(%error, "the audit webhook did not respond"),
            }
            tokio::time::sleep(wait).await;
            wait = wait.mul_f32(GROWS);
        }
    }
}
