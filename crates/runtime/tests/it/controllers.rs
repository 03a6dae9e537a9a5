//! Tests of controllers on a cache that lags behind.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use client::{Api, DeleteParams, Error};
use object::{NamespacedName, ObjectMeta};
use runtime::{CachedApi, Context, Controller, Reconcile, Requeue};
use schema::Kind;
use tokio::{task::JoinSet, time::sleep};

use crate::{
    kinds::{Item, Set, set},
    server::Server,
};

/// Keeps the desired number of items for each set.
#[derive(Debug)]
struct Sets {
    items: CachedApi<Item>,
}

impl Reconcile for Sets {
    type Kind = Set;

    async fn reconcile(&self, _: &NamespacedName, set: Option<Set>) -> Result<Requeue, Error> {
        let Some(set) = set else { return Ok(Requeue::OnChange) };
        let want = usize::try_from(set.replicas()).unwrap_or_default();
        let have = self.items.owned_by(&set);
        let items = self.items.with_cause(&set.write_cause("count"));
        for extra in have.iter().skip(want) {
            items.delete(extra).await?;
        }
        for _ in have.len()..want {
            let meta = ObjectMeta::new()
                .with_namespace(set.metadata().namespace())
                .with_generate_name(format!("{}-", set.metadata().name()))
                .with_owner_references([set.controller_ref()]);
            items.create(Item::new().with_metadata(meta)).await?;
        }
        Ok(Requeue::OnChange)
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
    Controller::new("sets", &cx, Sets { items: cx.cached_api() }).owns::<Item>().start();
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
    Controller::new("sets", &cx, Sets { items: cx.cached_api() }).owns::<Item>().start();
    let sets = Api::<Set>::new(&client);
    let mut made = sets.create(set("s", 3)).await.unwrap();
    settle().await;
    let victim = NamespacedName::from_meta(Item::from(server.all("items").remove(0)).meta());
    Api::<Item>::new(&client).delete(&victim, &DeleteParams::default()).await.unwrap();
    settle().await;
    assert_eq!(server.all("items").len(), 3);
    made.set_replicas(1);
    sets.update(made).await.unwrap();
    settle().await;
    assert_eq!(server.all("items").len(), 1);
    cx.stop().await;
}

/// Records the keys it reconciles; fails the first few times.
#[derive(Debug, Default)]
struct Notes {
    seen: Arc<Mutex<Vec<(NamespacedName, bool)>>>,
    failures: AtomicUsize,
}

impl Reconcile for Notes {
    type Kind = Set;

    async fn reconcile(&self, key: &NamespacedName, set: Option<Set>) -> Result<Requeue, Error> {
        if self.failures.fetch_add(1, Ordering::Relaxed) < 3 {
            return Err(Error::Unavailable("test".into()));
        }
        self.seen.lock().unwrap().push((key.clone(), set.is_some()));
        Ok(Requeue::OnChange)
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
    let key = NamespacedName::new("default", "s");
    sets.delete(&key, &DeleteParams::default()).await.unwrap();
    settle().await;
    assert_eq!(*seen.lock().unwrap(), [(key.clone(), true), (key, false)]);
    cx.stop().await;
}
