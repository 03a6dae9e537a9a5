//! Measures the latencies of a neighbour: of its own pod, and of the API server.

use std::{
    fmt, fs,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use bytes::Bytes;
use client::Client;
use http::{HeaderMap, HeaderValue, Method, header};
use sys::{
    cgroup::{Hierarchies, Limits},
    netlink::{NetworkNamespace, run_in_netns},
};
use tokio::time::timeout;

use crate::{flood, world::World};

const PACE: Duration = Duration::from_millis(4);
/// Timeout of a request.
const PATIENCE: Duration = Duration::from_secs(20);
/// Path of the object that the neighbour reads and writes.
const OWN: &str = "/api/v1/namespaces/good/configmaps/own";
const HEAVIEST: u64 = 262_144;

/// The neighbour: the address of its pod, and the token of its service account.
pub(crate) struct Neighbour {
    pub(crate) address: SocketAddr,
    pub(crate) token: String,
}

/// Latencies of responses, sorted, and the number of failures.
#[derive(Default)]
pub(crate) struct Latencies {
    all: Vec<Duration>,
    pub(crate) failed: usize,
}

/// Latencies of the pod, and of reads and writes of the API.
#[derive(Default)]
pub(crate) struct Measured {
    pub(crate) pod: Latencies,
    pub(crate) get: Latencies,
    pub(crate) patch: Latencies,
}

/// A cgroup for a thread of this process: it simulates clients on other hosts, which must not compete with the
/// cluster for CPU.
pub(crate) struct ThreadGroup {
    tasks: Option<PathBuf>,
}

impl Neighbour {
    /// Sends requests to the pod and to the API server in turn, for this time.
    pub(crate) fn measure(&self, world: &World, time: Duration) -> Measured {
        let path = format!("/proc/{}/ns/net", world.pid("node").expect("a pid"));
        let namespace = NetworkNamespace::open(Path::new(&path)).expect("a network");
        let client = flood::client(world, &self.token);
        let group = group(world, "client", HEAVIEST);
        let measured = run_in_netns(&namespace, || {
            group.enter();
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.expect("a runtime");
            let mut measured = Measured::default();
            let began = Instant::now();
            let mut round = 0;
            while began.elapsed() < time {
                measured.pod.note(|| ask_pod(self.address));
                measured.get.note(|| runtime.block_on(send(&client, Method::GET, "")));
                let patch = format!(r#"{{"data":{{"n":"{round}"}}}}"#);
                measured.patch.note(|| runtime.block_on(send(&client, Method::PATCH, &patch)));
                thread::sleep(PACE);
                round += 1;
            }
            for own in [&mut measured.pod, &mut measured.get, &mut measured.patch] {
                own.all.sort();
            }
            measured
        });
        measured.expect("inside the network")
    }
}

impl Latencies {
    fn note(&mut self, ask: impl FnOnce() -> Result<(), String>) {
        let began = Instant::now();
        match ask() {
            Ok(()) => self.all.push(began.elapsed()),
            Err(error) => {
                eprintln!("the neighbour got no answer: {error}");
                self.failed += 1;
            }
        }
    }

    fn at(&self, hundredths: usize) -> Duration {
        self.all.get(self.all.len() * hundredths / 100).copied().unwrap_or(Duration::MAX)
    }

    pub(crate) fn p99(&self) -> Duration {
        self.at(99)
    }
}

/// Formats median and 99th percentile, in milliseconds.
impl fmt::Display for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = |time: Duration| time.as_secs_f64() * 1000.0;
        write!(f, "{:6.1} {:6.1}", millis(self.at(50)), millis(self.p99()))
    }
}

/// Creates the cgroup of that name below the cluster's, which gets the highest CPU weight: a node is there for its
/// pods alone, and other work of this host must not be measured.
pub(crate) fn group(world: &World, name: &str, shares: u64) -> ThreadGroup {
    let hierarchies = Hierarchies::detect().expect("cgroups");
    for (name, shares) in [("", HEAVIEST), (name, shares)] {
        let group = hierarchies.group(&world.group(name)).expect("a path");
        group.create().expect("a group");
        let limits = Limits { cpu_shares: Some(shares), ..Limits::default() };
        group.apply_limits(&limits).expect("a weight");
    }
    let cpu = hierarchies.controllers().into_iter().find(|(name, _)| name == "cpu");
    let tasks = cpu.map(|(_, at)| at.join(world.group(name).trim_matches('/')).join("tasks"));
    ThreadGroup { tasks }
}

impl ThreadGroup {
    /// Moves this thread into the cgroup.
    pub(crate) fn enter(&self) {
        if let Some(tasks) = &self.tasks {
            fs::write(tasks, "0").expect("this thread is moved");
        }
    }
}

fn ask_pod(address: SocketAddr) -> Result<(), String> {
    let answered = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(b"GET / HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    let answer = answered().map_err(|error| error.to_string())?;
    if answer.contains("Hello from web") { Ok(()) } else { Err(answer) }
}

async fn send(client: &Client, method: Method, body: &str) -> Result<(), String> {
    let mut headers = HeaderMap::new();
    let patch = HeaderValue::from_static("application/merge-patch+json");
    headers.insert(header::CONTENT_TYPE, patch);
    let sent = client.request(method, OWN, headers, Bytes::from(body.to_owned()));
    let answered = async {
        let answer = sent.await.map_err(|error| error.to_string())?;
        let code = answer.status.as_u16();
        let body = answer.bytes().await.map_err(|error| error.to_string())?;
        if code == 200 {
            Ok(())
        } else {
            Err(format!("{code}: {}", String::from_utf8_lossy(&body)))
        }
    };
    timeout(PATIENCE, answered).await.map_err(|_| "no answer in time".to_owned())?
}
