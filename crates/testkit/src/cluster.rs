//! `TestCluster`: an API server in the test's own process, and clients that are authenticated as any user.

use std::{path::Path, sync::Arc};

use apiserver::{
    Config, Flags, ListenerSource, RunningServer, ServerEnvironment, StorageBackend, start_with,
};
use client::{Auth, Client};
use object::{Clock, SystemClock};
use server::UserInfo;
use tempfile::TempDir;

/// The group of every authenticated user.
const AUTHENTICATED_GROUP: &str = "system:authenticated";

/// A cluster with only the default objects. It is stopped with the test.
#[derive(Debug)]
pub struct TestCluster {
    pub running: RunningServer,
    /// Directory with keys and certificates; `None` if the test provides it.
    _folder: Option<TempDir>,
}

impl TestCluster {
    /// Starts a cluster with in-memory storage and the system clock.
    pub async fn start() -> Self {
        Self::start_with_clock(Arc::new(SystemClock)).await
    }

    /// Starts a cluster with in-memory storage and the test's own clock.
    pub async fn start_with_clock(clock: Arc<dyn Clock>) -> Self {
        Self::start_with_flags(clock, |_| {}).await
    }

    /// Starts a cluster with in-memory storage and changed flags.
    pub async fn start_with_flags(clock: Arc<dyn Clock>, change: impl FnOnce(&mut Flags)) -> Self {
        let folder = TempDir::new().expect("a test has room for its keys");
        let mut flags = flags(folder.path());
        change(&mut flags);
        let running = run(flags, StorageBackend::Memory, clock).await;
        Self { running, _folder: Some(folder) }
    }

    /// Starts a cluster with storage on disk, in a directory that may contain an earlier cluster's data.
    pub async fn start_on_disk(folder: &Path) -> Self {
        let running = run(flags(folder), StorageBackend::Disk, Arc::new(SystemClock)).await;
        Self { running, _folder: None }
    }

    /// A client that is authorized for everything.
    pub fn admin_client(&self) -> Client {
        self.client_as("admin", &["system:masters"])
    }

    /// A client that is authenticated as this user.
    pub fn client_as(&self, name: &str, groups: &[&str]) -> Client {
        let mut user = UserInfo::new(name, groups);
        user.groups.push(AUTHENTICATED_GROUP.into());
        Client::new(client::Config::pipe(self.running.pipe(user)).user_agent("testkit"))
    }

    /// A client that authenticates with these credentials; without them it is anonymous.
    pub fn client_with_auth(&self, auth: Auth) -> Client {
        let config = client::Config::pipe(self.running.open_pipe()).user_agent("testkit");
        Client::new(config.auth(auth))
    }

    pub async fn stop(&self) {
        self.running.stop().await;
    }
}

fn flags(folder: &Path) -> Flags {
    Flags { advertise_address: Some([192, 0, 2, 10].into()), ..Flags::new(folder) }
}

async fn run(flags: Flags, storage: StorageBackend, clock: Arc<dyn Clock>) -> RunningServer {
    let config = Config::new(flags).expect("the flags are good");
    let ground = ServerEnvironment { storage, entry: ListenerSource::Pipes, clock };
    start_with(config, ground).await.expect("a server starts on a new folder")
}
