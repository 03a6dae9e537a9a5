//! A running container, and its output: the log and attached clients.

use std::{
    fs::File,
    io::{self, Read, Write},
    os::{fd::OwnedFd, unix::net::UnixStream},
    time::{Duration, Instant},
};

use rustix::{
    fs::{OFlags, fcntl_getfl, fcntl_setfl},
    pipe::{PipeFlags, pipe_with},
};

use super::{
    log::{Log, PartialLine, Stream},
    log_rate::Pace,
    process::Stdio,
    protocol::{Exit, Reply, Started, Status, send},
    spawn::SpawnedProcess,
};
use crate::spec::ContainerSpec;

const CHUNK: usize = 8 << 10;
/// How many chunks of an output are read after the first process has exited: as much as a pipe holds. The container's
/// processes are dead by then, but another container may have got hold of the pipe and write for ever.
const LAST_CHUNKS: usize = (1 << 20) / CHUNK;

/// A container whose first process was started.
#[derive(Debug)]
pub(super) struct RunningContainer {
    pub(super) spec: ContainerSpec,
    pub(super) pid: i32,
    started: Started,
    pub(super) exit: Option<Exit>,
    pub(super) outputs: Vec<Output>,
    log: Option<Log>,
    pace: Pace,
    stdin: Option<OwnedFd>,
    terminal: Option<OwnedFd>,
    waiters: Vec<UnixStream>,
}

/// One output stream.
#[derive(Debug)]
pub(super) struct Output {
    pub(super) source: File,
    stream: Stream,
    line: PartialLine,
    pub(super) attached: Vec<AttachedClient>,
    /// Number of chunks that are still read once the first process has exited.
    last_chunks: usize,
}

/// A client that is attached to a stream, and the output it has not taken yet.
#[derive(Debug)]
pub(super) struct AttachedClient {
    pub(super) file: File,
    pending: Vec<u8>,
}

/// The shim's ends of a container's standard streams.
#[derive(Debug, Default)]
pub(super) struct Pipes {
    stdin: Option<OwnedFd>,
    outputs: Vec<Output>,
}

impl Pipes {
    /// Creates the pipes; returns our ends and the container's.
    pub(super) fn open(stdin: bool) -> io::Result<(Self, Stdio)> {
        let (from_stdout, stdout) = pipe_with(PipeFlags::CLOEXEC)?;
        let (from_stderr, stderr) = pipe_with(PipeFlags::CLOEXEC)?;
        let (theirs, ours) = if stdin {
            let (theirs, ours) = pipe_with(PipeFlags::CLOEXEC)?;
            (theirs, Some(ours))
        } else {
            (sys::descriptor::null()?, None)
        };
        let outputs = vec![
            Output::new(from_stdout, Stream::Stdout)?,
            Output::new(from_stderr, Stream::Stderr)?,
        ];
        Ok((Self { stdin: ours, outputs }, Stdio { stdin: theirs, stdout, stderr }))
    }
}

impl RunningContainer {
    pub(super) fn new(
        spec: ContainerSpec,
        spawned: SpawnedProcess,
        pipes: Pipes,
        log: Option<Log>,
    ) -> io::Result<Self> {
        let mut outputs = pipes.outputs;
        if let Some(terminal) = &spawned.terminal {
            outputs.push(Output::new(terminal.try_clone()?, Stream::Stdout)?);
        }
        Ok(Self {
            spec,
            pid: spawned.started.pid,
            started: spawned.started,
            exit: None,
            outputs,
            log,
            pace: Pace::new(Instant::now()),
            stdin: pipes.stdin,
            terminal: spawned.terminal,
            waiters: Vec::new(),
        })
    }

    pub(super) fn status(&self) -> Status {
        let running = || Status::Running { pid: self.pid, started: self.started.clone() };
        self.exit.map_or_else(running, Status::Exited)
    }

    /// Replies when the container has exited, possibly at once.
    pub(super) fn wait(&mut self, waiter: UnixStream) {
        match self.exit {
            Some(exit) => answer(&waiter, &Reply::Exited(exit)),
            None => self.waiters.push(waiter),
        }
    }

    /// Records the exit of the first process, and reads its last output.
    pub(super) fn end(&mut self, exit: Exit) {
        self.exit = Some(exit);
        for at in (0..self.outputs.len()).rev() {
            while self.forward_output(at) {}
        }
        (self.stdin, self.terminal) = (None, None);
        for waiter in self.waiters.drain(..) {
            answer(&waiter, &Reply::Exited(exit));
        }
    }

