//! The inputs of a server that are not flags: storage, listener and clock.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::{Context as _, Result};
use object::{Clock, SystemClock, Value, steady_clock};
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

/// By default as the flags say; tests and in-process supervisors inject their own.
#[derive(Debug)]
pub struct ServerEnvironment {
    pub storage: StorageBackend,
    pub entry: ListenerSource,
    pub clock: Arc<dyn Clock>,
}

/// Where objects are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageBackend {
    /// In the data directory, or in etcd if the flags name it.
    Disk,
    /// In memory: lost when the server ends.
    Memory,
}

/// The keys of node leases.
const LEASES: &str = "/registry/leases/";

/// Options of a log on disk: node leases are renewed even if the disk is full.
pub fn disk_log_options() -> DiskLogOptions {
    DiskLogOptions { essential_prefixes: &[LEASES], ..DiskLogOptions::default() }
}

/// How clients connect.
#[derive(Debug)]
pub enum ListenerSource {
    /// On the port of the flags.
    Port,
    /// On a listener that is already open.
    Listener(TcpListener),
    /// Only from within the process.
    Pipes,
}

/// The opened storage, and the values that its background tasks need.
pub(crate) struct OpenStorage {
    pub(crate) registry: Arc<Registry>,
    pub(crate) mirror: Arc<WatchCacheSet<Value>>,
    /// `None` for storage in memory.
    pub(crate) at_rest: Option<EncryptionAtRest>,
    /// Metrics of the storage.
    pub(crate) reports: Vec<Arc<dyn MetricsSource>>,
}

impl OpenStorage {
    /// Compacts old revisions for ever: each time those before the previous time.
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
    /// Opens the listener; `None` for `Pipes`.
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

/// Maximum number of connections that wait to be accepted.
const BACKLOG: u32 = 1024;

fn bind(address: SocketAddr, config: &Config) -> std::io::Result<TcpListener> {
    let flags = &config.flags.connections;
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // Allows the port to be bound again right after another server has closed it.
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(flags.permit_port_sharing)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

impl StorageBackend {
    /// Opens the storage for every resource that the configuration serves.
    pub(crate) fn open(
        self,
        config: &Config,
        clock: &Arc<dyn Clock>,
        compile: &Arc<dyn CelRuleCompiler>,
    ) -> Result<OpenStorage> {
        let mirror = WatchCacheSet::<Value>::new(RingLimits::default());
        let mut reports: Vec<Arc<dyn MetricsSource>> = Vec::new();
        // Expiry and retention are counted; setting the clock must not delete events, or keep them.
        let steady = steady_clock(clock);
        let engine: Arc<dyn Engine<Value>> = match self {
            Self::Memory => Arc::new(EmbeddedEngine::memory(mirror.clone(), steady)),
            Self::Disk if !config.flags.etcd_servers.is_empty() => {
                let etcd = etcd::connect(config, &steady)?;
                let (metered, tally) = InstrumentedEngine::new(etcd);
                reports.push(tally);
                Arc::new(metered)
            }
            Self::Disk => {
                let disk = Arc::new(Directory::open(config.flags.data_dir.join("store"))?);
                let log = DiskLog::open(disk, steady.clone(), disk_log_options())?;
                Arc::new(EmbeddedEngine::open(log, mirror.clone(), steady)?)
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

#[cfg(test)]
mod tests {
    use api::Lease;
    use schema::Kind as _;

    use super::*;

    #[test]
    fn leases_are_renewed_on_a_full_disk() {
        assert_eq!(LEASES, format!("/registry/{}/", Lease::STORAGE.prefix));
        assert_eq!(disk_log_options().essential_prefixes, [LEASES]);
    }
}
