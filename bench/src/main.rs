//! The API server beside upstream's, in one run on one machine: what a request costs
//! the server, what its objects take, how soon it answers. The load comes from this
//! process, on one core of its own; servers have the others.
//!
//! `cargo run -p bench --release -- [requests|watches|curves|expressions|objects|fuzz]
//!     --ours target/…/release/tiphys [--upstream DIR]`
//!
//! DIR holds upstream's `kube-apiserver` and `etcd`; without it, ours alone is measured.
//! Expressions, objects and the fuzzer need no executable.

mod curves;
mod expressions;
mod fuzz;
mod line;
mod load;
mod objects;
mod peer;
mod watches;

use std::{path::PathBuf, time::Duration};

use anyhow::Context as _;
use clap::{Parser, ValueEnum};

use self::{
    load::Load,
    peer::{Peer, Usage},
};

#[derive(Parser)]
struct Arguments {
    /// What is measured.
    #[arg(value_enum, default_value_t = What::Requests)]
    what: What,
    /// Our executable.
    #[arg(long)]
    ours: Option<PathBuf>,
    /// A folder with upstream's kube-apiserver and etcd.
    #[arg(long)]
    upstream: Option<PathBuf>,
    /// How many pods there are.
    #[arg(long, default_value_t = 10_000)]
    pods: u32,
    /// How many connections watch, each on its own.
    #[arg(long, default_value_t = 10_000)]
    connections: usize,
    /// How many watches share connections, a thousand each.
    #[arg(long, default_value_t = 100_000)]
    streams: usize,
    /// Up to how many objects there are where costs are compared.
    #[arg(long, default_value_t = 200_000)]
    objects: u32,
    /// What the fuzzer feeds; everything when nothing is named.
    #[arg(long)]
    target: Vec<String>,
    /// How many seconds the fuzzer feeds each target.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Another number, other texts.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// What a request costs, beside upstream.
    Requests,
    /// What watches take, and how soon they hear.
    Watches,
    /// What a write costs among more objects, and among more watchers.
    Curves,
    /// What expressions cost.
    Expressions,
    /// What objects cost in time and memory.
    Objects,
    /// What damaged texts do to whatever reads texts.
    Fuzz,
}

impl Arguments {
    fn ours(&self) -> anyhow::Result<&PathBuf> {
        self.ours.as_ref().context("--ours names the executable to measure")
    }

    fn fuzz(&self) -> anyhow::Result<()> {
        let all = || fuzz::TARGETS.iter().map(|target| (*target).to_owned()).collect();
        let targets: Vec<String> = if self.target.is_empty() { all() } else { self.target.clone() };
        let time = Duration::from_secs(self.seconds);
        targets.iter().try_for_each(|target| fuzz::run(target, time, self.seed))
    }
}

/// What was measured of one server.
struct Figures {
    ready: Duration,
    rows: Vec<(&'static str, Duration, Duration)>,
    memory: u64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    peer::raise_limits()?;
    match arguments.what {
        What::Requests => requests(&arguments).await,
        What::Watches => {
            let peer = Peer::ours(arguments.ours()?).await?;
            let peer = watches::connections(peer, arguments.connections).await?;
            peer.stop();
            watches::streams(Peer::ours(arguments.ours()?).await?, arguments.streams).await
        }
        What::Curves => {
            curves::objects(Peer::ours(arguments.ours()?).await?, arguments.objects).await?;
            curves::watchers(Peer::ours(arguments.ours()?).await?).await
        }
        What::Expressions => expressions::measure(),
        What::Objects => objects::measure(),
        What::Fuzz => arguments.fuzz(),
    }
}

async fn requests(arguments: &Arguments) -> anyhow::Result<()> {
    let ours = measure(Peer::ours(arguments.ours()?).await?, arguments.pods).await?;
    let theirs = match &arguments.upstream {
        Some(folder) => Some(measure(Peer::upstream(folder).await?, arguments.pods).await?),
        None => None,
    };
    print(&ours, theirs.as_ref());
    Ok(())
}

async fn measure(peer: Peer, pods: u32) -> anyhow::Result<Figures> {
    let load = Load::new(&peer, pods);
    load.prepare().await?;
    let mut rows = Vec::new();
    for (name, times) in
        [("create", pods), ("get", pods), ("list, JSON", 10), ("list, protobuf", 10)]
    {
        let before = peer.usage();
        let began = std::time::Instant::now();
        match name {
            "create" => load.create().await?,
            "get" => load.get().await?,
            "list, JSON" => load.list("application/json", times).await?,
            _ => load.list("application/vnd.kubernetes.protobuf", times).await?,
        }
        let Usage { cpu, .. } = peer.usage();
        rows.push((name, (cpu.saturating_sub(before.cpu)) / times, began.elapsed() / times));
    }
    let figures = Figures { ready: peer.ready, rows, memory: peer.usage().memory };
    peer.stop();
    Ok(figures)
}

fn print(ours: &Figures, theirs: Option<&Figures>) {
    println!("{:<28} {:>12} {:>12} {:>8}", "", "ours", "upstream", "ratio");
    let line = |name: &str, own: f64, other: Option<f64>, unit: &str| {
        let other = other.map_or((String::new(), String::new()), |other| {
            (format!("{other:.3} {unit}"), format!("{:.3}", own / other))
        });
        println!("{name:<28} {:>12} {:>12} {:>8}", format!("{own:.3} {unit}"), other.0, other.1);
    };
    let millis = |time: Duration| time.as_secs_f64() * 1000.0;
    line("start to ready", millis(ours.ready), theirs.map(|own| millis(own.ready)), "ms");
    for (at, (name, cpu, wall)) in ours.rows.iter().enumerate() {
        let other = theirs.map(|own| own.rows[at]);
        line(&format!("{name}: server CPU"), millis(*cpu), other.map(|row| millis(row.1)), "ms");
        line(&format!("{name}: wall"), millis(*wall), other.map(|row| millis(row.2)), "ms");
    }
    let mega = |bytes: u64| f64::from(u32::try_from(bytes >> 10).unwrap_or(u32::MAX)) / 1024.0;
    line("memory with these pods", mega(ours.memory), theirs.map(|own| mega(own.memory)), "MB");
}
