//! Tests with three real etcd members, each in its own network namespace, which are killed, paused and cut off while
//! the engine writes, reads and watches. No acknowledged write is lost, the history is linearizable, and no event is
//! missing or duplicated. Without a quorum writes fail within their deadline, and everything recovers by itself when
//! the quorum is back.
//!
//! ```text
//!  member 1 ══ bridge ══ member 2         the bridge, and who writes, in a fourth namespace:
//!                ║                        to cut off a member is to take its link down there
//!             member 3
//! ```

use std::{
    env,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use object::SystemClock;
use store::{
    Cursor, Engine, Error, EtcdConfig, EtcdEngine, RingLimits, Topic, WatchCache, WatchCacheSet,
    Write,
    engine_suite::RawBytesCodec,
    wire::pb::{self, kv_client::KvClient},
};
use tokio::task::JoinSet;
use tonic::transport::Endpoint;

use crate::{
    linear::{Operation, What, check},
    real,
};

const KEYS: usize = 5;
const WRITERS: usize = 6;
const READERS: usize = 3;
const PREFIX: &str = "/registry/things/";
/// Maximum duration of a write: the engine's deadline of ten seconds, plus a margin for a busy host. `endpoints::tests`
/// checks the bound itself with a simulated clock.
const DEADLINE: Duration = Duration::from_secs(30);

/// One round; the long test runs CLUSTER_ROUNDS of them.
#[test]
#[ignore = "needs etcd"]
fn three_members_of_real_etcd_in_namespaces() {
    let etcd = real::etcd();
    let spaces = Namespaces::make();
    let inside = Command::new("nsenter")
        .arg(format!("--net=/run/netns/{}", spaces.name(0)))
        .arg(env::current_exe().expect("this"))
        .args(["--exact", "cluster::inside", "--ignored", "--nocapture"])
        .env("CLUSTER_SPACES", &spaces.0)
        .env("CLUSTER_ETCD", etcd)
        .status()
        .expect("nsenter is there");
    assert!(inside.success());
}

/// A namespace that is deleted on drop.
struct Namespaces(String);

impl Namespaces {
    fn make() -> Self {
        let this = Self(format!("st-{}", std::process::id()));
        for nth in 0..=3 {
            ip(&["netns", "add", &this.name(nth)]);
            ip(&["-n", &this.name(nth), "link", "set", "lo", "up"]);
        }
        let (switch, member) = (this.name(0), |nth| this.name(nth));
        ip(&["-n", &switch, "link", "add", "switch", "type", "bridge"]);
        ip(&["-n", &switch, "addr", "add", "192.0.2.10/24", "dev", "switch"]);
        ip(&["-n", &switch, "link", "set", "switch", "up"]);
        for nth in 1..=3 {
            let (port, address) = (format!("port{nth}"), format!("192.0.2.{nth}/24"));
            let own = member(nth);
            ip(&[
                "-n", &switch, "link", "add", &port, "type", "veth", "peer", "name", "eth0",
                "netns", &own,
            ]);
            ip(&["-n", &switch, "link", "set", &port, "master", "switch", "up"]);
            ip(&["-n", &own, "addr", "add", &address, "dev", "eth0"]);
            ip(&["-n", &own, "link", "set", "eth0", "up"]);
        }
        this
    }

    fn name(&self, nth: usize) -> String {
        format!("{}-{nth}", self.0)
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for nth in 0..=3 {
            let _ = Command::new("ip").args(["netns", "del", &self.name(nth)]).status();
        }
    }
}

fn ip(arguments: &[&str]) {
    let done = Command::new("ip").args(arguments).status().expect("iproute2 is there");
    assert!(done.success(), "ip {arguments:?}");
}

/// An etcd member, which is killed on drop.
struct Member {
    nth: usize,
    folder: PathBuf,
    process: Option<Child>,
}

impl Member {
    fn start(&mut self) {
        let (nth, spaces) = (self.nth, env::var_os("CLUSTER_SPACES").expect("given"));
        let (client, peer) = (client_url(nth), peer_url(nth));
        let all: Vec<_> = (1..=3).map(|nth| format!("m{nth}={}", peer_url(nth))).collect();
        let process = Command::new("nsenter")
            .arg(format!("--net=/run/netns/{}-{nth}", spaces.display()))
            .arg(env::var_os("CLUSTER_ETCD").expect("given"))
            .args(["--name", &format!("m{nth}"), "--log-level", "error", "--data-dir"])
            .arg(&self.folder)
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &all.join(",")])
            .stderr(Stdio::null())
            .spawn();
        self.process = Some(process.expect("etcd can be started"));
    }

    fn signal(&self, name: &str) {
        let Some(process) = &self.process else { return };
        let done = Command::new("kill").args([name, &process.id().to_string()]).status();
        assert!(done.expect("kill is there").success());
    }

    fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    fn cut(&self, off: bool) {
        ip(&["link", "set", &format!("port{}", self.nth), if off { "down" } else { "up" }]);
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.kill();
    }
}

