//! The aggregation layer: groups of another server are discovered and reached through this one.

use std::time::Duration;

use api::{apiregistration::APIService, core::Service};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{HeaderMap, Method};
use object::{NamespacedName, Value, from_json};
use testkit::TestCluster;

use crate::{backend::Backend, flags::with, of, tree};

fn available(service: &Value) -> Option<&str> {
    let conditions = service.get("status").get("conditions").items();
    conditions.iter().find_map(|own| own.get("status").as_str())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_of_another_server_is_served_too() {
    let backend = Backend::named("extra.default.svc", |path, _| {
        if path.ends_with("/v1") {
            tree(r#"{"kind":"APIResourceList","groupVersion":"extra.example.com/v1","resources":[
                {"name":"things","singularName":"thing","namespaced":true,"kind":"Thing","verbs":["list"]}]}"#)
        } else {
            tree(r#"{"kind":"ThingList","apiVersion":"extra.example.com/v1","items":[]}"#)
        }
    })
    .await;
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    register(&admin, &backend).await;
    let path = "/apis/extra.example.com/v1/namespaces/default/things";
    let answer = admin.request(Method::GET, path, HeaderMap::new(), Bytes::new()).await.unwrap();
    assert_eq!(answer.status, 200);
    let list = from_json(&answer.bytes().await.unwrap()).unwrap();
    assert_eq!(list["kind"].as_str(), Some("ThingList"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_are_not_sent_elsewhere() {
    let backend = Backend::named("extra.default.svc", |path, _| {
        if path.ends_with("/v1") {
            tree(r#"{"kind":"APIResourceList","groupVersion":"extra.example.com/v1","resources":[]}"#)
        } else {
            tree(r#"{"location":"https://elsewhere.example.com/"}"#)
        }
    })
    .await;
    for (rejects, code) in [(true, 502), (false, 302)] {
        let cluster =
            with(|flags| flags.general.aggregator_reject_forwarding_redirect = rejects).await;
        let admin = cluster.admin_client();
        register(&admin, &backend).await;
        let path = "/apis/extra.example.com/v1/things";
        let answer = admin.request(Method::GET, path, HeaderMap::new(), Bytes::new()).await;
        assert_eq!(answer.unwrap().status.as_u16(), code);
    }
}

/// Registers a backend as the server of a group, and waits until it is available.
async fn register(admin: &client::Client, backend: &Backend) {
    // Endpoints cannot have loopback addresses; an ExternalName can resolve to one.
    let service = r#"{"metadata":{"name":"extra"},"spec":{"type":"ExternalName","externalName":"localhost"}}"#;
    of::<Service>(admin).create(tree(service)).await.unwrap();
    let registration = format!(
        r#"{{"metadata":{{"name":"v1.extra.example.com"}},"spec":{{"group":"extra.example.com",
        "version":"v1","groupPriorityMinimum":1000,"versionPriority":10,"caBundle":"{}",
        "service":{{"namespace":"default","name":"extra","port":{}}}}}}}"#,
        STANDARD.encode(&backend.authority),
        backend.port
    );
    let services = of::<APIService>(admin);
    services.create(tree(&registration)).await.unwrap();
    let key = NamespacedName::new("", "v1.extra.example.com");
    let mut now = Value::Null;
    for _ in 0..1000 {
        now = services.get(&key).await.unwrap();
        if available(&now) == Some("True") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(available(&now), Some("True"), "{now:?}");
}

#[tokio::test]
async fn own_versions_are_listed_as_services() {
    let cluster = TestCluster::start().await;
    let services = of::<APIService>(&cluster.admin_client());
    for _ in 0..100 {
        if let Ok(core) = services.get(&NamespacedName::new("", "v1.")).await
            && available(&core) == Some("True")
        {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("v1 is served, and nobody says so");
}
