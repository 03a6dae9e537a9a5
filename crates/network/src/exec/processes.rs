//! The processes of one run of a plugin. They are in a cgroup of their own from their birth, so that none survives
//! the run: not even one that has begun a session of its own.

use std::{
    fs::OpenOptions,
    io,
    os::fd::OwnedFd,
    path::Path,
    process::Command,
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use sys::cgroup::{Cgroup, Hierarchies};

const PREFIX: &str = "network-plugin-";
static COUNT: AtomicU64 = AtomicU64::new(0);

/// All processes of a run. They are killed when it is dropped.
#[derive(Debug, Default)]
pub(super) struct PluginProcesses(Option<RunningPlugin>);

#[derive(Debug, Default)]
struct RunningPlugin {
    /// Not there where groups cannot be made.
    group: Option<Cgroup>,
    /// The plugin itself, which leads a process group.
    leader: Option<i32>,
}

impl PluginProcesses {
    /// Creates a cgroup below `parent`; the command's process is in it before its program runs.
    pub(super) fn contain(command: &mut Command, parent: &str) -> Self {
        let group = create_cgroup(parent).and_then(|group| {
            let procs = group.procs_files().into_iter();
            let open = |path| OpenOptions::new().write(true).open(path).map(OwnedFd::from);
            Ok((procs.map(open).collect::<io::Result<Vec<_>>>()?, group))
        });
        let group = match group {
            Ok((procs, group)) => {
                sys::spawn::enter_cgroups(command, procs);
                Some(group)
            }
            Err(error) => {
                tracing::warn!(parent, %error, "no cgroup for a CNI plugin: only its process group is killed");
                None
            }
        };
        Self(Some(RunningPlugin { group, leader: None }))
    }

    pub(super) fn set_leader(&mut self, leader: Option<u32>) {
        if let Some(running) = &mut self.0 {
            running.leader = leader.and_then(|pid| i32::try_from(pid).ok());
        }
    }

    /// Kills those that are left, and waits until they have ended.
    pub(super) async fn kill(&mut self) {
        let Some(running) = self.0.take() else { return };
        if let Err(error) = tokio::task::spawn_blocking(move || running.kill()).await {
            tracing::error!(%error, "cannot kill the processes of a CNI plugin");
        }
    }
}

impl Drop for PluginProcesses {
    /// Whoever gives up a run does not wait for its end.
    fn drop(&mut self) {
        if let Some(running) = self.0.take() {
            thread::spawn(move || running.kill());
        }
    }
}

impl RunningPlugin {
    fn kill(&self) {
        if let Some(leader) = self.leader {
            let _ = sys::process::kill(-leader, 9); // mostly it has ended
        }
        let Some(group) = &self.group else { return };
        if let Err(error) = group.kill_all().and_then(|()| group.remove()) {
            tracing::warn!(%error, "processes of a CNI plugin are still running");
        }
    }
}

/// Kills what a runtime that was killed has left.
pub(super) fn kill_stale(parent: &str) {
    let is_stale = |name: &str| {
        let process = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
        process.is_some_and(|process| !Path::new("/proc").join(process).exists())
    };
    let Ok(hierarchies) = Hierarchies::detect() else { return };
    for path in hierarchies.below(parent, is_stale).unwrap_or_default() {
        let Ok(group) = hierarchies.group(&path) else { continue };
        if let Err(error) = group.kill_all().and_then(|()| group.remove()) {
            tracing::warn!(path, %error, "cannot remove the cgroup of an earlier CNI plugin");
        }
    }
}

fn create_cgroup(parent: &str) -> io::Result<Cgroup> {
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let path = format!("{}/{PREFIX}{}-{number}", parent.trim_end_matches('/'), std::process::id());
    let group = Hierarchies::detect()?.group(&path)?;
    group.create()?;
    Ok(group)
}
