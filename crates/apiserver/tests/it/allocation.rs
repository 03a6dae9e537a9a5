//! Addresses and node ports of Services.

use std::collections::HashSet;

use api::core::Service;
use client::Delete;
use object::{Key, Value};
use testkit::Cluster;
use tokio::task::JoinSet;

use crate::{code, of, tree};

fn service(name: &str, address: &str) -> Value {
    tree(&format!(
        r#"{{"metadata":{{"name":"{name}"}},"spec":{{"type":"NodePort","clusterIP":"{address}",
        "selector":{{"a":"b"}},"ports":[{{"port":80}},{{"port":81,"name":"b"}}]}}}}"#
    ))
}

fn named(mut service: Value) -> Value {
    let mut ports = service["spec"]["ports"].items().to_vec();
    ports[0]["name"] = "a".into();
    service["spec"]["ports"] = ports.into_iter().collect();
    service["spec"].remove("clusterIP");
    service
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_two_services_get_the_same() {
    let cluster = Cluster::start().await;
    let mut tasks = JoinSet::new();
    for at in 0..64 {
        let services = of::<Service>(&cluster.admin());
        tasks.spawn(async move { services.create(named(service(&format!("s{at}"), ""))).await });
    }
    let (mut addresses, mut ports) = (HashSet::new(), HashSet::new());
    while let Some(made) = tasks.join_next().await {
        let made = made.unwrap().unwrap();
        let address = made["spec"]["clusterIP"].as_str().unwrap().to_owned();
        assert!(addresses.insert(address), "{made:?}");
        for port in made["spec"]["ports"].items() {
            assert!(ports.insert(port["nodePort"].as_i64().unwrap()), "{made:?}");
        }
    }
    assert_eq!((addresses.len(), ports.len()), (64, 128));
}

#[tokio::test]
async fn what_one_has_another_gets_only_when_it_is_free_again() {
    let cluster = Cluster::start().await;
    let services = of::<Service>(&cluster.admin());
    let first = services.create(named(service("a", ""))).await.unwrap();
    let address = first["spec"]["clusterIP"].as_str().unwrap().to_owned();
    let mut second = named(service("b", ""));
    second["spec"]["clusterIP"] = address.as_str().into();
    assert_eq!(code(services.create(second.clone()).await), 422);
    services.delete(&Key::new("default", "a"), &Delete::default()).await.unwrap();
    let made = services.create(second).await.unwrap();
    assert_eq!(made["spec"]["clusterIP"].as_str(), Some(address.as_str()));
}
