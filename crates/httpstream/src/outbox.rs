//! The send queue of a connection, with many writers and one reader. Data frames wait for space. Control frames never
//! wait, stay in order behind earlier data, and are limited by their number.

use std::{
    collections::VecDeque,
    future::poll_fn,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

const ROOM: usize = 256 << 10;
const MOST_ITEMS: usize = 16 << 10;

/// The send queue of a connection. Clones share it.
#[derive(Debug)]
pub struct Outbox<T>(Arc<Mutex<State<T>>>);

#[derive(Debug)]
struct State<T> {
    items: VecDeque<(T, usize)>,
    bytes: usize,
    /// No more items are accepted; queued ones are still sent.
    finished: bool,
    /// The reader is gone.
    broken: bool,
    reader: Option<Waker>,
    writers: Vec<Waker>,
}

impl<T> Clone for Outbox<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Default for Outbox<T> {
    fn default() -> Self {
        let (items, writers) = (VecDeque::new(), Vec::new());
        Self(Arc::new(Mutex::new(State {
            items,
            bytes: 0,
            finished: false,
            broken: false,
            reader: None,
            writers,
        })))
    }
}

impl<T> Outbox<T> {
    /// Queues data when there is space; `item` is created only then.
    pub fn poll_push(
        &self,
        cx: &mut Context<'_>,
        size: usize,
        item: impl FnOnce() -> T,
    ) -> Poll<io::Result<()>> {
        let mut state = self.state();
        state.check()?;
        if state.bytes >= ROOM {
            state.writers.push(cx.waker().clone());
            return Poll::Pending;
        }
        state.push(item(), size);
        Poll::Ready(Ok(()))
    }

    pub fn push(&self, item: T) -> io::Result<()> {
        let mut state = self.state();
        state.check()?;
        if state.items.len() >= MOST_ITEMS {
            return Err(io::Error::other("the peer sends requests without reading the responses"));
        }
        state.push(item, 0);
        Ok(())
    }

    /// The next item; `None` when the queue is finished and empty.
    pub async fn pop(&self) -> Option<T> {
        poll_fn(|cx| self.poll_pop(cx)).await
    }

    /// The next item if there is one, so that the sender knows when to flush.
    pub fn try_pop(&self) -> Option<T> {
        self.state().pop()
    }

    pub fn finish(&self) {
        let mut state = self.state();
        state.finished = true;
        state.wake();
    }

    /// Marks the connection as broken.
    pub fn fail(&self) {
        let mut state = self.state();
        state.broken = true;
        state.items.clear();
        state.wake();
    }

    fn poll_pop(&self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let mut state = self.state();
        match state.pop() {
            None if !state.finished && !state.broken => {
                state.reader = Some(cx.waker().clone());
                Poll::Pending
            }
            item => Poll::Ready(item),
        }
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> State<T> {
    fn check(&self) -> io::Result<()> {
        if self.broken || self.finished { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
    }

    fn push(&mut self, item: T, size: usize) {
        self.items.push_back((item, size));
        self.bytes += size;
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }

    fn pop(&mut self) -> Option<T> {
        let (item, size) = self.items.pop_front()?;
        self.bytes -= size;
        if self.bytes < ROOM {
            self.writers.drain(..).for_each(Waker::wake);
        }
        Some(item)
    }

    fn wake(&mut self) {
        self.reader.take().into_iter().chain(self.writers.drain(..)).for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn data_waits_for_room_and_the_rest_does_not() {
        let outbox = Outbox::default();
        let mut cx = Context::from_waker(Waker::noop());
        assert!(outbox.poll_push(&mut cx, ROOM, || 1).is_ready());
        assert!(outbox.poll_push(&mut cx, 1, || 2).is_pending());
        outbox.push(3).expect("never waits");
        assert_eq!(outbox.pop().await, Some(1));
        assert!(outbox.poll_push(&mut cx, 1, || 4).is_ready());
        outbox.finish();
        assert!(outbox.push(5).is_err());
        assert_eq!(
            (outbox.pop().await, outbox.pop().await, outbox.pop().await),
            (Some(3), Some(4), None)
        );
    }
}
