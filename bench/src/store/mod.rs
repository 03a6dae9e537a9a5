//! Benchmark of the store against etcd, each in its own process, in one run on one host. The two take turns, so that
//! other load on the host affects both; the median of several turns counts.

mod inside;
mod servers;
mod watch;
mod wire;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Result;
use clap::Args;
use store::wire::pb;

use self::{servers::Server, watch::WatchLoad, wire::Connection};

const SIZE: usize = 1_024;
const LASTS: Duration = Duration::from_secs(2);
/// Number of turns of each server.
const TURNS: usize = 5;
/// Number of connections that clients share.
const CONNECTIONS: usize = 8;
/// Puts per second that both servers can sustain.
const PACE: u32 = 500;
/// Number of keys in a range.
const RANGE: usize = 10_000;

#[derive(Args)]
pub(crate) struct Arguments {
    /// The program etcd; without it there are no ratios.
    #[arg(long)]
    etcd: Option<PathBuf>,
    /// Only what has this in its name: put, paced, range, watch, inside, open.
    #[arg(long)]
    only: Option<String>,
    /// How many keys there are in the end, to see what a write costs and how long opening takes.
    #[arg(long, default_value_t = 1_000_000)]
    keys: usize,
    /// Where the data is; by default a folder that goes.
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Be the server that is measured.
    #[arg(long, value_name = "ADDRESS", hide = true)]
    serve: Option<String>,
}

/// A line of the table: the measurements of each server, turn by turn.
struct ResultRow {
    what: String,
    higher_is_better: bool,
    seen: [Vec<f64>; 2],
}

impl ResultRow {
    fn median(&self, server: usize) -> f64 {
        let mut seen = self.seen[server].clone();
        seen.sort_unstable_by(f64::total_cmp);
        seen.get(seen.len() / 2).copied().unwrap_or(f64::NAN)
    }
}

/// What is measured in one turn.
#[derive(Clone, Copy)]
enum Measurement {
    Paced,
    Puts(usize),
    Range,
    Watch(WatchLoad),
}

const PARTS: &[(&str, usize, Measurement)] = &[
    ("paced put", TURNS, Measurement::Paced),
    ("put", TURNS, Measurement::Puts(1)),
    ("put", TURNS, Measurement::Puts(64)),
    ("put", TURNS, Measurement::Puts(1_000)),
    ("range", TURNS, Measurement::Range),
    ("watch", 1, Measurement::Watch(WatchLoad { watchers: 10_000, distinct: true, writes: 2_000 })),
    ("watch", 1, Measurement::Watch(WatchLoad { watchers: 1_000, distinct: false, writes: 20 })),
];

/// Runs the benchmark, or the server that is measured.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let folder = arguments.folder.clone().unwrap_or_else(|| scratch.path().to_owned());
    if let Some(address) = &arguments.serve {
        return servers::serve(&folder, address);
    }
    let wanted = |what: &str| arguments.only.as_ref().is_none_or(|only| what.contains(only));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut lines = Vec::new();
    if PARTS.iter().any(|(name, ..)| wanted(name)) {
        let mut servers = vec![Server::ours(&folder.join("ours"))?];
        if let Some(program) = &arguments.etcd {
            servers.push(Server::etcd(program, &folder.join("etcd"))?);
        }
        lines = runtime.block_on(measure(&servers, &wanted))?;
        print(&lines);
    }
    drop(runtime);
    let runtime = tokio::runtime::Runtime::new()?;
    if wanted("inside") {
        runtime.block_on(inside(&folder, &lines))?;
    }
    if wanted("open") {
        let steps: Vec<_> = [1_000, 10_000, 100_000, 1_000_000]
            .into_iter()
            .filter(|step| *step <= arguments.keys)
            .collect();
        println!(
            "{:>10} {:>18} {:>12} {:>12} {:>12}",
            "keys", "a write, us", "CPU us", "open", "CPU s"
        );
        for row in runtime.block_on(inside::curve(&folder.join("curve"), &steps, SIZE))? {
            let inside::Row { keys, write, write_cpu, open, open_cpu } = row;
            println!("{keys:>10} {write:>18.1} {write_cpu:>12.1} {open:>12.2?} {open_cpu:>12.2}");
        }
    }
    Ok(())
}

async fn measure(servers: &[Server], wanted: &impl Fn(&str) -> bool) -> Result<Vec<ResultRow>> {
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut lines = Vec::new();
    for (nth, server) in servers.iter().enumerate() {
        note(&mut lines, nth, [("idle memory, MB".to_owned(), server.memory(), false)]);
        if wanted("range") {
            fill(server).await?;
        }
    }
    for (_, turns, part) in PARTS.iter().filter(|(name, ..)| wanted(name)) {
        for _ in 0..*turns {
            for (nth, server) in servers.iter().enumerate() {
                note(&mut lines, nth, part.once(server).await?);
            }
        }
    }
    Ok(lines)
}

/// A measurement: name, value, and whether higher is better.
type Seen = (String, f64, bool);

fn note(lines: &mut Vec<ResultRow>, server: usize, seen: impl IntoIterator<Item = Seen>) {
    for (what, value, more) in seen {
        let known = lines.iter().position(|line| line.what == what);
        let nth = known.unwrap_or_else(|| {
            lines.push(ResultRow { what, higher_is_better: more, seen: Default::default() });
            lines.len() - 1
        });
        lines[nth].seen[server].push(value);
    }
}

