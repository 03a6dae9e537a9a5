//! What the server does not let itself be made to do.

use std::{sync::Arc, time::Duration};

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
use server::User;
use testkit::Cluster;

use crate::{code, config_map, of, tree};

#[tokio::test]
async fn a_body_has_a_limit() {
    let cluster = Cluster::start().await;
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let body = Bytes::from(vec![b' '; 4 << 20]);
    let path = "/api/v1/namespaces/default/configmaps";
    let answer = cluster.admin().request(Method::POST, path, headers, body).await.unwrap();
    assert_eq!(answer.status, 413);
}

#[tokio::test]
async fn leases_pass_when_all_seats_are_taken() {
    let clock = Arc::new(SystemClock);
    let cluster = Cluster::start_flags(clock, |flags| {
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
    let cluster = Cluster::start().await;
    let (admin, alice) = (cluster.admin(), alice(&cluster).await);
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

/// Somebody who may do everything, like others who may, and has no patience.
async fn alice(cluster: &Cluster) -> Client {
    let binding = tree(
        r#"{"metadata":{"name":"alice"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io",
        "kind":"ClusterRole","name":"cluster-admin"},"subjects":[{"kind":"User","name":"alice",
        "apiGroup":"rbac.authorization.k8s.io"}]}"#,
    );
    of::<ClusterRoleBinding>(&cluster.admin()).create(binding).await.unwrap();
    let alice = User::new("alice", &["system:authenticated"]);
    let config = Config::pipe(cluster.running.pipe(alice)).timeout(Duration::from_millis(900));
    Client::new(config)
}
