//! Benchmarks and fuzzers. API server benchmarks run ours and upstream's in the same run, and measure CPU time per
//! request, memory of objects, and latency. The load comes from this process, on its own core; the servers have the
//! others.
//!
//! `cargo run -p bench --release -- requests --ours target/…/release/tiphys [--upstream DIR]`
//!
//! DIR contains upstream's `kube-apiserver` and `etcd`; without it, only ours is measured.

mod attack;
mod curves;
mod expressions;
mod fuzz;
mod line;
mod load;
mod objects;
mod peer;
mod random;
mod store;
mod watches;

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use clap::{Parser, Subcommand};

use self::{
    load::Load,
    peer::{ServerUnderTest, Usage},
};

/// Number of times that all objects are listed.
const LISTS: u32 = 20;

/// Counts allocated bytes, to measure the memory of objects.
#[global_allocator]
static COUNTING: sys::CountingAllocator = sys::CountingAllocator;

#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    part: BenchCommand,
}

#[derive(Subcommand)]
enum BenchCommand {
    /// What a request costs, beside upstream.
    Requests {
        /// Our executable.
        #[arg(long)]
        ours: PathBuf,
        /// The folder of upstream's executables.
        #[arg(long)]
        upstream: Option<PathBuf>,
        /// How many pods there are.
        #[arg(long, default_value_t = 10_000)]
        pods: u32,
    },
    /// What watches take, and how soon they hear.
    Watches {
        /// Our executable.
        #[arg(long)]
        ours: PathBuf,
        /// How many connections watch, each on its own.
        #[arg(long, default_value_t = 10_000)]
        connections: usize,
        /// How many watches share connections, a thousand each.
        #[arg(long, default_value_t = 100_000)]
        streams: usize,
    },
    /// What a write costs among more objects, and among more watchers.
    Curves {
        /// Our executable.
        #[arg(long)]
        ours: PathBuf,
        /// Up to how many objects there are.
        #[arg(long, default_value_t = 200_000)]
        objects: u32,
    },
    /// What expressions cost.
    Expressions,
    /// What objects cost in time and memory.
    Objects,
    /// What damaged texts do to whatever reads texts.
    Fuzz {
        /// What is fed; everything when nothing is named.
        #[arg(long)]
        target: Vec<String>,
        /// For how many seconds each.
        #[arg(long, default_value_t = 60)]
        seconds: u64,
        /// Another number, other texts.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// What hostile requests do to a whole server.
    Attack(attack::Arguments),
    /// The process under attack: started by the attack itself.
    #[command(hide = true)]
    AttackChild {
        #[arg(long)]
        patience: u64,
        #[arg(long)]
        everything: bool,
    },
    /// The store beside etcd.
    Store(store::Arguments),
}

/// The measurements of one server.
struct ServerResults {
    ready: Duration,
    rows: Vec<RequestCost>,
    /// Latency of reads during writes: median and 99th percentile.
    reads: [Duration; 2],
    memory: u64,
}

/// The cost of one kind of request.
struct RequestCost {
    name: &'static str,
    cpu: Duration,
    wall: Duration,
}

fn main() -> anyhow::Result<()> {
    let part = Arguments::parse().part;
    peer::raise_limits()?;
    match part {
        BenchCommand::Expressions => expressions::measure(),
        BenchCommand::Objects => objects::measure(),
        BenchCommand::Fuzz { target, seconds, seed } => {
            fuzz(&target, Duration::from_secs(seconds), seed)
        }
        BenchCommand::Store(arguments) => store::run(&arguments),
        BenchCommand::Attack(arguments) => attack::run(&arguments),
        BenchCommand::AttackChild { patience, everything } => {
            attack::child::run(attack::child::Settings { patience, everything })
        }
        beside => tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?
            .block_on(servers(beside)),
    }
}

fn fuzz(named: &[String], time: Duration, seed: u64) -> anyhow::Result<()> {
    if named.is_empty() {
        return fuzz::TARGETS.iter().try_for_each(|target| fuzz::run(target, time, seed));
    }
    named.iter().try_for_each(|target| fuzz::run(target, time, seed))
}

/// Runs the commands that start servers.
async fn servers(part: BenchCommand) -> anyhow::Result<()> {
    match part {
        BenchCommand::Requests { ours, upstream, pods } => {
            let ours = measure(ServerUnderTest::ours(&ours).await?, pods).await?;
            let theirs = match upstream {
                Some(folder) => {
                    Some(measure(ServerUnderTest::upstream(&folder).await?, pods).await?)
                }
                None => None,
            };
            print(&ours, theirs.as_ref());
        }
        BenchCommand::Watches { ours, connections, streams } => {
            watches::connections(ServerUnderTest::ours(&ours).await?, connections).await?.stop();
            watches::streams(ServerUnderTest::ours(&ours).await?, streams).await?;
        }
        BenchCommand::Curves { ours, objects } => {
            curves::objects(ServerUnderTest::ours(&ours).await?, objects).await?;
            curves::watchers(ServerUnderTest::ours(&ours).await?).await?;
        }
        _ => {}
    }
    Ok(())
}

async fn measure(peer: ServerUnderTest, pods: u32) -> anyhow::Result<ServerResults> {
    let load = Load::new(&peer, pods);
    load.prepare().await?;
    let mut rows = Vec::new();
    for (name, times) in
        [("create", pods), ("get", pods), ("list, JSON", LISTS), ("list, protobuf", LISTS)]
    {
        let (before, began) = (peer.usage(), Instant::now());
        match name {
            "create" => load.create().await?,
            "get" => load.get().await?,
            "list, JSON" => load.list("application/json", times).await?,
            _ => load.list("application/vnd.kubernetes.protobuf", times).await?,
        }
        let (wall, Usage { cpu, .. }) = (began.elapsed() / times, peer.usage());
        rows.push(RequestCost { name, cpu: cpu.saturating_sub(before.cpu) / times, wall });
    }
    let memory = peer.usage().memory;
    let reads = load.get_during_writes().await?;
    let reads = [reads[reads.len() / 2], reads[reads.len() * 99 / 100]];
    let figures = ServerResults { ready: peer.ready, rows, reads, memory };
    peer.stop();
    Ok(figures)
}

fn print(ours: &ServerResults, theirs: Option<&ServerResults>) {
    println!("{:<28} {:>12} {:>12} {:>8}", "", "ours", "upstream", "ratio");
    let line = |name: &str, unit: &str, of: &dyn Fn(&ServerResults) -> f64| {
        let own = of(ours);
        let (other, ratio) = theirs.map(of).map_or_else(Default::default, |other| {
            (format!("{other:.3} {unit}"), format!("{:.3}", own / other))
        });
        println!("{name:<28} {:>12} {other:>12} {ratio:>8}", format!("{own:.3} {unit}"));
    };
    let millis = |time: Duration| time.as_secs_f64() * 1000.0;
    line("start to ready", "ms", &|own| millis(own.ready));
    for (at, RequestCost { name, .. }) in ours.rows.iter().enumerate() {
        line(&format!("{name}: server CPU"), "ms", &|own| millis(own.rows[at].cpu));
        line(&format!("{name}: throughput"), "/s", &|own| 1.0 / own.rows[at].wall.as_secs_f64());
    }
    line("get beside writes: p50", "ms", &|own| millis(own.reads[0]));
    line("get beside writes: p99", "ms", &|own| millis(own.reads[1]));
    line("memory with these pods", "MB", &|own| {
        f64::from(u32::try_from(own.memory >> 10).unwrap_or(u32::MAX)) / 1024.0
    });
}
