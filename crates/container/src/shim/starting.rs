//! Processes that are being started. The shim goes on with its other work meanwhile, however long they take.

use std::os::{fd::AsFd, unix::net::UnixStream};

use rustix::event::{PollFd, PollFlags, poll};

use super::{
    Shim,
    log::Log,
    protocol::{Reply, send},
    running::{Pipes, RunningContainer, answer},
    spawn::{Birth, SpawnedProcess},
};
use crate::spec::ContainerSpec;

/// A process that is being started, and the connection that waits for it.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) birth: Birth,
    pub(super) peer: UnixStream,
    pub(super) what: What,
}

/// The purpose of the process.
#[derive(Debug)]
pub(super) enum What {
    Container(Box<NewContainer>),
    Exec,
    /// The start was given up; the process is still to be reaped.
    Aborted,
}

/// A container that is being started.
#[derive(Debug)]
pub(super) struct NewContainer {
    pub(super) id: String,
    pub(super) spec: ContainerSpec,
    pub(super) pipes: Pipes,
    pub(super) log: Option<Log>,
}

impl Birth {
    pub(super) fn poll(&self) -> PollFd<'_> {
        PollFd::from_borrowed_fd(self.reports(), PollFlags::IN)
    }

    /// Whether there is a report to read.
    fn reported(&self) -> bool {
        let now = rustix::event::Timespec::default();
        poll(&mut [self.poll()], Some(&now)).is_ok_and(|ready| ready > 0)
    }
}

impl Pending {
    pub(super) fn is_aborted(&self) -> bool {
        matches!(self.what, What::Aborted)
    }

    pub(super) fn is_container(&self) -> bool {
        matches!(self.what, What::Container(_))
    }

    pub(super) fn is_start_of(&self, id: &str) -> bool {
        matches!(&self.what, What::Container(new) if new.id == id)
    }

    fn give_up(&mut self, why: &str) {
        self.birth.abort();
        answer(&self.peer, &Reply::Failed(why.to_owned()));
        self.what = What::Aborted;
    }
}

impl Shim {
    /// Reads all reports, and gives up starts that take too long.
    pub(super) fn follow_pending(&mut self) {
        self.hear_pending();
        for one in &mut self.pending {
            if one.birth.left().is_zero() && !one.is_aborted() {
                one.give_up("the container's set-up took too long");
            }
        }
        self.pending.retain(|one| !one.is_aborted() || one.birth.lives());
    }

    pub(super) fn hear_pending(&mut self) {
        let mut at = 0;
        while let Some(one) = self.pending.get_mut(at) {
            if one.is_aborted() || !one.birth.reported() {
                at += 1;
                continue;
            }
            match one.birth.hear() {
                None => {} // there may be more
                Some(Err(error)) => one.give_up(&error),
                Some(Ok(spawned)) => {
                    let Pending { peer, what, .. } = self.pending.swap_remove(at);
                    self.on_spawned(peer, what, spawned);
                }
            }
        }
    }

    fn on_spawned(&mut self, peer: UnixStream, what: What, spawned: SpawnedProcess) {
        match what {
            What::Container(new) => self.on_container_spawned(&peer, *new, spawned),
            What::Exec => self.on_exec_spawned(peer, spawned),
            What::Aborted => {}
        }
    }

    fn on_container_spawned(
        &mut self,
        peer: &UnixStream,
        new: NewContainer,
        mut spawned: SpawnedProcess,
    ) {
        spawned.started.at = super::now();
        let (started, exit) = (spawned.started.clone(), spawned.exit);
        match RunningContainer::new(new.spec, spawned, new.pipes, new.log) {
            Ok(mut running) => {
                if let Some(mut exit) = exit {
                    exit.out_of_memory = super::clean_up_after_exit(&running.spec);
                    running.end(exit);
                }
                self.containers.insert(new.id, running);
                answer(peer, &Reply::Started(started));
            }
            Err(error) => {
                let _ = sys::process::kill(started.pid, 9); // it may already have exited
                answer(peer, &Reply::Failed(error.to_string()));
            }
        }
    }

    fn on_exec_spawned(&mut self, peer: UnixStream, spawned: SpawnedProcess) {
        let SpawnedProcess { started, terminal, exit } = spawned;
        let passed: Vec<_> = terminal.iter().map(AsFd::as_fd).collect();
        let pid = started.pid;
        let sent = send(&peer, &Reply::Started(started), &passed);
        if let Some(exit) = exit {
            return answer(&peer, &Reply::Exited(exit));
        }
        if sent.is_err() {
            let _ = sys::process::kill(pid, 9); // its client has disconnected
        }
        self.execs.insert(pid, peer);
    }

    /// Gives up the start of one container, or all starts.
    pub(super) fn abort_pending(&mut self, container: Option<&str>) {
        for one in &mut self.pending {
            if container.is_none_or(|id| one.is_start_of(id)) && !one.is_aborted() {
                one.give_up("the pod has ended");
            }
        }
    }
}
