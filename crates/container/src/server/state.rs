//! What the server knows of pods and containers, in memory and, to outlive it, on disk.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use prost::Message;
use tokio::sync::watch;
use tonic::Status;

use crate::{
    cri::{
        ContainerConfig, ContainerState, LinuxContainerResources, NamespaceMode, NamespaceOption,
        PodSandboxConfig,
    },
    shim::protocol::{Exit, Started},
};

/// A pod's sandbox. Stored as it is: fields may be added, numbers stay.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Sandbox {
    #[prost(string, tag = "1")]
    pub(crate) id: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) config: Option<PodSandboxConfig>,
    #[prost(int64, tag = "3")]
    pub(crate) created_at: i64,
    #[prost(string, tag = "4")]
    pub(crate) handler: String,
    #[prost(string, repeated, tag = "5")]
    pub(crate) ips: Vec<String>,
    #[prost(string, tag = "6")]
    pub(crate) cgroup: String,
    #[prost(bool, tag = "7")]
    pub(crate) ready: bool,
    /// The holder of the namespaces.
    #[prost(int32, tag = "8")]
    pub(crate) pid: i32,
}

/// A container, as `Sandbox`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Container {
    #[prost(string, tag = "1")]
    pub(crate) id: String,
    #[prost(string, tag = "2")]
    pub(crate) sandbox: String,
    #[prost(message, optional, tag = "3")]
    pub(crate) config: Option<ContainerConfig>,
    #[prost(string, tag = "4")]
    pub(crate) image_id: String,
    #[prost(string, tag = "5")]
    pub(crate) image_ref: String,
    #[prost(int64, tag = "6")]
    pub(crate) created_at: i64,
    #[prost(int64, tag = "7")]
    pub(crate) started_at: i64,
    #[prost(int64, tag = "8")]
    pub(crate) finished_at: i64,
    #[prost(int32, tag = "9")]
    pub(crate) exit_code: i32,
    #[prost(string, tag = "10")]
    pub(crate) reason: String,
    #[prost(string, tag = "11")]
    pub(crate) message: String,
    #[prost(string, tag = "12")]
    pub(crate) cgroup: String,
    #[prost(string, tag = "13")]
    pub(crate) log_path: String,
    #[prost(uint32, tag = "14")]
    pub(crate) uid: u32,
    #[prost(uint32, tag = "15")]
    pub(crate) gid: u32,
    #[prost(uint32, repeated, tag = "16")]
    pub(crate) groups: Vec<u32>,
    #[prost(int32, tag = "17")]
    pub(crate) stop_signal: i32,
    #[prost(message, optional, tag = "18")]
    pub(crate) resources: Option<LinuxContainerResources>,
}

impl Sandbox {
    pub(crate) fn config(&self) -> &PodSandboxConfig {
        self.config.as_ref().expect("checked when it was made")
    }

    pub(crate) fn namespaces(&self) -> NamespaceOption {
        let linux = self.config().linux.as_ref();
        let security = linux.and_then(|linux| linux.security_context.as_ref());
        security.and_then(|security| security.namespace_options.clone()).unwrap_or_default()
    }

    pub(crate) fn host_network(&self) -> bool {
        self.namespaces().network() == NamespaceMode::Node
    }

    /// The pod's network namespace; empty when it has gone.
    pub(crate) fn netns(&self) -> PathBuf {
        if self.ready && self.pid != 0 {
            format!("/proc/{}/ns/net", self.pid).into()
        } else {
            PathBuf::new()
        }
    }
}

impl Container {
    pub(crate) fn config(&self) -> &ContainerConfig {
        self.config.as_ref().expect("checked when it was made")
    }

    pub(crate) fn state(&self) -> ContainerState {
        if self.finished_at != 0 {
            ContainerState::ContainerExited
        } else if self.started_at != 0 {
            ContainerState::ContainerRunning
        } else {
            ContainerState::ContainerCreated
        }
    }

    pub(crate) fn started(&mut self, started: &Started, at: i64) {
        self.started_at = at;
        (self.uid, self.gid, self.groups) = (started.uid, started.gid, started.groups.clone());
    }

