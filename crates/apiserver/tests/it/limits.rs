//! Resource limits: requests that must not exhaust the server.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use api::{
    coordination::Lease,
    core::ConfigMap,
    flowcontrol::{FlowSchema, PriorityLevelConfiguration},
    rbac::ClusterRoleBinding,
};
use bytes::Bytes;
use client::{Client, Config};
use http::{HeaderMap, HeaderValue, Method, header::CONTENT_TYPE};
use object::SystemClock;
use server::UserInfo;
use testkit::TestCluster;

use crate::{code, config_map, of, tree};

#[tokio::test]
async fn a_body_has_a_limit() {
    let cluster = TestCluster::start().await;
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let body = Bytes::from(vec![b' '; 4 << 20]);
    let path = "/api/v1/namespaces/default/configmaps";
    let answer = cluster.admin_client().request(Method::POST, path, headers, body).await.unwrap();
    assert_eq!(answer.status, 413);
}

#[tokio::test]
async fn leases_pass_when_all_seats_are_taken() {
    let clock = Arc::new(SystemClock);
    let cluster = TestCluster::start_with_flags(clock, |flags| {
        flags.enable_priority_and_fairness = false;
        flags.max_mutating_requests_inflight = 0;
    })
    .await;
    let alice = alice(&cluster).await;
    assert_eq!(code(of::<ConfigMap>(&alice).create(config_map("a")).await), 429);
    let lease = tree(r#"{"metadata":{"name":"l"},"spec":{"holderIdentity":"alice"}}"#);
    assert!(of::<Lease>(&alice).create(lease).await.is_ok());
}

#[tokio::test]
async fn stored_objects_say_who_is_sent_away() {
    let cluster = TestCluster::start().await;
    let (admin, alice) = (cluster.admin_client(), alice(&cluster).await);
    assert!(of::<ConfigMap>(&alice).create(config_map("a")).await.is_ok());
    let level = r#"{"metadata":{"name":"none"},"spec":{"type":"Limited","limited":{
        "nominalConcurrencyShares":0,"limitResponse":{"type":"Reject"}}}}"#;
    of::<PriorityLevelConfiguration>(&admin).create(tree(level)).await.unwrap();
    let schema = r#"{"metadata":{"name":"alice"},"spec":{"matchingPrecedence":10,
        "priorityLevelConfiguration":{"name":"none"},"rules":[{
        "subjects":[{"kind":"User","user":{"name":"alice"}}],"resourceRules":[{"verbs":["*"],
        "apiGroups":[""],"resources":["configmaps"],"namespaces":["*"]}]}]}}"#;
    of::<FlowSchema>(&admin).create(tree(schema)).await.unwrap();
    assert_eq!(code(of::<ConfigMap>(&alice).create(config_map("b")).await), 429);
    let lease = tree(r#"{"metadata":{"name":"l"},"spec":{"holderIdentity":"alice"}}"#);
    assert!(of::<Lease>(&alice).create(lease).await.is_ok(), "another flow");
}

/// A client of a user with all permissions, with a short timeout.
async fn alice(cluster: &TestCluster) -> Client {
    let binding = tree(
        r#"{"metadata":{"name":"alice"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io",
        "kind":"ClusterRole","name":"cluster-admin"},"subjects":[{"kind":"User","name":"alice",
        "apiGroup":"rbac.authorization.k8s.io"}]}"#,
    );
    of::<ClusterRoleBinding>(&cluster.admin_client()).create(binding).await.unwrap();
    let alice = UserInfo::new("alice", &["system:authenticated"]);
    let config = Config::pipe(cluster.running.pipe(alice)).timeout(Duration::from_millis(900));
    Client::new(config)
}

/// The history of a watch is limited by its size, not by the number of changes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_objects_are_forgotten_sooner() {
    let cluster = TestCluster::start().await;
    let maps = of::<ConfigMap>(&cluster.admin_client());
    let mut map = maps.create(config_map("large")).await.unwrap();
    let first = crate::revision(&map);
    for n in 0..100_u8 {
        map["data"]["k"] = char::from(b'a' + n % 26).to_string().repeat(1 << 20).into();
        map = maps.update(map).await.unwrap();
    }
    let watch = maps.watch(&client::Selectors::default(), client::WatchStart::After(first)).await;
    let told = match watch {
        Err(error) => Err(error),
        Ok(mut watch) => watch.next().await.map(drop),
    };
    assert_eq!(code(told), 410, "100 MiB were kept");
}

