//! Starting a container process: the shim follows its reports until it executes its program.
//!
//! ```text
//!  shim ──fork──► set-up process: namespaces, root, user; reports Ready, with its terminal; seccomp, capabilities
//!                   │ in a shared PID namespace: fork, as a child of the shim; the kernel stores its pid
//!                   ▼
//!                 the container's process: session, exec; Failed if that fails
//! ```
//!
//! The exec closes the socket, which ends the set-up. A process that other processes of the container could inspect is
//! forked only after the set-up process has the capabilities and the seccomp filter of the container, and has closed
//! all other descriptors.

use std::{
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use sys::{process, seccomp_exemption::SharedPid};

use super::{
    protocol::{self, Exit, Started},
    root::ErrorContext,
};

/// Start timeout of a container. A mount from an unreachable network file system can block for ever; after this time
/// the container fails to start, and the shim goes on serving the pod's other containers.
const LONGEST: Duration = Duration::from_mins(1);
/// Timeout for reading a report. It is sent in one piece, so a sender that stops in the middle is stuck.
const LONGEST_REPORT: Duration = Duration::from_secs(2);
/// Maximum length of an error, which may quote a command of any length.
const LONGEST_ERROR: usize = 4 << 10;

/// What a new process reports before it executes the program.
#[derive(Debug, Serialize, Deserialize)]
enum InitReport {
    /// The set-up is complete. The terminal is passed along, if there is one.
    Ready(Started),
    Failed(String),
}

/// The child's end of the connection.
#[derive(Debug)]
pub(super) struct Reporter {
    socket: UnixStream,
    process: SharedPid,
}

/// The shim's end: a process that is being started.
#[derive(Debug)]
pub(super) struct Birth {
    reports: UnixStream,
    deadline: Instant,
    /// The set-up process, until it has been reaped.
    set_up: Option<i32>,
    /// The process that executes the program, if it is not the set-up process.
    forked: Forked,
    /// The exit of the process, if it has already exited.
    exit: Option<Exit>,
    pid: i32,
    started: Option<Started>,
    passed: Vec<OwnedFd>,
    aborted: bool,
}

/// The second process of a start.
#[derive(Debug)]
enum Forked {
    /// There is no second process.
    Never,
    /// The kernel stores its pid when it is forked.
    Noted(SharedPid),
    /// It has been reaped.
    Ended(i32),
}

impl Forked {
    fn running(&self) -> Option<i32> {
        if let Self::Noted(pid) = self { pid.get() } else { None }
    }
}

/// A process that executes its program, or has exited.
#[derive(Debug)]
pub(super) struct SpawnedProcess {
    pub(super) started: Started,
    pub(super) terminal: Option<OwnedFd>,
    pub(super) exit: Option<Exit>,
}

impl Birth {
    /// Forks the set-up process, in new namespaces of the given kinds. `child` returns only on failure, with the error.
    /// If `forks` is set, a process that it forks executes the program.
    pub(super) fn begin(
        new: i32,
        forks: bool,
        child: impl FnOnce(&Reporter) -> String,
    ) -> Result<Self, String> {
        let (reports, theirs) = UnixStream::pair().doing(|| "make a report".into())?;
        reports.set_read_timeout(Some(LONGEST_REPORT)).doing(|| "make a report".into())?;
        let process = SharedPid::new().doing(|| "make a report".into())?;
        let reporter = Reporter { socket: theirs, process };
        let pid = process::fork(new, || reporter.fail(child(&reporter))).doing(|| "fork".into())?;
        let forked = if forks { Forked::Noted(reporter.process) } else { Forked::Never };
        Ok(Self {
            reports,
            deadline: Instant::now() + LONGEST,
            set_up: Some(pid),
            forked,
            exit: None,
            pid,
            started: None,
            passed: Vec::new(),
            aborted: false,
        })
    }

    /// The descriptor that becomes readable when there is a report to `hear`.
    pub(super) fn reports(&self) -> BorrowedFd<'_> {
        self.reports.as_fd()
    }

    /// Time until the start is given up.
    pub(super) fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Reads the next report. `Some` when the start has succeeded or failed.
    pub(super) fn hear(&mut self) -> Option<Result<SpawnedProcess, String>> {
        match protocol::receive::<InitReport>(&self.reports, &mut self.passed) {
            // A second report may come from a process of the container that traces this one.
            Ok(Some(InitReport::Ready(_))) if self.started.is_some() => {
                return Some(Err("the process reported twice".into()));
            }
            Ok(Some(InitReport::Ready(started))) => self.started = Some(started),
            Ok(Some(InitReport::Failed(mut error))) => {
                error.truncate(error.floor_char_boundary(LONGEST_ERROR));
                return Some(Err(error));
            }
            Err(error) => return Some(Err(format!("read a report: {error}"))),
            Ok(None) => {
                let pid = self.pid();
                let started = self.started.take().zip(pid);
                let started = started.ok_or("the process ended before it began".into());
                return Some(started.map(|(started, pid)| SpawnedProcess {
                    started: Started { pid, ..started },
                    terminal: self.passed.pop(),
                    exit: self.exit,
                }));
            }
        }
        None
    }

    /// Records that a process was reaped. `false` if it does not belong to this start.
    pub(super) fn ended(&mut self, pid: i32, exit: Exit) -> bool {
        let is_forked = self.forked.running() == Some(pid);
        let ours = self.set_up == Some(pid) || is_forked;
        if ours && self.pid() == Some(pid) {
            self.exit = Some(exit);
        }
        self.set_up.take_if(|one| *one == pid);
        if is_forked {
            self.forked = Forked::Ended(pid);
        } else if ours && self.aborted {
            self.abort(); // it may have forked before it died
        }
        ours
    }

    /// The pid of the process that executes the program, if it exists already.
    fn pid(&self) -> Option<i32> {
        match &self.forked {
            Forked::Never => Some(self.pid),
            Forked::Noted(pid) => pid.get(),
            Forked::Ended(pid) => Some(*pid),
        }
    }

    /// Kills the processes of this start. The shim reaps them like every child.
    pub(super) fn abort(&mut self) {
        self.aborted = true;
        for pid in self.set_up.into_iter().chain(self.forked.running()) {
            let _ = process::kill(pid, 9); // not reaped yet, so the pid is not reused
        }
    }

    /// Whether a process is still to be reaped.
    pub(super) fn lives(&self) -> bool {
        self.set_up.is_some() || self.forked.running().is_some()
    }
}

impl Reporter {
    pub(super) fn ready(&self, started: Started, terminal: Option<&OwnedFd>) -> io::Result<()> {
        let passed: Vec<_> = terminal.iter().map(|fd| fd.as_fd()).collect();
        protocol::send(&self.socket, &InitReport::Ready(started), &passed)
    }

    pub(super) fn fail(&self, mut error: String) -> i32 {
        error.truncate(error.floor_char_boundary(LONGEST_ERROR));
        // if the shim has gone, the error is lost
        let _ = protocol::send(&self.socket, &InitReport::Failed(error), &[]);
        1
    }

    /// Where the pid of the container's process is stored.
    pub(super) fn process(&self) -> &SharedPid {
        &self.process
    }
}

impl AsFd for Reporter {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
