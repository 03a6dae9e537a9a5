//! A store in its own process: ours, or etcd.

use std::{
    env, fs,
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use object::SystemClock;
use store::{
    Directory, DiskLog, DiskLogOptions,
    etcd_server::{Compaction, EtcdServer, EtcdServerConfig, Identity, Limits, bind},
};

/// A process that is stopped on drop.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: String,
}

impl Server {
    /// Starts this executable itself, with `store --serve`.
    pub(crate) fn ours(folder: &Path) -> Result<Self> {
        let address = free()?;
        let mut command = Command::new(env::current_exe()?);
        command.args(["store", "--serve", &address, "--folder"]).arg(folder);
        Self { child: command.spawn()?, address }.ready()
    }

    /// Starts an etcd.
    pub(crate) fn etcd(program: &Path, folder: &Path) -> Result<Self> {
        let (address, peer) = (free()?, free()?);
        let (url, peer) = (format!("http://{address}"), format!("http://{peer}"));
        let child = Command::new(program)
            .arg("--data-dir")
            .arg(folder)
            .args(["--log-level", "error", "--quota-backend-bytes", "8589934592"])
            .args(["--max-request-bytes", "10485760"])
            .args(["--listen-client-urls", &url, "--advertise-client-urls", &url])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("default={peer}")])
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        Self { child, address }.ready()
    }

    fn ready(self) -> Result<Self> {
        let begun = Instant::now();
        while std::net::TcpStream::connect(&self.address).is_err() {
            ensure!(begun.elapsed() < Duration::from_mins(1), "{} does not listen", self.address);
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(self)
    }

    /// CPU time of the server in seconds.
    pub(crate) fn cpu(&self) -> f64 {
        cpu(&self.child.id().to_string())
    }

    /// Resident memory in megabytes.
    pub(crate) fn memory(&self) -> f64 {
        let status =
            fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
        line.trim().trim_end_matches(" kB").parse::<f64>().unwrap_or(f64::NAN) / 1_024.0
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// CPU time of a process in seconds.
pub(crate) fn cpu(process: &str) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|own| own.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10).as_secs_f64()
}

/// Runs our store as a server, in the process that `Server::ours` starts.
pub(crate) fn serve(folder: &Path, address: &str) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let disk = Arc::new(Directory::open(folder)?);
    let log = DiskLog::open(disk, Arc::new(SystemClock), DiskLogOptions::default())?;
    let identity = Identity {
        name: "bench".into(),
        peer_urls: Vec::new(),
        client_urls: vec![format!("http://{address}")],
        token: String::new(),
    };
    let (limits, scratch) = (Limits::default(), folder.to_owned());
    let setup =
        EtcdServerConfig { identity, limits, quota: 0, scratch, compaction: Compaction::Never };
    let etcd = EtcdServer::open(log, Arc::new(SystemClock), setup)?;
    runtime.block_on(async {
        etcd.serve(vec![bind(address, None).await?], std::future::pending()).await;
        Ok(())
    })
}

fn free() -> Result<String> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    Ok(listener.local_addr()?.to_string())
}
