//! The processes of one run of a plugin. They are in a control group of their own from their birth, so that none survives
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

use sys::cgroup::{Group, Hierarchies};

const NAME: &str = "network-plugin-";
static COUNT: AtomicU64 = AtomicU64::new(0);

/// All processes of a run. They end when it is dropped.
#[derive(Debug, Default)]
pub(super) struct Processes(Option<Running>);

#[derive(Debug, Default)]
struct Running {
    /// Not there where groups cannot be made.
    group: Option<Group>,
    /// The plugin itself, which leads a process group.
    leader: Option<i32>,
}

impl Processes {
    /// Makes a group below `parent`, and the command's process is born in it.
    pub(super) fn contain(command: &mut Command, parent: &str) -> Self {
        let group = make(parent).and_then(|group| {
            let procs = group.entrances().into_iter();
            let open = |path| OpenOptions::new().write(true).open(path).map(OwnedFd::from);
            Ok((procs.map(open).collect::<io::Result<Vec<_>>>()?, group))
        });
        let group = match group {
            Ok((procs, group)) => {
                sys::spawn::enter_groups(command, procs);
                Some(group)
            }
            Err(error) => {
                tracing::warn!(parent, %error, "no control group for a network plugin: only its process group is ended");
                None
            }
        };
        Self(Some(Running { group, leader: None }))
    }

    pub(super) fn started(&mut self, leader: Option<u32>) {
        if let Some(running) = &mut self.0 {
            running.leader = leader.and_then(|pid| i32::try_from(pid).ok());
        }
    }

    /// Ends those that are left, and waits until they have ended.
    pub(super) async fn end(&mut self) {
        let Some(running) = self.0.take() else { return };
        if let Err(error) = tokio::task::spawn_blocking(move || running.end()).await {
            tracing::error!(%error, "the processes of a network plugin were not ended");
        }
    }
}

impl Drop for Processes {
    /// Whoever gives up a run does not wait for its end.
    fn drop(&mut self) {
        if let Some(running) = self.0.take() {
            thread::spawn(move || running.end());
        }
    }
}

impl Running {
    fn end(&self) {
        if let Some(leader) = self.leader {
            let _ = sys::process::kill(-leader, 9); // mostly it has ended
        }
        let Some(group) = &self.group else { return };
        if let Err(error) = group.kill().and_then(|()| group.remove()) {
            tracing::warn!(%error, "processes of a network plugin are left");
        }
    }
}

/// Ends what a runtime that was killed has left.
pub(super) fn end_stale(parent: &str) {
    let is_stale = |name: &str| {
        let process = name.strip_prefix(NAME).and_then(|rest| rest.split('-').next());
        process.is_some_and(|process| !Path::new("/proc").join(process).exists())
    };
    let Ok(hierarchies) = Hierarchies::detect() else { return };
    for path in hierarchies.below(parent, is_stale).unwrap_or_default() {
        let Ok(group) = hierarchies.group(&path) else { continue };
        if let Err(error) = group.kill().and_then(|()| group.remove()) {
            tracing::warn!(path, %error, "cannot remove the group of an old network plugin");
        }
    }
}

fn make(parent: &str) -> io::Result<Group> {
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let path = format!("{}/{NAME}{}-{number}", parent.trim_end_matches('/'), std::process::id());
    let group = Hierarchies::detect()?.group(&path)?;
    group.create()?;
    Ok(group)
}
