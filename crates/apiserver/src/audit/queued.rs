//! Buffering of audit events before a sink, so that requests do not wait for it.

use std::sync::Arc;

use object::Value;
use tokio::sync::mpsc;
use tracing::warn;

use super::{AuditSink, Batching, batches::BatchReceiver};

/// A sink that queues events; it drops them when the queue is full.
#[derive(Debug)]
pub(crate) struct BufferedSink {
    queue: mpsc::Sender<Value>,
}

/// The task that writes queued events to the sink.
#[derive(Debug)]
pub(crate) struct BufferedWriter {
    to: Arc<dyn AuditSink>,
    batches: BatchReceiver,
}

impl BufferedSink {
    pub(crate) fn new(to: Arc<dyn AuditSink>, batching: Batching) -> (Arc<Self>, BufferedWriter) {
        let (sender, batches) = BatchReceiver::new(batching);
        (Arc::new(Self { queue: sender }), BufferedWriter { to, batches })
    }
}

impl AuditSink for BufferedSink {
    fn name(&self) -> &'static str {
        "buffered"
    }

    fn write(&self, event: &Value) -> bool {
        let taken = self.queue.try_send(event.clone()).is_ok();
        if !taken {
            warn!("the audit log is too slow; dropping an event");
        }
        taken
    }
}

impl BufferedWriter {
    /// Writes events until `ended` completes, and then those that are left in the queue.
    pub(crate) async fn run(mut self, ended: impl Future<Output = ()>) {
        tokio::pin!(ended);
        loop {
            tokio::select! {
                batch = self.batches.next() => match batch {
                    Some(batch) => batch.iter().for_each(|event| {
                        let _ = panics::catch("audit", || self.to.write(event));
                    }),
                    None => return,
                },
                () = &mut ended => break,
            }
        }
        for event in self.batches.rest() {
            let _ = self.to.write(&event); // the file logs what it drops
        }
    }
}
