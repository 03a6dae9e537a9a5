//! The contract suite on an etcd: ours, and the real one where there is one.

use std::{
    env,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use object::SystemClock;
use store::{
    Bounds, EtcdEngine, MemoryLog, Mirror, Remote,
    contract::{self, Subject},
};

use crate::face;

fn subject(url: &str, nth: usize) -> Subject {
    let remote = Remote {
        endpoints: vec!["http://127.0.0.1:1".into(), url.to_owned()], // the first is not there
        tls: None,
        prefix: format!("/n{nth}/registry"),
        compaction: None,
    };
    let engine = EtcdEngine::<Bytes>::connect(&remote, Arc::new(SystemClock)).expect("it is there");
    Subject { engine: Arc::new(engine), mirror: Mirror::new(Bounds::default()), pass: None }
}

async fn suite(url: &str) {
    let nth = std::cell::Cell::new(0);
    contract::run(|| {
        nth.set(nth.get() + 1);
        subject(url, nth.get())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_contract_on_our_etcd() {
    let etcd = face::start(Arc::new(MemoryLog::default()), 0);
    suite(&etcd.url).await;
}

/// The real one, which ends with the test.
struct Etcd(Child);

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The program etcd: of the variable ETCD, or on the path.
pub(crate) fn program() -> Option<PathBuf> {
    if let Some(given) = env::var_os("ETCD") {
        return Some(given.into());
    }
    env::split_paths(&env::var_os("PATH")?)
        .map(|folder| folder.join("etcd"))
        .find(|path| path.is_file())
}

/// With etcd on the path, or in the variable ETCD; without, there is nothing to compare.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_contract_on_the_real_etcd() {
    let Some(program) = program() else {
        println!("no etcd: not on the path, and not in the variable ETCD");
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let free = || {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.local_addr().expect("bound").to_string()
    };
    let (address, peer) = (free(), free());
    let (url, peer) = (format!("http://{address}"), format!("http://{peer}"));
    let child = Command::new(program)
        .args(["--data-dir", folder.path().to_str().expect("plain"), "--log-level", "error"])
        .args(["--listen-client-urls", &url, "--advertise-client-urls", &url])
        .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
        .args(["--initial-cluster", &format!("default={peer}")])
        .stdout(Stdio::null())
        .spawn()
        .expect("it can be started");
    let _etcd = Etcd(child);
    let begun = Instant::now();
    while std::net::TcpStream::connect(&address).is_err() {
        assert!(begun.elapsed() < Duration::from_mins(2), "etcd does not listen");
        std::thread::sleep(Duration::from_millis(50));
    }
    suite(&url).await;
}