fn client_url(nth: usize) -> String {
    format!("http://192.0.2.{nth}:2379")
}

fn peer_url(nth: usize) -> String {
    format!("http://192.0.2.{nth}:2380")
}

/// State shared by all tasks, with one clock.
struct World {
    engine: EtcdEngine<Bytes>,
    things: Arc<WatchCache<Bytes>>,
    time: AtomicU64,
    values: AtomicU64,
    over: AtomicBool,
    /// The slowest write so far, in milliseconds.
    slowest: AtomicU64,
    refused: AtomicU64,
}

impl World {
    fn now(&self) -> u64 {
        self.time.fetch_add(1, Ordering::SeqCst)
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }
}

/// The tasks that run in the namespace of the bridge.
#[test]
#[ignore = "a part of the other"]
fn inside() {
    if env::var_os("CLUSTER_SPACES").is_none() {
        return;
    }
    let rounds = env::var_os("CLUSTER_ROUNDS").and_then(|text| text.to_str()?.parse().ok());
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("threads").block_on(faults(rounds.unwrap_or(1)));
}

async fn faults(rounds: usize) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut members: Vec<_> = (1..=3).map(|nth| member(nth, folder.path())).collect();
    members.iter_mut().for_each(Member::start);
    let world = Arc::new(connect().await);
    let from = world.things.snapshot().revision;
    let mut clients = JoinSet::new();
    for nth in 0..WRITERS {
        clients.spawn(write(world.clone(), nth));
    }
    for nth in 0..READERS {
        clients.spawn(read(world.clone(), nth));
    }
    let mut watching = JoinSet::new();
    watching.spawn(watch(world.clone(), from));
    for round in 0..rounds {
        let (one, other) = (round % 3, (round + 1) % 3);
        progress(&world, "at first").await;
        members[one].kill();
        progress(&world, "without one").await;
        members[one].start();
        progress(&world, "with it again").await;
        members[other].signal("-STOP");
        progress(&world, "with one that hangs").await;
        members[other].signal("-CONT");
        progress(&world, "with it again").await;
        members[one].cut(true);
        progress(&world, "with one cut off").await;
        members[one].cut(false);
        progress(&world, "with it again").await;
        no_quorum(&world, &mut members, one, other).await;
        progress(&world, "with a quorum again").await;
    }
    world.over.store(true, Ordering::SeqCst);
    let history: Vec<_> = clients.join_all().await.into_iter().flatten().collect();
    check(&history).unwrap_or_else(|error| panic!("{error}"));
    let acknowledged = |o: &&Operation| o.ended.is_some() && matches!(o.what, What::Write(_));
    let last = history.iter().filter(acknowledged).map(|o| o.revision).max().unwrap_or_default();
    let patience = Duration::from_mins(3);
    tokio::time::timeout(patience, world.things.wait_for(last)).await.expect("it catches up");
    let seen = watching.join_all().await.concat();
    assert!(seen.is_sorted_by(|a, b| a < b), "each event once, in order");
    for operation in history.iter().filter(acknowledged) {
        assert!(
            seen.binary_search(&operation.revision).is_ok(),
            "{} was not seen",
            operation.revision
        );
    }
    println!(
        "{rounds} rounds of faults on three members: {} operations, {} writes acknowledged, {} refused, slowest {} ms",
        history.len(),
        history.iter().filter(acknowledged).count(),
        world.refused.load(Ordering::SeqCst),
        world.slowest.load(Ordering::SeqCst)
    );
}

