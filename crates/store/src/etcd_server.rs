//! An etcd-compatible server on the embedded log: a cluster of one member.
//!
//! ```text
//!  gRPC, JSON ──► Service ──► Member ──append──► Log        checked, sequenced, durable
//!                               │ State: keys with their versions, leases, alarms
//!  watch      ◄── Open     ◄────┘ WatchRegistry: wakes the watches whose keys have changed
//! ```

mod backup;
#[cfg(test)]
mod crash;
mod fault;
mod gateway;
mod http2;
mod internal_keys;
mod keyspace;
mod kv;
mod kv_call;
mod lease;
mod leases;
mod listen;
mod mailbox;
mod maintenance;
mod member;
mod metrics;
mod pages;
mod range;
mod requests;
mod service;
mod state;
mod watch;
mod watch_registry;

use std::{
    collections::VecDeque, fmt, path::PathBuf, sync::Arc, thread::JoinHandle, time::Duration,
};

use object::Clock;
use tracing::error;

pub(crate) use self::internal_keys::{initial_records, key_from_text, key_to_text};
pub use self::{
    listen::{BoundListener, bind},
    service::{Identity, Limits},
};
use self::{member::Member, service::Service};
use crate::{Error, Log};

/// Maximum interval between notes of the current revision, for periodic compaction.
const HOURLY: Duration = Duration::from_hours(1);

/// Configuration of the server.
#[derive(Debug)]
pub struct EtcdServerConfig {
    pub identity: Identity,
    pub limits: Limits,
    /// Maximum size of keys and values in bytes; 0 means unlimited.
    pub quota: u64,
    /// A directory for temporary snapshot files.
    pub scratch: PathBuf,
    /// Automatic compaction of old revisions.
    pub compaction: Compaction,
}

/// Automatic compaction of old revisions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Compaction {
    Never,
    /// Compacts revisions older than this.
    Periodic(Duration),
    /// Compacts all but the newest revisions.
    Revisions(u64),
}

/// The etcd server. It answers requests while `serve` runs.
pub struct EtcdServer {
    service: Service,
    compaction: Compaction,
    thread: Option<JoinHandle<()>>,
}

impl EtcdServer {
    /// Opens a server that continues where `log` ends.
    pub fn open(
        log: Arc<dyn Log>,
        clock: Arc<dyn Clock>,
        setup: EtcdServerConfig,
    ) -> Result<Self, Error> {
        let EtcdServerConfig { identity, limits, quota, scratch, compaction } = setup;
        let member = Member::open(log, clock, quota)?;
        let thread =
            member.start().map_err(|error| Error::Disk(format!("start a thread: {error}")))?;
        let service = Service::new(member, identity, limits, scratch);
        Ok(Self { service, compaction, thread: Some(thread) })
    }

    /// Serves requests until `stop` resolves.
    pub async fn serve(&self, ports: Vec<BoundListener>, stop: impl Future<Output = ()>) {
        let patience = Duration::from_secs(2);
        tokio::select! {
            () = listen::listen(self.service.clone(), ports, stop, patience) => {}
            () = self.run_compaction() => {}
        }
    }

    /// Runs automatic compaction for ever. For long retention the current revision is noted at least hourly.
    async fn run_compaction(&self) {
        let member = &self.service.member;
        let newest = || member.read(|state| state.durable);
        let (pause, ages) = match self.compaction {
            Compaction::Never => return std::future::pending().await,
            Compaction::Periodic(age) => {
                let ages = age.as_secs().div_ceil(HOURLY.as_secs()).max(1);
                (age / u32::try_from(ages).unwrap_or(u32::MAX), ages)
            }
            Compaction::Revisions(_) => (Duration::from_mins(5), 0),
        };
        let mut noted = VecDeque::from([newest()]);
        loop {
            tokio::time::sleep(pause).await;
            noted.push_back(newest());
            if noted.len() as u64 <= ages {
                continue;
            }
            let old = noted.pop_front().unwrap_or_default();
            let floor = match self.compaction {
                Compaction::Revisions(count) => newest().saturating_sub(count),
                _ => old,
            };
            // Fails harmlessly if the revision is compacted already.
            let _ = member.write(|state| state.compact(floor)).await;
        }
    }
}

impl Drop for EtcdServer {
    /// Commits the writes that have been sequenced.
    fn drop(&mut self) {
        self.service.member.close();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            error!("the log's thread has panicked");
        }
    }
}

impl fmt::Debug for EtcdServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Etcd").field(&self.service.identity).finish()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use object::SystemClock;

    use super::*;
    use crate::MemoryLog;

    #[tokio::test(start_paused = true)]
    async fn all_but_so_many_revisions_are_forgotten() {
        let (log, clock) = (Arc::new(MemoryLog::default()), Arc::new(SystemClock));
        let identity = Identity {
            name: "one".into(),
            peer_urls: Vec::new(),
            client_urls: Vec::new(),
            token: String::new(),
        };
        let (limits, scratch) = (Limits::default(), PathBuf::new());
        let compaction = Compaction::Revisions(3);
        let setup = EtcdServerConfig { identity, limits, quota: 0, scratch, compaction };
        let etcd = EtcdServer::open(log, clock, setup).expect("an empty log");
        let member = &etcd.service.member;
        for _ in 0..10 {
            let put = |state: &mut state::State| state.put(&Bytes::from_static(b"a"), b"b", 0);
            member.write(put).await.expect("room");
        }
        tokio::select! {
            () = etcd.run_compaction() => {}
            () = tokio::time::sleep(Duration::from_mins(6)) => {}
        }
        let begun = std::time::Instant::now();
        let floor = || member.read(|state| state.keys.compact_revision);
        while floor() != member.read(|state| state.durable) - 3 {
            assert!(begun.elapsed() < Duration::from_mins(1), "{} is forgotten", floor());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
