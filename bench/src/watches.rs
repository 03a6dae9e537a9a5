//! Benchmark of many watches: memory of each while nothing happens, latency until all get an event, and whether they
//! resume after the server was killed.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use bytes::Bytes;
use client::{Auth, Client, Config, TcpConnector, TlsOptions};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header::CONTENT_TYPE};
use object::from_json;
use tokio::{
    sync::{Notify, Semaphore},
    task::JoinSet,
    time::sleep,
};

use crate::{
    line::Http2Connection,
    load::post,
    peer::{ServerUnderTest, own_cpu},
};

const OBJECTS: &str = "/api/v1/namespaces/default/configmaps";
const PATIENCE: Duration = Duration::from_mins(5);
/// Number of connections that are opened concurrently.
const AT_ONCE: usize = 64;
/// Number of watches on one connection.
const A_LINE: usize = 1_000;
/// Number of writes before, and after, the server is killed.
const WRITES: usize = 50;

/// State that all watches share.
struct Watchers {
    port: u16,
    token: String,
    watching: AtomicUsize,
    heard: AtomicUsize,
    relists: AtomicUsize,
    progress: Notify,
    opening: Semaphore,
    /// The revisions that each watch has received, in order.
    logs: Vec<Mutex<Vec<u64>>>,
}

/// Measures connections with one watch each.
pub(crate) async fn connections(peer: ServerUnderTest, count: usize) -> Result<ServerUnderTest> {
    let client = client(&peer);
    make(&client, "w").await?;
    let first = write(&client, 0).await?;
    let before = settled(&peer).await;
    let watchers = Arc::new(Watchers {
        port: peer.port,
        token: peer.token.clone(),
        watching: AtomicUsize::new(0),
        heard: AtomicUsize::new(0),
        relists: AtomicUsize::new(0),
        progress: Notify::new(),
        opening: Semaphore::new(AT_ONCE),
        logs: (0..count).map(|_| Mutex::default()).collect(),
    });
    let mut tasks = JoinSet::new();
    for number in 0..count {
        tasks.spawn(watchers.clone().watch(number, first));
    }
    let began = Instant::now();
    watchers.until(|own| own.watching.load(SeqCst) == count).await.context("opening")?;
    println!("{count} connections with a watch each, opened in {:.1} s", seconds(began));
    let after = settled(&peer).await;
    each("memory of a connection with an idle watch", after.saturating_sub(before), count);

    let (began, before, own_before) = (Instant::now(), peer.usage().cpu, own_cpu());
    let mut written = vec![write(&client, 1).await?];
    watchers.until(|own| own.heard.load(SeqCst) == count).await.context("one write")?;
    let cpu = peer.usage().cpu.saturating_sub(before).as_secs_f64();
    let own = own_cpu().saturating_sub(own_before).as_secs_f64();
    println!(
        "one write to {count} watchers: all have heard after {:.2} s; CPU: server {cpu:.2} s, \
         listeners {own:.2} s",
        seconds(began)
    );

    for number in 2..2 + WRITES {
        written.push(write(&client, number).await?);
    }
    let began = Instant::now();
    let peer = peer.restart().await?;
    println!("killed and ready again after {:.2} s", seconds(began));
    let client = self::client(&peer);
    watchers.until(|own| own.watching.load(SeqCst) == count).await.context("resuming")?;
    println!("all {count} watches resumed {:.1} s after the kill", seconds(began));
    for number in 0..WRITES {
        written.push(write(&client, number).await?);
    }
    let all = count * written.len();
    watchers.until(|own| own.heard.load(SeqCst) >= all).await.context("after the restart")?;
    let wrong = watchers
        .logs
        .iter()
        .filter(|log| *log.lock().unwrap_or_else(PoisonError::into_inner) != written);
    println!(
        "of {count} watchers had to list anew: {}; missed an event or heard one twice: {}",
        watchers.relists.load(SeqCst),
        wrong.count()
    );
    tasks.abort_all();
    Ok(peer)
}

/// Measures watches that share connections.
pub(crate) async fn streams(peer: ServerUnderTest, count: usize) -> Result<()> {
    let client = client(&peer);
    make(&client, "w").await?;
    let first = write(&client, 0).await?;
    let path = format!("{OBJECTS}?watch=1&resourceVersion={first}");
    let mut lines = Vec::new();
    for _ in 0..count.div_ceil(A_LINE) {
        let mut line = Http2Connection::open(peer.port, &peer.token).await?;
        let (status, watch) = line.watch(&path).await?;
        ensure!(status == StatusCode::OK, "{status}");
        lines.push((line, vec![watch]));
    }
    let before = settled(&peer).await;
    let mut open = lines.len();
    for (line, watches) in &mut lines {
        while watches.len() < A_LINE && open < count {
            let (status, watch) = line.watch(&path).await?;
            ensure!(status == StatusCode::OK, "{status}");
            watches.push(watch);
            open += 1;
        }
    }
    let after = settled(&peer).await;
    let more = open - lines.len();
    each(&format!("memory of a further idle watch, of {open}"), after.saturating_sub(before), more);
    peer.stop();
    Ok(())
}

