//! The contract suite on an etcd: ours, and, by its own command, the real one.

use std::{
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
    Subject { engine: Arc::new(engine), mirror: Mirror::new(Bounds::default()) }
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

/// `cargo test -p store -- --ignored on_the_real_etcd`, with `etcd` on the path.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs the program etcd on the path"]
async fn the_contract_on_the_real_etcd() {
    let folder = tempfile::tempdir().expect("a folder");
    let (url, peer) = ("http://127.0.0.1:23790", "http://127.0.0.1:23800");
    let child = Command::new("etcd")
        .args(["--data-dir", folder.path().to_str().expect("plain"), "--log-level", "error"])
        .args([
            "--listen-client-urls",
            url,
            "--advertise-client-urls",
            url,
            "--listen-peer-urls",
            peer,
        ])
        .args([
            "--initial-advertise-peer-urls",
            peer,
            "--initial-cluster",
            &format!("default={peer}"),
        ])
        .stdout(Stdio::null())
        .spawn()
        .expect("the program etcd is on the path");
    let _etcd = Etcd(child);
    let begun = Instant::now();
    while std::net::TcpStream::connect("127.0.0.1:23790").is_err() {
        assert!(begun.elapsed() < Duration::from_secs(120), "etcd does not listen");
        std::thread::sleep(Duration::from_millis(50));
    }
    suite(url).await;
}
