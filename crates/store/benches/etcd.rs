//! etcd's interface: ours beside the real one, each in a process of its own, in one run.
//! Run with `cargo bench -p store --bench etcd`; with `etcd` on the path there are ratios.

use std::{
    env, fs,
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use object::SystemClock;
use store::{
    DiskLog, Folder, Options,
    face::{Compaction, Etcd, Identity, Limits, Setup, bind},
    wire::pb::{self, kv_client::KvClient},
};
use tokio::task::JoinSet;
use tonic::transport::Channel;

const SIZE: usize = 1_024;
const LASTS: Duration = Duration::from_secs(4);
/// How many connections the clients share.
const CONNECTIONS: usize = 8;

/// One line of the table.
struct Line {
    what: String,
    /// Of ours, and of etcd; more is better if `more`.
    values: Vec<f64>,
    more: bool,
}

fn main() {
    let args: Vec<_> = env::args().collect();
    if let [_, serve, folder, address] = args.as_slice()
        && serve == "serve"
    {
        return serve_here(Path::new(folder), address);
    }
    let folder = tempfile::tempdir().expect("a folder");
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("threads");
    let mut lines: Vec<Line> = Vec::new();
    let ours = || Server::ours(&folder.path().join("ours"));
    let theirs = || Server::etcd(&folder.path().join("etcd"));
    for start in [&ours as &dyn Fn() -> Option<Server>, &theirs] {
        let Some(server) = start() else {
            println!("the program etcd is not on the path: no ratios");
            break;
        };
        for (nth, (what, value, more)) in runtime.block_on(measure(&server)).into_iter().enumerate()
        {
            match lines.get_mut(nth) {
                Some(line) => line.values.push(value),
                None => lines.push(Line { what, values: vec![value], more }),
            }
        }
    }
    println!("{:<44} {:>12} {:>12} {:>8}", "", "ours", "etcd", "ratio");
    for Line { what, values, more } in lines {
        let (ours, etcd) = (values[0], values.get(1).copied().unwrap_or(f64::NAN));
        let ratio = if more { ours / etcd } else { etcd / ours };
        println!("{what:<44} {ours:>12.1} {etcd:>12.1} {ratio:>8.1}");
    }
}

async fn measure(server: &Server) -> Vec<(String, f64, bool)> {
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut lines = vec![("idle memory, MB".to_owned(), server.memory(), false)];
    let mut channels = Vec::new();
    for _ in 0..CONNECTIONS {
        let endpoint = Channel::from_shared(server.url.clone()).expect("a URL");
        channels.push(endpoint.connect().await.expect("it listens"));
    }
    for clients in [1, 64, 1_000] {
        let cpu = server.cpu();
        let (rate, p99, count) = puts(&channels, clients).await;
        let each = (server.cpu() - cpu) * 1e6 / count;
        lines.push((format!("puts of 1 KiB, {clients} clients, /s"), rate, true));
        lines.push((format!("puts of 1 KiB, {clients} clients, p99 ms"), p99, false));
        lines.push((format!("puts of 1 KiB, {clients} clients, CPU us"), each, false));
    }
    fill(&channels).await;
    let cpu = server.cpu();
    let (took, times) = ranges(&channels[0]).await;
    let each = (server.cpu() - cpu) * 1e3 / f64::from(times);
    lines.push(("range of 10,000 keys of 1 KiB, ms".to_owned(), took, false));
    lines.push(("range of 10,000 keys of 1 KiB, CPU ms".to_owned(), each, false));
    lines
}

async fn puts(channels: &[Channel], clients: usize) -> (f64, f64, f64) {
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for client in 0..clients {
        let mut kv = KvClient::new(channels[client % channels.len()].clone());
        tasks.spawn(async move {
            let (key, value) =
                (Bytes::from(format!("/bench/{client}")), Bytes::from(vec![1; SIZE]));
            let mut took = Vec::new();
            while begun.elapsed() < LASTS {
                let put =
                    pb::PutRequest { key: key.clone(), value: value.clone(), ..Default::default() };
                let at = Instant::now();
                kv.put(put).await.expect("taken");
                took.push(at.elapsed());
            }
            took
        });
    }
    let mut took: Vec<_> = tasks.join_all().await.into_iter().flatten().collect();
    let lasted = begun.elapsed().as_secs_f64();
    took.sort_unstable();
    let p99 = took[took.len() * 99 / 100].as_secs_f64() * 1e3;
    let count = f64::from(u32::try_from(took.len()).expect("not so many"));
    (count / lasted, p99, count)
}

async fn fill(channels: &[Channel]) {
    let mut tasks = JoinSet::new();
    for (nth, channel) in channels.iter().enumerate() {
        let mut kv = KvClient::new(channel.clone());
        let step = channels.len();
        tasks.spawn(async move {
            for key in (nth..10_000).step_by(step) {
                let (key, value) = (format!("/range/{key:05}").into(), vec![1; SIZE].into());
                kv.put(pb::PutRequest { key, value, ..Default::default() }).await.expect("taken");
            }
        });
    }
    tasks.join_all().await;
}

async fn ranges(channel: &Channel) -> (f64, u32) {
    let mut kv = KvClient::new(channel.clone()).max_decoding_message_size(usize::MAX);
    let (begun, mut times) = (Instant::now(), 0);
    while begun.elapsed() < LASTS {
        let (key, range_end) = ("/range/".into(), "/range0".into());
        let range = pb::RangeRequest { key, range_end, ..Default::default() };
        let found = kv.range(range).await.expect("there").into_inner();
        assert_eq!(found.kvs.len(), 10_000);
        times += 1;
    }
    (begun.elapsed().as_secs_f64() * 1e3 / f64::from(times), times)
}

/// A process that ends with this.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn ours(folder: &Path) -> Option<Self> {
        let address = free();
        let own = env::current_exe().ok()?;
        let child = Command::new(own).arg("serve").arg(folder).arg(&address).spawn().ok()?;
        Some(Self { child, url: format!("http://{address}") }.ready(&address))
    }

    fn etcd(folder: &Path) -> Option<Self> {
        let (address, peer) = (free(), free());
        let (url, peer) = (format!("http://{address}"), format!("http://{peer}"));
        let child = Command::new("etcd")
            .arg("--data-dir")
            .arg(folder)
            .args(["--log-level", "error", "--quota-backend-bytes", "8589934592"])
            .args(["--listen-client-urls", &url, "--advertise-client-urls", &url])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("default={peer}")])
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        Some(Self { child, url }.ready(&address))
    }

    fn ready(self, address: &str) -> Self {
        let begun = Instant::now();
        while std::net::TcpStream::connect(address).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(20), "it does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        self
    }

    /// What it has used of processors, in seconds.
    fn cpu(&self) -> f64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).expect("it runs");
        let fields: Vec<_> =
            stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks: u64 =
            fields[11..13].iter().map(|ticks| ticks.parse::<u64>().expect("a number")).sum();
        Duration::from_millis(ticks * 10).as_secs_f64()
    }

    fn memory(&self) -> f64 {
        let status =
            fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
        line.trim().trim_end_matches(" kB").parse::<f64>().expect("a number") / 1_024.0
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("bound").to_string()
}

fn serve_here(folder: &Path, address: &str) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("threads");
    let disk = Arc::new(Folder::open(folder).expect("a folder"));
    let log = DiskLog::open(disk, Arc::new(SystemClock), Options::default()).expect("empty");
    let setup = Setup {
        identity: Identity {
            name: "bench".into(),
            peer_urls: Vec::new(),
            client_urls: vec![format!("http://{address}")],
            token: String::new(),
        },
        limits: Limits::default(),
        quota: 0,
        scratch: folder.to_owned(),
        compaction: Compaction::Never,
    };
    let etcd = Etcd::open(log, Arc::new(SystemClock), setup).expect("empty");
    runtime.block_on(async {
        let port = bind(address, None).await.expect("a free port");
        etcd.serve(vec![port], std::future::pending()).await;
    });
}
