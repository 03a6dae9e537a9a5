//! A process on its way to be a container's: it is followed by what it reports until it runs its program.
//!
//! ```text
//!  shim ──fork──► set-up process: namespaces, root, user, rights; Ready, and its terminal
//!                   │ in a pid namespace with others in it: fork, as a child of the shim; Process(pid)
//!                   ▼
//!                 the container's process: session, filter, exec; Failed if that fails
//! ```
//!
//! The socket is closed by the exec, and with it the set-up has ended. A process that others in a container could
//! look at is not born before it has the container's rights and holds nothing but its own descriptors.

use std::{
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
    time::{Duration, Instant},
};

use rustix::pipe::{PipeFlags, pipe_with};
use serde::{Deserialize, Serialize};
use sys::process;

use super::{
    protocol::{self, Exit, Started},
    root::Doing,
};

/// Mounts of a dead network file system may hang; then the container fails, not the pod.
const LONGEST: Duration = Duration::from_mins(1);
/// A report is sent in one piece; who stops in the middle of it is stuck.
const LONGEST_REPORT: Duration = Duration::from_secs(2);
/// Of an error: it may quote a command of any length.
const LONGEST_ERROR: usize = 4 << 10;

/// What a new process says before it becomes the program.
#[derive(Debug, Serialize, Deserialize)]
enum Report {
    /// All is prepared. The terminal comes along, if there is one.
    Ready(Started),
    /// The process that runs the program, if it is not the one that was forked.
    Process(i32),
    Failed(String),
}

/// The child's end.
#[derive(Debug)]
pub(super) struct Reporter(UnixStream);

/// The shim's end.
#[derive(Debug)]
pub(super) struct Birth {
    reports: UnixStream,
    deadline: Instant,
    /// Those that have not been waited for yet.
    set_up: Option<i32>,
    process: Option<i32>,
    /// How the process ended, if it was that quick.
    exit: Option<Exit>,
    pid: i32,
    started: Option<Started>,
    passed: Vec<OwnedFd>,
}

/// A process that runs its program, or has.
#[derive(Debug)]
pub(super) struct Born {
    pub(super) started: Started,
    pub(super) terminal: Option<OwnedFd>,
    pub(super) exit: Option<Exit>,
}

impl Birth {
    /// A new process, in new namespaces of these kinds. `child` returns what went wrong.
    pub(super) fn begin(new: i32, child: impl FnOnce(&Reporter) -> String) -> Result<Self, String> {
        let (reports, theirs) = UnixStream::pair().doing(|| "make a report".into())?;
        reports.set_read_timeout(Some(LONGEST_REPORT)).doing(|| "make a report".into())?;
        let reporter = Reporter(theirs);
        let pid = process::fork(new, || reporter.fail(child(&reporter))).doing(|| "fork".into())?;
        Ok(Self {
            reports,
            deadline: Instant::now() + LONGEST,
            set_up: Some(pid),
            process: None,
            exit: None,
            pid,
            started: None,
            passed: Vec::new(),
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
    pub(super) fn hear(&mut self) -> Option<Result<Born, String>> {
        match protocol::receive::<Report>(&self.reports, &mut self.passed) {
            Ok(Some(Report::Ready(started))) => self.started = Some(started),
            Ok(Some(Report::Process(pid))) => (self.pid, self.process) = (pid, Some(pid)),
            Ok(Some(Report::Failed(error))) => return Some(Err(error)),
            Err(error) => return Some(Err(format!("read a report: {error}"))),
            Ok(None) => {
                let started = self.started.take().ok_or("the process ended before it began".into());
                return Some(started.map(|started| Born {
                    started: Started { pid: self.pid, ..started },
                    terminal: self.passed.pop(),
                    exit: self.exit,
                }));
            }
        }
        None
    }

    /// Takes note that a process has ended and was waited for. `false` if it is none of this birth's.
    pub(super) fn ended(&mut self, pid: i32, exit: Exit) -> bool {
        let ours = self.set_up == Some(pid) || self.process == Some(pid);
        if pid == self.pid && ours {
            self.exit = Some(exit);
        }
        self.set_up.take_if(|one| *one == pid);
        self.process.take_if(|one| *one == pid);
        ours
    }

    /// Ends what has begun. The shim waits for it like for every child.
    pub(super) fn abort(&self) {
        for pid in self.set_up.iter().chain(&self.process) {
            let _ = process::kill(*pid, 9); // not waited for, so it is still that process
        }
    }

    /// Whether a process of it is still to be waited for.
    pub(super) fn lives(&self) -> bool {
        self.set_up.is_some() || self.process.is_some()
    }
}

impl Reporter {
    pub(super) fn ready(&self, started: Started, terminal: Option<&OwnedFd>) -> io::Result<()> {
        let passed: Vec<_> = terminal.iter().map(|fd| fd.as_fd()).collect();
        protocol::send(&self.0, &Report::Ready(started), &passed)
    }

    fn fail(&self, mut error: String) -> i32 {
        error.truncate(error.floor_char_boundary(LONGEST_ERROR));
        // who has gone sees the end of the stream
        let _ = protocol::send(&self.0, &Report::Failed(error), &[]);
        1
    }

    /// Runs `last` in a new process that is the shim's child and holds nothing but its standard descriptors and
    /// this socket. Returns what went wrong, or ends this process.
    pub(super) fn hand_over(&self, last: impl FnOnce() -> String) -> String {
        let begin = || -> io::Result<OwnedFd> {
            let (wait, go) = pipe_with(PipeFlags::CLOEXEC)?;
            process::close_others_now(&[self.0.as_fd(), wait.as_fd(), go.as_fd()])?;
            let pid = process::fork_sibling(|| {
                // Closed at once, so that the end of the set-up process is seen.
                if process::close_others_now(&[self.0.as_fd(), wait.as_fd()]).is_err() {
                    return 1;
                }
                // The shim must know of this process before it does anything.
                match rustix::io::read(&wait, &mut [0; 1]) {
                    Ok(1) => self.fail(last()),
                    _ => 1,
                }
            })?;
            protocol::send(&self.0, &Report::Process(pid), &[])?;
            Ok(go)
        };
        match begin().and_then(|go| Ok(rustix::io::write(&go, b"\0")?)) {
            Ok(_) => process::end(0),
            Err(error) => format!("start the process: {error}"),
        }
    }
}

impl AsFd for Reporter {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
