//! The storage engine that keeps everything in an etcd cluster.
//!
//! ```text
//!  write ──► Txn, if the key is at the expected revision        ordered and stored by etcd
//!  serve ──► Range in pages, then one Watch per resource ──► index and ring, as with any engine
//! ```
//!
//! A write is answered when the watch of this process has delivered it, so that the writer can read it from the cache.
//! Writes of other processes are known up to the progress of the resource's watch; for a consistent read etcd is asked
//! for its current revision.

mod cache_watcher;
mod compact;
mod endpoints;
mod lease;
mod transfer;
mod values;

use std::{
    fmt, process,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    time::Duration,
};

use bytes::Bytes;
use object::{Clock, Text};
use rustls::ClientConfig;
use tokio::{
    runtime::Runtime,
    time::{Instant, timeout_at},
};
use tonic::{Code, Status};

pub use self::endpoints::{DialFuture, Dialer};
pub use self::transfer::{restore, save};
use self::{
    cache_watcher::CacheWatcher, endpoints::Endpoints, lease::LeasePool, values::InFlightValues,
};
use crate::{
    Engine, Error, KeyMetadata, Provenance, Record, Replay, ReplaySink, WatchCache, Write,
    WriteFuture,
    etcd_server::{key_from_text, key_to_text},
    keys::History,
    wire::{KeyValue, mvccpb, pb, prefix_end, to_i64},
};

/// Timeout of any request to etcd, including the retries of a write.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Number of keys per page of a list.
const PAGE: i64 = 10_000;

/// Prefix of all keys in this process; in etcd the prefix is configurable.
const ROOT: &str = "/registry";

/// Addresses of the etcd cluster, and connection settings.
#[derive(Clone, Debug)]
pub struct EtcdConfig {
    /// `http://…` or `https://…`, each a member of the same cluster.
    pub endpoints: Vec<String>,
    pub tls: Option<Arc<ClientConfig>>,
    /// Prefix of all keys in etcd.
    pub prefix: String,
    /// Interval of compaction. Of all API servers that compact, one does so each time; `None`: never.
    pub compaction: Option<Duration>,
    /// For how many seconds a lease is given to further keys.
    pub lease_reuse: i64,
    /// Response time limits after which etcd counts as unhealthy, and as not ready.
    pub health_timeouts: [Duration; 2],
    /// Interval at which the database size is queried; `None`: never.
    pub size_poll_interval: Option<Duration>,
    /// How connections are opened; `None`: directly over TCP.
    pub dial: Option<Dialer>,
}

impl Default for EtcdConfig {
    fn default() -> Self {
        let prefix = "/registry".to_owned();
        Self {
            endpoints: Vec::new(),
            tls: None,
            prefix,
            compaction: None,
            lease_reuse: 60,
            health_timeouts: [Duration::from_secs(2); 2],
            size_poll_interval: None,
            dial: None,
        }
    }
}

/// Engine that stores keys and values in etcd.
pub struct EtcdEngine<V> {
    shared: Arc<EtcdShared<V>>,
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
}

/// The state of the engine that its tasks share.
pub(crate) struct EtcdShared<V> {
    endpoints: Endpoints,
    clock: Arc<dyn Clock>,
    prefix: String,
    newest: AtomicU64,
    /// Decoded values of writes in flight, so that the watch need not decode them again.
    values: InFlightValues<V>,
    leases: LeasePool,
    past: Mutex<History>,
    followers: Mutex<Vec<Arc<CacheWatcher<V>>>>,
    /// Why etcd is unhealthy, if it is.
    health_error: Mutex<Option<String>>,
    /// Why etcd is not ready, if it is not.
    readiness_error: Mutex<Option<String>>,
    size: AtomicU64,
}

