//! Memory of the control process under pod churn: after rounds of 60 pods it returns to about what it was before
//! them.

#[path = "../cluster/world.rs"]
#[allow(dead_code, reason = "shared with the tests of clusters, which use more of it")]
mod world;

use std::{
    fs,
    time::{Duration, Instant},
};

use self::world::World;

const PODS: usize = 60;
/// How long the memory may take to return: the watch cache keeps events for 75 seconds.
const PATIENCE: Duration = Duration::from_mins(4);
/// How long a measurement waits after the last round, so that what it prints at the end is not what the ring still
/// holds.
const SETTLE: Duration = Duration::from_mins(2);
/// Tolerance in KiB, in addition to a fifth, for builds without optimizations and hosts with other work.
const NOISE: u64 = 32 << 10;

#[test]
fn memory_returns_after_rounds_of_pods() {
    let rounds = rounds();
    let world = World::new("rounds");
    world.tiphys(&["up", "--node-name", "n1"]);
    world.kubectl(&["create", "deployment", "web", "--image=tiphys.local/hello:1", "--replicas=1"]);
    world.until("the cluster works", || ready(&world) == 1);
    scale(&world, 0);
    let before = Memory::of(&world);
    let mut curve = vec![before];
    println!("before: {before}");
    for round in 1..=rounds {
        let began = Instant::now();
        scale(&world, PODS);
        world.until("all pods are ready", || ready(&world) == PODS);
        scale(&world, 0);
        let now = Memory::of(&world);
        println!("round {round}: {now}, {:.1?}", began.elapsed());
        curve.push(now);
    }
    if is_measurement() {
        std::thread::sleep(SETTLE);
    }
    let most = curve.iter().map(|memory| memory.resident).max().unwrap_or_default();
    let limit = before.resident * 12 / 10 + NOISE;
    let began = Instant::now();
    let mut reported = Duration::ZERO;
    world.within(PATIENCE, "the memory has returned", || {
        let now = Memory::of(&world);
        if began.elapsed() >= reported {
            println!("{:.0?} after the last round: {now}", began.elapsed());
            reported += Duration::from_secs(15);
        }
        now.resident <= limit
    });
    let after = Memory::of(&world);
    println!("before {before}; at most {most} KiB; after {after}; limit {limit} KiB");
    let times = |now: u64| now * 100 / before.resident.max(1);
    println!("| round | resident | % of before |\n|--:|--:|--:|");
    let every = curve.len().div_ceil(20);
    let shown = curve.iter().enumerate().filter(|(round, _)| round % every == 0);
    for (round, Memory { resident, .. }) in shown.chain([(curve.len(), &after)]) {
        println!("| {round} | {} MB | {} |", resident / 1024, times(*resident));
    }
    for line in owners(&world) {
        println!("{line}");
    }
    world.tiphys(&["down"]);
    world.assert_nothing_left();
}

/// Number of rounds. Few by default, so that the tests end soon; `TIPHYS_ROUNDS` sets another number, `TIPHYS_LONG`
/// 100.
fn rounds() -> usize {
    let given = std::env::var_os("TIPHYS_ROUNDS").and_then(|count| count.to_str()?.parse().ok());
    let long = std::env::var_os("TIPHYS_LONG").is_some();
    given.unwrap_or(if long { 100 } else { 6 })
}

/// Whether somebody asked for a number of rounds.
fn is_measurement() -> bool {
    ["TIPHYS_ROUNDS", "TIPHYS_LONG"].iter().any(|name| std::env::var_os(name).is_some())
}

fn scale(world: &World, replicas: usize) {
    world.kubectl(&["scale", "deployment", "web", &format!("--replicas={replicas}")]);
    if replicas == 0 {
        world.until("no pods are left", || {
            world.try_kubectl(&["get", "pods", "-o", "name"]).is_empty()
        });
    }
}

fn ready(world: &World) -> usize {
    let path = "jsonpath={.status.readyReplicas}";
    world.try_kubectl(&["get", "deployment", "web", "-o", path]).parse().unwrap_or_default()
}

/// Memory that the API server retains, by owner, from its metrics.
fn owners(world: &World) -> Vec<String> {
    let metrics = world.kubectl(&["get", "--raw", "/metrics"]);
    let own = metrics.lines().filter(|line| line.starts_with("tiphys_memory_bytes{"));
    own.map(str::to_owned).collect()
}

/// Memory of the control process, in KiB.
#[derive(Clone, Copy)]
struct Memory {
    resident: u64,
    /// Anonymous memory, without the pages of the executable.
    anonymous: u64,
}

impl Memory {
    fn of(world: &World) -> Self {
        let path = format!("/proc/{}/status", world.pid("control").expect("a pid"));
        let status = fs::read_to_string(path).expect("the control process runs");
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a field");
            let number = line.trim_start_matches(':').split_whitespace().next().expect("a number");
            number.parse().expect("a number")
        };
        Self { resident: field("VmRSS"), anonymous: field("RssAnon") }
    }
}

impl std::fmt::Display for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} KiB resident ({} anonymous)", self.resident, self.anonymous)
    }
}
