//! A controller on a cache that is late.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use client::{Api, Delete, Error};
use object::{Key, ObjectMeta};
use runtime::{Context, Controller, Next, Objects, Reconcile};
use schema::Kind;
use tokio::{task::JoinSet, time::sleep};

use crate::{
    kinds::{Item, Set, set},
    server::Server,
};

/// Keeps as many items as each set wants.
#[derive(Debug)]
struct Sets {
    items: Objects<Item>,
}

impl Reconcile for Sets {
    type Kind = Set;

    async fn reconcile(&self, _: &Key, set: Option<Set>) -> Result<Next, Error> {
        let Some(set) = set else { return Ok(Next::OnChange) };
        let want = usize::try_from(set.replicas()).unwrap_or_default();
        let have = self.items.owned_by(&set);
        let items = self.items.because(&set.causes("count"));
        for extra in have.iter().skip(want) {
            items.delete(extra).await?;
        }
        for _ in have.len()..want {
            let meta = ObjectMeta::new()
                .with_namespace(set.metadata().namespace())
                .with_generate_name(format!("{}-", set.metadata().name()))
                .with_owner_references([set.controls()]);
            items.create(Item::new().with_metadata(meta)).await?;
        }
        Ok(Next::OnChange)
    }
}

async fn settle() {
    sleep(Duration::from_mins(30)).await;
}

#[tokio::test(start_paused = true)]
async fn never_overshoots_though_the_watch_lags() {
    let (server, mut tasks) = (Server::default(), JoinSet::new());
    server.lag(Duration::from_millis(50));
    let client = server.client(&mut tasks);
    let cx = Context::new(&client);
    Controller::new("sets", &cx, Sets { items: cx.objects() }).owns::<Item>().start();
    let sets = Api::<Set>::new(&client);
    for i in 0..10 {
        sets.create(set(&format!("s{i}"), 20)).await.unwrap();
    }
    settle().await;
    assert_eq!((server.all("items").len(), server.writes()), (200, 210), "more means overshoot");

    cx.stop().await;
}

#[tokio::test(start_paused = true)]
async fn heals_and_scales() {
    let (server, mut tasks) = (Server::default(), JoinSet::new());
    let client = server.client(&mut tasks);
    let cx = Context::new(&client);
    Controller::new("sets", &cx, Sets { items: cx.objects() }).owns::<Item>().start();
    let sets = Api::<Set>::new(&client);
    let mut made = sets.create(set("s", 3)).await.unwrap();
    settle().await;
    let victim = Key::of(Item::from(server.all("items").remove(0)).meta());
    Api::<Item>::new(&client).delete(&victim, &Delete::default()).await.unwrap();
    settle().await;
    assert_eq!(server.all("items").len(), 3);
    made.set_replicas(1);
    sets.update(made).await.unwrap();
    settle().await;
    assert_eq!(server.all("items").len(), 1);
    cx.stop().await;
}

/// Notes what it is asked to reconcile; fails the first times.
#[derive(Debug, Default)]
struct Notes {
    seen: Arc<Mutex<Vec<(Key, bool)>>>,
    failures: AtomicUsize,
}

impl Reconcile for Notes {
    type Kind = Set;

    async fn reconcile(&self, key: &Key, set: Option<Set>) -> Result<Next, Error> {
        if self.failures.fetch_add(1, Ordering::Relaxed) < 3 {
            return Err(Error::Unavailable("test".into()));
        }
        self.seen.lock().unwrap().push((key.clone(), set.is_some()));
        Ok(Next::OnChange)
    }
}

#[tokio::test(start_paused = true)]
async fn failures_are_retried_and_what_is_gone_is_reconciled_once_more() {
    let (server, mut tasks) = (Server::default(), JoinSet::new());
    let client = server.client(&mut tasks);
    let cx = Context::new(&client);
    let notes = Notes::default();
    let seen = notes.seen.clone();
    Controller::new("notes", &cx, notes).start();
    let sets = Api::<Set>::new(&client);
    sets.create(set("s", 1)).await.unwrap();
    settle().await;
    let key = Key::new("default", "s");
    sets.delete(&key, &Delete::default()).await.unwrap();
    settle().await;
    assert_eq!(*seen.lock().unwrap(), [(key.clone(), true), (key, false)]);
    cx.stop().await;
}
