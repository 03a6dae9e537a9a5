//! What the server does not let itself be made to do.

use std::{sync::Arc, time::Duration};

use api::{coordination::Lease, core::ConfigMap, rbac::ClusterRoleBinding};
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
    let cluster =
        Cluster::start_flags(clock, |flags| flags.max_mutating_requests_inflight = 0).await;
    let binding = tree(
        r#"{"metadata":{"name":"alice"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io",
        "kind":"ClusterRole","name":"cluster-admin"},"subjects":[{"kind":"User","name":"alice",
        "apiGroup":"rbac.authorization.k8s.io"}]}"#,
    );
    of::<ClusterRoleBinding>(&cluster.admin()).create(binding).await.unwrap();
    let alice = User::new("alice", &["system:authenticated"]);
    let config = Config::pipe(cluster.running.pipe(alice)).timeout(Duration::from_millis(900));
    let alice = Client::new(config); // with no patience to be asked for
    assert_eq!(code(of::<ConfigMap>(&alice).create(config_map("a")).await), 429);
    let lease = tree(r#"{"metadata":{"name":"l"},"spec":{"holderIdentity":"alice"}}"#);
    assert!(of::<Lease>(&alice).create(lease).await.is_ok());
}
