//! A watch's position in the event ring of a resource. It has no buffer, task or timer.

use std::{
    fmt,
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use crate::{Error, Event, Topic, WatchCache};

/// The position of one watch in the ring of its resource.
#[derive(Debug)]
pub struct Cursor<V: fmt::Debug> {
    resource: Arc<WatchCache<V>>,
    topic: Topic,
    number: u64,
    position: u64,
}

impl<V: fmt::Debug> Cursor<V> {
    /// Opens a cursor on the events of `topic` after `revision`.
    pub fn open(resource: &Arc<WatchCache<V>>, topic: Topic, revision: u64) -> Result<Self, Error> {
        let (number, position) = resource.open(&topic, revision)?;
        Ok(Self { resource: resource.clone(), topic, number, position })
    }

    /// Waits for the next event of the cursor's topic. Cancel safe.
    pub async fn next(&mut self) -> Result<Arc<Event<V>>, Error> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// The next event if there is one already. Does not register a waker.
    pub fn try_next(&mut self) -> Option<Result<Arc<Event<V>>, Error>> {
        match self.poll_next(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(event) => Some(event),
            Poll::Pending => None,
        }
    }

    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Arc<Event<V>>, Error>> {
        let ring = &mut self.resource.state().ring;
        ring.poll(&self.topic, self.number, &mut self.position, cx.waker())
    }
}

impl<V: fmt::Debug> Drop for Cursor<V> {
    fn drop(&mut self) {
        self.resource.state().ring.leave(&self.topic, self.number);
    }
}