/// Two of three members are cut off: writes fail within their deadline, and the cache can still be read.
async fn no_quorum(world: &World, members: &mut [Member], one: usize, other: usize) {
    members[one].cut(true);
    members[other].kill();
    let before = world.refused.load(Ordering::SeqCst);
    let begun = Instant::now();
    while world.refused.load(Ordering::SeqCst) < before + WRITERS as u64 {
        assert!(begun.elapsed() < DEADLINE * 2, "writes hang without a quorum");
        assert!(world.things.len() <= KEYS && world.things.snapshot().revision > 0, "lists go on");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    members[one].cut(false);
    members[other].start();
}

fn member(nth: usize, folder: &Path) -> Member {
    Member { nth, folder: folder.join(nth.to_string()), process: None }
}

async fn connect() -> World {
    let remote =
        EtcdConfig { endpoints: (1..=3).map(client_url).collect(), ..EtcdConfig::default() };
    let begun = Instant::now();
    let connected = loop {
        let remote = remote.clone();
        let tried = tokio::task::spawn_blocking(move || {
            let engine = EtcdEngine::<Bytes>::connect(&remote, Arc::new(SystemClock))?;
            let mirror = WatchCacheSet::new(RingLimits::default());
            let things = mirror.start(PREFIX, Arc::new(RawBytesCodec), &engine)?;
            Ok::<_, Error>((engine, things))
        });
        match tried.await.expect("it does not panic") {
            Ok(connected) => break connected,
            Err(error) => assert!(begun.elapsed() < Duration::from_mins(3), "{error}"),
        }
    };
    let (engine, things) = connected;
    let (time, values, over) = (AtomicU64::new(0), AtomicU64::new(1), AtomicBool::new(false));
    World {
        engine,
        things,
        time,
        values,
        over,
        slowest: AtomicU64::new(0),
        refused: AtomicU64::new(0),
    }
}

/// Waits until writes succeed again.
async fn progress(world: &World, when: &str) {
    let (begun, from) = (Instant::now(), world.things.snapshot().revision);
    while world.things.snapshot().revision < from + 200 {
        assert!(begun.elapsed() < Duration::from_mins(3), "nothing is written {when}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn write(world: Arc<World>, nth: usize) -> Vec<Operation> {
    let (mut history, mut dice) = (Vec::new(), nth as u64 * 977 + 1);
    while !world.is_over() {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let key = usize::try_from(dice >> 33).expect("31 bits") % KEYS;
        let name = format!("{PREFIX}a/{key}");
        let expect = world.things.get(&name).map_or(0, |version| version.revision);
        let value = world.values.fetch_add(1, Ordering::SeqCst);
        let bytes = Bytes::from(value.to_string());
        let (begun, since) = (world.now(), Instant::now());
        let done = world.engine.write(Write::put(name, expect, bytes.clone(), bytes)).await;
        let took = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
        world.slowest.fetch_max(took, Ordering::SeqCst);
        assert!(since.elapsed() < DEADLINE, "a write took {took} ms");
        let (ended, revision) = match done {
            Ok(revision) => (Some(world.now()), revision),
            Err(Error::Conflict { .. }) => continue, // the write was not executed
            Err(_) => {
                world.refused.fetch_add(1, Ordering::SeqCst);
                (None, 0)
            }
        };
        history.push(Operation { begun, ended, key, revision, what: What::Write(value) });
    }
    history
}

async fn read(world: Arc<World>, nth: usize) -> Vec<Operation> {
    let mut history = Vec::new();
    for turn in nth.. {
        if world.is_over() {
            break;
        }
        let endpoint = Endpoint::from_shared(client_url(turn % 3 + 1)).expect("a URL");
        let endpoint =
            endpoint.connect_timeout(Duration::from_secs(1)).timeout(Duration::from_secs(3));
        let Ok(channel) = endpoint.connect().await else { continue };
        let mut kv = KvClient::new(channel);
        for turn in 0..200 {
            let key = (turn + nth) % KEYS;
            let range =
                pb::RangeRequest { key: format!("{PREFIX}a/{key}").into(), ..Default::default() };
            let begun = world.now();
            let Ok(found) = kv.range(range).await else { break };
            let found = found.into_inner();
            let number = |kv: &store::wire::KeyValue| {
                let text = std::str::from_utf8(&kv.value).expect("a number");
                (text.parse().expect("a number"), kv.mod_revision.cast_unsigned())
            };
            let what = What::Read(found.kvs.first().map(number));
            let revision = found.header.map_or(0, |header| header.revision.cast_unsigned());
            history.push(Operation { begun, ended: Some(world.now()), key, revision, what });
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    history
}

/// Watches everything until the end and until no more events come. Returns their revisions.
async fn watch(world: Arc<World>, from: u64) -> Vec<u64> {
    let mut cursor = Cursor::open(&world.things, Topic::All, from).expect("in the ring");
    let mut seen = Vec::new();
    loop {
        match tokio::time::timeout(Duration::from_secs(2), cursor.next()).await {
            Ok(event) => seen.push(event.expect("the ring holds it").revision),
            Err(_) if world.is_over() => return seen,
            Err(_) => {}
        }
    }
}