impl<V: fmt::Debug + Send + Sync + 'static> EtcdEngine<V> {
    /// Connects to etcd and queries its status, so that a start without etcd fails at once.
    pub fn connect(remote: &EtcdConfig, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("store-etcd")
            .enable_all()
            .build()
            .map_err(|error| Error::Unavailable(format!("cannot start: {error}")))?;
        let endpoints = {
            let _inside = runtime.enter();
            Endpoints::new(remote)?
        };
        let shared = Arc::new(EtcdShared {
            endpoints,
            clock,
            prefix: remote.prefix.trim_end_matches('/').to_owned(),
            newest: AtomicU64::new(0),
            values: InFlightValues::default(),
            leases: LeasePool::new(remote.lease_reuse),
            past: Mutex::default(),
            followers: Mutex::default(),
            health_error: Mutex::default(),
            readiness_error: Mutex::default(),
            size: AtomicU64::new(0),
        });
        let this = Self { shared: shared.clone(), runtime: Some(runtime) };
        this.wait(async move { shared.newest().await })?;
        this.keep(compact::probe(this.shared.clone(), remote.health_timeouts));
        if let Some(interval) = remote.size_poll_interval {
            this.keep(compact::poll_db_size(this.shared.clone(), interval));
        }
        if let Some(interval) = remote.compaction {
            this.keep(compact::compact(this.shared.clone(), interval));
        }
        Ok(this)
    }

    /// Runs a task on the engine's own runtime and blocks until it is done. The caller may be on any thread, inside a
    /// runtime or not.
    fn wait<T: Send + 'static>(
        &self,
        task: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        let (sender, receiver) = mpsc::sync_channel(1);
        self.spawn(async move {
            let _ = sender.send(task.await); // the caller may be gone
        });
        let late = || Error::Unavailable("etcd did not answer in time".to_owned());
        receiver.recv_timeout(REQUEST_TIMEOUT * 6).map_err(|_| late())?
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        if let Some(runtime) = &self.runtime {
            runtime.spawn(panics::contain("store", task));
        }
    }

    /// Runs a task that never ends. If it panicked, the caches would no longer follow etcd; so the process aborts, and
    /// the next one reads everything again.
    fn keep(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.spawn(async move {
            if panics::contain("store", task).await.is_err() {
                process::abort();
            }
        });
    }
}

impl<V: fmt::Debug + Send + Sync + 'static> Engine<V> for EtcdEngine<V> {
    fn write(&self, write: Write<V>) -> WriteFuture<'_> {
        Box::pin(self.shared.write(write))
    }

    fn replay(&self, prefix: &str, _: usize, take: &mut ReplaySink<'_>) -> Result<(), Error> {
        let (shared, prefix, now) =
            (self.shared.clone(), prefix.to_owned(), self.shared.clock.now());
        let (state, through) = self.wait(async move { shared.list_all(&prefix, 0).await })?;
        let state = state.iter().collect();
        take(Replay { floor: through, state, events: Vec::new(), end_revision: through, now })
    }

    fn list_at(&self, prefix: &str, revision: u64) -> Result<Vec<Record>, Error> {
        let (shared, prefix) = (self.shared.clone(), prefix.to_owned());
        Ok(self.wait(async move { shared.list_all(&prefix, revision).await })?.0)
    }

    /// Returns nothing: later events come from the watch.
    fn replay_after(&self, _: &str, _: u64) -> Result<Vec<Record>, Error> {
        Ok(Vec::new())
    }

    fn start_watch(&self, prefix: &str, after: u64, resource: &Arc<WatchCache<V>>) {
        let follower = Arc::new(CacheWatcher::new(prefix, resource));
        let mut followers = self.shared.followers.lock().unwrap_or_else(PoisonError::into_inner);
        followers.retain(|other| !other.is_over() && other.prefix != prefix);
        followers.push(follower.clone());
        drop(followers);
        self.keep(cache_watcher::run_watch(self.shared.clone(), follower, after));
    }

    fn has_external_writers(&self) -> bool {
        true
    }

    fn latest_revision(&self, _: &str) -> WriteFuture<'_> {
        Box::pin(self.shared.newest())
    }

    fn durable_revision(&self) -> u64 {
        self.shared.newest.load(Ordering::Acquire)
    }

    fn health(&self) -> Result<(), Error> {
        none(&self.shared.health_error)
    }

    fn readiness(&self) -> Result<(), Error> {
        none(&self.shared.readiness_error)
    }

    fn size(&self) -> Option<u64> {
        Some(self.shared.size.load(Ordering::Acquire)).filter(|size| *size > 0)
    }

    fn provenance_after(&self, after: u64) -> Vec<Provenance> {
        self.shared.past.lock().unwrap_or_else(PoisonError::into_inner).notes(after)
    }
}

/// An error if a problem is recorded.
fn none(trouble: &Mutex<Option<String>>) -> Result<(), Error> {
    match &*trouble.lock().unwrap_or_else(PoisonError::into_inner) {
        Some(why) => Err(Error::Unavailable(why.clone())),
        None => Ok(()),
    }
}

