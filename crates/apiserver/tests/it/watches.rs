//! Watches: their events, and where they start.

use std::time::Duration;

use api::core::{ConfigMap, Pod};
use client::{DeleteParams, Patch, Selectors, Watch, WatchEvent, WatchStart};
use object::{NamespacedName, Value};
use testkit::TestCluster;
use tokio::time::timeout;

use crate::{config_map, default_account, labelled, name, of, pod, revision, tree};

/// The next event: its type, and the name of the object.
pub(crate) async fn next(watch: &mut Watch<Value>) -> (&'static str, String) {
    let notice = timeout(Duration::from_secs(30), watch.next()).await.expect("an event in time");
    match notice.expect("a good event").expect("the watch goes on") {
        WatchEvent::Added(object) => ("added", name(&object).to_owned()),
        WatchEvent::Modified(object) => ("modified", name(&object).to_owned()),
        WatchEvent::Deleted(object) => ("deleted", name(&object).to_owned()),
        WatchEvent::Bookmark { complete, .. } => ("bookmark", complete.to_string()),
    }
}

#[tokio::test]
async fn a_watch_begins_with_what_there_is() {
    let cluster = TestCluster::start().await;
    let maps = of::<ConfigMap>(&cluster.admin_client());
    maps.create(config_map("a")).await.unwrap();
    let mut watch = maps.watch(&Selectors::default(), WatchStart::List).await.unwrap();
    assert_eq!(next(&mut watch).await, ("added", "a".to_owned()));
    assert_eq!(next(&mut watch).await, ("bookmark", "true".to_owned()));
    let made = maps.create(config_map("b")).await.unwrap();
    assert_eq!(next(&mut watch).await, ("added", "b".to_owned()));
    assert_eq!(watch.revision(), revision(&made));
    maps.delete(&NamespacedName::new("default", "a"), &DeleteParams::default()).await.unwrap();
    assert_eq!(next(&mut watch).await, ("deleted", "a".to_owned()));
}

#[tokio::test]
async fn who_leaves_the_selection_is_deleted_from_it() {
    let cluster = TestCluster::start().await;
    let maps = of::<ConfigMap>(&cluster.admin_client());
    let start = revision(&maps.create(labelled("a", "x")).await.unwrap());
    let selection = Selectors::labels("app=x");
    let mut watch = maps.watch(&selection, WatchStart::After(start)).await.unwrap();
    let label = |value: &str| {
        Patch::Merge(tree(&format!(r#"{{"metadata":{{"labels":{{"app":"{value}"}}}}}}"#)))
    };
    let key = NamespacedName::new("default", "a");
    for value in ["y", "z", "x"] {
        maps.patch(&key, &label(value)).await.unwrap();
    }
    let touch = Patch::Merge(tree(r#"{"data":{"k":"w"}}"#));
    let last = maps.patch(&key, &touch).await.unwrap();
    assert_eq!(next(&mut watch).await.0, "deleted");
    assert_eq!(next(&mut watch).await.0, "added");
    assert_eq!(next(&mut watch).await.0, "modified");
    assert_eq!(watch.revision(), revision(&last));
}

#[tokio::test]
async fn a_node_sees_its_pods_and_the_scheduler_those_of_none() {
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    default_account(&admin).await;
    let pods = of::<Pod>(&admin);
    let (node, none) = (Selectors::fields("spec.nodeName=n1"), Selectors::fields("spec.nodeName="));
    let mut node = pods.watch(&node, WatchStart::List).await.unwrap();
    let mut none = pods.watch(&none, WatchStart::List).await.unwrap();
    assert_eq!(next(&mut node).await.0, "bookmark");
    assert_eq!(next(&mut none).await.0, "bookmark");
    pods.create(pod("p", "")).await.unwrap();
    pods.create(pod("q", "n2")).await.unwrap();
    assert_eq!(next(&mut none).await, ("added", "p".to_owned()));
    let binding = tree(
        r#"{"apiVersion":"v1","kind":"Binding","metadata":{"name":"p"},
        "target":{"kind":"Node","name":"n1"}}"#,
    );
    pods.create_subresource(&NamespacedName::new("default", "p"), "binding", &binding)
        .await
        .unwrap();
    assert_eq!(next(&mut node).await, ("added", "p".to_owned()));
    assert_eq!(next(&mut none).await, ("deleted", "p".to_owned()));
}
