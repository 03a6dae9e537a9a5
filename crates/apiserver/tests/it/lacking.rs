//! Objects that no component of the cluster acts on are accepted with a warning.

use bytes::Bytes;
use client::Client;
use http::{HeaderMap, HeaderValue, Method, header::CONTENT_TYPE};
use testkit::TestCluster;

const POLICIES: &str = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies";
const INGRESSES: &str = "/apis/networking.k8s.io/v1/namespaces/default/ingresses";
const CLASSES: &str = "/apis/networking.k8s.io/v1/ingressclasses";
const SERVICES: &str = "/api/v1/namespaces/default/services";

fn policy(name: &str) -> String {
    format!(r#"{{"metadata":{{"name":"{name}"}},"spec":{{"podSelector":{{}}}}}}"#)
}

fn ingress(name: &str) -> String {
    format!(
        r#"{{"metadata":{{"name":"{name}"}},"spec":{{"defaultBackend":{{"service":{{"name":"s",
        "port":{{"number":80}}}}}}}}}}"#
    )
}

fn service(name: &str, spec: &str) -> String {
    format!(r#"{{"metadata":{{"name":"{name}"}},"spec":{{"ports":[{{"port":80}}]{spec}}}}}"#)
}

/// Writes an object; returns the warnings.
async fn write(client: &Client, method: Method, path: &str, body: &str) -> Vec<String> {
    let mut headers = HeaderMap::new();
    let form =
        if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(form));
    let answer = client.request(method, path, headers, Bytes::from(body.to_owned())).await;
    let answer = answer.expect("an answer");
    assert!(answer.status.is_success(), "{path}: {}", answer.status);
    let said = answer.headers.get_all("warning").iter();
    said.map(|value| value.to_str().expect("text").to_owned()).collect()
}

#[tokio::test]
async fn what_is_only_stored_is_said_to_be() {
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    let registry = &cluster.running.server.registry;
    assert!(write(&admin, Method::POST, POLICIES, &policy("quiet")).await.is_empty(), "alone");
    registry.lack(api::parts::ALL.iter().map(|part| part.name));

    let said = write(&admin, Method::POST, POLICIES, &policy("a")).await;
    let expected = format!("299 - \"{}\"", api::parts::NETWORK_POLICY.lacking);
    assert_eq!(said, std::slice::from_ref(&expected));
    let patch = r#"{"metadata":{"labels":{"a":"b"}}}"#;
    let said = write(&admin, Method::PATCH, &format!("{POLICIES}/a"), patch).await;
    assert_eq!(said, [expected], "an update too");
    registry.implement("network-policy");
    assert!(write(&admin, Method::POST, POLICIES, &policy("b")).await.is_empty());

    let plain = service("plain", "");
    assert!(write(&admin, Method::POST, SERVICES, &plain).await.is_empty());
    let balanced = service("balanced", r#","type":"LoadBalancer""#);
    let said = write(&admin, Method::POST, SERVICES, &balanced).await;
    assert!(said.len() == 1 && said[0].contains("no load balancer provider"), "{said:?}");
    let classed = service("classed", r#","type":"LoadBalancer","loadBalancerClass":"x.io/y""#);
    assert!(write(&admin, Method::POST, SERVICES, &classed).await.is_empty());

    let said = write(&admin, Method::POST, INGRESSES, &ingress("a")).await;
    assert!(said.len() == 1 && said[0].contains("no ingress controller"), "{said:?}");
    let class = r#"{"metadata":{"name":"x"},"spec":{"controller":"x.io/y"}}"#;
    assert!(write(&admin, Method::POST, CLASSES, class).await.is_empty());
    assert!(write(&admin, Method::POST, INGRESSES, &ingress("b")).await.is_empty(), "brought");
    cluster.stop().await;
}
