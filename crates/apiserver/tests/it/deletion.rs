//! Deletion: finalizers, grace periods, namespaces, collections and evictions.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use api::core::{ConfigMap, Event, Namespace, Pod, Secret};
use apiserver::{Config, Flags, ListenerSource, ServerEnvironment, StorageBackend, start_with};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use client::{
    Client, DeleteParams, DeleteResult, Patch, Propagation, Selectors, WatchEvent, WatchStart,
};
use http::{HeaderMap, Method};
use object::{NamespacedName, SystemClock};
use testkit::TestCluster;
use tokio::task::JoinSet;

use crate::{
    code, config_map, default_account, labelled, message, name, of, peers::Etcd, pod, tree,
};

#[tokio::test]
async fn a_finalizer_holds_an_object_back() {
    let cluster = TestCluster::start().await;
    let maps = of::<ConfigMap>(&cluster.admin_client());
    let held = tree(r#"{"metadata":{"name":"a","finalizers":["example.com/hold"]}}"#);
    maps.create(held).await.unwrap();
    let key = NamespacedName::new("default", "a");
    let deletion = maps.delete(&key, &DeleteParams::default()).await.unwrap();
    assert!(matches!(deletion, DeleteResult::Terminating(_)), "{deletion:?}");
    let told = message(maps.create(config_map("a")).await);
    assert!(told.contains("object is being deleted: configmaps \"a\" already exists"), "{told}");
    let free = Patch::Merge(tree(r#"{"metadata":{"finalizers":null}}"#));
    maps.patch(&key, &free).await.unwrap();
    assert_eq!(code(maps.get(&key).await), 404);
}

#[tokio::test]
async fn a_pod_that_runs_gets_time_to_end() {
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    default_account(&admin).await;
    let pods = of::<Pod>(&admin);
    let made = pods.create(pod("p", "n1")).await.unwrap();
    let key = NamespacedName::new("default", "p");
    assert_eq!(code(pods.delete(&key, &DeleteParams::with_uid("other")).await), 409);
    let uid = made["metadata"]["uid"].as_str().unwrap();
    let DeleteResult::Terminating(marked) =
        pods.delete(&key, &DeleteParams::with_uid(uid)).await.unwrap()
    else {
        panic!("it is still to be stopped");
    };
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"].as_i64(), Some(30));
    let now = DeleteParams { grace_seconds: Some(0), ..DeleteParams::default() };
    pods.delete(&key, &now).await.unwrap();
    assert_eq!(code(pods.get(&key).await), 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_sees_a_pod_marked_may_be_quicker_to_delete_it() {
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    default_account(&admin).await;
    let now = || DeleteParams { grace_seconds: Some(0), ..DeleteParams::default() };
    let pods = of::<Pod>(&admin);
    let mut marks = pods.watch(&Selectors::default(), WatchStart::List).await.unwrap();
    let (eager, mut tasks) = (pods.clone(), JoinSet::new());
    tasks.spawn(async move {
        while let Ok(Some(notice)) = marks.next().await {
            if let WatchEvent::Modified(marked) = notice {
                let _ = eager.delete(&NamespacedName::new("default", name(&marked)), &now()).await;
            }
        }
    });
    for number in 0..200 {
        let one = format!("p{number}");
        pods.create(pod(&one, "")).await.unwrap();
        pods.delete(&NamespacedName::new("default", &one), &now()).await.expect("it was there");
    }
}

#[tokio::test]
async fn nothing_is_made_in_a_namespace_that_goes() {
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    let (spaces, key) = (of::<Namespace>(&admin), NamespacedName::new("", "n"));
    let maps = of::<ConfigMap>(&admin).namespaced("n");
    assert_eq!(code(maps.create(config_map("a")).await), 404);
    let mut space = spaces.create(tree(r#"{"metadata":{"name":"n"}}"#)).await.unwrap();
    maps.create(config_map("a")).await.unwrap();
    spaces.delete(&key, &DeleteParams::default()).await.unwrap();
    let refused = maps.create(config_map("b")).await.unwrap_err();
    assert!(refused.is_forbidden() && refused.is_namespace_terminating(), "{refused}");
    space["metadata"].remove("resourceVersion");
    space["spec"]["finalizers"] = object::Value::List([].into());
    spaces.update_subresource(&key, "finalize", &space).await.unwrap();
    assert_eq!(code(spaces.get(&key).await), 404);
    let kept =
        spaces.delete(&NamespacedName::new("", "kube-system"), &DeleteParams::default()).await;
    assert_eq!(code(kept), 403);
}

#[tokio::test]
async fn a_collection_is_deleted_by_its_labels() {
    let cluster = TestCluster::start().await;
    let maps = of::<ConfigMap>(&cluster.admin_client());
    for (name, label) in [("a", "x"), ("b", "y"), ("c", "x")] {
        maps.create(labelled(name, label)).await.unwrap();
    }
    maps.delete_collection(&Selectors::labels("app=x"), &DeleteParams::default()).await.unwrap();
    let left = maps.list_all(&Selectors::labels("app")).await.unwrap();
    assert_eq!(left.items.len(), 1);
}

#[tokio::test]
async fn a_dry_run_deletes_nothing() {
    let cluster = TestCluster::start().await;
    let maps = of::<ConfigMap>(&cluster.admin_client());
    maps.create(config_map("a")).await.unwrap();
    let dry = DeleteParams { dry_run: true, ..DeleteParams::default() };
    let key = NamespacedName::new("default", "a");
    maps.delete(&key, &dry).await.unwrap();
    assert!(maps.get(&key).await.is_ok());
    maps.with_write_param("dryRun", "All").create(config_map("b")).await.unwrap();
    assert_eq!(code(maps.get(&NamespacedName::new("default", "b")).await), 404);
}

#[tokio::test]
async fn events_go_at_once_whatever_becomes_of_others() {
    let cluster = TestCluster::start().await;
    let events = of::<Event>(&cluster.admin_client());
    let event =
        r#"{"metadata":{"name":"e"},"involvedObject":{"kind":"Pod","namespace":"default"}}"#;
    events.create(tree(event)).await.unwrap();
    let foreground =
        DeleteParams { propagation: Some(Propagation::Foreground), ..DeleteParams::default() };
    let key = NamespacedName::new("default", "e");
    events.delete(&key, &foreground).await.unwrap();
    assert_eq!(code(events.get(&key).await), 404);
}

#[tokio::test]
async fn an_eviction_says_how_the_pod_goes() {
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    default_account(&admin).await;
    let (pods, key) = (of::<Pod>(&admin), NamespacedName::new("default", "p"));
    pods.create(pod("p", "")).await.unwrap();
    let evict = async |query: &str, options: &str| {
        let path = format!("/api/v1/namespaces/default/pods/p/eviction{query}");
        let body = format!(r#"{{"metadata":{{"name":"p"}},"deleteOptions":{options}}}"#);
        admin.call(Method::POST, &path, "application/json", body.into()).await
    };
    for (query, options, wants) in [
        ("", r#"{"dryRun":["maybe"]}"#, 422),
        ("?dryRun=All", r#"{"dryRun":["All","All"]}"#, 500),
        ("", r#"{"preconditions":{"uid":""}}"#, 409),
        ("?dryRun=All", r#"{"preconditions":{"resourceVersion":""}}"#, 409),
    ] {
        assert_eq!(code(evict(query, options).await), wants, "{query} {options}");
        assert!(pods.get(&key).await.unwrap()["metadata"]["deletionTimestamp"].is_null());
    }
    evict("", r#"{"orphanDependents":true}"#).await.unwrap();
    let left = pods.get(&key).await.unwrap();
    assert_eq!(left["metadata"]["finalizers"].items()[0].as_str(), Some("orphan"));
}

/// An encryption configuration for Secrets with only this key.
fn encryption(folder: &Path, key: u8) -> PathBuf {
    let secret = STANDARD.encode([key; 32]);
    let text = format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n\
         - resources: [secrets]\n  providers: [{{aesgcm: {{keys: [{{name: k{key}, secret: {secret}}}]}}}}]\n"
    );
    let path = folder.join(format!("{key}.yaml"));
    fs::write(&path, text).unwrap();
    path
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_read_can_still_be_deleted() {
    let (folder, etcd) = (tempfile::TempDir::new().unwrap(), Etcd::start());
    let start = async |key: u8| {
        let mut flags = Flags::new(&folder.path().join(format!("data{key}")));
        flags.advertise_address = Some([192, 0, 2, 10].into());
        flags.etcd_servers = vec![etcd.url.clone()];
        flags.encryption_provider_config = Some(encryption(folder.path(), key));
        let (storage, clock) = (StorageBackend::Disk, Arc::new(SystemClock));
        let ground = ServerEnvironment { storage, entry: ListenerSource::Pipes, clock };
        start_with(Config::new(flags).unwrap(), ground).await.unwrap()
    };
    let admin = |running: &apiserver::RunningServer| {
        let user = server::UserInfo::new("admin", &["system:masters"]);
        Client::new(client::Config::pipe(running.pipe(user)))
    };
    // Two servers on one store, each without the other's key.
    let (one, two) = (start(1).await, start(2).await);
    let secret = tree(r#"{"metadata":{"name":"s"},"stringData":{"k":"v"}}"#);
    of::<Secret>(&admin(&one)).create(secret).await.unwrap();
    let admin = admin(&two);
    let (secrets, key) = (of::<Secret>(&admin), NamespacedName::new("default", "s"));
    let mut tries = 600;
    while tries > 0 && code(secrets.get(&key).await) == 404 {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        tries -= 1;
    }
    assert_eq!(code(secrets.get(&key).await), 500, "it is there, and means nothing");
    assert_eq!(code(secrets.list_all(&Selectors::default()).await), 500);
    assert_eq!(code(secrets.delete(&key, &DeleteParams::default()).await), 500);
    let path = "/api/v1/namespaces/default/secrets/s";
    let option = "ignoreStoreReadErrorWithClusterBreakingPotential=true";
    let delete = async |more: &str| {
        let path = format!("{path}?{option}{more}");
        let asked = admin.request(Method::DELETE, &path, HeaderMap::new(), Bytes::new());
        asked.await.unwrap().status.as_u16()
    };
    assert_eq!(delete("&gracePeriodSeconds=1").await, 422, "nothing else can be said");
    assert_eq!(delete("&dryRun=All").await, 200);
    assert_eq!(code(secrets.get(&key).await), 500, "that was not serious");
    assert_eq!(delete("").await, 200);
    assert_eq!(code(secrets.get(&key).await), 404);
    assert!(secrets.list_all(&Selectors::default()).await.unwrap().items.is_empty());
    assert_eq!(delete("").await, 404);
}