impl Watchers {
    /// Watches for ever, and resumes at the last revision whenever the watch is interrupted.
    async fn watch(self: Arc<Self>, number: usize, mut revision: u64) {
        loop {
            let begun = self.clone().once(number, &mut revision).await;
            if begun.unwrap_or_default() {
                self.watching.fetch_sub(1, SeqCst);
            }
            // Not all at the same time, as with real clients.
            sleep(Duration::from_millis(200 + 37 * (number as u64 % 64))).await;
        }
    }

    /// Watches until the stream ends. Returns whether the watch had started.
    async fn once(self: Arc<Self>, number: usize, revision: &mut u64) -> Result<bool> {
        let permit = self.opening.acquire().await?;
        let mut line = Http2Connection::open(self.port, &self.token).await?;
        let path = format!("{OBJECTS}?watch=1&resourceVersion={revision}");
        let (status, mut lines) = line.watch(&path).await?;
        drop(permit);
        if status != StatusCode::OK {
            self.relists.fetch_add(usize::from(status == StatusCode::GONE), SeqCst);
            bail!("{status}");
        }
        self.watching.fetch_add(1, SeqCst);
        self.progress.notify_one();
        while let Ok(Some(event)) = lines.next().await {
            let Some(told) = revision_of(&event) else { break };
            *revision = told;
            self.logs[number].lock().unwrap_or_else(PoisonError::into_inner).push(told);
            self.heard.fetch_add(1, SeqCst);
            self.progress.notify_one();
        }
        Ok(true)
    }

    async fn until(&self, holds: impl Fn(&Self) -> bool) -> Result<()> {
        let began = Instant::now();
        while !holds(self) {
            ensure!(began.elapsed() < PATIENCE, "it takes too long");
            let _ = tokio::time::timeout(Duration::from_secs(1), self.progress.notified()).await;
        }
        Ok(())
    }
}

pub(crate) fn client(peer: &ServerUnderTest) -> Client {
    let tls = Arc::new(TlsOptions { insecure: true, ..TlsOptions::default() });
    let tcp = TcpConnector::new("127.0.0.1", peer.port, Some(tls));
    Client::new(Config::new(Arc::new(tcp)).auth(Auth::Token(peer.token.clone())))
}

/// Creates a ConfigMap.
pub(crate) async fn make(client: &Client, name: &str) -> Result<()> {
    let body = format!(r#"{{"metadata":{{"name":"{name}"}},"data":{{"n":"-1"}}}}"#);
    post(client, OBJECTS, body).await
}

/// Writes the object that is watched. Returns its revision.
async fn write(client: &Client, number: usize) -> Result<u64> {
    let body = format!(r#"{{"data":{{"n":"{number}"}}}}"#);
    patch(client, "w", &body).await
}

/// Patches an object. Returns its revision.
pub(crate) async fn patch(client: &Client, name: &str, body: &str) -> Result<u64> {
    let mut headers = HeaderMap::new();
    let merge = HeaderValue::from_static("application/merge-patch+json");
    headers.insert(CONTENT_TYPE, merge);
    let path = format!("{OBJECTS}/{name}");
    let body = Bytes::from(body.to_owned());
    let answer = client.request(Method::PATCH, &path, headers, body).await?;
    let bytes = answer.error_for_status().await?.bytes().await?;
    let object = from_json(&bytes)?;
    let version = object["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    Ok(version.parse()?)
}

/// The revision in an event. The event is not parsed as a whole: receiving must cost less than sending, otherwise the
/// clients would be measured.
fn revision_of(event: &[u8]) -> Option<u64> {
    const NAME: &[u8] = br#""resourceVersion":""#;
    let at = event.windows(NAME.len()).position(|part| part == NAME)?;
    let digits = event[at + NAME.len()..].split(|byte| *byte == b'"').next()?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Memory of the server once it is idle.
async fn settled(peer: &ServerUnderTest) -> u64 {
    sleep(Duration::from_secs(3)).await;
    peer.usage().memory
}

fn each(what: &str, bytes: u64, count: usize) {
    let kib = bytes / 1024 * 100 / count.max(1) as u64;
    println!("{what}: {}.{:02} KiB", kib / 100, kib % 100);
}

fn seconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64()
}
