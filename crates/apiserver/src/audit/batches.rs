//! Batching of audit events: a batch is complete when it is full or has waited long enough, and the
//! rate of batches is limited.

use std::time::Duration;

use object::{Value, to_json};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until, timeout},
};

/// The limits of a batch, and of the queue before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batching {
    pub(crate) max_size: usize,
    pub(crate) wait: Duration,
    /// Capacity of the queue; further events are dropped.
    pub(crate) buffer_size: usize,
    /// Maximum size of a batch, in bytes.
    pub(crate) largest: Option<usize>,
    /// Batches per second, and the burst.
    pub(crate) pace: Option<(f32, u32)>,
}

/// Receives events, and groups them into batches.
#[derive(Debug)]
pub(super) struct BatchReceiver {
    batching: Batching,
    queue: mpsc::Receiver<Value>,
    /// The event that did not fit into the last batch.
    left: Option<Value>,
    pace: Option<Throttle>,
}

impl BatchReceiver {
    pub(super) fn new(batching: Batching) -> (mpsc::Sender<Value>, Self) {
        let (sender, queue) = mpsc::channel(batching.buffer_size);
        let pace = batching.pace.map(|(rate, burst)| Throttle::new(rate, burst));
        (sender, Self { batching, queue, left: None, pace })
    }

    /// The next batch; `None` when the queue is closed.
    pub(super) async fn next(&mut self) -> Option<Vec<Value>> {
        let first = match self.left.take() {
            Some(left) => left,
            None => self.queue.recv().await?,
        };
        if let Some(pace) = &mut self.pace {
            sleep_until(pace.next(Instant::now())).await;
        }
        let mut size = self.size(&first);
        let mut batch = vec![first];
        let until = Instant::now() + self.batching.wait;
        while batch.len() < self.batching.max_size {
            let wait = until.saturating_duration_since(Instant::now());
            let next = match self.queue.try_recv() {
                Ok(event) => event,
                Err(_) => match timeout(wait, self.queue.recv()).await {
                    Ok(Some(event)) => event,
                    _ => break,
                },
            };
            size += self.size(&next);
            if self.batching.largest.is_some_and(|largest| size > largest) {
                self.left = Some(next);
                break;
            }
            batch.push(next);
        }
        Some(batch)
    }

    /// All queued events, without waiting.
    pub(super) fn rest(&mut self) -> Vec<Value> {
        let mut rest: Vec<Value> = self.left.take().into_iter().collect();
        while let Ok(event) = self.queue.try_recv() {
            rest.push(event);
        }
        rest
    }

    fn size(&self, event: &Value) -> usize {
        self.batching.largest.map_or(0, |_| to_json(event).len())
    }
}

/// Rate limit of batches.
#[derive(Debug)]
struct Throttle {
    each: Duration,
    burst: u32,
    /// When the whole burst is available again, if no batch is sent until then.
    full: Instant,
}

impl Throttle {
    fn new(rate: f32, burst: u32) -> Self {
        let each = Duration::from_secs_f32((1.0 / rate).clamp(0.0, 3600.0));
        Self { each, burst: burst.max(1), full: Instant::now() }
    }

    /// When the next batch may be sent.
    fn next(&mut self, now: Instant) -> Instant {
        let room = self.each * (self.burst - 1);
        let at = (self.full.max(now)).checked_sub(room).map_or(now, |at| at.max(now));
        self.full = self.full.max(now) + self.each;
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batching(most: usize) -> Batching {
        Batching {
            max_size: most,
            wait: Duration::ZERO,
            buffer_size: 10,
            largest: None,
            pace: None,
        }
    }

    #[tokio::test]
    async fn batches_are_no_larger_than_they_may_be() {
        let (sender, mut batches) = BatchReceiver::new(batching(2));
        for text in ["a", "b", "c"] {
            sender.try_send(text.into()).expect("room");
        }
        assert_eq!(batches.next().await.expect("two").len(), 2);
        assert_eq!(batches.next().await.expect("one").len(), 1);
        let (sender, mut batches) =
            BatchReceiver::new(Batching { largest: Some(7), ..batching(9) });
        for text in ["aaa", "bbb", "ccc"] {
            sender.try_send(text.into()).expect("room");
        }
        drop(sender);
        for _ in 0..3 {
            assert_eq!(batches.next().await.expect("each alone").len(), 1);
        }
        assert_eq!(batches.next().await, None);
    }

    #[test]
    fn batches_keep_a_pace() {
        let now = Instant::now() + Duration::from_mins(1);
        let mut pace = Throttle::new(2.0, 3);
        let waits: Vec<_> = (0..6).map(|_| (pace.next(now) - now).as_millis()).collect();
        assert_eq!(waits, [0, 0, 0, 500, 1000, 1500], "three at once, then two a second");
    }
}
