//! Tests of caches: initial list, events, recovery.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use client::{Api, DeleteParams};
use object::{NamespacedName, Value};
use runtime::Context;
use tokio::{task::JoinSet, time::sleep};

use crate::{
    kinds::{Item, item},
    server::Server,
};

fn key(name: &str) -> NamespacedName {
    NamespacedName::new("default", name)
}

#[tokio::test(start_paused = true)]
async fn a_cache_follows_the_server_through_breaks() {
    let (server, mut tasks) = (Server::default(), JoinSet::new());
    let client = server.client(&mut tasks);
    let api = Api::<Item>::new(&client);
    api.create(item("a", "n1")).await.unwrap();
    let cx = Context::new(&client);
    let cache = cx.cache::<Item>();
    cx.wait_for_cache_sync().await;
    assert_eq!(cache.by_index("nodeName", "n1").len(), 1);

    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = told.clone();
    cache.on_change(move |old, new| {
        let nodes = [old, new].map(|item| item.map_or("-", Item::node_name).to_owned());
        heard.lock().unwrap().push(nodes.join(">"));
    });
    let mut moved = cache.get(&key("a")).unwrap();
    moved.set_node_name("n2");
    api.update(moved).await.unwrap();
    api.create(item("b", "n1")).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    server.compact(); // the watch fails, and cannot be resumed
    api.delete(&key("a"), &DeleteParams::default()).await.unwrap();
    sleep(Duration::from_secs(100)).await;
    assert_eq!(*told.lock().unwrap(), ["->n1", "n1>n2", "->n1", "n2>-"]);
    assert_eq!(cache.len(), 1);
    cx.stop().await;
}

#[tokio::test(start_paused = true)]
async fn own_writes_show_at_once_and_last() {
    let (server, mut tasks) = (Server::default(), JoinSet::new());
    server.lag(Duration::from_secs(10));
    let cx = Context::new(&server.client(&mut tasks));
    let items = cx.cached_api::<Item>();
    cx.wait_for_cache_sync().await;
    let made = items.create(item("a", "n1")).await.unwrap();
    assert!(items.get(&key("a")).is_some());
    items.delete(&made).await.unwrap();
    items.delete(&made).await.expect("what is gone already is a success");
    assert!(items.get(&key("a")).is_none());
    sleep(Duration::from_mins(1)).await; // late events arrive
    assert!(items.all().is_empty());
    cx.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_may_be_away_for_long() {
    let (server, mut tasks) = (Server::default(), JoinSet::new());
    let (pipe, ends) = client::PipeConnector::new();
    let cx = Context::new(&client::Client::new(client::Config::pipe(pipe)));
    let cache = cx.cache::<Item>();
    sleep(Duration::from_hours(1)).await; // the server does not respond
    assert!(!*cache.synced().borrow());
    tasks.spawn(server.serve(ends));
    sleep(Duration::from_mins(2)).await;
    assert!(*cache.synced().borrow());
    cx.stop().await;
}

#[tokio::test(start_paused = true)]
async fn any_resource_can_be_cached() {
    let (server, mut tasks) = (Server::default(), JoinSet::new());
    let client = server.client(&mut tasks);
    let api = Api::<Item>::new(&client);
    api.create(item("a", "n1")).await.unwrap();
    let cx = Context::new(&client);
    let cache = cx.dynamic_cache(api.resource(), &client::Selectors::default());
    cx.wait_for_cache_sync().await;
    let found = cache.get(&key("a")).unwrap();
    assert_eq!(found.tree()["nodeName"], Value::from("n1"));
    cx.stop().await;
}
