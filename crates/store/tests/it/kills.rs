//! The process is killed under load, again and again. After each kill: no acknowledged write is lost, no revision is
//! assigned twice, and no watch misses or repeats an event.

use std::{
    env, fs,
    path::Path,
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
    Directory, DiskLog, DiskLogOptions,
    etcd_server::{Compaction, EtcdServer, EtcdServerConfig, Identity, Limits, bind},
    wire::pb::{self, kv_client::KvClient, watch_client::WatchClient, watch_request::RequestUnion},
};
use tokio::task::JoinSet;
use tokio_stream::StreamExt as _;
use tonic::transport::Channel;

use crate::{
    fixture::part,
    linear::{Operation, What, check},
};

const KEYS: usize = 5;
const CLIENTS: usize = 8;

/// A few kills in every test run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_when_the_process_is_killed() {
    under_kills(4, 25).await;
}

/// `cargo test -p store --release -- --ignored a_thousand_kills`
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes half an hour"]
async fn a_thousand_kills() {
    let (mut checked, kills) = (0, 1_000 / part());
    for _ in 0..kills.div_ceil(100) {
        let of_one_store = usize::try_from(kills.min(100)).expect("small");
        checked += under_kills(of_one_store, 1_050).await;
    }
    println!("{kills} kills: {checked} operations checked, nothing lost");
    assert!(checked as u64 > 1_000 * kills);
}

/// The process that is killed, started by the other tests.
#[test]
#[ignore = "a part of the others"]
fn child() {
    let (Some(folder), Some(address)) = (env::var_os("KILLS_FOLDER"), env::var_os("KILLS_ADDRESS"))
    else {
        return;
    };
    let address = address.into_string().expect("plain");
    let disk = Arc::new(Directory::open(Path::new(&folder)).expect("a folder"));
    // Small files, so that snapshots are written all the time.
    let options = DiskLogOptions {
        segment_size: 64 << 10,
        compact_threshold: 128 << 10,
        ..DiskLogOptions::default()
    };
    let log = DiskLog::open(disk, Arc::new(SystemClock), options).expect("whole");
    let setup = EtcdServerConfig {
        identity: Identity {
            name: "one".into(),
            peer_urls: vec![],
            client_urls: vec![],
            token: "t".into(),
        },
        limits: Limits::default(),
        quota: 0,
        scratch: env::temp_dir(),
        compaction: Compaction::Never,
    };
    let etcd = EtcdServer::open(log, Arc::new(SystemClock), setup).expect("whole");
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("threads").block_on(async {
        etcd.serve(vec![bind(&address, None).await.expect("free")], std::future::pending()).await;
    });
}

struct Victim(Child);

impl Victim {
    fn start(folder: &Path, address: &str) -> Self {
        let child = Command::new(env::current_exe().expect("this"))
            .args(["--exact", "kills::child", "--ignored", "--nocapture"])
            .env("KILLS_FOLDER", folder)
            .env("KILLS_ADDRESS", address)
            .stdout(Stdio::null())
            .spawn()
            .expect("this can be run");
        let this = Self(child);
        let begun = Instant::now();
        while std::net::TcpStream::connect(address).is_err() {
            assert!(begun.elapsed() < Duration::from_mins(2), "it does not get up");
            std::thread::sleep(Duration::from_millis(10));
        }
        this
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill(); // SIGKILL
        let _ = self.0.wait();
    }
}

/// State shared by all tasks, with one clock.
struct World {
    url: String,
    time: AtomicU64,
    values: AtomicU64,
    over: AtomicBool,
}

impl World {
    fn now(&self) -> u64 {
        self.time.fetch_add(1, Ordering::SeqCst)
    }

    async fn channel(&self) -> Option<Channel> {
        let endpoint = Channel::from_shared(self.url.clone()).expect("a URL");
        endpoint
            .connect_timeout(Duration::from_secs(1))
            .timeout(Duration::from_secs(5))
            .connect()
            .await
            .ok()
    }
}