impl Measurement {
    async fn once(self, server: &Server) -> Result<Vec<Seen>> {
        let before = server.cpu();
        match self {
            Self::Paced => {
                let what = format!("puts of 1 KiB at {PACE} a second, p99 ms");
                Ok(vec![(what, paced(server).await?, false)])
            }
            Self::Puts(clients) => {
                let (rate, p99, count) = puts(server, clients).await?;
                let each = (server.cpu() - before) * 1e6 / count;
                let what = |unit| format!("puts of 1 KiB, {clients} clients, {unit}");
                let (rate, p99) = ((what("/s"), rate, true), (what("p99 ms"), p99, false));
                Ok(vec![rate, p99, (what("CPU us"), each, false)])
            }
            Self::Range => {
                let (took, times) = ranges(server).await?;
                let each = (server.cpu() - before) * 1e3 / times;
                let what = |unit| format!("range of 10,000 keys of 1 KiB, {unit}");
                Ok(vec![(what("ms"), took, false), (what("CPU ms"), each, false)])
            }
            Self::Watch(crowd) => {
                let WatchLoad { watchers, distinct, writes } = crowd;
                let p99 = watch::delivery(server, crowd).await?;
                let of = if distinct { "distinct keys" } else { "one prefix" };
                let what = format!("{watchers} watchers of {of}, {writes} writes/s");
                let used = (format!("{what}: CPU s"), server.cpu() - before, false);
                Ok(vec![(format!("{what}: p99 ms"), p99, false), used])
            }
        }
    }
}

/// Puts per second, 99th percentile of the latency, and number of puts.
async fn puts(server: &Server, clients: usize) -> Result<(f64, f64, f64)> {
    let connections = CONNECTIONS.min(clients);
    let mut all = Vec::new();
    for nth in 0..connections {
        let mut connection = Connection::open(&server.address, "/etcdserverpb.KV/Put").await?;
        let callers = (nth..clients).step_by(connections).count();
        all.push(async move {
            let value = bytes::Bytes::from(vec![1; SIZE]);
            let put = move |caller: usize| {
                let (key, value) = (format!("/bench/{nth}-{caller}").into(), value.clone());
                message(&pb::PutRequest { key, value, ..Default::default() })
            };
            connection.run(callers, LASTS, put).await
        });
    }
    let begun = std::time::Instant::now();
    let mut took = Vec::new();
    for seen in futures_util::future::join_all(all).await {
        took.extend(seen?.took);
    }
    let lasted = begun.elapsed().as_secs_f64();
    let count = f64::from(u32::try_from(took.len())?);
    Ok((count / lasted, slow(took), count))
}

/// 99th percentile of the latency at a rate that both servers can sustain.
async fn paced(server: &Server) -> Result<f64> {
    let mut connection = Connection::open(&server.address, "/etcdserverpb.KV/Put").await?;
    let put = |nth: usize| {
        let (key, value) = (format!("/paced/{}", nth % 64).into(), vec![1; SIZE].into());
        message(&pb::PutRequest { key, value, ..Default::default() })
    };
    let count = usize::try_from(u64::from(PACE) * LASTS.as_secs())?;
    let seen = connection.pace(Duration::from_secs(1) / PACE, count, put).await?;
    Ok(slow(seen.took))
}

/// 99th percentile of the latency, in milliseconds.
fn slow(mut took: Vec<Duration>) -> f64 {
    took.sort_unstable();
    took[took.len() * 99 / 100].as_secs_f64() * 1e3
}

async fn fill(server: &Server) -> Result<()> {
    let mut connection = Connection::open(&server.address, "/etcdserverpb.KV/Put").await?;
    for from in (0..RANGE).step_by(500) {
        let put = move |caller: usize| {
            let key = format!("/range/{:05}", from + caller).into();
            let value = vec![1; SIZE].into();
            message(&pb::PutRequest { key, value, ..Default::default() })
        };
        connection.run(500, Duration::ZERO, put).await?;
    }
    Ok(())
}

async fn ranges(server: &Server) -> Result<(f64, f64)> {
    let mut connection = Connection::open(&server.address, "/etcdserverpb.KV/Range").await?;
    let range = |_: usize| {
        let (key, range_end) = ("/range/".into(), "/range0".into());
        message(&pb::RangeRequest { key, range_end, ..Default::default() })
    };
    let begun = std::time::Instant::now();
    let seen = connection.run(1, LASTS, range).await?;
    let times = f64::from(u32::try_from(seen.took.len())?);
    let least = (RANGE * SIZE) as u64 * seen.took.len() as u64;
    anyhow::ensure!(seen.bytes > least, "{} bytes are not all of it", seen.bytes);
    Ok((begun.elapsed().as_secs_f64() * 1e3 / times, times))
}

async fn inside(folder: &Path, lines: &[ResultRow]) -> Result<()> {
    for writers in [1, 64, 1_000] {
        let folder = folder.join(format!("inside{writers}"));
        let (rate, _) = inside::puts(&folder, writers, 1, SIZE, LASTS).await?;
        let name = format!("puts of 1 KiB, {writers} clients, /s");
        let other = lines.iter().find(|line| line.what == name);
        let other = other.map_or(f64::NAN, |line| line.median(1));
        println!(
            "in process, {writers:>4} writers, /s {rate:>24.1} {other:>12.1} {:>8.1}",
            rate / other
        );
    }
    Ok(())
}

fn message(request: &impl prost::Message) -> Vec<u8> {
    request.encode_to_vec()
}

fn print(lines: &[ResultRow]) {
    println!("{:<56} {:>12} {:>12} {:>8}", "", "ours", "etcd", "ratio");
    for line in lines {
        let (ours, etcd) = (line.median(0), line.median(1));
        let ratio = if line.higher_is_better { ours / etcd } else { etcd / ours };
        println!("{:<56} {ours:>12.2} {etcd:>12.2} {ratio:>8.2}", line.what);
    }
}