    pub(crate) fn ended(&mut self, exit: Exit) {
        self.finished_at = exit.at;
        self.exit_code = exit.code;
        let reason = match exit.code {
            _ if exit.out_of_memory => "OOMKilled",
            0 => "Completed",
            _ => "Error",
        };
        reason.clone_into(&mut self.reason);
    }

    pub(crate) fn failed(&mut self, message: String, at: i64) {
        (self.finished_at, self.exit_code, self.message) = (at, 128, message);
        "StartError".clone_into(&mut self.reason);
    }
}

/// All records; every change is on disk before it is seen.
#[derive(Debug)]
pub(crate) struct State {
    root: PathBuf,
    tables: Mutex<Tables>,
    /// Counts changes, to wait for them.
    changes: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Tables {
    sandboxes: BTreeMap<String, Sandbox>,
    containers: BTreeMap<String, Container>,
}

const RECORD: &str = "record";

/// A record of what is only being made: after a crash it says what to undo.
const PENDING: &str = "pending";

/// What a crash has left half made.
#[derive(Debug, Default)]
pub(crate) struct Unfinished {
    pub(crate) sandboxes: Vec<Sandbox>,
    pub(crate) containers: Vec<Container>,
}

impl State {
    pub(crate) fn load(root: &Path) -> io::Result<(Self, Unfinished)> {
        let (sandboxes, unfinished_sandboxes) = load(&root.join("sandboxes"))?;
        let (containers, unfinished_containers) = load(&root.join("containers"))?;
        let tables = Tables { sandboxes, containers };
        let unfinished =
            Unfinished { sandboxes: unfinished_sandboxes, containers: unfinished_containers };
        let state = Self {
            root: root.to_owned(),
            tables: Mutex::new(tables),
            changes: watch::Sender::new(0),
        };
        Ok((state, unfinished))
    }

    pub(crate) fn sandbox_folder(&self, id: &str) -> PathBuf {
        self.root.join("sandboxes").join(id)
    }

    pub(crate) fn container_folder(&self, id: &str) -> PathBuf {
        self.root.join("containers").join(id)
    }

    pub(crate) fn sandboxes(&self) -> Vec<Sandbox> {
        self.tables().sandboxes.values().cloned().collect()
    }

    pub(crate) fn containers(&self) -> Vec<Container> {
        self.tables().containers.values().cloned().collect()
    }

    pub(crate) fn containers_of(&self, sandbox: &str) -> Vec<Container> {
        let tables = self.tables();
        tables.containers.values().filter(|one| one.sandbox == sandbox).cloned().collect()
    }

    /// By its identifier, or a beginning of it that no other has.
    pub(crate) fn sandbox(&self, id: &str) -> Result<Sandbox, Status> {
        find(&self.tables().sandboxes, id)
            .cloned()
            .ok_or_else(|| Status::not_found(format!("pod sandbox {id:?} not found")))
    }

    pub(crate) fn container(&self, id: &str) -> Result<Container, Status> {
        find(&self.tables().containers, id)
            .cloned()
            .ok_or_else(|| Status::not_found(format!("container {id:?} not found")))
    }

    /// Makes the folder of a sandbox that is yet to be made.
    pub(crate) fn begin_sandbox(&self, sandbox: &Sandbox) -> io::Result<()> {
        let folder = self.sandbox_folder(&sandbox.id);
        fs::create_dir_all(&folder)?;
        write(&folder, PENDING, sandbox)
    }

    pub(crate) fn begin_container(&self, container: &Container) -> io::Result<()> {
        let folder = self.container_folder(&container.id);
        fs::create_dir_all(&folder)?;
        write(&folder, PENDING, container)
    }

    pub(crate) fn put_sandbox(&self, sandbox: Sandbox) -> io::Result<()> {
        save(&self.sandbox_folder(&sandbox.id), &sandbox)?;
        self.tables().sandboxes.insert(sandbox.id.clone(), sandbox);
        self.changed();
        Ok(())
    }

    pub(crate) fn put_container(&self, container: Container) -> io::Result<()> {
        save(&self.container_folder(&container.id), &container)?;
        self.tables().containers.insert(container.id.clone(), container);
        self.changed();
        Ok(())
    }

