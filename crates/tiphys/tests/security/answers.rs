//! A control plane with little memory under many large lists: it answers or refuses, and is not killed.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use bytes::Bytes;
use client::{Auth, Client, Kubeconfig};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use sys::{
    cgroup::{Cgroup, Hierarchies, Limits},
    netlink::{NetworkNamespace, run_in_netns},
};
use tokio::{task::JoinSet, time::sleep};

use crate::world::World;

const LISTED: &str = "/api/v1/namespaces/default/configmaps";
const OWN: &str = "/api/v1/namespaces/default/configmaps/c-0";
const CONNECTIONS: usize = 250;
const OBJECTS: usize = 500; // of 10 kB each
/// A debug build on a busy machine takes longer, and the neighbour shares a thread with all clients of the tenant.
const SLOWNESS: u32 = if cfg!(debug_assertions) { 20 } else { 1 };
/// Each form of a list is streamed in its own way.
const FORMS: [&str; 4] = [
    "application/json",
    "application/vnd.kubernetes.protobuf",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json",
];

/// What the flood of lists was answered with.
#[derive(Debug, Default)]
struct Answers {
    served: usize,
    refused: usize,
    bytes: usize,
}

/// 500 lists of up to 5 MB over 250 connections, whose clients wait before they read, with 256 MiB for the control plane.
/// `TIPHYS_LISTS` and `TIPHYS_MEMORY` (in MiB) make it another size.
#[test]
fn lists_do_not_exhaust_the_memory() {
    let number = |name: &str, default: usize| {
        std::env::var_os(name)
            .and_then(|text| text.into_string().ok())
            .map_or(default, |text| text.parse().expect("a number"))
    };
    let (lists, memory) = (number("TIPHYS_LISTS", 500), number("TIPHYS_MEMORY", 256));
    let world = World::new("answers");
    world.tiphys(&["up", "--node-name", "n1"]);
    fill(&world);
    let [tenant, neighbour] = ["tenant", "neighbour"].map(|name| account(&world, name));
    let control = world.pid("control").expect("a pid");
    let group = limited(&world, &control, memory);

    let path = format!("/proc/{}/ns/net", world.pid("node").expect("a pid"));
    let namespace = NetworkNamespace::open(Path::new(&path)).expect("a network");
    let began = Instant::now();
    let (answers, mut waits) = run_in_netns(&namespace, || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(flood(&world, (&tenant, &neighbour), lists))
    })
    .expect("inside the network");
    let (took, usage) = (began.elapsed(), group.usage().expect("usage"));
    waits.sort();
    let p99 = waits[waits.len() * 99 / 100];
    println!(
        "{answers:?} in {took:?}; p99 of {} neighbour's GETs: {p99:?}; {} MiB used at the end",
        waits.len(),
        usage.memory >> 20
    );
    assert_eq!(group.oom_kills(), 0);
    assert_eq!(world.pid("control").as_ref(), Some(&control), "it was restarted");
    assert_eq!(answers.served + answers.refused, lists);
    assert!(answers.served > lists / 10, "{answers:?}");
    assert!(p99 <= Duration::from_secs(1) * SLOWNESS, "a neighbour waits {p99:?}");
    let patience =
        Duration::from_mins(1) * SLOWNESS * u32::try_from(lists.div_ceil(1000)).expect("few");
    assert!(took <= patience, "it took {took:?}");
    world.tiphys(&["down"]);
    group.remove_if_empty();
    world.assert_nothing_left();
}

/// Creates ConfigMaps whose list has 5 MB.
fn fill(world: &World) {
    let mut all = String::from("apiVersion: v1\nkind: List\nitems:\n");
    let data = "d".repeat(10_000);
    for n in 0..OBJECTS {
        all += &format!(
            "- {{apiVersion: v1, kind: ConfigMap, metadata: {{name: c-{n}}}, data: {{d: {data}}}}}\n"
        );
    }
    world.kubectl(&["create", "-f", &world.file("fill.yaml", &all)]);
}

/// A service account in a namespace of its own that may read everything; returns its token.
fn account(world: &World, name: &str) -> String {
    world.kubectl(&["create", "namespace", name]);
    let subject = format!("--serviceaccount={name}:default");
    world.kubectl(&["create", "clusterrolebinding", name, "--clusterrole=view", &subject]);
    world.kubectl(&["create", "token", "default", "-n", name]).trim().to_owned()
}

/// Moves the process into a cgroup with a limit.
fn limited(world: &World, pid: &str, mebibytes: usize) -> Cgroup {
    let hierarchies = Hierarchies::detect().expect("cgroups");
    let group = hierarchies.group(&world.group("limited")).expect("a path");
    group.create().expect("a group");
    let memory = i64::try_from(mebibytes << 20).ok();
    group.apply_limits(&Limits { memory, ..Limits::default() }).expect("a limit");
    for file in group.procs_files() {
        std::fs::write(&file, pid).expect("the process is moved");
    }
    group
}

fn client(world: &World, token: &str) -> Client {
    let admin = Kubeconfig::read(&world.path().join("kubeconfig/admin")).expect("a configuration");
    let config = admin.anonymous_config(None).expect("a context");
    Client::new(config.auth(Auth::Token(token.to_owned())).timeout(Duration::from_mins(5)))
}

/// Sends all lists, and meanwhile a neighbour's requests; returns how long each of those took.
async fn flood(
    world: &World,
    (tenant, neighbour): (&str, &str),
    lists: usize,
) -> (Answers, Vec<Duration>) {
    let mut sending = JoinSet::new();
    for at in 0..CONNECTIONS {
        let client = client(world, tenant);
        let own = lists / CONNECTIONS + usize::from(at < lists % CONNECTIONS);
        sending.spawn(async move {
            let mut answers = Answers::default();
            for nth in 0..own {
                list(&client, FORMS[(at + nth) % FORMS.len()], &mut answers).await;
            }
            answers
        });
    }
    let (mut answers, mut waits) = (Answers::default(), Vec::new());
    let neighbour = client(world, neighbour);
    while !sending.is_empty() {
        let began = Instant::now();
        let got = neighbour.request(Method::GET, OWN, HeaderMap::new(), Bytes::new()).await;
        assert_eq!(got.expect("an answer").status, StatusCode::OK);
        waits.push(began.elapsed());
        sleep(Duration::from_millis(20)).await;
        while let Some(one) = sending.try_join_next() {
            let one = one.expect("no panic");
            answers.served += one.served;
            answers.refused += one.refused;
            answers.bytes += one.bytes;
        }
    }
    (answers, waits)
}

/// Sends a list; reads it after a while, as a slow client does.
async fn list(client: &Client, form: &'static str, answers: &mut Answers) {
    let mut headers = HeaderMap::new();
    headers.insert(header::ACCEPT, HeaderValue::from_static(form));
    let answer = client.request(Method::GET, LISTED, headers, Bytes::new()).await;
    let mut answer = answer.expect("an answer");
    if answer.status == StatusCode::TOO_MANY_REQUESTS {
        assert!(answer.headers.contains_key(header::RETRY_AFTER), "it says when to come back");
        answers.refused += 1;
        return;
    }
    assert_eq!(answer.status, StatusCode::OK);
    sleep(Duration::from_secs(2)).await;
    while let Some(chunk) = answer.chunk().await.expect("the whole list") {
        answers.bytes += chunk.len();
    }
    answers.served += 1;
}
