//! The store beside etcd, each in a process of its own, in one run on one machine.

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

use self::{servers::Server, watch::Crowd, wire::Connection};

const SIZE: usize = 1_024;
const LASTS: Duration = Duration::from_secs(4);
/// How many connections clients share.
const CONNECTIONS: usize = 8;
/// How many puts a second both can keep up with.
const PACE: u32 = 500;
/// How many keys a range has.
const RANGE: usize = 10_000;

#[derive(Args)]
pub(crate) struct Arguments {
    /// The program etcd; without it there are no ratios.
    #[arg(long)]
    etcd: Option<PathBuf>,
    /// Only what has this in its name: put, range, watch, inside, open.
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

/// One line of the table.
struct Line {
    what: String,
    value: f64,
    more: bool,
}

fn line(what: impl Into<String>, value: f64, more: bool) -> Line {
    Line { what: what.into(), value, more }
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let folder = arguments.folder.clone().unwrap_or_else(|| scratch.path().to_owned());
    if let Some(address) = &arguments.serve {
        return servers::serve(&folder, address);
    }
    let wanted = |what: &str| arguments.only.as_ref().is_none_or(|only| what.contains(only));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let both = ["put", "range", "watch"].into_iter().any(wanted);
    let mut ours = Vec::new();
    let mut theirs = Vec::new();
    if both {
        let server = Server::ours(&folder.join("ours"))?;
        ours = runtime.block_on(measure(&server, &wanted))?;
        drop(server);
        if let Some(program) = &arguments.etcd {
            let server = Server::etcd(program, &folder.join("etcd"))?;
            theirs = runtime.block_on(measure(&server, &wanted))?;
        }
    }
    print(&ours, &theirs);
    drop(runtime);
    let runtime = tokio::runtime::Runtime::new()?;
    if wanted("inside") {
        runtime.block_on(inside(&folder, &theirs))?;
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

async fn measure(server: &Server, wanted: &impl Fn(&str) -> bool) -> Result<Vec<Line>> {
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut lines = vec![line("idle memory, MB", server.memory(), false)];
    if wanted("put") {
        let what = format!("puts of 1 KiB at {PACE} a second, p99 ms");
        lines.push(line(what, paced(server).await?, false));
    }
    for clients in [1, 64, 1_000].into_iter().filter(|_| wanted("put")) {
        let before = server.cpu();
        let (rate, p99, count) = puts(server, clients).await?;
        let each = (server.cpu() - before) * 1e6 / count;
        lines.push(line(format!("puts of 1 KiB, {clients} clients, /s"), rate, true));
        lines.push(line(format!("puts of 1 KiB, {clients} clients, p99 ms"), p99, false));
        lines.push(line(format!("puts of 1 KiB, {clients} clients, CPU us"), each, false));
    }
    if wanted("range") {
        fill(server).await?;
        let before = server.cpu();
        let (took, times) = ranges(server).await?;
        let each = (server.cpu() - before) * 1e3 / times;
        lines.push(line("range of 10,000 keys of 1 KiB, ms", took, false));
        lines.push(line("range of 10,000 keys of 1 KiB, CPU ms", each, false));
    }
    for (watchers, distinct, writes) in
        [(10_000, true, 2_000), (1_000, false, 20)].into_iter().filter(|_| wanted("watch"))
    {
        let before = server.cpu();
        let p99 = watch::delivery(server, Crowd { watchers, distinct, writes }).await?;
        let of = if distinct { "distinct keys" } else { "one prefix" };
        let what = format!("{watchers} watchers of {of}, {writes} writes/s");
        lines.push(line(format!("{what}: p99 ms"), p99, false));
        lines.push(line(format!("{what}: CPU s"), server.cpu() - before, false));
    }
    Ok(lines)
}

/// How many a second, how long the slowest hundredth took, and how many.
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

/// How long the slowest hundredth takes at a pace that both can keep.
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

/// How long the slowest hundredth took, in milliseconds.
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

async fn inside(folder: &Path, theirs: &[Line]) -> Result<()> {
    for writers in [1, 64, 1_000] {
        let folder = folder.join(format!("inside{writers}"));
        let (rate, _) = inside::puts(&folder, writers, 1, SIZE, LASTS).await?;
        let name = format!("puts of 1 KiB, {writers} clients, /s");
        let other =
            theirs.iter().find(|line| line.what == name).map_or(f64::NAN, |line| line.value);
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

fn print(ours: &[Line], theirs: &[Line]) {
    println!("{:<56} {:>12} {:>12} {:>8}", "", "ours", "etcd", "ratio");
    for (nth, Line { what, value, more }) in ours.iter().enumerate() {
        let other = theirs.get(nth).map_or(f64::NAN, |line| line.value);
        let ratio = if *more { value / other } else { other / value };
        println!("{what:<56} {value:>12.1} {other:>12.1} {ratio:>8.1}");
    }
}