impl<V: fmt::Debug + Send + Sync + 'static> EtcdShared<V> {
    /// The key as stored in etcd.
    pub(crate) fn to_etcd_key(&self, key: &str) -> Bytes {
        let rest = key.strip_prefix(ROOT).unwrap_or(key);
        key_from_text(rest)
            .map_or_else(Bytes::new, |rest| [self.prefix.as_bytes(), &rest].concat().into())
    }

    /// The key as used in this process; `None` if it does not have our prefix.
    pub(crate) fn decode_etcd_key(&self, key: &[u8]) -> Option<Text> {
        let rest = key.strip_prefix(self.prefix.as_bytes())?;
        Some(format!("{ROOT}{}", key_to_text(rest)).into())
    }

    pub(crate) fn observe_revision(&self, header: Option<&pb::ResponseHeader>) -> u64 {
        let revision =
            header.map_or(0, |header| u64::try_from(header.revision).unwrap_or_default());
        self.newest.fetch_max(revision, Ordering::AcqRel);
        revision
    }

    /// The newest revision of the whole etcd cluster.
    pub(crate) async fn newest(&self) -> Result<u64, Error> {
        let key = self.to_etcd_key("/registry/health");
        let request = pb::RangeRequest { key, count_only: true, ..Default::default() };
        let answer = self.endpoints.read(|mut kv| {
            let request = request.clone();
            async move { kv.range(request).await }
        });
        let revision = self.observe_revision(answer.await?.header.as_ref());
        self.request_progress();
        Ok(revision)
    }

    /// Makes every watch request a progress notification.
    fn request_progress(&self) {
        self.followers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .for_each(|follower| follower.request_progress());
    }

    async fn write(&self, write: Write<V>) -> Result<u64, Error> {
        let Write { key, expected_revision: expect, put, ttl, provenance: note } = write;
        let (there, until) = (self.to_etcd_key(&key), Instant::now() + REQUEST_TIMEOUT);
        let lease = match ttl.filter(|_| put.is_some()) {
            Some(ttl) => self.leases.get(&self.endpoints, until, ttl, self.clock.now()).await?,
            None => 0,
        };
        if expect == 0 && put.is_none() {
            return Err(Error::Conflict { want: 0, have: 0 });
        }
        let key_there = there.clone();
        let change = if let Some((value, meaning)) = put {
            self.values.keep(&key, &value, meaning);
            let put = pb::PutRequest { key: key_there, value, lease, ..Default::default() };
            pb::request_op::Request::RequestPut(put)
        } else {
            let delete = pb::DeleteRangeRequest { key: key_there, ..Default::default() };
            pb::request_op::Request::RequestDeleteRange(delete)
        };
        let answer = self.transact(&there, expect, change, until).await;
        if !matches!(answer, Ok((_, None))) {
            self.values.forget(&key);
        }
        let (revision, conflict) = answer?;
        if let Some(follower) = self.follower(&key) {
            // Waits until the conflicting record, or our own write, can be read from the cache. If the key was deleted,
            // the deletion's revision is not known here, so the cache must reach the revision that etcd had.
            let revision = conflict.filter(|have| *have > 0).unwrap_or(revision);
            if conflict == Some(0) {
                follower.request_progress();
            }
            let seen = timeout_at(until, follower.resource.wait_for(revision)).await;
            if seen.is_err() && conflict.is_none() {
                return Err(Error::Unavailable(format!(
                    "written at {revision}, and not seen since"
                )));
            }
        }
        if let Some(have) = conflict {
            return Err(Error::Conflict { want: expect, have });
        }
        if note.is_some() {
            let (lineage, bytes, expires) = (KeyMetadata::tombstone(revision), None, None);
            let record = Record { revision, key, bytes, expires, note, lineage };
            self.past.lock().unwrap_or_else(PoisonError::into_inner).apply(&record);
        }
        Ok(revision)
    }

    /// Returns the revision, and the key's revision if the precondition failed.
    async fn transact(
        &self,
        key: &Bytes,
        expect: u64,
        change: pb::request_op::Request,
        until: Instant,
    ) -> Result<(u64, Option<u64>), Error> {
        let compare = pb::Compare {
            result: pb::compare::CompareResult::Equal.into(),
            target: pb::compare::CompareTarget::Mod.into(),
            key: key.clone(),
            target_union: Some(pb::compare::TargetUnion::ModRevision(to_i64(expect))),
            ..Default::default()
        };
        let look = pb::RangeRequest { key: key.clone(), keys_only: true, ..Default::default() };
        let operation = |request| pb::RequestOp { request: Some(request) };
        let request = pb::TxnRequest {
            compare: vec![compare],
            success: vec![operation(change)],
            failure: vec![operation(pb::request_op::Request::RequestRange(look))],
        };
        let answer = self.endpoints.write(until, |mut kv| {
            let request = request.clone();
            async move { kv.txn(request).await }
        });
        let answer = answer.await?;
        let revision = self.observe_revision(answer.header.as_ref());
        if answer.succeeded {
            return Ok((revision, None));
        }
        let looked = answer.responses.into_iter().next().and_then(|response| response.response);
        let have = if let Some(pb::response_op::Response::ResponseRange(range)) = looked {
            range.kvs.first().map_or(0, |kv| u64::try_from(kv.mod_revision).unwrap_or_default())
        } else {
            0
        };
        Ok((revision, Some(have)))
    }

    fn follower(&self, key: &str) -> Option<Arc<CacheWatcher<V>>> {
        let followers = self.followers.lock().unwrap_or_else(PoisonError::into_inner);
        followers
            .iter()
            .filter(|f| key.starts_with(&*f.prefix))
            .max_by_key(|f| f.prefix.len())
            .cloned()
    }

    /// All keys below a prefix as of one revision; 0 means the newest.
    pub(crate) async fn list_all(
        &self,
        prefix: &str,
        at: u64,
    ) -> Result<(Vec<Record>, u64), Error> {
        let from = self.to_etcd_key(prefix);
        let range_end = Bytes::from(prefix_end(&from));
        let mut request =
            pb::RangeRequest { key: from, range_end, limit: PAGE, ..Default::default() };
        request.revision = to_i64(at);
        let (mut records, mut through) = (Vec::new(), at);
        loop {
            let answer = self.endpoints.read(|mut kv| {
                let request = request.clone();
                async move { kv.range(request).await }
            });
            let answer = answer.await?;
            if through == 0 {
                through = self.observe_revision(answer.header.as_ref());
                request.revision = to_i64(through);
            }
            if let Some(last) = answer.kvs.last() {
                request.key = [&last.key[..], &[0]].concat().into();
            }
            records.extend(answer.kvs.into_iter().filter_map(|kv| self.record(kv)));
            if !answer.more {
                records.sort_unstable_by_key(|record: &Record| record.revision);
                return Ok((records, through));
            }
        }
    }

    /// Converts a key-value pair of etcd to a record.
    fn record(&self, kv: KeyValue) -> Option<Record> {
        let key = self.decode_etcd_key(&kv.key)?;
        let number = |number: i64| u64::try_from(number).unwrap_or_default();
        let (revision, lease) = (number(kv.mod_revision), kv.lease);
        let lineage = KeyMetadata {
            mod_revision: revision,
            create_revision: number(kv.create_revision),
            version: number(kv.version),
            lease,
        };
        Some(Record { revision, key, bytes: Some(kv.value), expires: None, note: None, lineage })
    }

    /// Converts a watch event of etcd to a record.
    pub(crate) fn event(&self, event: mvccpb::Event) -> Option<Record> {
        let deleted = event.r#type() == mvccpb::event::EventType::Delete;
        let record = self.record(event.kv?)?;
        let bytes = record.bytes.filter(|_| !deleted);
        Some(Record { bytes, ..record })
    }
}

/// The store error for a gRPC status of etcd.
pub(crate) fn store_error(status: &Status) -> Error {
    match (status.code(), status.message()) {
        (Code::ResourceExhausted, message) if message.contains("space exceeded") => Error::Full,
        (Code::InvalidArgument, message) if message.contains("too large") => {
            Error::TooLarge { bytes: 0, limit: 1_572_864 }
        }
        (Code::OutOfRange, message) if message.contains("compacted") => {
            Error::Compacted { floor: 0 }
        }
        (_, message) => Error::Unavailable(message.to_owned()),
    }
}

impl<V> Drop for EtcdEngine<V> {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background(); // dropping must not block
        }
    }
}

impl<V> fmt::Debug for EtcdEngine<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EtcdEngine").field(&self.shared.endpoints).finish()
    }
}