    /// Changes a container that is still there.
    pub(crate) fn change_container(
        &self,
        id: &str,
        change: impl FnOnce(&mut Container),
    ) -> io::Result<Option<Container>> {
        let mut tables = self.tables();
        let Some(mut container) = tables.containers.get(id).cloned() else { return Ok(None) };
        change(&mut container);
        save(&self.container_folder(id), &container)?;
        tables.containers.insert(id.to_owned(), container.clone());
        drop(tables);
        self.changed();
        Ok(Some(container))
    }

    pub(crate) fn change_sandbox(
        &self,
        id: &str,
        change: impl FnOnce(&mut Sandbox),
    ) -> io::Result<()> {
        let mut tables = self.tables();
        let Some(mut sandbox) = tables.sandboxes.get(id).cloned() else { return Ok(()) };
        change(&mut sandbox);
        save(&self.sandbox_folder(id), &sandbox)?;
        tables.sandboxes.insert(id.to_owned(), sandbox);
        drop(tables);
        self.changed();
        Ok(())
    }

    pub(crate) fn forget_sandbox(&self, id: &str) {
        self.tables().sandboxes.remove(id);
        self.changed();
    }

    pub(crate) fn forget_container(&self, id: &str) {
        self.tables().containers.remove(id);
        self.changed();
    }

    /// Waits until a container does not run, or is no more.
    pub(crate) async fn ended(&self, id: &str) {
        let mut changes = self.changes.subscribe();
        loop {
            changes.mark_unchanged();
            let running = |one: &Container| one.state() == ContainerState::ContainerRunning;
            if !self.tables().containers.get(id).is_some_and(running) {
                return;
            }
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn find<'a, T>(table: &'a BTreeMap<String, T>, id: &str) -> Option<&'a T> {
    if id.is_empty() {
        return None;
    }
    table.get(id).or_else(|| {
        let mut matching = table.range(id.to_owned()..).take_while(|(key, _)| key.starts_with(id));
        let first = matching.next()?;
        matching.next().is_none().then_some(first.1)
    })
}

/// The records below a folder, and those of what was interrupted before it was known to anybody.
fn load<T: Message + Default>(folder: &Path) -> io::Result<(BTreeMap<String, T>, Vec<T>)> {
    fs::create_dir_all(folder)?;
    let (mut all, mut unfinished) = (BTreeMap::new(), Vec::new());
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let read = |name: &str| {
            let bytes = fs::read(entry.path().join(name)).ok()?;
            T::decode(&*bytes).ok()
        };
        if let Some(record) = read(RECORD) {
            all.insert(entry.file_name().to_string_lossy().into_owned(), record);
        } else if let Some(record) = read(PENDING) {
            unfinished.push(record);
        } else {
            fs::remove_dir_all(entry.path())?; // nothing was done before that was written
        }
    }
    Ok((all, unfinished))
}

fn save(folder: &Path, record: &impl Message) -> io::Result<()> {
    write(folder, RECORD, record)
}

fn write(folder: &Path, name: &str, record: &impl Message) -> io::Result<()> {
    let new = folder.join("record.new");
    fs::write(&new, record.encode_to_vec())?;
    fs::rename(new, folder.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_begun_is_found_after_a_crash() {
        let root = tempfile::tempdir().expect("a folder");
        let (state, _) = State::load(root.path()).expect("load");
        let named = |id: &str| Sandbox { id: id.into(), ..Sandbox::default() };
        state.begin_sandbox(&named("half")).expect("begin");
        state.begin_sandbox(&named("whole")).expect("begin");
        state.put_sandbox(named("whole")).expect("put");
        fs::create_dir_all(state.sandbox_folder("empty")).expect("a folder");
        let (state, unfinished) = State::load(root.path()).expect("load");
        assert_eq!(state.sandboxes(), [named("whole")]);
        assert_eq!(unfinished.sandboxes, [named("half")]);
        assert!(!state.sandbox_folder("empty").exists());
    }

    #[test]
    fn beginnings_must_be_unique() {
        let table = BTreeMap::from([("abc".to_owned(), 1), ("abd".to_owned(), 2)]);
        assert_eq!(find(&table, "abc"), Some(&1));
        assert_eq!(find(&table, "abd"), Some(&2));
        assert_eq!(find(&table, "ab"), None);
        assert_eq!(find(&table, ""), None);
    }
}
