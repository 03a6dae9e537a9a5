//! A server under test: its processes, its address, and its resource usage.

use std::{
    fs,
    net::TcpListener,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use client::{Client, Config, TcpConnector, TlsOptions};
use http::{HeaderMap, Method};
use rustix::{
    process::{Resource, Rlimit, getrlimit, setrlimit},
    thread::{CpuSet, sched_setaffinity},
};
use tempfile::TempDir;

const TOKEN: &str = "benchmark";
const START_TIMEOUT: Duration = Duration::from_mins(1);
/// Clock ticks per second in /proc.
const TICKS_PER_SECOND: u64 = 100;

/// A running API server, ours or upstream's.
pub(crate) struct ServerUnderTest {
    pub(crate) port: u16,
    pub(crate) token: String,
    /// Time from the start of the last process to the first successful response.
    pub(crate) ready: Duration,
    processes: Vec<Child>,
    executable: PathBuf,
    folder: TempDir,
}

/// The resource usage of a server.
#[derive(Clone, Copy)]
pub(crate) struct Usage {
    pub(crate) cpu: Duration,
    /// Proportional set size, in bytes.
    pub(crate) memory: u64,
}

impl ServerUnderTest {
    /// Starts our API server.
    pub(crate) async fn ours(executable: &Path) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let port = free_port()?;
        let process = ours(executable, folder.path(), port)?;
        Self::wait(port, vec![process], executable, folder).await
    }

    /// Kills our server with SIGKILL, and restarts it on the same data.
    pub(crate) async fn restart(mut self) -> Result<Self> {
        for process in &mut self.processes {
            process.kill()?;
            process.wait()?;
        }
        let process = ours(&self.executable, self.folder.path(), self.port)?;
        Self::wait(self.port, vec![process], &self.executable, self.folder).await
    }

    /// Starts upstream's API server and etcd.
    pub(crate) async fn upstream(programs: &Path) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let (port, store, peers) = (free_port()?, free_port()?, free_port()?);
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let mut etcd = Command::new(programs.join("etcd"));
        etcd.arg("--data-dir").arg(folder.path().join("etcd"));
        etcd.args(["--listen-client-urls", &url(store), "--advertise-client-urls", &url(store)]);
        etcd.args(["--listen-peer-urls", &url(peers), "--initial-advertise-peer-urls"]);
        etcd.args([url(peers), "--initial-cluster".to_owned(), format!("default={}", url(peers))]);
        let etcd = start(etcd, folder.path())?;
        listens(store).await?;
        let (key, public) = (folder.path().join("sa.key"), folder.path().join("sa.pub"));
        let signer = pki::PrivateKey::generate()?;
        fs::write(&key, signer.to_pem())?;
        fs::write(&public, signer.public().to_pem())?;
        let mut server = Command::new(programs.join("kube-apiserver"));
        server.args(["--etcd-servers", &url(store), "--secure-port", &port.to_string()]);
        server.args([
            "--advertise-address",
            "192.0.2.10",
            "--service-cluster-ip-range",
            "10.96.0.0/16",
        ]);
        server.args([
            "--authorization-mode",
            "Node,RBAC",
            "--service-account-issuer",
            "https://a.example",
        ]);
        server.arg("--service-account-key-file").arg(&public);
        server.arg("--service-account-signing-key-file").arg(&key);
        server.arg("--token-auth-file").arg(tokens(folder.path())?);
        server.arg("--cert-dir").arg(folder.path().join("certificates"));
        let server = start(server, folder.path())?;
        Self::wait(port, vec![server, etcd], programs, folder).await
    }

    async fn wait(
        port: u16,
        processes: Vec<Child>,
        executable: &Path,
        folder: TempDir,
    ) -> Result<Self> {
        let began = Instant::now();
        let tls = Arc::new(TlsOptions { insecure: true, ..TlsOptions::default() });
        while !answers(port, &tls).await {
            ensure!(began.elapsed() < START_TIMEOUT, "no server answers on port {port}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let ready = began.elapsed();
        let (token, executable) = (TOKEN.to_owned(), executable.to_owned());
        Ok(Self { port, token, ready, processes, executable, folder })
    }

    /// CPU time and memory of all processes of the server.
    pub(crate) fn usage(&self) -> Usage {
        let mut all = Usage { cpu: Duration::ZERO, memory: 0 };
        for process in &self.processes {
            all.cpu += cpu(process.id());
            all.memory += memory(process.id());
        }
        all
    }

    pub(crate) fn stop(mut self) {
        for process in &mut self.processes {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// Starts our server under upstream's name, which selects the component of the whole executable, and has no effect on
/// an executable that is only the API server.
fn ours(executable: &Path, folder: &Path, port: u16) -> Result<Child> {
    let mut command = Command::new(executable);
    command.arg0("kube-apiserver");
    command.arg("--data-dir").arg(folder).arg("--token-auth-file").arg(tokens(folder)?);
    command.args(["--secure-port", &port.to_string(), "--advertise-address", "192.0.2.10"]);
    start(command, folder)
}

/// The last core for the load, the others for servers.
fn cores(servers: bool) -> Result<CpuSet> {
    let count = fs::read_to_string("/proc/cpuinfo")?
        .lines()
        .filter(|line| line.starts_with("processor"))
        .count();
    let last = count.saturating_sub(1);
    let mut set = CpuSet::new();
    (0..count).filter(|core| (*core != last) == servers).for_each(|core| set.set(core));
    if set.count() == 0 {
        set.set(last);
    }
    Ok(set)
}

/// Starts a server on its cores: a process inherits the CPU affinity of its parent's thread.
fn start(mut command: Command, folder: &Path) -> Result<Child> {
    let log = fs::File::options().create(true).append(true).open(folder.join("log"))?;
    let program = command.get_program().to_owned();
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    sched_setaffinity(None, &cores(true)?)?;
    let child = command.spawn().with_context(|| format!("cannot start {}", program.display()));
    sched_setaffinity(None, &cores(false)?)?;
    child
}

fn tokens(folder: &Path) -> Result<PathBuf> {
    let path = folder.join("tokens");
    fs::write(&path, format!("{TOKEN},admin,admin,\"system:masters\"\n"))?;
    Ok(path)
}

/// Raises the limit of open files of this process and its children to the maximum.
pub(crate) fn raise_limits() -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    Ok(setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })?)
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

async fn listens(port: u16) -> Result<()> {
    let began = Instant::now();
    while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err() {
        ensure!(began.elapsed() < START_TIMEOUT, "nothing listens on port {port}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

async fn answers(port: u16, tls: &Arc<TlsOptions>) -> bool {
    let client =
        Client::new(Config::new(Arc::new(TcpConnector::new("127.0.0.1", port, Some(tls.clone())))));
    let answer = client.request(Method::GET, "/readyz", HeaderMap::new(), bytes::Bytes::new());
    answer.await.is_ok_and(|answer| answer.status == http::StatusCode::OK)
}

/// CPU time of this process, which generates the load.
pub(crate) fn own_cpu() -> Duration {
    cpu(std::process::id())
}

fn cpu(pid: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let ticks: u64 =
        fields.split(' ').skip(11).take(2).filter_map(|own| own.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND)
}

fn memory(pid: u32) -> u64 {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or_default()
        << 10
}
