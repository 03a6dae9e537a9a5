//! Records of pods and containers: in memory, and on disk for the next server.

use std::{
    collections::{BTreeMap, HashMap},
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use prost::Message;
use tokio::sync::watch;
use tonic::Status;

use super::records;
use crate::{
    cri::{
        ContainerConfig, ContainerState, LinuxContainerResources, NamespaceMode, NamespaceOption,
        PodSandboxConfig,
    },
    shim::protocol::{Exit, Started},
};

/// The record of a sandbox. Stored as protobuf: fields may be added, tags must not change.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct SandboxRecord {
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
    /// The process that holds the namespaces.
    #[prost(int32, tag = "8")]
    pub(crate) pid: i32,
}

/// The record of a container, stored like `SandboxRecord`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ContainerRecord {
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

impl SandboxRecord {
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

    /// Path of the pod's network namespace; empty if it no longer exists.
    pub(crate) fn netns(&self) -> PathBuf {
        if self.ready && self.pid != 0 {
            format!("/proc/{}/ns/net", self.pid).into()
        } else {
            PathBuf::new()
        }
    }
}

impl ContainerRecord {
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

    pub(crate) fn started(&mut self, started: &Started) {
        self.started_at = if started.at == 0 { super::now() } else { started.at };
        (self.uid, self.gid, self.groups) = (started.uid, started.gid, started.groups.clone());
    }

