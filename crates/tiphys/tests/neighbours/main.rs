//! Isolation of tenants: one tenant uses all resources it can get, with one attack after the other. A neighbour that
//! stays within its requests must hardly notice, the node must stay ready, and none of its own processes may exit.
//!
//! Run it by itself (`cargo test -p tiphys --test neighbours -- --nocapture`): it measures latencies, so nothing else
//! should run on the host. It prints a table, and fails if the neighbour's latency is far above the promised one, or
//! if a request fails. `TIPHYS_EXECUTABLE` names another executable than the one built for tests, such as an
//! optimized one; `TIPHYS_ATTACKS` selects attacks; `TIPHYS_LONG=1` attacks longer, with more pods.

mod attacks;
mod flood;
#[path = "../security/image.rs"]
#[allow(dead_code, reason = "shared with the attacks, which use more of it")]
mod image;
mod measure;
#[path = "../cluster/world.rs"]
#[allow(dead_code, reason = "shared with the tests of clusters, which use more of it")]
mod world;

use std::{net::SocketAddr, time::Duration};

use sys::cgroup::Hierarchies;

use self::{
    measure::{Latencies, Measured, Neighbour},
    world::World,
};

/// A tail latency below this is scheduling granularity and noise of the host, and ignored.
const GRAIN: Duration = Duration::from_millis(if cfg!(debug_assertions) { 50 } else { 5 });
/// A latency above this multiple of the undisturbed one is a failure; twice is promised.
const MOST: u32 = 10;

/// Intensity and duration of the attacks.
struct Size {
    /// Pods for each attack on the CPU.
    burners: usize,
    connections: usize,
    sessions: usize,
    /// Concurrent API requests.
    requests: usize,
    /// Objects in the lists that the tenant reads.
    objects: usize,
    time: Duration,
}

fn size() -> Size {
    if std::env::var_os("TIPHYS_LONG").is_some() {
        let time = Duration::from_secs(30);
        Size { burners: 15, connections: 2000, sessions: 100, requests: 400, objects: 5000, time }
    } else {
        let time = Duration::from_secs(5);
        Size { burners: 4, connections: 300, sessions: 10, requests: 200, objects: 1000, time }
    }
}

#[test]
fn a_neighbour_hardly_notices_a_tenant_at_its_worst() {
    let world = World::new("neighbours");
    world.tiphys(&["up", "--node-name", "n1"]);
    image::import(&world);
    let [good, bad] = ["good", "bad"].map(|namespace| {
        world.kubectl(&["create", "namespace", namespace]);
        let account = format!("--serviceaccount={namespace}:default");
        let role = ["create", "rolebinding", "tenant", "--clusterrole=cluster-admin", &account];
        world.kubectl(&[&role[..], &["-n", namespace]].concat());
        let token = world.kubectl(&["create", "token", "default", "-n", namespace]);
        token.trim().to_owned()
    });
    world.kubectl(&["create", "configmap", "own", "-n", "good", "--from-literal=a=b"]);
    let size = size();
    flood::fill(&world, size.objects);
    let neighbour = Neighbour { address: neighbour(&world), token: good };
    let components = ["supervisor", "control", "node"].map(|part| world.pid(part).expect("a pid"));
    node_is_protected(&world, &components);

    println!("p50 and p99 in ms, alone and beside the attack, and the ratio of the p99");
    let mut harmed = Vec::new();
    let only = std::env::var("TIPHYS_ATTACKS").unwrap_or_default();
    for attack in attacks::attacks(&size) {
        if !only.is_empty() && !only.split(',').any(|name| name == attack.name) {
            continue;
        }
        let alone = neighbour.measure(&world, size.time);
        let under_way = attack.start(&world, &size, &bad);
        let beside = under_way.during(|| neighbour.measure(&world, size.time));
        under_way.end();
        harmed.extend(compare(attack.name, &alone, &beside));
    }

    assert_eq!(
        ["supervisor", "control", "node"].map(|part| world.pid(part).expect("a pid")),
        components,
        "a component was restarted"
    );
    let restarts = "jsonpath={.items[*].status.containerStatuses[*].restartCount}";
    assert_eq!(world.kubectl(&["get", "pods", "-n", "good", "-o", restarts]), "0");
    assert!(harmed.is_empty(), "{}", harmed.join("\n"));
    world.kubectl(&["delete", "namespace", "bad", "--timeout=120s"]);
    world.tiphys(&["down"]);
    world.assert_nothing_left();
}

