//! Deletions by the garbage collector and the namespace controller are irreversible: both act on
//! what the API server reports, also while their caches are incomplete or an aggregated server is
//! down.

use std::time::Duration;

use api::{
    apiextensions::CustomResourceDefinition,
    apiregistration::APIService,
    apps::ReplicaSet,
    core::{ConfigMap, Namespace, Pod, Secret},
    rbac::{ClusterRole, ClusterRoleBinding},
};
use client::{Api, ApiResource, DeleteParams, Propagation};
use controllers::Config;
use object::{NamespacedName, Value};
use runtime::Context;
use schema::Kind;
use testkit::TestCluster;
use tokio::time::sleep;

use crate::{
    World,
    world::{key, tree, until},
};

/// A pod that the ReplicaSet of this uid owns.
fn owned_pod(name: &str, uid: &str) -> Pod {
    Pod::from(tree(&format!(
        r#"{{"metadata":{{"name":"{name}","namespace":"default","ownerReferences":[{{
        "apiVersion":"apps/v1","kind":"ReplicaSet","name":"set","uid":"{uid}"}}]}},
        "spec":{{"containers":[{{"name":"c","image":"i"}}]}}}}"#
    )))
}

async fn make<K: Kind>(cluster: &TestCluster, text: &str) -> K {
    let made = Api::<K>::new(&cluster.admin_client()).create(K::from(tree(text))).await;
    made.unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Starts controllers whose informers run as a user that may list only these resources.
async fn start(cluster: &TestCluster, controllers: &[&str], rules: &str) -> Context {
    let role = format!(r#"{{"metadata":{{"name":"reader"}},"rules":[{rules}]}}"#);
    make::<ClusterRole>(cluster, &role).await;
    make::<ClusterRoleBinding>(
        cluster,
        r#"{"metadata":{"name":"reader"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io",
            "kind":"ClusterRole","name":"reader"},"subjects":[{"kind":"User","name":"reader"}]}"#,
    )
    .await;
    let cx = Context::new(&cluster.client_as("reader", &[]));
    let words = controllers.iter().map(ToString::to_string).collect();
    let config = Config { controllers: words, ..Config::default() };
    let groups = ["system:serviceaccounts", "system:serviceaccounts:kube-system"];
    controllers::start(&cx, &config, &|account| {
        cluster.client_as(&format!("system:serviceaccount:kube-system:{account}"), &groups)
    });
    cx
}

/// After a fail-over the caches sync in any order: here the cache of pods never syncs.
#[tokio::test]
async fn what_is_to_be_orphaned_is_orphaned_though_a_cache_lacks_it() {
    let cluster = TestCluster::start().await;
    let set = r#"{"metadata":{"name":"set","namespace":"default"},"spec":{"replicas":0,"selector":
        {"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":
        [{"name":"c","image":"i"}]}}}}"#;
    make::<api::core::ServiceAccount>(
        &cluster,
        r#"{"metadata":{"name":"default","namespace":"default"}}"#,
    )
    .await;
    let set = make::<ReplicaSet>(&cluster, set).await;
    let (sets, pods) =
        (Api::<ReplicaSet>::new(&cluster.admin_client()), Api::<Pod>::new(&cluster.admin_client()));
    for name in ["one", "two"] {
        pods.create(owned_pod(name, set.metadata().uid())).await.expect("a pod");
    }
    let orphan = DeleteParams { propagation: Some(Propagation::Orphan), ..DeleteParams::default() };
    sets.delete(&key::<ReplicaSet>("set"), &orphan).await.expect("it waits for the collector");
    let apps = r#"{"apiGroups":["apps"],"resources":["*"],"verbs":["list","watch"]}"#;
    let cx = start(&cluster, &["garbagecollector"], apps).await;
    until("the set is gone", async || match sets.get(&key::<ReplicaSet>("set")).await {
        Err(error) if error.is_not_found() => Ok(()),
        found => Err(found),
    })
    .await;
    let mut metrics = String::new();
    cx.metrics().write(&mut metrics);
    let failed = "\ngarbagecollector_controller_resources_sync_error_total ";
    let count = metrics.split_once(failed).and_then(|(_, rest)| rest.lines().next());
    assert!(count.is_some_and(|count| count != "0"), "resources that could not be listed count");
    sleep(Duration::from_secs(2)).await;
    for name in ["one", "two"] {
        let pod = pods.get(&key::<Pod>(name)).await.expect("it was to be orphaned");
        assert!(pod.metadata().owner_references().is_empty() && !pod.metadata().is_terminating());
    }
    cx.stop().await;
    cluster.stop().await;
}

#[tokio::test]
async fn one_resource_that_cannot_be_listed_stops_no_other_controller() {
    let cluster = TestCluster::start().await;
    make::<api::core::ServiceAccount>(
        &cluster,
        r#"{"metadata":{"name":"default","namespace":"default"}}"#,
    )
    .await;
    let some = r#"{"apiGroups":["","apps"],"resources":["pods","replicasets"],
        "verbs":["list","watch"]}"#;
    let cx = start(&cluster, &["*"], some).await;
    let set = r#"{"metadata":{"name":"set","namespace":"default"},"spec":{"replicas":1,"selector":
        {"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":
        [{"name":"c","image":"i"}]}}}}"#;
    make::<ReplicaSet>(&cluster, set).await;
    let pods = Api::<Pod>::new(&cluster.admin_client()).namespaced("default");
    until("a pod of the set", async || {
        let all = pods.list_all(&client::Selectors::default()).await.expect("a list").items;
        if all.is_empty() { Err(all) } else { Ok(()) }
    })
    .await;
    cx.stop().await;
    cluster.stop().await;
}

