//! Tests of watches: start, events, end.

use std::sync::atomic::{AtomicUsize, Ordering};

use client::{Api, Selectors, WatchEvent, WatchStart, WatchUpdate};
use object::{NamespacedName, Value};
use tokio::task::JoinSet;

use crate::{
    api::deployments,
    server::{Say, Server},
};

const EVENTS: &str = concat!(
    r#"{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"5"}}}"#,
    "\n",
    r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7","annotations":{"k8s.io/initial-events-end":"true"}}}}"#,
    "\n",
    r#"{"type":"DELETED","object":{"metadata":{"name":"a","resourceVersion":"8"}}}"#,
    "\n",
);
const EXPIRED: &str = concat!(
    r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","reason":"Expired","code":410}}"#,
    "\n",
);
const WATCH: &str = "/apis/apps/v1/deployments?watch=true&allowWatchBookmarks=true&timeoutSeconds=";

fn names(notice: &WatchEvent<Value>) -> (&'static str, String) {
    let name = |object: &Value| object["metadata"]["name"].as_str().unwrap().to_owned();
    match notice {
        WatchEvent::Added(object) => ("added", name(object)),
        WatchEvent::Modified(object) => ("modified", name(object)),
        WatchEvent::Deleted(object) => ("deleted", name(object)),
        WatchEvent::Bookmark { revision, complete } => {
            ("bookmark", format!("{revision} {complete}"))
        }
    }
}

#[tokio::test]
async fn a_watch_begins_with_a_list_and_can_be_resumed() {
    let server = Server::new(|asked| {
        Say::Json(200, if asked.uri.contains("sendInitialEvents") { EVENTS } else { EXPIRED })
    });
    let mut tasks = JoinSet::new();
    let api = Api::<Value>::for_resource(&server.on_pipe(&mut tasks), deployments());
    let mut watch = api.watch(&Selectors::default(), WatchStart::List).await.unwrap();
    let mut told = Vec::new();
    while let Some(notice) = watch.next().await.unwrap() {
        told.push(names(&notice));
    }
    let expected = [("added", "a"), ("bookmark", "7 true"), ("deleted", "a")];
    assert_eq!(told, expected.map(|(what, text)| (what, text.to_owned())));
    assert_eq!(watch.revision(), 8);

    let mut watch = api.watch(&Selectors::default(), WatchStart::After(8)).await.unwrap();
    assert!(watch.next().await.unwrap_err().is_gone());
    let asked = server.asked();
    assert!(asked[0].uri.starts_with(WATCH));
    assert!(asked[0].uri.ends_with("&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"));
    assert!(asked[1].uri.ends_with("&resourceVersion=8"));
}

#[tokio::test]
async fn a_server_that_cannot_send_lists_is_asked_for_one() {
    let server = Server::new(|asked| {
        if asked.uri.contains("sendInitialEvents") {
            Say::Json(422, r#"{"kind":"Status","apiVersion":"v1","reason":"Invalid","code":422}"#)
        } else if asked.uri.contains("watch=true") {
            Say::Json(200, "")
        } else {
            Say::Json(
                200,
                r#"{"metadata":{"resourceVersion":"6"},"items":[{"metadata":{"name":"a"}}]}"#,
            )
        }
    });
    let mut tasks = JoinSet::new();
    let api = Api::<Value>::for_resource(&server.on_pipe(&mut tasks), deployments());
    let mut watch = api.watch(&Selectors::default(), WatchStart::List).await.unwrap();
    assert_eq!(names(&watch.next().await.unwrap().unwrap()), ("added", "a".into()));
    assert_eq!(names(&watch.next().await.unwrap().unwrap()), ("bookmark", "6 true".into()));
    assert!(watch.next().await.unwrap().is_none());
}

#[tokio::test]
async fn many_watches_leave_room_for_requests() {
    let server = Server::new(|asked| {
        if asked.uri.contains("watch=true") { Say::Open(EVENTS) } else { Say::Json(200, "{}") }
    });
    let mut tasks = JoinSet::new();
    let api = Api::<Value>::for_resource(&server.on_pipe(&mut tasks), deployments());
    let mut watches = Vec::new();
    for _ in 0..300 {
        let mut watch = api.watch(&Selectors::default(), WatchStart::List).await.unwrap();
        watch.next().await.unwrap().unwrap();
        watches.push(watch);
    }
    api.get(&NamespacedName::new("ns", "web")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_falls_silent_ends() {
    let server = Server::new(|_| Say::Open(EVENTS));
    let mut tasks = JoinSet::new();
    let api = Api::<Value>::for_resource(&server.on_pipe(&mut tasks), deployments());
    let mut watch = api.watch(&Selectors::default(), WatchStart::List).await.unwrap();
    for _ in 0..3 {
        watch.next().await.unwrap().unwrap();
    }
    assert!(watch.next().await.unwrap_err().is_transient());
}

#[tokio::test(start_paused = true)]
async fn a_followed_watch_goes_on_by_itself() {
    let count = AtomicUsize::new(0);
    let server = Server::new(move |_| match count.fetch_add(1, Ordering::Relaxed) {
        1 => Say::Json(503, "{}"),
        2 => Say::Json(200, EXPIRED),
        _ => Say::Json(200, EVENTS),
    });
    let mut tasks = JoinSet::new();
    let api = Api::<Value>::for_resource(&server.on_pipe(&mut tasks), deployments());
    let mut followed = api.watch_resuming(&Selectors::default(), WatchStart::List);
    let mut told = Vec::new();
    for _ in 0..5 {
        told.push(match followed.next().await.unwrap() {
            WatchUpdate::Event(notice) => names(&notice).0,
            WatchUpdate::Relist => "again",
        });
    }
    assert_eq!(told, ["added", "bookmark", "deleted", "again", "added"]);
    let asked: Vec<_> = server.asked().into_iter().map(|asked| asked.uri).collect();
    assert!(asked[1].ends_with("&resourceVersion=8"), "after a failure: {}", asked[1]);
    assert!(asked[2].ends_with("&resourceVersion=8"), "the same again: {}", asked[2]);
    assert!(asked[3].contains("sendInitialEvents=true"), "and from the beginning: {}", asked[3]);
}
