//! Benchmark of the embedded store in one process with its user: cost of a write, also with many keys, and time to
//! open.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use bytes::Bytes;
use object::SystemClock;
use store::{
    CacheCodec, Directory, DiskLog, DiskLogOptions, EmbeddedEngine, Engine, Error, RingLimits,
    Topic, WatchCache, WatchCacheSet, Write,
};
use tokio::task::JoinSet;

use super::servers;

const PREFIX: &str = "/registry/things/";

/// A codec that leaves bytes unchanged, with one topic for everything.
#[derive(Debug)]
struct RawBytes;

impl CacheCodec<Bytes> for RawBytes {
    fn decode(&self, _: &str, bytes: &Bytes) -> Result<Bytes, String> {
        Ok(bytes.clone())
    }

    fn topics(&self, _: &str, _: &Bytes) -> Vec<Topic> {
        vec![Topic::All]
    }

    fn weight(&self, old: Option<&Bytes>, new: Option<&Bytes>) -> usize {
        new.or(old).map_or(0, Bytes::len)
    }
}

/// An open store.
struct EmbeddedStore {
    engine: Arc<dyn Engine<Bytes>>,
    things: Arc<WatchCache<Bytes>>,
}

fn open(folder: &Path) -> Result<EmbeddedStore> {
    let mirror = WatchCacheSet::new(RingLimits::default());
    let (disk, clock) = (Arc::new(Directory::open(folder)?), Arc::new(SystemClock));
    let log = DiskLog::open(disk, clock.clone(), DiskLogOptions::default())?;
    let engine: Arc<dyn Engine<Bytes>> =
        Arc::new(EmbeddedEngine::open(log, mirror.clone(), clock)?);
    let things = mirror.start(PREFIX, Arc::new(RawBytes), &*engine)?;
    Ok(EmbeddedStore { engine, things })
}

/// Durable writes of `size` bytes per second, and CPU time per write in microseconds. Each writer has its own `each`
/// keys, and writes them in a scattered order.
pub(crate) async fn puts(
    folder: &Path,
    writers: usize,
    each: usize,
    size: usize,
    lasts: Duration,
) -> Result<(f64, f64)> {
    let inside = open(folder)?;
    write(&inside, writers, each, size, Duration::from_millis(100)).await?;
    // Work that is left from opening does not count.
    while folder.join("state.tmp").exists() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let (begun, before) = (Instant::now(), servers::cpu("self"));
    let count = write(&inside, writers, each, size, lasts).await?;
    let used = servers::cpu("self") - before;
    Ok((f64::from(count) / begun.elapsed().as_secs_f64(), used * 1e6 / f64::from(count)))
}

async fn write(
    EmbeddedStore { engine, things }: &EmbeddedStore,
    writers: usize,
    each: usize,
    size: usize,
    lasts: Duration,
) -> Result<u32> {
    let (begun, mut tasks) = (Instant::now(), JoinSet::new());
    for writer in 0..writers {
        let (engine, things, bytes) = (engine.clone(), things.clone(), Bytes::from(vec![1; size]));
        tasks.spawn(async move {
            let mut count = 0;
            while begun.elapsed() < lasts {
                let nth = usize::try_from(count).unwrap_or(0).wrapping_mul(7_919) % each;
                let key = key(writer + nth * writers);
                let revision = things.get(&key).map_or(0, |version| version.revision);
                let write = Write::put(key, revision, bytes.clone(), bytes.clone());
                engine.write(write).await?;
                count += 1;
            }
            Ok::<_, Error>(count)
        });
    }
    let mut count = 0;
    while let Some(done) = tasks.join_next().await {
        count += done??;
    }
    Ok(count)
}

/// Measurements with this number of keys.
pub(crate) struct Row {
    pub(crate) keys: usize,
    /// Wall-clock time per durable write with 64 writers, and CPU time, in microseconds.
    pub(crate) write: f64,
    pub(crate) write_cpu: f64,
    /// Time to open the store until all keys can be read, and its CPU time in seconds.
    pub(crate) open: Duration,
    pub(crate) open_cpu: f64,
}

/// Measures opening and writing with a growing number of keys.
pub(crate) async fn curve(folder: &Path, steps: &[usize], size: usize) -> Result<Vec<Row>> {
    let (mut rows, mut there) = (Vec::new(), 0);
    for step in steps {
        let inside = open(folder)?;
        fill(&inside.engine, there..*step, size).await?;
        there = *step;
        drop(inside);
        let (begun, before) = (Instant::now(), servers::cpu("self"));
        let inside = open(folder)?;
        let (open, open_cpu) = (begun.elapsed(), servers::cpu("self") - before);
        ensure!(inside.things.len() >= there, "keys are missing");
        drop(inside);
        let (rate, write_cpu) = puts(folder, 64, there / 64, size, Duration::from_secs(2)).await?;
        rows.push(Row { keys: there, write: 1e6 / rate, write_cpu, open, open_cpu });
    }
    Ok(rows)
}

fn key(nth: usize) -> String {
    format!("{PREFIX}b/{nth:07}")
}

async fn fill(
    engine: &Arc<dyn Engine<Bytes>>,
    keys: std::ops::Range<usize>,
    size: usize,
) -> Result<()> {
    let mut tasks = JoinSet::new();
    for writer in 0..256 {
        let (engine, keys) = (engine.clone(), keys.clone());
        tasks.spawn(async move {
            for nth in keys.skip(writer).step_by(256) {
                let bytes = Bytes::from(vec![1; size]);
                let write = Write::put(key(nth), 0, bytes.clone(), bytes);
                engine.write(write).await?;
            }
            Ok::<_, Error>(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}
