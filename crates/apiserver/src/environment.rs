//! What a server stands on besides its flags: storage, a way in, time.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::{Context as _, Result};
use object::{Clock, SystemClock, Value};
use schema::custom::CelRuleCompiler;
use server::{IdentityTransformer, MetricsSource, Registry, Transformer};
use store::{
    Directory, DiskLog, DiskLogOptions, EmbeddedEngine, Engine, RingLimits, WatchCacheSet,
};
use tokio::net::{TcpListener, TcpSocket};

use crate::{
    Config, at_rest::EncryptionAtRest, crds::with_rules, etcd,
    instrumented_engine::InstrumentedEngine,
};

/// Usually what the flags say; tests and supervisors bring their own.
#[derive(Debug)]
pub struct ServerEnvironment {
    pub storage: StorageBackend,
    pub entry: ListenerSource,
    pub clock: Arc<dyn Clock>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageBackend {
    /// In the data folder.
    Disk,
    /// Forgotten when the server ends.
    Memory,
}

/// How others get in.
#[derive(Debug)]
pub enum ListenerSource {
    /// By the port of the flags.
    Port,
    /// By a port that somebody has opened already.
    Listener(TcpListener),
    /// Only from within the process.
    Pipes,
}

/// Storage that is open, and what must be seen to while it is.
pub(crate) struct OpenStorage {
    pub(crate) registry: Arc<Registry>,
    pub(crate) mirror: Arc<WatchCacheSet<Value>>,
    /// `None`: nothing is kept.
    pub(crate) at_rest: Option<EncryptionAtRest>,
    /// What it was asked.
    pub(crate) reports: Vec<Arc<dyn MetricsSource>>,
}

impl OpenStorage {
    /// Lets go of old revisions for ever: each time, of those before the last time.
    pub(crate) fn run_compaction(&self, interval: Duration) -> impl Future<Output = ()> + use<> {
        let (mirror, engine) = (self.mirror.clone(), self.registry.engine().clone());
        async move {
            let mut before = engine.durable_revision();
            loop {
                tokio::time::sleep(interval).await;
                mirror.compact(before);
                before = engine.durable_revision();
            }
        }
    }
}

impl Default for ServerEnvironment {
    fn default() -> Self {
        Self {
            storage: StorageBackend::Disk,
            entry: ListenerSource::Port,
            clock: Arc::new(SystemClock),
        }
    }
}

impl ListenerSource {
    /// The open port, if there is one.
    pub(crate) fn listen(self, config: &Config) -> Result<Option<TcpListener>> {
        match self {
            Self::Pipes => Ok(None),
            Self::Listener(listener) => Ok(Some(listener)),
            Self::Port => {
                let address = SocketAddr::new(config.flags.bind_address, config.flags.secure_port);
                let listener = bind(address, config).with_context(|| {
                    format!("cannot listen on {address}: is another server running there?")
                })?;
                Ok(Some(listener))
            }
        }
    }
}

/// Waiting connections: more are turned away.
const BACKLOG: u32 = 1024;

fn bind(address: SocketAddr, config: &Config) -> std::io::Result<TcpListener> {
    let flags = &config.flags.connections;
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // As anywhere: a port that a server has just left can be taken again.
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(flags.permit_port_sharing)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

impl StorageBackend {
    /// Every kind that the configuration serves, on this storage.
    pub(crate) fn open(
        self,
        config: &Config,
        clock: &Arc<dyn Clock>,
        compile: &Arc<dyn CelRuleCompiler>,
    ) -> Result<OpenStorage> {
        let mirror = WatchCacheSet::<Value>::new(RingLimits::default());
        let mut reports: Vec<Arc<dyn MetricsSource>> = Vec::new();
        let engine: Arc<dyn Engine<Value>> = match self {
            Self::Memory => Arc::new(EmbeddedEngine::memory(mirror.clone(), clock.clone())),
            Self::Disk if !config.flags.etcd_servers.is_empty() => {
                let etcd = etcd::connect(config, clock)?;
                let (metered, tally) = InstrumentedEngine::new(etcd);
                reports.push(tally);
                Arc::new(metered)
            }
            Self::Disk => {
                let disk = Arc::new(Directory::open(config.flags.data_dir.join("store"))?);
                let log = DiskLog::open(disk, clock.clone(), DiskLogOptions::default())?;
                Arc::new(EmbeddedEngine::open(log, mirror.clone(), clock.clone())?)
            }
        };
        let kinds = config.kinds().into_iter().map(|kind| with_rules(kind, compile));
        let kinds: Vec<_> = kinds.collect();
        let at_rest = match self {
            Self::Memory => None,
            Self::Disk => Some(EncryptionAtRest::open(config, &kinds)?),
        };
        let transform: Arc<dyn Transformer> = match &at_rest {
            Some(at_rest) => at_rest.encryption.clone(),
            None => Arc::new(IdentityTransformer),
        };
        let registry = Registry::open(kinds, engine, &mirror, transform, clock.clone())?;
        Ok(OpenStorage { registry, mirror, at_rest, reports })
    }
}
