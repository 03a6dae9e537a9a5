//! Finalizers, grace, namespaces.

use api::core::{ConfigMap, Namespace, Pod};
use client::{Delete, Deletion, Patch, Selection};
use object::Key;
use testkit::Cluster;

use crate::{code, config_map, default_account, labelled, of, pod, tree};

#[tokio::test]
async fn a_finalizer_holds_an_object_back() {
    let cluster = Cluster::start().await;
    let maps = of::<ConfigMap>(&cluster.admin());
    let held = tree(r#"{"metadata":{"name":"a","finalizers":["example.com/hold"]}}"#);
    maps.create(held).await.unwrap();
    let key = Key::new("default", "a");
    let deletion = maps.delete(&key, &Delete::default()).await.unwrap();
    assert!(matches!(deletion, Deletion::Terminating(_)), "{deletion:?}");
    let free = Patch::Merge(tree(r#"{"metadata":{"finalizers":null}}"#));
    maps.patch(&key, &free).await.unwrap();
    assert_eq!(code(maps.get(&key).await), 404);
}

#[tokio::test]
async fn a_pod_that_runs_gets_time_to_end() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    default_account(&admin).await;
    let pods = of::<Pod>(&admin);
    let made = pods.create(pod("p", "n1")).await.unwrap();
    let key = Key::new("default", "p");
    assert_eq!(code(pods.delete(&key, &Delete::only("other")).await), 409);
    let uid = made["metadata"]["uid"].as_str().unwrap();
    let Deletion::Terminating(marked) = pods.delete(&key, &Delete::only(uid)).await.unwrap() else {
        panic!("it is still to be stopped");
    };
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"].as_i64(), Some(30));
    let now = Delete { grace_seconds: Some(0), ..Delete::default() };
    pods.delete(&key, &now).await.unwrap();
    assert_eq!(code(pods.get(&key).await), 404);
}

#[tokio::test]
async fn nothing_is_made_in_a_namespace_that_goes() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let (spaces, key) = (of::<Namespace>(&admin), Key::new("", "n"));
    let maps = of::<ConfigMap>(&admin).namespaced("n");
    assert_eq!(code(maps.create(config_map("a")).await), 404);
    let mut space = spaces.create(tree(r#"{"metadata":{"name":"n"}}"#)).await.unwrap();
    maps.create(config_map("a")).await.unwrap();
    spaces.delete(&key, &Delete::default()).await.unwrap();
    let refused = maps.create(config_map("b")).await.unwrap_err();
    assert!(refused.is_forbidden() && refused.is_namespace_terminating(), "{refused}");
    space["metadata"].remove("resourceVersion");
    space["spec"]["finalizers"] = object::Value::List([].into());
    spaces.update_sub(&key, "finalize", &space).await.unwrap();
    assert_eq!(code(spaces.get(&key).await), 404);
    let kept = spaces.delete(&Key::new("", "kube-system"), &Delete::default()).await;
    assert_eq!(code(kept), 403);
}

#[tokio::test]
async fn a_collection_is_deleted_by_its_labels() {
    let cluster = Cluster::start().await;
    let maps = of::<ConfigMap>(&cluster.admin());
    for (name, label) in [("a", "x"), ("b", "y"), ("c", "x")] {
        maps.create(labelled(name, label)).await.unwrap();
    }
    maps.delete_collection(&Selection::labels("app=x"), &Delete::default()).await.unwrap();
    let left = maps.list_all(&Selection::labels("app")).await.unwrap();
    assert_eq!(left.items.len(), 1);
}

#[tokio::test]
async fn a_dry_run_deletes_nothing() {
    let cluster = Cluster::start().await;
    let maps = of::<ConfigMap>(&cluster.admin());
    maps.create(config_map("a")).await.unwrap();
    let dry = Delete { dry_run: true, ..Delete::default() };
    let key = Key::new("default", "a");
    maps.delete(&key, &dry).await.unwrap();
    assert!(maps.get(&key).await.is_ok());
    maps.asking("dryRun", "All").create(config_map("b")).await.unwrap();
    assert_eq!(code(maps.get(&Key::new("default", "b")).await), 404);
}
