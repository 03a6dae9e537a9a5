//! The API server in the test's own process, and clients that are whoever is asked for.

use std::{path::Path, sync::Arc};

use apiserver::{
    Config, Flags, ListenerSource, RunningServer, ServerEnvironment, StorageBackend, start_with,
};
use client::{Auth, Client};
use object::{Clock, SystemClock};
use server::UserInfo;
use tempfile::TempDir;

/// What has no meaning in a name of a user, and ends its certificate's organizations.
const AUTHENTICATED_GROUP: &str = "system:authenticated";

/// A cluster with nothing in it but what every cluster has. It ends with the test.
#[derive(Debug)]
pub struct TestCluster {
    pub running: RunningServer,
    /// Keys and certificates; with storage on disk, the log too.
    _folder: Option<TempDir>,
}

impl TestCluster {
    /// In memory, at the real time.
    pub async fn start() -> Self {
        Self::start_with_clock(Arc::new(SystemClock)).await
    }

    /// In memory, at a time of the test's own.
    pub async fn start_with_clock(clock: Arc<dyn Clock>) -> Self {
        Self::start_with_flags(clock, |_| {}).await
    }

    /// In memory, with other flags than the usual ones.
    pub async fn start_with_flags(clock: Arc<dyn Clock>, change: impl FnOnce(&mut Flags)) -> Self {
        let folder = TempDir::new().expect("a test has room for its keys");
        let mut flags = flags(folder.path());
        change(&mut flags);
        let running = run(flags, StorageBackend::Memory, clock).await;
        Self { running, _folder: Some(folder) }
    }

    /// On disk, in a folder that may have been a cluster's before.
    pub async fn start_on_disk(folder: &Path) -> Self {
        let running = run(flags(folder), StorageBackend::Disk, Arc::new(SystemClock)).await;
        Self { running, _folder: None }
    }

    /// A client that may do everything.
    pub fn admin_client(&self) -> Client {
        self.client_as("admin", &["system:masters"])
    }

    /// A client that is this user.
    pub fn client_as(&self, name: &str, groups: &[&str]) -> Client {
        let mut user = UserInfo::new(name, groups);
        user.groups.push(AUTHENTICATED_GROUP.into());
        Client::new(client::Config::pipe(self.running.pipe(user)).user_agent("testkit"))
    }

    /// A client that shows this, and is nobody by itself.
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
