//! How far a mirror is complete, and who waits for more.

use tokio::sync::watch;

/// A revision that only grows.
#[derive(Debug)]
pub(crate) struct Progress(watch::Sender<u64>);

impl Default for Progress {
    fn default() -> Self {
        Self(watch::Sender::new(0))
    }
}

impl Progress {
    pub(crate) fn get(&self) -> u64 {
        *self.0.borrow()
    }

    pub(crate) fn reach(&self, revision: u64) {
        self.0.send_if_modified(|at| {
            let further = revision > *at;
            *at = revision.max(*at);
            further
        });
    }

    pub(crate) async fn wait_for(&self, revision: u64) {
        let mut at = self.0.subscribe();
        at.wait_for(|at| *at >= revision).await.expect("the sender is `self`");
    }
}
