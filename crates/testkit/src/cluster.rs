//! The API server in the test's own process, and clients that are whoever is asked for.

use std::{path::Path, sync::Arc};

use apiserver::{Config, Entry, Flags, Ground, Running, Storage, start_with};
use client::{Auth, Client};
use object::{Clock, SystemClock};
use server::User;
use tempfile::TempDir;

/// What has no meaning in a name of a user, and ends its certificate's organizations.
const EVERYBODY: &str = "system:authenticated";

/// A cluster with nothing in it but what every cluster has. It ends with the test.
#[derive(Debug)]
pub struct Cluster {
    pub running: Running,
    /// Keys and certificates; with storage on disk, the log too.
    _folder: Option<TempDir>,
}

impl Cluster {
    /// In memory, at the real time.
    pub async fn start() -> Self {
        Self::start_at(Arc::new(SystemClock)).await
    }

    /// In memory, at a time of the test's own.
    pub async fn start_at(clock: Arc<dyn Clock>) -> Self {
        Self::start_flags(clock, |_| {}).await
    }

    /// In memory, with other flags than the usual ones.
    pub async fn start_flags(clock: Arc<dyn Clock>, change: impl FnOnce(&mut Flags)) -> Self {
        let folder = TempDir::new().expect("a test has room for its keys");
        let mut flags = flags(folder.path());
        change(&mut flags);
        let running = run(flags, Storage::Memory, clock).await;
        Self { running, _folder: Some(folder) }
    }

    /// On disk, in a folder that may have been a cluster's before.
    pub async fn start_in(folder: &Path) -> Self {
        let running = run(flags(folder), Storage::Disk, Arc::new(SystemClock)).await;
        Self { running, _folder: None }
    }

    /// A client that may do everything.
    pub fn admin(&self) -> Client {
        self.client("admin", &["system:masters"])
    }

    /// A client that is this user.
    pub fn client(&self, name: &str, groups: &[&str]) -> Client {
        let mut user = User::new(name, groups);
        user.groups.push(EVERYBODY.into());
        Client::new(client::Config::pipe(self.running.pipe(user)).user_agent("testkit"))
    }

    /// A client that shows this, and is nobody by itself.
    pub fn showing(&self, auth: Auth) -> Client {
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

async fn run(flags: Flags, storage: Storage, clock: Arc<dyn Clock>) -> Running {
    let config = Config::new(flags).expect("the flags are good");
    let ground = Ground { storage, entry: Entry::Pipes, clock };
    start_with(config, ground).await.expect("a server starts on a new folder")
}
