//! Crash tests: after a power failure at any moment, a transaction is stored completely or not at all.

use std::{
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread,
    time::Duration,
};

use bytes::Bytes;
use object::Clock;

use super::{fault::EtcdError, member::Member, range::Range};
use crate::{DiskLog, DiskLogOptions, Error, SimulatedDisk};

const TURNS: u64 = 40;

#[derive(Debug)]
struct Still;

impl Clock for Still {
    fn now(&self) -> i64 {
        0
    }
}

struct Running {
    member: Arc<Member>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.member.close();
        self.thread.take().map(thread::JoinHandle::join);
    }
}

fn open(disk: &SimulatedDisk) -> Result<Running, Error> {
    let (segment, reserve, compact) = (2_048, 1_024, 6_000);
    let retain = Duration::from_secs(75);
    let options = DiskLogOptions {
        segment_size: segment,
        reserve_size: reserve,
        essential_prefixes: &[],
        compact_threshold: compact,
        retain,
        background: false,
        exit_on_failure: false,
    };
    let log = DiskLog::open(Arc::new(disk.clone()), Arc::new(Still), options)?;
    let member = Member::open(log, Arc::new(Still), 0)?;
    let thread = member.start().expect("a thread");
    Ok(Running { member, thread: Some(thread) })
}

fn wait<F: Future>(future: F) -> F::Output {
    struct Unpark(thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return done;
        }
        thread::park();
    }
}

fn key(name: &'static str) -> Bytes {
    Bytes::from_static(name.as_bytes())
}

/// Writes three keys in one transaction, sometimes a fourth that is deleted and created again, and now and then a lease
/// and a compaction. Returns the last acknowledged turn.
fn go_on(member: &Member, from: u64) -> u64 {
    let mut done = from;
    for turn in from + 1..=TURNS {
        let text = Bytes::from(format!("{turn:03}{}", "x".repeat(60)));
        let written: Result<(), EtcdError> = wait(member.write(|state| {
            for name in ["a", "b", "c"] {
                state.put(&key(name), &text, 0)?;
            }
            if turn % 5 == 0 {
                state.delete(&Range::new(key("d"), Bytes::new()));
            } else {
                state.put(&key("d"), &text, 0)?;
            }
            Ok(())
        }));
        if written.is_err() {
            return done;
        }
        done = turn;
        let granted = turn % 6 == 1
            && wait(member.write(|state| state.grant(turn.cast_signed(), 9, 0))).is_err();
        let floor = member.read(|state| state.durable.saturating_sub(3));
        let compacted = turn % 7 == 3
            && wait(member.write(|state| state.compact(floor))) == Err(EtcdError::Stopped);
        if granted || compacted {
            return done;
        }
    }
    done
}

/// Checks that the three keys are equal at every readable revision.
fn check(member: &Member, acknowledged: u64) -> u64 {
    member.read(|state| {
        let turn = |revision: u64, name: &str| {
            let version = state.keys.at(name.as_bytes(), revision)?;
            let text = version.value.as_ref()?;
            std::str::from_utf8(&text[..3]).ok()?.parse::<u64>().ok()
        };
        for revision in state.keys.compact_revision.max(1)..=state.durable {
            let seen = ["a", "b", "c"].map(|name| turn(revision, name));
            assert!(seen.iter().all(|other| *other == seen[0]), "at {revision}: {seen:?}");
            let expected = seen[0].filter(|turn| turn % 5 != 0);
            assert_eq!(turn(revision, "d"), expected, "at {revision}");
        }
        let newest = turn(state.durable, "a").unwrap_or_default();
        assert!(newest >= acknowledged, "{acknowledged} was acknowledged, {newest} is there");
        assert_eq!(state.durable, newest + 1, "no revision is lost or given twice");
        newest
    })
}

#[test]
fn whatever_moment_the_power_goes() {
    let whole = SimulatedDisk::default();
    assert_eq!(go_on(&open(&whole).expect("empty").member, 0), TURNS);
    assert!(whole.changes() > 80, "{}", whole.changes());
    for moment in 1..whole.changes() + 2 {
        let disk = SimulatedDisk::default();
        disk.crash_after(moment);
        let acknowledged = open(&disk).map_or(0, |running| go_on(&running.member, 0));
        for seed in 0..3 {
            let disk = disk.after_crash(seed * 1_000 + moment);
            let running =
                open(&disk).unwrap_or_else(|error| panic!("at {moment}, {seed}: {error}"));
            let newest = check(&running.member, acknowledged);
            assert_eq!(go_on(&running.member, newest), TURNS, "it can be written to");
            check(&running.member, TURNS);
        }
    }
}

#[test]
fn a_full_disk_takes_deletions_and_goes_on_when_there_is_room() {
    let disk = SimulatedDisk::default();
    disk.limit(Some(40_000));
    let running = open(&disk).expect("empty");
    let member = &running.member;
    for round in 0..3 {
        let mut refused = 0;
        let mut there = Vec::new();
        for nth in 0..1_000 {
            let (name, text) = (Bytes::from(format!("{round}-{nth}")), Bytes::from(vec![1; 300]));
            match wait(member.write(|state| state.put(&name, &text, 0).map(drop))) {
                Ok(()) => there.push(name),
                Err(fault) => {
                    assert_eq!(fault, EtcdError::NoSpace);
                    refused += 1;
                    if refused == 2 {
                        break;
                    }
                }
            }
        }
        assert!(refused == 2 && there.len() > 10, "in round {round}: {}", there.len());
        for name in there {
            let range = Range::new(name, Bytes::new());
            let gone = wait(member.write(|state| Ok(state.delete(&range).len())));
            assert_eq!(gone, Ok(1), "there is a reserve");
        }
        let newest = member.read(|state| state.durable);
        wait(member.write(|state| state.compact(newest))).expect("so is for this");
    }
    let made = wait(member.write(|state| state.put(&key("x"), b"1", 0).map(drop)));
    assert_eq!(made, Ok(()), "there is room again");
}
