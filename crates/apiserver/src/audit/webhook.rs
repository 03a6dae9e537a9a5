//! `--audit-webhook-config-file`: events are sent to somebody else, many at a time.

use std::{sync::Arc, time::Duration};

use object::{Value, to_json};
use server::{Remote, Server};
use tokio::{sync::mpsc, time::timeout};
use tracing::warn;

use super::Sink;

const WITHIN: Duration = Duration::from_secs(30);
const TRIES: u32 = 5;

/// When a batch is sent: when it is full, or when it has waited long enough.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batching {
    pub(crate) most: usize,
    pub(crate) wait: Duration,
    /// So many wait to be sent; more are lost.
    pub(crate) waiting: usize,
}

#[derive(Debug)]
pub(crate) struct AuditWebhook {
    queue: mpsc::Sender<Value>,
}

/// What sends the events of the webhook, until there are no more.
#[derive(Debug)]
pub(crate) struct Sender {
    remote: Remote,
    batching: Batching,
    queue: mpsc::Receiver<Value>,
}

impl AuditWebhook {
    pub(crate) fn new(remote: Remote, batching: Batching) -> (Arc<Self>, Sender) {
        let (sender, receiver) = mpsc::channel(batching.waiting);
        (Arc::new(Self { queue: sender }), Sender { remote, batching, queue: receiver })
    }
}

impl Sink for AuditWebhook {
    fn keep(&self, event: &Value) {
        if self.queue.try_send(event.clone()).is_err() {
            warn!("the audit webhook is too slow: an event is lost");
        }
    }
}

impl Sender {
    pub(crate) fn start(self, server: &Server) {
        server.background(self.run());
    }

    async fn run(mut self) {
        while let Some(first) = self.queue.recv().await {
            let mut batch = vec![first];
            let fill = async {
                while batch.len() < self.batching.most {
                    match self.queue.recv().await {
                        Some(event) => batch.push(event),
                        None => return,
                    }
                }
            };
            let _ = timeout(self.batching.wait, fill).await;
            self.send(batch).await;
        }
    }

    async fn send(&self, batch: Vec<Value>) {
        let mut list = Value::object();
        list["kind"] = "EventList".into();
        list["apiVersion"] = "audit.k8s.io/v1".into();
        list["metadata"] = Value::object();
        list["items"] = batch.into_iter().collect();
        let body = to_json(&list);
        for attempt in 0..TRIES {
            match self.remote.post(body.clone(), WITHIN).await {
                Ok((code, _)) if code.is_success() => return,
                Ok((code, _)) => warn!(%code, "the audit webhook refuses events"),
                Err(error) => warn!(%error, "the audit webhook does not answer"),
            }
            tokio::time::sleep(Duration::from_secs(1 << attempt)).await;
        }
    }
}
