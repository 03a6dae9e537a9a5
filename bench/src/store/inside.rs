//! The engine in one process with who uses it: what a write costs, also with many keys,
//! and how soon all can be read again.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use bytes::Bytes;
use object::SystemClock;
use store::{
    Bounds, DiskLog, Embedded, Engine, Error, Folder, Mirror, Options, Resident, Resource, Topic,
    Write,
};
use tokio::task::JoinSet;

const PREFIX: &str = "/registry/things/";

/// Bytes as they are, under the one topic that everything has.
#[derive(Debug)]
struct Bare;

impl Resident<Bytes> for Bare {
    fn decode(&self, _: &str, bytes: &Bytes) -> Result<Bytes, Error> {
        Ok(bytes.clone())
    }

    fn topics(&self, _: &str, _: &Bytes) -> Vec<Topic> {
        vec![Topic::All]
    }

    fn weight(&self, object: &Bytes) -> usize {
        object.len()
    }
}

struct Inside {
    engine: Arc<dyn Engine<Bytes>>,
    things: Arc<Resource<Bytes>>,
}

fn open(folder: &Path) -> Result<Inside> {
    let mirror = Mirror::new(Bounds::default());
    let (disk, clock) = (Arc::new(Folder::open(folder)?), Arc::new(SystemClock));
    let log = DiskLog::open(disk, clock.clone(), Options::default())?;
    let engine: Arc<dyn Engine<Bytes>> = Arc::new(Embedded::open(log, mirror.clone(), clock)?);
    let things = mirror.serve(PREFIX, Arc::new(Bare), &*engine)?;
    Ok(Inside { engine, things })
}

/// Durable writes of `size` a second.
pub(crate) async fn puts(
    folder: &Path,
    writers: usize,
    size: usize,
    lasts: Duration,
) -> Result<f64> {
    let Inside { engine, things } = open(folder)?;
    let (begun, mut tasks) = (Instant::now(), JoinSet::new());
    for writer in 0..writers {
        let engine = engine.clone();
        let (key, bytes) = (format!("{PREFIX}a/{writer}"), Bytes::from(vec![1; size]));
        let mut revision = things.get(&key).map_or(0, |version| version.revision);
        tasks.spawn(async move {
            let mut count = 0_u32;
            while begun.elapsed() < lasts {
                let write = Write::put(key.as_str(), revision, bytes.clone(), bytes.clone());
                revision = engine.write(write).await?;
                count += 1;
            }
            Ok::<_, Error>(count)
        });
    }
    let mut count = 0;
    while let Some(done) = tasks.join_next().await {
        count += done??;
    }
    Ok(f64::from(count) / begun.elapsed().as_secs_f64())
}

/// What a durable write costs with that many keys there, in microseconds of 64 writers'
/// time; and how long it takes until all can be read again.
pub(crate) async fn curve(
    folder: &Path,
    steps: &[usize],
    size: usize,
) -> Result<Vec<(usize, f64, Duration)>> {
    let (mut rows, mut there) = (Vec::new(), 0);
    for step in steps {
        let inside = open(folder)?;
        fill(&inside.engine, there..*step, size).await?;
        there = *step;
        drop(inside);
        let begun = Instant::now();
        let inside = open(folder)?;
        let took = begun.elapsed();
        ensure!(inside.things.len() >= there, "keys are missing");
        drop(inside);
        let rate = puts(folder, 64, size, Duration::from_secs(2)).await?;
        rows.push((there, 1e6 / rate, took));
    }
    Ok(rows)
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
                let write = Write::put(format!("{PREFIX}b/{nth:07}"), 0, bytes.clone(), bytes);
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
