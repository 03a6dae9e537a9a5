//! Tests of fairness, of released turns and panics, and of concurrent wake-ups.

use std::{
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::Duration,
};

use tokio::{sync::oneshot, task::yield_now, time::timeout};

use super::*;

const PATIENCE: Duration = Duration::from_mins(1);

/// Keeps the thread busy.
fn work() {
    let began = Instant::now();
    while began.elapsed() < Duration::from_micros(300) {}
}

/// A single caller is not delayed by one with many requests, however many came before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_passes_those_of_a_busy_account() {
    let turns = Arc::new(Turns::new(2));
    let done = Arc::new(AtomicUsize::new(0));
    let mut floods = Vec::new();
    for _ in 0..400 {
        let (turns, done) = (turns.clone(), done.clone());
        floods.push(tokio::spawn(async move {
            turns
                .turn(Account::new("bad"))
                .run(Box::pin(async move {
                    for _ in 0..5 {
                        work();
                        done.fetch_add(1, Relaxed);
                        yield_now().await;
                    }
                }))
                .await;
        }));
    }
    // the flood has started
    timeout(PATIENCE, async {
        while done.load(Relaxed) < 50 {
            yield_now().await;
        }
    })
    .await
    .unwrap();
    let mut passed = Vec::new();
    for _ in 0..20 {
        let before = done.load(Relaxed);
        let request = turns.turn(Account::new("good")).run(Box::pin(yield_now()));
        timeout(PATIENCE, tokio::spawn(request)).await.unwrap().unwrap();
        passed.push(done.load(Relaxed) - before);
    }
    passed.sort_unstable();
    assert!(passed[10] <= 50, "so many of 2,000 slices went first: {passed:?}");
    for flood in floods {
        timeout(PATIENCE, flood).await.unwrap().unwrap();
    }
    assert_eq!(done.load(Relaxed), 2000);
    assert_eq!(turns.state().going, 0);
}

#[tokio::test]
async fn whoever_gives_up_leaves_the_turn_to_others() {
    let turns = Arc::new(Turns::new(1));
    let mut stuck = Box::pin(turns.turn(Account::new("a")).run(std::future::pending::<()>()));
    let polled = async |future: &mut Pin<Box<InTurn<_>>>| {
        std::future::poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_pending())).await
    };
    assert!(polled(&mut stuck).await);
    assert_eq!(turns.state().going, 0, "one that waits for something has no turn");
    // one future that was woken has a turn, and another waits for it
    stuck.turn.wake_by_ref();
    assert_eq!(turns.state().going, 1);
    let other = tokio::spawn(turns.turn(Account::new("b")).run(Box::pin(async { 7 })));
    yield_now().await;
    assert!(!other.is_finished());
    drop(stuck);
    assert_eq!(timeout(PATIENCE, other).await.unwrap().unwrap(), 7);
}

#[tokio::test]
async fn a_panic_ends_the_turn() {
    let turns = Arc::new(Turns::new(1));
    let broken =
        tokio::spawn(turns.turn(Account::new("a")).run(Box::pin(async { panic!("of the test") })));
    assert!(broken.await.is_err());
    assert_eq!(
        timeout(PATIENCE, turns.turn(Account::new("b")).run(Box::pin(async { 7 }))).await,
        Ok(7)
    );
}

#[tokio::test]
async fn others_go_on_while_one_works_beside_the_workers() {
    let turns = Arc::new(Turns::new(1));
    let going = turns.clone();
    let work = async move {
        assert_eq!(going.state().going, 1);
        pause();
        assert_eq!(going.state().going, 0);
    };
    turns.turn(Account::new("a")).run(Box::pin(work)).await;
    assert_eq!(turns.state().going, 0);
}

/// Concurrent wakes from other threads lose no future.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_forgotten() {
    let turns = Arc::new(Turns::new(2));
    let mut all = Vec::new();
    for n in 0..500_usize {
        let (tell, told) = oneshot::channel();
        let turn = turns.turn(Account::new(n % 7));
        let exempts = turn.clone();
        all.push(tokio::spawn(turn.run(Box::pin(async move {
            for _ in 0..n % 5 {
                yield_now().await;
            }
            if n % 11 == 0 {
                exempts.charge_to(None);
            }
            tokio::time::sleep(Duration::from_micros(u64::try_from(n % 97).unwrap())).await;
            told.await.unwrap()
        }))));
        std::thread::spawn(move || tell.send(n).unwrap());
    }
    for (n, one) in all.into_iter().enumerate() {
        assert_eq!(timeout(PATIENCE, one).await.expect("woken").unwrap(), n);
    }
    assert_eq!(turns.state().going, 0);
    assert!(turns.state().waiting.is_empty());
}
