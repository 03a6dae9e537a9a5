//! A panic affects only the object, handler or task in which it happens.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use client::{Api, Error};
use object::NamespacedName;
use runtime::{Context, Controller, Reconcile, Requeue};
use tokio::{task::JoinSet, time::sleep};

use crate::{
    kinds::{Set, set},
    server::Server,
};

/// Panics on the bad object, the first few times.
#[derive(Debug, Default)]
struct Fragile {
    bad: Arc<AtomicUsize>,
    good: Arc<AtomicUsize>,
}

impl Reconcile for Fragile {
    type Kind = Set;

    async fn reconcile(&self, key: &NamespacedName, _: Option<Set>) -> Result<Requeue, Error> {
        if key.name == "bad" {
            assert!(self.bad.fetch_add(1, SeqCst) >= 3, "the bad one");
        } else {
            self.good.fetch_add(1, SeqCst);
        }
        Ok(Requeue::OnChange)
    }
}

fn counted(part: &str) -> bool {
    let mut text = String::new();
    panics::report(&mut text);
    text.contains(&format!("tiphys_panics_total{{part=\"{part}\"}}"))
}

#[tokio::test(start_paused = true)]
async fn one_object_panics_and_is_tried_again() {
    let (server, mut tasks) = (Server::default(), JoinSet::new());
    let client = server.client(&mut tasks);
    let cx = Context::new(&client);
    let fragile = Fragile::default();
    let (bad, good) = (fragile.bad.clone(), fragile.good.clone());
    Controller::new("fragile", &cx, fragile).workers(1).start();
    let sets = Api::<Set>::new(&client);
    for name in ["bad", "a", "b"] {
        sets.create(set(name, 1)).await.unwrap();
    }
    sleep(Duration::from_mins(5)).await;
    assert_eq!((bad.load(SeqCst), good.load(SeqCst)), (4, 2), "three panics, then it went well");
    assert!(counted("fragile") && !cx.is_stopping());
    cx.stop().await;
}

#[tokio::test(start_paused = true)]
async fn one_handler_panics_and_the_others_hear() {
    let (server, mut tasks) = (Server::default(), JoinSet::new());
    let client = server.client(&mut tasks);
    let cx = Context::new(&client);
    let cache = cx.cache::<Set>();
    cache.add_index("fragile", |_| panic!("no value"));
    cache.on_change(|_, _| panic!("deaf"));
    let heard = Arc::new(AtomicUsize::new(0));
    let hears = heard.clone();
    cache.on_change(move |_, _| {
        hears.fetch_add(1, SeqCst);
    });
    let sets = Api::<Set>::new(&client);
    sets.create(set("a", 1)).await.unwrap();
    sets.create(set("b", 1)).await.unwrap();
    sleep(Duration::from_mins(1)).await;
    assert_eq!((heard.load(SeqCst), cache.len()), (2, 2));
    cx.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_task_that_panics_ends_alone_or_begins_anew() {
    let (server, mut tasks) = (Server::default(), JoinSet::new());
    let cx = Context::new(&server.client(&mut tasks));
    cx.spawn("once", async { panic!("once") });
    let begun = Arc::new(AtomicUsize::new(0));
    let begins = begun.clone();
    cx.keep("again", move || {
        let begins = begins.clone();
        async move { assert!(begins.fetch_add(1, SeqCst) >= 2, "again") }
    });
    sleep(Duration::from_mins(5)).await;
    assert_eq!(begun.load(SeqCst), 3);
    assert!(!cx.is_stopping() && counted("once") && counted("again"));
    cx.stop().await;
}