/// Prints a line of the table; returns the measurements that are far from the promise.
fn compare(attack: &str, alone: &Measured, beside: &Measured) -> Vec<String> {
    let pairs = [
        ("pod", &alone.pod, &beside.pod),
        ("GET", &alone.get, &beside.get),
        ("PATCH", &alone.patch, &beside.patch),
    ];
    let ratio = |alone: &Latencies, beside: &Latencies| {
        beside.p99().as_secs_f64() / alone.p99().as_secs_f64()
    };
    let columns = pairs.map(|(what, alone, beside)| {
        format!("{what}: {alone} {beside} {:5.1}", ratio(alone, beside))
    });
    println!("{attack:12} {}", columns.join("  "));
    let harm = |(what, alone, beside): &(&str, &Latencies, &Latencies)| {
        let is_slow = beside.p99() > MOST * alone.p99().max(GRAIN);
        let failed = beside.failed;
        (failed > 0 || is_slow)
            .then(|| format!("{attack}, {what}: {failed} failed, {alone} alone, {beside} beside"))
    };
    pairs.iter().filter_map(harm).collect()
}

/// Starts a web server that stays within its requests; returns its address.
fn neighbour(world: &World) -> SocketAddr {
    let probes = "readinessProbe: {httpGet: {port: 80}, periodSeconds: 1}, \
                  livenessProbe: {httpGet: {port: 80}, periodSeconds: 1, failureThreshold: 5}";
    let pod = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: web, namespace: good}}\nspec: {{containers: \
         [{{name: c, image: 'tiphys.local/hello:1', resources: {{limits: {{cpu: 500m, \
         memory: 256Mi}}}}, {probes}}}]}}\n"
    );
    world.kubectl(&["create", "-f", &world.file("web.yaml", &pod)]);
    let get = |path: &str| {
        world.try_kubectl(&["get", "pod", "web", "-n", "good", "-o", &format!("jsonpath={path}")])
    };
    world.until("the neighbour is ready", || {
        get("{.status.conditions[?(@.type=='Ready')].status}") == "True"
    });
    format!("{}:80", get("{.status.podIP}")).parse().expect("an address")
}

/// Checks the cgroups that protect the node's own processes.
fn node_is_protected(world: &World, components: &[String]) {
    let hierarchies = Hierarchies::detect().expect("cgroups");
    let group = |path: &str| hierarchies.group(&world.group(path)).expect("a path");
    let own = group("kube-reserved").processes();
    for pid in components {
        assert!(own.contains(&pid.parse().expect("a number")), "{pid} is outside of {own:?}");
        let adjusted = std::fs::read_to_string(format!("/proc/{pid}/oom_score_adj"));
        assert!(adjusted.expect("a score").trim().parse::<i32>().expect("a number") <= 0);
    }
    let memory = group("kubepods").usage().expect("usage").memory_limit.expect("a limit");
    let table = std::fs::read_to_string("/proc/meminfo").expect("memory");
    let total =
        table.split_whitespace().nth(1).expect("MemTotal").parse::<u64>().expect("a number");
    assert!(memory < total * 1024, "{memory} of {total} KiB");
    let capacity =
        "jsonpath={.items[0].status.capacity.memory} {.items[0].status.allocatable.memory}";
    let amounts = world.kubectl(&["get", "nodes", "-o", capacity]);
    let (capacity, allocatable) = amounts.split_once(' ').expect("two amounts");
    assert_ne!(capacity, allocatable);
}