/// Sends bodies concurrently; returns the codes, and how long the slowest request of another client
/// took meanwhile.
async fn beside(cluster: &TestCluster, path: &str, bodies: Vec<String>) -> (Vec<u16>, Duration) {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let mut asking = tokio::task::JoinSet::new();
    for body in bodies {
        let (client, path, headers) = (cluster.admin_client(), path.to_owned(), headers.clone());
        asking.spawn(async move {
            let answer = client.request(Method::POST, &path, headers, Bytes::from(body)).await;
            answer.expect("an answer").status.as_u16()
        });
    }
    let (mut codes, mut slowest) = (Vec::new(), Duration::ZERO);
    let neighbour = cluster.admin_client();
    loop {
        let before = std::time::Instant::now();
        let answer = neighbour.request(Method::GET, "/api", HeaderMap::new(), Bytes::new()).await;
        assert_eq!(answer.expect("an answer").status, 200);
        slowest = slowest.max(before.elapsed());
        tokio::time::sleep(Duration::from_millis(20)).await;
        while let Some(code) = asking.try_join_next() {
            codes.push(code.expect("no panic"));
        }
        if asking.is_empty() {
            return (codes, slowest);
        }
    }
}

/// Different patterns that take long to compile.
fn patterns(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|n| format!("^.{{0,{}}}x$", 500 + n % 400))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "its bounds hold for an optimised build: cargo test --release"]
async fn patterns_by_the_thousand_keep_nobody_waiting() {
    let cluster = TestCluster::start().await;
    let crd = |n: usize| {
        let property = |(at, pattern): (usize, String)| {
            format!(r#""p{at}":{{"type":"string","pattern":"{pattern}y{n}"}}"#)
        };
        let properties: Vec<_> = patterns(1_500).enumerate().map(property).collect();
        format!(
            r#"{{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
            "metadata":{{"name":"things{n}.kit.example.com"}},"spec":{{"group":"kit.example.com",
            "scope":"Namespaced","names":{{"plural":"things{n}","kind":"Thing{n}"}},"versions":[
            {{"name":"v1","served":true,"storage":true,"schema":{{"openAPIV3Schema":{{"type":"object",
            "properties":{{{}}}}}}}}}]}}}}"#,
            properties.join(",")
        )
    };
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let (codes, slowest) = beside(&cluster, path, (0..3).map(crd).collect()).await;
    assert_eq!(codes, [422; 3], "they ask for too much");
    assert!(slowest < Duration::from_secs(4), "somebody else has waited for {slowest:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expressions_by_the_hundred_keep_nobody_waiting() {
    let cluster = TestCluster::start().await;
    let claim = |n: usize| {
        let selector = |pattern: String| {
            format!(r#"{{"cel":{{"expression":"device.driver.matches('{pattern}{n}')"}}}}"#)
        };
        let request = |at: usize| {
            let selectors: Vec<_> = patterns(400).skip(at * 32).take(32).map(selector).collect();
            format!(
                r#"{{"name":"r{at}","exactly":{{"deviceClassName":"c","selectors":[{}]}}}}"#,
                selectors.join(",")
            )
        };
        let requests: Vec<_> = (0..12).map(request).collect();
        format!(
            r#"{{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{{"name":"c{n}"}},
            "spec":{{"devices":{{"requests":[{}]}}}}}}"#,
            requests.join(",")
        )
    };
    let path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
    let (codes, slowest) = beside(&cluster, path, (0..3).map(claim).collect()).await;
    assert!(codes.iter().all(|code| matches!(code, 201 | 422)), "{codes:?}");
    assert!(slowest < Duration::from_secs(4), "somebody else has waited for {slowest:?}");
}

/// Metadata with thousands of items, up to the maximum size of a request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_lists_in_metadata_keep_nobody_waiting() {
    let cluster = TestCluster::start().await;
    let list = |item: &dyn Fn(usize) -> String| (0..12_000).map(item).collect::<Vec<_>>().join(",");
    let owner = |n: usize, more: &str| {
        format!(r#"{{"apiVersion":"x/v1","kind":"Foo","name":"n{n}","uid":"u{n}"{more}}}"#)
    };
    let metadata = [
        format!(r#""ownerReferences":[{}]"#, list(&|n| owner(n, ""))),
        format!(r#""ownerReferences":[{}]"#, list(&|n| owner(n, r#","controller":true"#))),
        format!(r#""finalizers":[{}]"#, list(&|n| format!(r#""example.com/{n}""#))),
    ];
    let object = |(n, more): (usize, &String)| {
        format!(r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"m{n}",{more}}}}}"#)
    };
    let bodies = metadata.iter().enumerate().map(object).collect();
    let began = Instant::now();
    let path = "/api/v1/namespaces/default/configmaps";
    let (mut codes, slowest) = beside(&cluster, path, bodies).await;
    codes.sort_unstable();
    assert_eq!(codes, [201, 201, 422], "only one owner can be the controller");
    assert!(slowest < Duration::from_secs(10), "somebody else has waited for {slowest:?}");
    assert!(began.elapsed() < Duration::from_mins(1), "{:?}", began.elapsed());
}
