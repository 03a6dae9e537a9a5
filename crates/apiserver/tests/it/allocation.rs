//! Allocation of cluster IPs and node ports.

use std::{collections::HashSet, path::Path, sync::Arc, time::Duration};

use api::{
    core::{Event, Service},
    networking::{IPAddress, ServiceCIDR},
};
use apiserver::{
    Config, Flags, ListenerSource, RunningServer, ServerEnvironment, StorageBackend, start_with,
};
use client::{Client, DeleteParams, Selectors};
use object::{NamespacedName, SystemClock, Value};
use server::UserInfo;
use tempfile::TempDir;
use testkit::TestCluster;
use tokio::task::JoinSet;

use crate::{code, message, name, of, peers::Etcd, tree};

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
    let cluster = TestCluster::start().await;
    let mut tasks = JoinSet::new();
    for at in 0..64 {
        let services = of::<Service>(&cluster.admin_client());
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
    let cluster = TestCluster::start().await;
    let services = of::<Service>(&cluster.admin_client());
    let first = services.create(named(service("a", ""))).await.unwrap();
    let address = first["spec"]["clusterIP"].as_str().unwrap().to_owned();
    let mut second = named(service("b", ""));
    second["spec"]["clusterIP"] = address.as_str().into();
    assert_eq!(code(services.create(second.clone()).await), 422);
    services.delete(&NamespacedName::new("default", "a"), &DeleteParams::default()).await.unwrap();
    let made = services.create(second).await.unwrap();
    assert_eq!(made["spec"]["clusterIP"].as_str(), Some(address.as_str()));
}

/// A server with 30 addresses and 32 ports to allocate.
async fn small(folder: &Path, etcd: &str) -> RunningServer {
    let mut flags = Flags::new(folder);
    flags.advertise_address = Some([192, 0, 2, 10].into());
    flags.etcd_servers = vec![etcd.to_owned()];
    flags.service_cluster_ip_range = String::from("10.77.0.0/27");
    flags.service_node_port_range = String::from("30000-30031");
    let (storage, clock) = (StorageBackend::Disk, Arc::new(SystemClock));
    let ground = ServerEnvironment { storage, entry: ListenerSource::Pipes, clock };
    start_with(Config::new(flags).unwrap(), ground).await.unwrap()
}

fn admin(running: &RunningServer) -> Client {
    let user = UserInfo::new("admin", &["system:masters"]);
    Client::new(client::Config::pipe(running.pipe(user)))
}

