//! A process on its way to be a container's: it is followed by what it reports until it runs its program.
//!
//! ```text
//!  shim ──fork──► set-up process: namespaces, root, user; Ready, and its terminal; filter, rights
//!                   │ in a pid namespace with others in it: fork, as a child of the shim; the kernel notes its number
//!                   ▼
//!                 the container's process: session, exec; Failed if that fails
//! ```
//!
//! The exec closes the socket, which ends the set-up. A process that other processes of the container could inspect is
//! forked only after the set-up process has the capabilities and the seccomp filter of the container, and has closed all other descriptors.

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

/// Mounts of a dead network file system may hang; then the container fails, not the pod.
const LONGEST: Duration = Duration::from_mins(1);
/// A report is sent in one piece; who stops in the middle of it is stuck.
const LONGEST_REPORT: Duration = Duration::from_secs(2);
/// Of an error: it may quote a command of any length.
const LONGEST_ERROR: usize = 4 << 10;

/// What a new process says before it becomes the program.
#[derive(Debug, Serialize, Deserialize)]
enum InitReport {
    /// All is prepared. The terminal comes along, if there is one.
    Ready(Started),
    Failed(String),
}

/// The child's end.
#[derive(Debug)]
pub(super) struct Reporter {
    socket: UnixStream,
    process: SharedPid,
}

/// The shim's end.
#[derive(Debug)]
pub(super) struct Birth {
    reports: UnixStream,
    deadline: Instant,
    /// Those that have not been waited for yet.
    set_up: Option<i32>,
    /// The process that runs the program, if it is not the one that was forked.
    forked: Forked,
    /// How the process ended, if it was that quick.
    exit: Option<Exit>,
    pid: i32,
    started: Option<Started>,
    passed: Vec<OwnedFd>,
    aborted: bool,
}

/// The second process of a birth.
#[derive(Debug)]
enum Forked {
    /// There will be none.
    Never,
    /// The kernel notes its number when it is made.
    Noted(SharedPid),
    /// It has been waited for.
    Ended(i32),
}

impl Forked {
    fn running(&self) -> Option<i32> {
        if let Self::Noted(pid) = self { pid.get() } else { None }
    }
}

/// A process that runs its program, or has.
#[derive(Debug)]
pub(super) struct SpawnedProcess {
    pub(super) started: Started,
    pub(super) terminal: Option<OwnedFd>,
    pub(super) exit: Option<Exit>,
}

impl Birth {
    /// A new process, in new namespaces of these kinds. `child` returns what went wrong. If it
    /// `forks`, the process that it forks runs the program.
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

    /// Readable when there is something to `hear`.
    pub(super) fn reports(&self) -> BorrowedFd<'_> {
        self.reports.as_fd()
    }

    /// How long it may still take.
    pub(super) fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Reads the next report. `Some` when it is decided.
    pub(super) fn hear(&mut self) -> Option<Result<SpawnedProcess, String>> {
        match protocol::receive::<InitReport>(&self.reports, &mut self.passed) {
            // Later reports may come from whoever traces the process.
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

    /// Takes note that a process has ended and was waited for. `false` if it is none of this birth's.
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

    /// The process that runs the program, if it has been made.
    fn pid(&self) -> Option<i32> {
        match &self.forked {
            Forked::Never => Some(self.pid),
            Forked::Noted(pid) => pid.get(),
            Forked::Ended(pid) => Some(*pid),
        }
    }

    /// Ends what has begun. The shim waits for it like for every child.
    pub(super) fn abort(&mut self) {
        self.aborted = true;
        for pid in self.set_up.into_iter().chain(self.forked.running()) {
            let _ = process::kill(pid, 9); // not waited for, so it is still that process
        }
    }

    /// Whether a process of it is still to be waited for.
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
        // who has gone sees the end of the stream
        let _ = protocol::send(&self.socket, &InitReport::Failed(error), &[]);
        1
    }

    /// Where the number of the container's process is noted.
    pub(super) fn process(&self) -> &SharedPid {
        &self.process
    }
}

impl AsFd for Reporter {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
