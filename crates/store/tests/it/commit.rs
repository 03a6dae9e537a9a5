//! Tests of the commit pipeline, from the precondition check to durability.

use std::{
    future::Future,
    io,
    pin::Pin,
    sync::{Arc, Mutex, mpsc},
    task::{Context, Poll, Waker},
    thread,
    time::Duration,
};

use store::{AppendError, Checkpoint, Engine, Error, Log, LogBase, MemoryLog, Record, Topic};

use crate::fixture::{cursor, events, keys, open, put, wait};

const A: &str = "/registry/pods/a/a";
const B: &str = "/registry/pods/a/b";

/// A log that signals when an append begins, and blocks until it may end.
#[derive(Debug)]
struct Gate {
    began: mpsc::SyncSender<usize>,
    end: Mutex<mpsc::Receiver<io::Result<()>>>,
    log: MemoryLog,
}

impl Log for Gate {
    fn append(&self, batch: &[Record]) -> Result<(), AppendError> {
        self.began.send(batch.len()).unwrap();
        let end = self.end.lock().unwrap().recv_timeout(Duration::from_mins(1)).unwrap();
        end.map_err(AppendError::Broken)?;
        self.log.append(batch)
    }

    fn read(&self, after: u64, take: &mut dyn FnMut(Record)) -> Result<LogBase, Error> {
        self.log.read(after, take)
    }

    fn is_blocking(&self) -> bool {
        true
    }

    fn needs_compaction(&self) -> bool {
        false
    }

    fn compact(&self, _: Checkpoint) {}
}

fn gate() -> (Arc<Gate>, mpsc::Receiver<usize>, mpsc::SyncSender<io::Result<()>>) {
    let (began, batches) = mpsc::sync_channel(9);
    let (ends, end) = mpsc::sync_channel(9);
    let gate = Gate { began, end: Mutex::new(end), log: MemoryLog::default() };
    (Arc::new(gate), batches, ends)
}

fn poll<F: Future + ?Sized>(future: &mut Pin<Box<F>>) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn nobody_reads_what_is_not_durable_and_writers_share_an_append() {
    let (log, batches, ends) = gate();
    let store = open(log, events(9)).unwrap();
    let mut cursor = cursor(&store.pods, Topic::All, 0);
    thread::scope(|scope| {
        let first = scope.spawn(|| store.write(put(A, 0, "1")));
        assert_eq!(batches.recv(), Ok(1));
        let mut waiting = [
            store.engine.write(put(B, 0, "1")),
            store.engine.write(put(A, 2, "2")), // checked against the pending write
            store.engine.write(put(A, 0, "3")), // a conflict
        ];
        assert!(waiting.iter_mut().all(|write| poll(write).is_pending()));
        assert!(store.pods.get(A).is_none() && cursor.try_next().is_none());
        assert_eq!(store.pods.snapshot().revision, 1);
        ends.send(Ok(())).unwrap();
        assert_eq!(first.join().unwrap(), Ok(2));
        assert!(store.pods.get(A).is_some() && cursor.try_next().is_some());

        ends.send(Ok(())).unwrap();
        let done = waiting.map(wait);
        assert_eq!(done, [Ok(3), Ok(4), Err(Error::Conflict { want: 0, have: 4 })]);
        assert_eq!(batches.try_recv(), Ok(2), "one append for both");
        assert!(batches.try_recv().is_err());
    });
}

#[test]
fn after_a_failed_append_nothing_is_written_or_shown() {
    let (log, _batches, ends) = gate();
    ends.send(Err(io::Error::other("it is gone"))).unwrap();
    let store = open(log, events(9)).unwrap();
    assert_eq!(store.engine.health(), Ok(()));
    assert_eq!(store.write(put(A, 0, "1")), Err(Error::Broken));
    assert_eq!(store.engine.health(), Err(Error::Broken));
    assert_eq!(store.write(put(B, 0, "1")), Err(Error::Broken));
    assert_eq!(keys(&store.pods.snapshot()), [""; 0]);
}

#[test]
fn who_goes_away_does_not_take_his_write_back() {
    let (log, batches, ends) = gate();
    let store = open(log, events(9)).unwrap();
    let mut write = store.engine.write(put(A, 0, "1"));
    assert!(poll(&mut write).is_pending());
    drop(write);
    assert_eq!(batches.recv(), Ok(1));
    ends.send(Ok(())).unwrap();
    wait(store.pods.wait_for(2));
    assert_eq!(keys(&store.pods.snapshot()), ["a/a"]);
}
