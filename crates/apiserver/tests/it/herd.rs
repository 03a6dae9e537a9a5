//! Many clients at once: all watches resume after a restart, and a herd of lists holds nobody else up.
//! `TIPHYS_WATCHES` and `TIPHYS_LISTS` say how many; a few hundred unless they say so.

use std::time::{Duration, Instant};

use api::{coordination::Lease, core::ConfigMap, rbac::ClusterRoleBinding};
use client::{Api, Client, Config, Error, Selectors, WatchStart};
use futures_util::future::join_all;
use object::{NamespacedName, Value};
use server::UserInfo;
use testkit::TestCluster;

use crate::{config_map, of, revision, tree, watches::next};

/// What happens while the watches are there; `last` ends them.
const EVENTS: usize = 10;
const OBJECTS: usize = 300;

fn count(variable: &str, usual: usize) -> usize {
    let given = std::env::var_os(variable).and_then(|text| text.to_str()?.parse().ok());
    given.unwrap_or(usual)
}

/// Each watch has read another part of what happened when the server stops. None has to list again, misses an event or
/// gets one twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_watches_resume_after_a_restart() {
    let (watches, folder) = (count("TIPHYS_WATCHES", 300), tempfile::TempDir::new().unwrap());
    let event = |number: usize| format!("event-{number:02}");
    let expected: Vec<String> = (0..EVENTS).map(event).chain(["last".to_owned()]).collect();
    let mut seen: Vec<(u64, Vec<String>)> = {
        let cluster = TestCluster::start_on_disk(folder.path()).await;
        let maps = of::<ConfigMap>(&cluster.admin_client());
        let first = revision(&maps.create(config_map("first")).await.unwrap());
        let open = (0..watches).map(|_| watch(&maps, first));
        let mut open = join_all(open).await.into_iter().collect::<Result<Vec<_>, _>>().unwrap();
        for number in 0..EVENTS {
            maps.create(config_map(&event(number))).await.unwrap();
        }
        let read = open.iter_mut().enumerate().map(async |(at, watch)| {
            let mut names = Vec::new();
            for _ in 0..at % EVENTS {
                names.push(next(watch).await.1);
            }
            (if names.is_empty() { first } else { watch.revision() }, names)
        });
        let seen = join_all(read).await;
        drop(open);
        cluster.stop().await;
        seen
    };
    let cluster = TestCluster::start_on_disk(folder.path()).await;
    let maps = of::<ConfigMap>(&cluster.admin_client());
    let began = Instant::now();
    let resumed = join_all(seen.iter().map(|(from, _)| watch(&maps, *from))).await;
    println!("{watches} watches resumed within {:?}", began.elapsed());
    maps.create(config_map("last")).await.unwrap();
    let read = resumed.into_iter().zip(&mut seen).map(async |(watch, (from, names))| {
        let mut watch = watch.unwrap_or_else(|error| panic!("after {from}: {error}"));
        while names.last().is_none_or(|name| name != "last") {
            let (what, name) = next(&mut watch).await;
            assert_eq!(what, "added", "{name}");
            names.push(name);
        }
    });
    join_all(read).await;
    for (from, names) in &seen {
        assert_eq!(*names, expected, "resumed after {from}");
    }
}

async fn watch(maps: &Api<Value>, from: u64) -> Result<client::Watch<Value>, Error> {
    maps.watch(&Selectors::default(), WatchStart::After(from)).await
}

/// Somebody lists everything again and again, many times at once. Those of other flows, such as leaders that renew their
/// leases, are answered all the same, and all that was asked for is answered in the end, if only with 429.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_herd_of_lists_holds_no_other_flow_up() {
    let lists = count("TIPHYS_LISTS", 300);
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    let maps = of::<ConfigMap>(&admin);
    for number in 0..OBJECTS {
        let mut map = config_map(&format!("map-{number}"));
        map["data"]["k"] = "x".repeat(1000).into();
        maps.create(map).await.unwrap();
    }
    let binding = r#"{"metadata":{"name":"herd"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole",
        "name":"cluster-admin"},"subjects":[{"kind":"Group","name":"herd","apiGroup":"rbac.authorization.k8s.io"}]}"#;
    of::<ClusterRoleBinding>(&admin).create(tree(binding)).await.unwrap();
    let lease = tree(r#"{"metadata":{"name":"leader"},"spec":{"holderIdentity":"a"}}"#);
    let leases = |client: &Client| of::<Lease>(client).namespaced("kube-system");
    leases(&admin).create(lease).await.unwrap();
    let began = Instant::now();
    let herd = join_all((0..lists).map(async |number| {
        let user = UserInfo::new(&format!("herd-{}", number % 20), &["herd", "system:authenticated"]);
        let config = Config::pipe(cluster.running.pipe(user)).timeout(Duration::from_mins(3));
        let listed = of::<ConfigMap>(&Client::new(config)).list_all(&Selectors::default()).await;
        match listed {
            Ok(list) => {
                assert!(list.items.len() >= OBJECTS);
                true
            }
            Err(error) => {
                assert_eq!(error.status().map(|status| status.code()), Some(429), "{error}");
                false
            }
        }
    }));
    let manager = cluster.client_as("system:kube-controller-manager", &[]);
    let leader = async {
        let mut slowest = Duration::ZERO;
        for _ in 0..50 {
            let began = Instant::now();
            let key = NamespacedName::new("kube-system", "leader");
            let mine = leases(&manager).get(&key).await.expect("a leader is answered");
            leases(&manager).update(mine).await.expect("a leader renews");
            slowest = slowest.max(began.elapsed());
        }
        slowest
    };
    let (listed, slowest) = tokio::join!(herd, leader);
    let answered = listed.iter().filter(|listed| **listed).count();
    println!(
        "{lists} lists: {answered} answered, {} turned away, in {:?}; the slowest renewal took {slowest:?}",
        lists - answered,
        began.elapsed()
    );
    assert!(answered > 0, "nobody was answered");
    // A machine with much else to do makes everything slow, but nobody waits for the whole herd.
    assert!(slowest < Duration::from_secs(60), "a leader waited for {slowest:?}");
}