    pub(super) fn reopen_log(&mut self) -> io::Result<()> {
        self.log.as_mut().map_or(Ok(()), Log::reopen)
    }

    /// Attaches a client to the output; returns the container's stdin, or its terminal.
    pub(super) fn attach(
        &mut self,
        stdin: bool,
        writers: Vec<OwnedFd>,
    ) -> io::Result<Option<OwnedFd>> {
        if self.exit.is_some() {
            return Err(io::Error::other("container is not running"));
        }
        for (output, writer) in self.outputs.iter_mut().zip(writers) {
            unblock(&writer)?;
            output.attached.push(AttachedClient { file: writer.into(), pending: Vec::new() });
        }
        if let Some(terminal) = &self.terminal {
            return terminal.try_clone().map(Some);
        }
        if !stdin {
            return Ok(None);
        }
        if self.spec.stdin_once {
            return Ok(self.stdin.take()); // the container sees EOF when this client closes it
        }
        self.stdin.as_ref().map(OwnedFd::try_clone).transpose()
    }

    /// How long the output is not read, because the log grows too fast; `None` if it is read.
    pub(super) fn pause(&self, now: Instant) -> Option<Duration> {
        self.log.as_ref().and_then(|_| self.pace.pause(now))
    }

    /// Forwards one chunk of output. `false` if there is none now; at the end of file the stream is removed.
    pub(super) fn forward_output(&mut self, at: usize) -> bool {
        let mut buffer = [0; CHUNK];
        let has_ended = self.exit.is_some();
        if !has_ended && self.pause(Instant::now()).is_some() {
            return false;
        }
        let Some(output) = self.outputs.get_mut(at) else { return false };
        if !output.attached.is_empty() && !output.flush() {
            return false;
        }
        match output.source.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && !has_ended => return false,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return true,
            // a terminal reports its end as an error
            Ok(0) | Err(_) => {}
            Ok(got) => {
                if let Some(log) = &mut self.log {
                    let (size, written) =
                        log.write(output.stream, &mut output.line, &buffer[..got]);
                    written.unwrap_or_else(|error| report_log_error(&error));
                    self.pace.spend(size, Instant::now());
                }
                output.broadcast(&buffer[..got]);
                output.last_chunks -= usize::from(has_ended);
                if output.last_chunks > 0 {
                    return true;
                }
            }
        }
        self.close(at);
        false
    }

    fn close(&mut self, at: usize) {
        let mut output = self.outputs.remove(at);
        if let Some(log) = &mut self.log {
            log.finish(output.stream, &mut output.line)
                .unwrap_or_else(|error| report_log_error(&error));
        }
    }
}

impl Output {
    fn new(source: OwnedFd, stream: Stream) -> io::Result<Self> {
        unblock(&source)?;
        let (line, attached) = (PartialLine::default(), Vec::new());
        let last_chunks = LAST_CHUNKS;
        Ok(Self { source: source.into(), stream, line, attached, last_chunks })
    }

    /// Sends pending output; returns whether all attached clients have taken everything. Disconnected clients are
    /// removed.
    pub(super) fn flush(&mut self) -> bool {
        self.attached.retain_mut(AttachedClient::flush);
        self.attached.iter().all(|one| one.pending.is_empty())
    }

    fn broadcast(&mut self, bytes: &[u8]) {
        for one in &mut self.attached {
            one.pending.extend_from_slice(bytes);
        }
        self.flush();
    }
}

impl AttachedClient {
    pub(super) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Sends pending output; returns whether the client is still connected.
    fn flush(&mut self) -> bool {
        while !self.pending.is_empty() {
            match self.file.write(&self.pending) {
                Ok(sent) => drop(self.pending.drain(..sent)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        true
    }
}

/// Sends a reply; errors are ignored, because the peer may have disconnected.
pub(super) fn answer(to: &UnixStream, reply: &Reply) {
    let _ = send(to, reply, &[]);
}

fn unblock(fd: &OwnedFd) -> io::Result<()> {
    Ok(fcntl_setfl(fd, fcntl_getfl(fd)? | OFlags::NONBLOCK)?)
}

/// Reports a failed write to the log. A full disk must not stop the container.
fn report_log_error(error: &io::Error) {
    eprintln!("write the log: {error}");
}