async fn address_names(client: &Client) -> HashSet<String> {
    let list = of::<IPAddress>(client).list_all(&Selectors::default()).await.unwrap();
    list.items.iter().map(|own| name(own).to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_servers_give_nothing_twice_and_all_of_it() {
    let folder = TempDir::new().unwrap();
    let etcd = Etcd::start();
    let one = small(&folder.path().join("one"), &etcd.url).await;
    let two = small(&folder.path().join("two"), &etcd.url).await;
    // Two rounds: either server can allocate what was released.
    for round in 0..2 {
        let mut tasks = JoinSet::new();
        for at in 0..16 {
            let services = of::<Service>(&admin(if at % 2 == 0 { &one } else { &two }));
            let made = named(service(&format!("s{at}-{round}"), ""));
            tasks.spawn(async move { services.create(made).await });
        }
        let (mut addresses, mut ports) = (HashSet::new(), HashSet::new());
        while let Some(made) = tasks.join_next().await {
            let made = made.unwrap().unwrap();
            assert!(addresses.insert(made["spec"]["clusterIP"].as_str().unwrap().to_owned()));
            for port in made["spec"]["ports"].items() {
                assert!(ports.insert(port["nodePort"].as_i64().unwrap()), "{made:?}");
            }
        }
        assert_eq!((addresses.len(), ports.len()), (16, 32), "all ports there are");
        let client = admin(&one);
        let full = message(of::<Service>(&client).create(named(service("more", ""))).await);
        assert!(full.ends_with("failed to allocate a nodePort: range is full"), "{full}");
        assert!(address_names(&client).await.is_superset(&addresses));
        for at in 0..16 {
            // Deleted through the other server than the one that created it.
            let services = of::<Service>(&admin(if at % 2 == 0 { &two } else { &one }));
            let key = NamespacedName::new("default", &format!("s{at}-{round}"));
            while services.get(&key).await.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            services.delete(&key, &DeleteParams::default()).await.unwrap();
        }
        let client = admin(&two);
        while address_names(&client).await.len() > 1 {
            tokio::time::sleep(Duration::from_millis(20)).await; // only the address of `kubernetes` stays
        }
    }
}

#[tokio::test]
async fn what_comes_to_nothing_takes_nothing() {
    let cluster = TestCluster::start_with_flags(Arc::new(SystemClock), |flags| {
        flags.service_cluster_ip_range = "10.77.0.0/30".to_owned();
        flags.service_node_port_range = "30000-30001".to_owned();
    })
    .await;
    let client = cluster.admin_client();
    let services = of::<Service>(&client);
    let mut wrong = named(service("a", ""));
    wrong["spec"]["sessionAffinity"] = "Sometimes".into();
    assert_eq!(code(services.create(wrong).await), 422, "found out after all was taken");
    let dry =
        services.with_write_param("dryRun", "All").create(named(service("a", ""))).await.unwrap();
    assert_eq!(dry["spec"]["clusterIP"].as_str(), Some("10.77.0.0"), "nobody's");
    let made = services.create(named(service("a", ""))).await.unwrap();
    assert_eq!(code(services.create(named(service("a", ""))).await), 500, "both ports are taken");
    let mut plain = service("b", "");
    plain["spec"] = tree(r#"{"ports":[{"port":80}]}"#);
    let full = message(services.create(plain.clone()).await);
    assert!(
        full.ends_with("failed to allocate a serviceIP for Service \"b\": range is full"),
        "{full}"
    );
    // A Service of type ExternalName needs neither.
    let mut other = made.clone();
    other["spec"] = tree(r#"{"type":"ExternalName","externalName":"example.com"}"#);
    let other = services.update(other).await.unwrap();
    let address = made["spec"]["clusterIP"].as_str().unwrap();
    assert!(!address_names(&client).await.contains(address));
    let mut back = other.clone();
    back["spec"] = made["spec"].clone();
    assert_eq!(services.update(back).await.unwrap()["spec"]["clusterIP"].as_str(), Some(address));
    assert!(address_names(&client).await.contains(address));
}

#[tokio::test]
async fn a_range_that_is_not_ready_gives_nothing() {
    let cluster = TestCluster::start_with_flags(Arc::new(SystemClock), |flags| {
        flags.service_cluster_ip_range = "10.77.0.0/30".to_owned();
    })
    .await;
    let client = cluster.admin_client();
    let (services, ranges) = (of::<Service>(&client), of::<ServiceCIDR>(&client));
    let plain = |name: &str, address: &str| {
        tree(&format!(
            r#"{{"metadata":{{"name":"{name}"}},"spec":{{"clusterIP":"{address}","ports":[{{"port":80}}]}}}}"#
        ))
    };
    services.create(plain("a", "")).await.unwrap();
    let outside = message(services.create(plain("b", "10.78.0.5")).await);
    let why =
        "failed to allocate IP 10.78.0.5: the provided network does not match the current range";
    assert!(outside.contains(why), "{outside}");
    let more = r#"{"metadata":{"name":"more"},"spec":{"cidrs":["10.78.0.0/24"]}}"#;
    let mut more = ranges.create(tree(more)).await.unwrap();
    services.create(plain("b", "10.78.0.5")).await.unwrap();
    let ready = tree(
        r#"[{"type":"Ready","status":"False","reason":"r","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]"#,
    );
    more["status"]["conditions"] = ready;
    ranges.update_status(more).await.unwrap();
    assert_eq!(code(services.create(plain("c", "10.78.0.6")).await), 422);
    assert_eq!(code(services.create(plain("c", "")).await), 500);
}

#[tokio::test]
async fn two_families() {
    let cluster = TestCluster::start_with_flags(Arc::new(SystemClock), |flags| {
        flags.service_cluster_ip_range = "10.77.0.0/24,fd00:77::/112".to_owned();
    })
    .await;
    let client = cluster.admin_client();
    let services = of::<Service>(&client);
    let with = |name: &str, more: &str| {
        tree(&format!(
            r#"{{"metadata":{{"name":"{name}"}},"spec":{{{more}"ports":[{{"port":80}}]}}}}"#
        ))
    };
    let both = r#""ipFamilyPolicy":"RequireDualStack","#;
    let made = services.create(with("both", both)).await.unwrap();
    let addresses = made["spec"]["clusterIPs"].items().to_vec();
    assert_eq!(addresses.len(), 2);
    assert!(addresses[0].as_str().unwrap().starts_with("10.77.0."));
    assert!(addresses[1].as_str().unwrap().starts_with("fd00:77::"));
    let one = services.create(with("one", "")).await.unwrap();
    assert_eq!(one["spec"]["clusterIPs"].items().len(), 1);
    let mut more = one.clone();
    more["spec"]["ipFamilyPolicy"] = "PreferDualStack".into();
    let more = services.update(more).await.unwrap();
    let second = more["spec"]["clusterIPs"].items()[1].as_str().unwrap().to_owned();
    assert!(address_names(&client).await.contains(&second));
    let mut less = more.clone();
    less["spec"]["ipFamilyPolicy"] = "SingleStack".into();
    assert_eq!(services.update(less).await.unwrap()["spec"]["clusterIPs"].items().len(), 1);
    assert!(!address_names(&client).await.contains(&second));
}

#[tokio::test]
async fn a_lost_address_is_written_down_again() {
    let cluster = TestCluster::start().await;
    let client = cluster.admin_client();
    let services = of::<Service>(&client);
    let made = services.create(named(service("a", ""))).await.unwrap();
    let address = made["spec"]["clusterIP"].as_str().unwrap();
    let addresses = of::<IPAddress>(&client);
    addresses.delete(&NamespacedName::new("", address), &DeleteParams::default()).await.unwrap();
    let mut touched = services.get(&NamespacedName::new("default", "a")).await.unwrap();
    touched["metadata"]["labels"]["touched"] = "yes".into();
    services.update(touched).await.unwrap();
    let until = std::time::Instant::now() + Duration::from_secs(90);
    while !address_names(&client).await.contains(address) {
        assert!(std::time::Instant::now() < until);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let events = of::<Event>(&client).list_all(&Selectors::default()).await.unwrap();
    let told =
        events.items.iter().find(|event| event["reason"].as_str() == Some("ClusterIPNotAllocated"));
    let told = told.expect("it is told");
    assert_eq!(told["involvedObject"]["name"].as_str(), Some("a"));
    assert_eq!(told["type"].as_str(), Some("Warning"));
}