    pub(crate) fn ended(&mut self, exit: Exit) {
        if self.started_at == 0 {
            self.started_at = exit.at; // its start was not recorded
        }
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

/// All records. A new record is written to disk before it becomes visible. A change becomes visible before it is
/// written, because it describes what has already happened, and after a crash the shim reports it again.
///
/// `put_*`, `save_*` and `forget_*` may block on the disk: call them on threads that may block.
#[derive(Debug)]
pub(crate) struct State {
    root: PathBuf,
    tables: Mutex<Records>,
    /// One lock per changed record, held while it is written.
    turns: Mutex<HashMap<String, Arc<Mutex<()>>>>,
    /// Counts changes, so that tasks can wait for them.
    changes: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Records {
    sandboxes: BTreeMap<String, SandboxRecord>,
    containers: BTreeMap<String, ContainerRecord>,
}

/// What an earlier server left behind and recovery must handle.
#[derive(Debug, Default)]
pub(crate) struct Leftovers {
    /// Creation not completed.
    pub(crate) unfinished_sandboxes: Vec<SandboxRecord>,
    pub(crate) unfinished_containers: Vec<ContainerRecord>,
    /// Sandboxes whose record was lost; their shims know whether they run.
    pub(crate) restored_sandboxes: Vec<String>,
    /// Directories without any readable record.
    pub(crate) unreadable_sandboxes: Vec<PathBuf>,
    pub(crate) unreadable_containers: Vec<PathBuf>,
}

impl State {
    /// Loads the records from disk.
    pub(crate) fn load(root: &Path) -> io::Result<(Self, Leftovers)> {
        let sandboxes = records::load::<SandboxRecord>(&root.join("sandboxes"))?;
        let containers = records::load::<ContainerRecord>(&root.join("containers"))?;
        let leftovers = Leftovers {
            unfinished_sandboxes: sandboxes.unfinished,
            unfinished_containers: containers.unfinished,
            restored_sandboxes: sandboxes.restored.iter().map(|one| one.id.clone()).collect(),
            unreadable_sandboxes: sandboxes.unreadable,
            unreadable_containers: containers.unreadable,
        };
        let state = Self {
            root: root.to_owned(),
            tables: Mutex::default(),
            turns: Mutex::default(),
            changes: watch::Sender::new(0),
        };
        state.put_back(sandboxes.restored, containers.restored);
        let mut tables = state.tables();
        tables.sandboxes.extend(sandboxes.known.into_iter().map(|one| (one.id.clone(), one)));
        tables.containers.extend(containers.known.into_iter().map(|one| (one.id.clone(), one)));
        drop(tables);
        Ok((state, leftovers))
    }

    /// Writes lost records again, from their pending versions.
    fn put_back(&self, sandboxes: Vec<SandboxRecord>, containers: Vec<ContainerRecord>) {
        let warn = |id: &str, written: io::Result<()>| {
            if let Err(error) = written {
                tracing::error!(id, %error, "cannot write a restored record");
            }
        };
        let mut tables = self.tables();
        for sandbox in sandboxes {
            warn(&sandbox.id, records::write(&self.sandbox_folder(&sandbox.id), &sandbox));
            tables.sandboxes.insert(sandbox.id.clone(), sandbox);
        }
        for container in containers {
            warn(&container.id, records::write(&self.container_folder(&container.id), &container));
            tables.containers.insert(container.id.clone(), container);
        }
    }

    pub(crate) fn sandbox_folder(&self, id: &str) -> PathBuf {
        self.root.join("sandboxes").join(id)
    }

    pub(crate) fn container_folder(&self, id: &str) -> PathBuf {
        self.root.join("containers").join(id)
    }

    pub(crate) fn sandboxes(&self) -> Vec<SandboxRecord> {
        self.tables().sandboxes.values().cloned().collect()
    }

    pub(crate) fn containers(&self) -> Vec<ContainerRecord> {
        self.tables().containers.values().cloned().collect()
    }

    pub(crate) fn containers_of(&self, sandbox: &str) -> Vec<ContainerRecord> {
        let tables = self.tables();
        tables.containers.values().filter(|one| one.sandbox == sandbox).cloned().collect()
    }

    /// Finds a sandbox by its id or an unambiguous prefix.
    pub(crate) fn sandbox(&self, id: &str) -> Result<SandboxRecord, Status> {
        find(&self.tables().sandboxes, id)
            .cloned()
            .ok_or_else(|| Status::not_found(format!("pod sandbox {id:?} not found")))
    }

    /// Finds a container by its id or an unambiguous prefix.
    pub(crate) fn container(&self, id: &str) -> Result<ContainerRecord, Status> {
        find(&self.tables().containers, id)
            .cloned()
            .ok_or_else(|| Status::not_found(format!("container {id:?} not found")))
    }

    /// Creates the directory of a sandbox that is about to be created.
    pub(crate) fn begin_sandbox(&self, sandbox: &SandboxRecord) -> io::Result<()> {
        records::begin(&self.sandbox_folder(&sandbox.id), sandbox)
    }

    pub(crate) fn begin_container(&self, container: &ContainerRecord) -> io::Result<()> {
        records::begin(&self.container_folder(&container.id), container)
    }

    pub(crate) fn put_sandbox(&self, sandbox: SandboxRecord) -> io::Result<()> {
        records::write(&self.sandbox_folder(&sandbox.id), &sandbox)?;
        self.tables().sandboxes.insert(sandbox.id.clone(), sandbox);
        self.changed();
        Ok(())
    }

    pub(crate) fn put_container(&self, container: ContainerRecord) -> io::Result<()> {
        records::write(&self.container_folder(&container.id), &container)?;
        self.tables().containers.insert(container.id.clone(), container);
        self.changed();
        Ok(())
    }

    /// Changes a container, if it still exists. The change is visible at once; `save_container` writes it.
    pub(crate) fn change_container(&self, id: &str, change: impl FnOnce(&mut ContainerRecord)) {
        if let Some(container) = self.tables().containers.get_mut(id) {
            change(container);
        }
        self.changed();
    }

    pub(crate) fn change_sandbox(&self, id: &str, change: impl FnOnce(&mut SandboxRecord)) {
        if let Some(sandbox) = self.tables().sandboxes.get_mut(id) {
            change(sandbox);
        }
        self.changed();
    }

    /// Writes the current record of a container. If the write fails, the shim reports the change after a restart.
    pub(crate) fn save_container(&self, id: &str) {
        let turn = self.turn(id);
        let _alone = turn.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(container) = self.tables().containers.get(id).cloned() else { return };
        if let Err(error) = records::write(&self.container_folder(id), &container) {
            tracing::error!(container = id, %error, "cannot write a changed record");
        }
    }

    pub(crate) fn save_sandbox(&self, id: &str) {
        let turn = self.turn(id);
        let _alone = turn.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(sandbox) = self.tables().sandboxes.get(id).cloned() else { return };
        if let Err(error) = records::write(&self.sandbox_folder(id), &sandbox) {
            tracing::error!(sandbox = id, %error, "cannot write a changed record");
        }
    }

    /// Drops a record. Afterwards nothing writes to its directory.
    pub(crate) fn forget_sandbox(&self, id: &str) {
        self.tables().sandboxes.remove(id);
        self.end_turns(id);
    }

    pub(crate) fn forget_container(&self, id: &str) {
        self.tables().containers.remove(id);
        self.end_turns(id);
    }

    /// Waits for a write in progress; records that are no longer in memory are not written.
    fn end_turns(&self, id: &str) {
        drop(self.turn(id).lock());
        self.turns().remove(id);
        self.changed();
    }

    /// Waits until a container does not run, or no longer exists.
    pub(crate) async fn wait_until_stopped(&self, id: &str) {
        let mut changes = self.changes.subscribe();
        loop {
            changes.mark_unchanged();
            let running = |one: &ContainerRecord| one.state() == ContainerState::ContainerRunning;
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

    fn turn(&self, id: &str) -> Arc<Mutex<()>> {
        self.turns().entry(id.to_owned()).or_default().clone()
    }

    fn turns(&self) -> MutexGuard<'_, HashMap<String, Arc<Mutex<()>>>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tables(&self) -> MutexGuard<'_, Records> {
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::cri::{ContainerMetadata, PodSandboxMetadata};

    fn sandbox(id: &str) -> SandboxRecord {
        let metadata = Some(PodSandboxMetadata { name: "p".into(), ..Default::default() });
        let config = Some(PodSandboxConfig { metadata, ..Default::default() });
        SandboxRecord { id: id.into(), cgroup: "/g".into(), config, ..SandboxRecord::default() }
    }

    fn container(id: &str) -> ContainerRecord {
        let metadata = Some(ContainerMetadata { name: "c".into(), attempt: 0 });
        let config = Some(ContainerConfig { metadata, ..Default::default() });
        let (cgroup, sandbox) = ("/g".to_owned(), "s".to_owned());
        ContainerRecord { id: id.into(), cgroup, sandbox, config, ..ContainerRecord::default() }
    }

    #[test]
    fn what_was_begun_is_found_after_a_crash() {
        let root = tempfile::tempdir().expect("a folder");
        let (state, _) = State::load(root.path()).expect("load");
        state.begin_sandbox(&sandbox("half")).expect("begin");
        state.begin_sandbox(&sandbox("whole")).expect("begin");
        state.put_sandbox(sandbox("whole")).expect("put");
        fs::create_dir_all(state.sandbox_folder("empty")).expect("a folder");
        let (state, left) = State::load(root.path()).expect("load");
        assert_eq!(state.sandboxes(), [sandbox("whole")]);
        assert_eq!(left.unfinished_sandboxes, [sandbox("half")]);
        assert!(!state.sandbox_folder("empty").exists());
    }

    /// Replaces a record by something damaged.
    fn damage(record: &Path, how: &str) {
        fs::remove_file(record).expect("a record");
        match how {
            "empty" => fs::write(record, ""),
            "torn" => fs::write(record, &sandbox("other").encode_to_vec()[..4]),
            "another's" => fs::write(record, sandbox("other").encode_to_vec()),
            "garbage" => fs::write(record, [0xff; 4096]),
            "huge" => fs::File::create(record).and_then(|file| file.set_len(1 << 40)),
            "folder" => fs::create_dir_all(record.join("below")),
            "link" => std::os::unix::fs::symlink("/dev/zero", record),
            "fifo" => {
                use rustix::fs::{CWD, FileType, Mode, mknodat};
                let mode = Mode::from_raw_mode(0o600);
                mknodat(CWD, record, FileType::Fifo, mode, 0).map_err(io::Error::from)
            }
            other => panic!("{other}"),
        }
        .expect("damaged");
    }

    #[test]
    fn a_damaged_record_ends_nobody() {
        let ways = ["empty", "torn", "another's", "garbage", "huge", "folder", "link", "fifo"];
        for how in ways {
            let root = tempfile::tempdir().expect("a folder");
            let (state, _) = State::load(root.path()).expect("load");
            state.begin_sandbox(&sandbox("s")).expect("begin");
            state.put_sandbox(SandboxRecord { ready: true, pid: 7, ..sandbox("s") }).expect("put");
            state.begin_container(&container("c")).expect("begin");
            state.put_container(ContainerRecord { started_at: 5, ..container("c") }).expect("put");
            damage(&state.sandbox_folder("s").join("record"), how);
            damage(&state.container_folder("c").join("record"), how);
            for start in 0..3 {
                let (state, left) = State::load(root.path()).expect("load");
                assert_eq!(state.sandboxes(), [sandbox("s")], "{how}");
                assert_eq!(state.containers(), [container("c")], "{how}");
                let restored = if start == 0 { vec!["s"] } else { vec![] };
                assert_eq!(left.restored_sandboxes, restored, "{how}");
                assert!(
                    left.unfinished_sandboxes.is_empty() && left.unfinished_containers.is_empty()
                );
                assert!(left.unreadable_sandboxes.is_empty(), "{how}");
            }
            for file in ["record", "pending"] {
                damage(&state.sandbox_folder("s").join(file), how);
            }
            for _ in 0..2 {
                let (state, left) = State::load(root.path()).expect("load");
                assert!(state.sandboxes().is_empty(), "{how}");
                assert_eq!(left.unreadable_sandboxes, [state.sandbox_folder("s")], "{how}");
            }
        }
    }

    #[test]
    fn anything_may_lie_beside_the_records() {
        let root = tempfile::tempdir().expect("a folder");
        fs::write(root.path().join("sandboxes"), "no folder").expect("written");
        fs::create_dir(root.path().join("containers")).expect("a folder");
        fs::write(root.path().join("containers/file"), "no folder").expect("written");
        let (state, left) = State::load(root.path()).expect("load");
        assert!(state.sandboxes().is_empty() && left.unfinished_containers.is_empty());
        state.begin_sandbox(&sandbox("s")).expect("begin");
    }

    #[test]
    fn a_disk_that_refuses_a_change_does_not_hide_it() {
        let root = tempfile::tempdir().expect("a folder");
        let (state, _) = State::load(root.path()).expect("load");
        state.begin_container(&container("c")).expect("begin");
        state.put_container(container("c")).expect("put");
        fs::remove_dir_all(state.container_folder("c")).expect("removed");
        state.change_container("c", |container| container.finished_at = 9);
        state.save_container("c");
        assert_eq!(state.containers()[0].finished_at, 9);
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