const DEFINITION: &str = r#"{"metadata":{"name":"things.x.io"},"spec":{"group":"x.io","scope":
    "Namespaced","names":{"plural":"things","singular":"thing","kind":"Thing","listKind":
    "ThingList"},"versions":[{"name":"v1beta1","served":true,"storage":true,"schema":
    {"openAPIV3Schema":{"type":"object"}}}]}}"#;

#[tokio::test]
async fn objects_are_collected_when_their_version_has_moved() {
    let world = World::start(&["garbagecollector"]).await;
    world.make::<CustomResourceDefinition>(DEFINITION).await;
    let owner = world.make::<ConfigMap>(r#"{"metadata":{"name":"owner"}}"#).await;
    let things = |version: &str| {
        let resource = ApiResource {
            group: "x.io".into(),
            version: version.into(),
            plural: "things".into(),
            kind: "Thing".into(),
            namespaced: true,
        };
        Api::<Value>::for_resource(&world.admin, resource).namespaced("default")
    };
    let thing = |name: &str| {
        tree(&format!(
            r#"{{"metadata":{{"name":"{name}","ownerReferences":[{{"apiVersion":"v1","kind":
            "ConfigMap","name":"owner","uid":"{}"}}]}}}}"#,
            owner.metadata().uid()
        ))
    };
    let old = things("v1beta1");
    until("the kind is served", async || old.create(thing("a")).await.map(drop)).await;
    // the collector watches the old version by now, or will after its first discovery
    sleep(Duration::from_secs(3)).await;
    let both = r#"{"spec":{"versions":[{"name":"v1","served":true,"storage":true,"schema":
        {"openAPIV3Schema":{"type":"object"}}},{"name":"v1beta1","served":false,"storage":false,
        "schema":{"openAPIV3Schema":{"type":"object"}}}]}}"#;
    world.change::<CustomResourceDefinition>("things.x.io", both).await;
    let new = things("v1");
    until("the new version is served", async || new.create(thing("b")).await.map(drop)).await;
    world.delete::<ConfigMap>("owner").await;
    until("both are collected", async || {
        let all = new.list_all(&client::Selectors::default()).await.map_err(|e| e.to_string())?;
        if all.items.is_empty() { Ok(()) } else { Err(format!("{:?}", all.items)) }
    })
    .await;
    world.stop().await;
}

#[tokio::test]
async fn a_namespace_stays_while_a_group_does_not_say_what_it_has() {
    let world = World::start(&["namespace"]).await;
    world
        .make::<APIService>(
            r#"{"metadata":{"name":"v1.away.example.com"},"spec":{"group":"away.example.com",
            "version":"v1","groupPriorityMinimum":100,"versionPriority":10,
            "insecureSkipTLSVerify":true,"service":{"name":"none","namespace":"default"}}}"#,
        )
        .await;
    let stale = async || {
        let found = world.admin.discover().await.expect("an answer");
        if found.stale.is_empty() { Err(found.found.len()) } else { Ok(()) }
    };
    until("the group is stale", stale).await;
    world.make::<Namespace>(r#"{"metadata":{"name":"going"}}"#).await;
    world.delete::<Namespace>("going").await;
    let told = |namespace: &Namespace| {
        namespace.status().conditions().iter().any(|condition| {
            condition.type_() == "NamespaceDeletionDiscoveryFailure"
                && condition.status() == "True"
                && condition.message().contains("away.example.com/v1: stale GroupVersion discovery")
        })
    };
    world.until_one::<Namespace>("going", "the condition says why", told).await;
    sleep(Duration::from_secs(3)).await;
    let namespace = world.get::<Namespace>("going").await;
    assert!(namespace.spec().finalizers().iter().any(|name| name == "kubernetes"), "held");
    world.delete::<APIService>("v1.away.example.com").await;
    let gone = async || match world.api::<Namespace>().get(&NamespacedName::new("", "going")).await
    {
        Err(error) if error.is_not_found() => Ok(()),
        found => Err(found),
    };
    until("then it goes", gone).await;
    world.stop().await;
}

/// An owner reference counts only for the object that has it: the same uid may be referred to with
/// another kind or name.
#[tokio::test]
async fn a_false_reference_makes_no_owner_absent_for_others() {
    let cluster = TestCluster::start().await;
    let owner =
        make::<Secret>(&cluster, r#"{"metadata":{"name":"owner","namespace":"default"}}"#).await;
    let child = |name: &str, of: &str| {
        format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"default","ownerReferences":[{{
            "apiVersion":"v1","kind":"Secret","name":"{of}","uid":"{}"}}]}}}}"#,
            owner.metadata().uid()
        )
    };
    make::<ConfigMap>(&cluster, &child("false", "another")).await;
    // the owner is in no cache
    let rule = r#"{"apiGroups":[""],"resources":["configmaps"],"verbs":["list","watch"]}"#;
    let cx = start(&cluster, &["garbagecollector"], rule).await;
    let maps = Api::<ConfigMap>::new(&cluster.admin_client());
    until("the first is collected", async || match maps.get(&key::<ConfigMap>("false")).await {
        Err(error) if error.is_not_found() => Ok(()),
        found => Err(found),
    })
    .await;
    make::<ConfigMap>(&cluster, &child("true", "owner")).await;
    sleep(Duration::from_secs(2)).await;
    let child = maps.get(&key::<ConfigMap>("true")).await.expect("its owner is there");
    assert!(!child.metadata().is_terminating());
    cx.stop().await;
    cluster.stop().await;
}
