//! The revision up to which a watch cache is complete, and waiting for it.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

/// A progress revision and a compaction revision. Both only grow.
#[derive(Debug)]
pub(crate) struct Progress(watch::Sender<u64>, AtomicU64);

impl Default for Progress {
    fn default() -> Self {
        Self(watch::Sender::new(0), AtomicU64::new(0))
    }
}

impl Progress {
    pub(crate) fn get(&self) -> u64 {
        *self.0.borrow()
    }

    pub(crate) fn advance(&self, revision: u64) {
        self.0.send_if_modified(|at| {
            let further = revision > *at;
            *at = revision.max(*at);
            further
        });
    }

    /// Revisions before this one are compacted.
    pub(crate) fn compacted(&self) -> u64 {
        self.1.load(Ordering::Acquire)
    }

    pub(crate) fn compact(&self, revision: u64) {
        self.1.fetch_max(revision, Ordering::AcqRel);
    }

    pub(crate) async fn wait_for(&self, revision: u64) {
        let mut at = self.0.subscribe();
        at.wait_for(|at| *at >= revision).await.expect("the sender is `self`");
    }
}