/// Returns the number of checked operations. There is a minimum between two kills.
async fn under_kills(times: usize, least: u64) -> usize {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound").to_string();
    drop(listener);
    let world = Arc::new(World {
        url: format!("http://{address}"),
        time: AtomicU64::new(0),
        values: AtomicU64::new(1),
        over: AtomicBool::new(false),
    });
    let mut victim = Some(Victim::start(&data, &address));
    let mut clients = JoinSet::new();
    for nth in 0..CLIENTS {
        clients.spawn(client(world.clone(), nth));
    }
    let mut watching = JoinSet::new();
    watching.spawn(watch(world.clone()));
    for nth in 0..times {
        let (begun, before) = (Instant::now(), world.time.load(Ordering::SeqCst));
        tokio::time::sleep(Duration::from_millis(100 + 37 * (nth as u64 % 7))).await;
        while world.time.load(Ordering::SeqCst) < before + 2 * least {
            assert!(begun.elapsed() < Duration::from_mins(5), "nobody gets on");
            tokio::time::sleep(Duration::from_millis(1 + nth as u64 % 3)).await;
        }
        drop(victim.take());
        let (data, address) = (data.clone(), address.clone());
        victim = tokio::task::spawn_blocking(move || Victim::start(&data, &address)).await.ok();
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    world.over.store(true, Ordering::SeqCst);
    let history: Vec<_> = clients.join_all().await.into_iter().flatten().collect();
    let writes =
        history.iter().filter(|o| matches!(o.what, What::Write(_)) && o.ended.is_some()).count();
    assert!(writes > times, "{} operations, {writes} writes", history.len());
    check(&history).unwrap_or_else(|error| panic!("{error}"));
    let last =
        history.iter().filter(|o| o.ended.is_some()).map(|o| o.revision).max().unwrap_or_default();
    let seen = tokio::time::timeout(Duration::from_mins(5), watching.join_all()).await;
    let seen = seen.expect("it sees the end").concat();
    assert!(seen.is_sorted_by(|a, b| a < b), "each event once, in order");
    for operation in
        history.iter().filter(|o| o.ended.is_some() && matches!(o.what, What::Write(_)))
    {
        assert!(
            seen.binary_search(&operation.revision).is_ok(),
            "{} of {last} was not seen",
            operation.revision
        );
    }
    println!("{times} kills: {} operations checked, {writes} writes, nothing lost", history.len());
    // No version is compacted here, so the store grows with every write.
    let (files, kept) = (fs::read_dir(&data).expect("there").count(), history.len() / 100);
    assert!(files < 40 + kept, "old files go: {files}");
    history.len()
}

/// Reads and writes until the end. Returns the history that it saw.
async fn client(world: Arc<World>, nth: usize) -> Vec<Operation> {
    let (mut history, mut kv, mut dice) = (Vec::new(), None, nth as u64 * 977 + 1);
    while !world.over.load(Ordering::SeqCst) {
        let Some(client) = &mut kv else {
            kv = world.channel().await.map(KvClient::new);
            tokio::time::sleep(Duration::from_millis(5)).await;
            continue;
        };
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let key = usize::try_from(dice >> 33).expect("31 bits") % KEYS;
        let name = Bytes::from(format!("/k/{key}"));
        let (begun, writes) = (world.now(), (dice >> 40).is_multiple_of(2));
        let (revision, what) = if writes {
            let value = world.values.fetch_add(1, Ordering::SeqCst);
            let put =
                pb::PutRequest { key: name, value: value.to_string().into(), ..Default::default() };
            let done = client.put(put).await.ok().map(tonic::Response::into_inner);
            (done.and_then(|done| done.header).map(|header| header.revision), What::Write(value))
        } else {
            let range = pb::RangeRequest { key: name, ..Default::default() };
            match client.range(range).await.map(tonic::Response::into_inner) {
                Ok(found) => {
                    let number = |kv: &store::wire::KeyValue| {
                        let text = std::str::from_utf8(&kv.value).expect("a number");
                        (text.parse().expect("a number"), kv.mod_revision.cast_unsigned())
                    };
                    let seen = found.kvs.first().map(number);
                    (found.header.map(|header| header.revision), What::Read(seen))
                }
                Err(_) => (None, What::Read(None)),
            }
        };
        if let Some(revision) = revision {
            let (ended, revision) = (Some(world.now()), revision.cast_unsigned());
            history.push(Operation { begun, ended, key, revision, what });
            continue;
        }
        kv = None;
        if writes {
            history.push(Operation { begun, ended: None, key, revision: 0, what });
        }
    }
    history
}

/// Watches everything, resuming after each restart. Returns the revisions of the events.
async fn watch(world: Arc<World>) -> Vec<u64> {
    let (mut seen, mut next) = (Vec::new(), 2_u64);
    loop {
        let over = world.over.load(Ordering::SeqCst);
        let Some(channel) = world.channel().await else {
            tokio::time::sleep(Duration::from_millis(5)).await;
            continue;
        };
        let mut kv = KvClient::new(channel.clone());
        let newest =
            match kv.range(pb::RangeRequest { key: "/k/0".into(), ..Default::default() }).await {
                Ok(found) => {
                    found.into_inner().header.map_or(0, |header| header.revision.cast_unsigned())
                }
                Err(_) => continue,
            };
        let create = pb::WatchCreateRequest {
            key: "/k/".into(),
            range_end: "/k0".into(),
            start_revision: next.cast_signed(),
            ..Default::default()
        };
        let request = pb::WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) };
        let requests = tokio_stream::once(request).chain(tokio_stream::pending());
        let mut endpoint = WatchClient::new(channel);
        let Ok(Ok(events)) =
            tokio::time::timeout(Duration::from_secs(2), endpoint.watch(requests)).await
        else {
            continue;
        };
        let mut events = events.into_inner();
        loop {
            if over && next > newest {
                return seen;
            }
            match tokio::time::timeout(Duration::from_millis(500), events.next()).await {
                Ok(Some(Ok(response))) => {
                    assert!(!response.canceled, "{response:?}");
                    for event in response.events {
                        let revision =
                            event.kv.expect("an event has a key").mod_revision.cast_unsigned();
                        seen.push(revision);
                        next = revision + 1;
                    }
                }
                Ok(_) => break,
                Err(_) if world.over.load(Ordering::SeqCst) => break, // one more attempt, to reach the newest revision
                Err(_) => {}
            }
        }
    }
}
