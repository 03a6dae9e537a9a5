//! Benchmarks of durable writes, compared with a loop that only writes and syncs, and of lists. Run with `cargo bench
//! -p store`.

use std::{
    hint::black_box,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use object::Clock;
use store::{
    Cursor, Directory, Disk, DiskLog, DiskLogOptions, EmbeddedEngine, Engine, RingLimits, Topic,
    WatchCacheSet, Write, engine_suite::RawBytesCodec,
};
use tokio::task::JoinSet;

const PREFIX: &str = "/registry/things/";
const SIZE: usize = 1_024;
const LASTS: Duration = Duration::from_secs(3);

/// A clock that stands still.
#[derive(Debug)]
struct Still;

impl Clock for Still {
    fn now(&self) -> i64 {
        0
    }
}

#[tokio::main]
async fn main() {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = Directory::open(folder.path().join("plain")).expect("a folder");
    let plain = plain(&disk);
    println!("write and sync, one after the other  {plain:>10.0} writes/s   1.0");
    for writers in [1, 64, 1_000] {
        let disk = Directory::open(folder.path().join(writers.to_string())).expect("a folder");
        let rate = durable(disk, writers).await;
        println!(
            "durable, {writers:>4} writers               {rate:>10.0} writes/s {:>5.1}",
            rate / plain
        );
    }
    start(folder.path()).await;
    list().await;
    wake().await;
}

/// Writes of `SIZE` bytes into allocated space, each synced.
fn plain(disk: &Directory) -> f64 {
    let file = disk.create("plain", 1 << 30).expect("room");
    let (begun, mut count) = (Instant::now(), 0_u32);
    while begun.elapsed() < LASTS {
        file.write_at(&[1; SIZE], u64::from(count) * SIZE as u64).expect("room");
        file.sync().expect("a disk");
        count += 1;
    }
    f64::from(count) / begun.elapsed().as_secs_f64()
}

async fn durable(disk: Directory, writers: usize) -> f64 {
    let mirror = WatchCacheSet::new(RingLimits::default());
    let log =
        DiskLog::open(Arc::new(disk), Arc::new(Still), DiskLogOptions::default()).expect("empty");
    let engine = EmbeddedEngine::open(log, mirror.clone(), Arc::new(Still)).expect("empty");
    let engine: Arc<dyn Engine<Bytes>> = Arc::new(engine);
    mirror.start(PREFIX, Arc::new(RawBytesCodec), &*engine).expect("empty");
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for writer in 0..writers {
        let engine = engine.clone();
        tasks.spawn(async move {
            let (key, bytes) = (format!("{PREFIX}a/{writer}"), Bytes::from(vec![1; SIZE]));
            let (mut revision, mut count) = (0, 0_u32);
            while begun.elapsed() < LASTS {
                let write = Write::put(key.as_str(), revision, bytes.clone(), bytes.clone());
                revision = engine.write(write).await.expect("nobody else writes it");
                count += 1;
            }
            count
        });
    }
    let count: u32 = tasks.join_all().await.into_iter().sum();
    f64::from(count) / begun.elapsed().as_secs_f64()
}

/// Time until a million keys can be read after a restart.
async fn start(folder: &Path) {
    const KEYS: usize = 1_000_000;
    let open = || {
        let disk = Directory::open(folder.join("start")).expect("a folder");
        let mirror = WatchCacheSet::new(RingLimits::default());
        let log = DiskLog::open(Arc::new(disk), Arc::new(Still), DiskLogOptions::default());
        let engine = EmbeddedEngine::open(log.expect("whole"), mirror.clone(), Arc::new(Still));
        let engine: Arc<dyn Engine<Bytes>> = Arc::new(engine.expect("whole"));
        let things = mirror.start(PREFIX, Arc::new(RawBytesCodec), &*engine).expect("whole");
        (engine, things)
    };
    let (engine, _) = open();
    let mut tasks = JoinSet::new();
    for writer in 0..64 {
        let engine = engine.clone();
        tasks.spawn(async move {
            for nth in (writer..KEYS).step_by(64) {
                let bytes = Bytes::from(vec![1; SIZE]);
                let write = Write::put(format!("{PREFIX}a/{nth}"), 0, bytes.clone(), bytes);
                engine.write(write).await.expect("absent");
            }
        });
    }
    tasks.join_all().await;
    drop(engine);
    let begun = Instant::now();
    let (_engine, things) = open();
    assert_eq!(things.len(), KEYS);
    println!("start with 1,000,000 keys of 1 KiB   {:>10.2?}", begun.elapsed());
}

async fn list() {
    let (mirror, things) = memory(10_000).await;
    let (begun, times) = (Instant::now(), 100);
    for _ in 0..times {
        let pinned = things.snapshot();
        let bytes: usize = pinned.range(PREFIX, None).map(|(_, v)| v.object.len()).sum();
        assert_eq!(black_box(bytes), 10_000 * SIZE);
    }
    println!("list of 10,000 from memory           {:>10.2?}", begun.elapsed() / times);
    drop(mirror);
}

/// One write while five thousand watches follow other objects.
async fn wake() {
    let (engine, things) = memory(1).await;
    let mut sleeping = Vec::new();
    for watcher in 0..5_000 {
        let topic = Topic::Namespace(format!("n{watcher}").into());
        let mut cursor = Cursor::open(&things, topic, 2).expect("in the ring");
        assert!(cursor.try_next().is_none());
        sleeping.push(cursor);
    }
    let (begun, times, mut revision) = (Instant::now(), 10_000_u32, 2);
    for _ in 0..times {
        let bytes = Bytes::from_static(b"x");
        let write = Write::put(format!("{PREFIX}a/0"), revision, bytes.clone(), bytes);
        revision = engine.write(write).await.expect("nobody else writes it");
    }
    println!("write in memory, 5,000 idle watchers {:>10.2?}", begun.elapsed() / times);
}

async fn memory(count: usize) -> (EmbeddedEngine<Bytes>, Arc<store::WatchCache<Bytes>>) {
    let mirror = WatchCacheSet::new(RingLimits::default());
    let engine = EmbeddedEngine::memory(mirror.clone(), Arc::new(Still));
    let things = mirror.start(PREFIX, Arc::new(RawBytesCodec), &engine).expect("empty");
    for nth in 0..count {
        let bytes = Bytes::from(vec![1; SIZE]);
        let write = Write::put(format!("{PREFIX}a/{nth}"), 0, bytes.clone(), bytes);
        engine.write(write).await.expect("absent");
    }
    (engine, things)
}
