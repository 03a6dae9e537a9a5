//! Events wait here for a file, so that requests do not.

use std::sync::Arc;

use object::Value;
use tokio::sync::mpsc;
use tracing::warn;

use super::{Batching, Sink, batches::Batches};

#[derive(Debug)]
pub(crate) struct Queued {
    queue: mpsc::Sender<Value>,
}

/// What writes the events that wait, until the end.
#[derive(Debug)]
pub(crate) struct Drain {
    to: Arc<dyn Sink>,
    batches: Batches,
}

impl Queued {
    pub(crate) fn new(to: Arc<dyn Sink>, batching: Batching) -> (Arc<Self>, Drain) {
        let (sender, batches) = Batches::new(batching);
        (Arc::new(Self { queue: sender }), Drain { to, batches })
    }
}

impl Sink for Queued {
    fn name(&self) -> &'static str {
        "buffered"
    }

    fn keep(&self, event: &Value) -> bool {
        let taken = self.queue.try_send(event.clone()).is_ok();
        if !taken {
            warn!("the audit log is too slow: an event is lost");
        }
        taken
    }
}

impl Drain {
    /// Writes until `ended`, and then what is left.
    pub(crate) async fn run(mut self, ended: impl Future<Output = ()>) {
        tokio::pin!(ended);
        loop {
            tokio::select! {
                batch = self.batches.next() => match batch {
                    Some(batch) => batch.iter().for_each(|event| {
                        let _ = panics::catch("audit", || self.to.keep(event));
                    }),
                    None => return,
                },
                () = &mut ended => break,
            }
        }
        for event in self.batches.rest() {
            let _ = self.to.keep(&event); // what is lost, the file itself has told
        }
    }
}
