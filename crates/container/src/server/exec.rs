//! Exec: further processes in a container. `ExecSync` runs them to completion.

use std::{
    fs, io,
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use rustix::pipe::{PipeFlags, pipe_with};
use sys::stdio::StdioStream;
use tokio::io::{AsyncRead, AsyncReadExt};
use tonic::Status;

use super::{
    Inner, internal,
    shim::{ShimClient, ShimReply},
    state::ContainerRecord,
};
use crate::{
    cri::{ContainerState, ExecSyncResponse},
    shim::{
        log_rate::Pace,
        protocol::{Reply, Request},
    },
    spec,
};

/// Maximum output of a command that a response contains.
const LONGEST_OUTPUT: usize = 16 << 20;

/// Maximum output of all running commands together; beyond that, each keeps `SHORTEST_OUTPUT`.
const LONGEST_OF_ALL: usize = 256 << 20;
const SHORTEST_OUTPUT: usize = 64 << 10;

/// How long to wait for the rest of the output after a command has exited; its children may keep the pipe open.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

impl Inner {
    /// Runs a command in a container and returns its output and exit code.
    pub(super) async fn exec_sync(
        &self,
        id: &str,
        command: Vec<String>,
        timeout: i64,
    ) -> Result<ExecSyncResponse, Status> {
        let container = self.running(id)?;
        let process = self.process(&container, command, false)?;
        let shim = self.shim(&container.sandbox);
        let seconds = u64::try_from(timeout).ok().filter(|seconds| *seconds > 0);
        let limit = seconds.map_or(Duration::MAX, Duration::from_secs);
        let mut pid = None;
        let done = tokio::time::timeout(limit, async {
            let run = run(&shim, container.id, process).await?;
            pid = Some(run.pid);
            run.finish().await
        });
        if let Ok(done) = done.await {
            return done.map_err(internal("exec"));
        }
        if let Some(pid) = pid {
            shim.request_done(Request::KillExec { pid })
                .await
                .map_err(internal("end the command"))?;
        } // otherwise the shim kills it when the connection closes
        let seconds = limit.as_secs();
        Err(Status::deadline_exceeded(format!(
            "timeout {seconds}s exceeded: context deadline exceeded"
        )))
    }

    pub(super) fn running(&self, id: &str) -> Result<ContainerRecord, Status> {
        let container = self.state.container(id)?;
        if container.state() == ContainerState::ContainerRunning {
            return Ok(container);
        }
        let state = container.state().as_str_name();
        Err(Status::failed_precondition(format!("container is in {state} state")))
    }

    /// The process of an exec: like the container's first process, with another command.
    pub(super) fn process(
        &self,
        container: &ContainerRecord,
        command: Vec<String>,
        terminal: bool,
    ) -> Result<spec::Process, Status> {
        let path = self.state.container_folder(&container.id).join("config.json");
        let read = fs::read(path).and_then(|bytes| {
            serde_json::from_slice::<spec::ContainerSpec>(&bytes).map_err(io::Error::from)
        });
        let spec = read.map_err(internal("read the specification"))?;
        if command.is_empty() {
            return Err(Status::invalid_argument("no command specified"));
        }
        Ok(spec::Process { args: command, terminal, ..spec.process })
    }
}

/// A running command with its output.
struct SyncExec {
    pid: i32,
    answer: ShimReply,
    stdout: StdioStream,
    stderr: StdioStream,
}

async fn run(shim: &ShimClient, id: String, process: spec::Process) -> io::Result<SyncExec> {
    let (from_stdout, stdout) = pipe_with(PipeFlags::CLOEXEC)?;
    let (from_stderr, stderr) = pipe_with(PipeFlags::CLOEXEC)?;
    let stdin = sys::descriptor::null()?;
    let answer = shim.request(Request::Exec { id, process }, vec![stdin, stdout, stderr]).await?;
    let Reply::Started(started) = &answer.reply else {
        return Err(io::Error::other("the shim did not start the command"));
    };
    Ok(SyncExec {
        pid: started.pid,
        answer,
        stdout: StdioStream::new(from_stdout)?,
        stderr: StdioStream::new(from_stderr)?,
    })
}

impl SyncExec {
    async fn finish(self) -> io::Result<ExecSyncResponse> {
        let (mut stdout, mut stderr) = (Kept::new(&LEFT), Kept::new(&LEFT));
        let exit = {
            let read = async {
                tokio::try_join!(
                    read_capped(self.stdout, &mut stdout),
                    read_capped(self.stderr, &mut stderr)
                )
            };
            let ended = self.answer.exit();
            tokio::pin!(read, ended);
            let mut drained = false;
            let exit = loop {
                tokio::select! {
                    exit = &mut ended => break exit?,
                    done = &mut read, if !drained => { done?; drained = true; }
                }
            };
            if !drained {
                let _ = tokio::time::timeout(DRAIN_TIMEOUT, read).await; // output after this time is dropped
            }
            exit
        };
        let [stdout, stderr] =
            [&mut stdout, &mut stderr].map(|kept| std::mem::take(&mut kept.bytes));
        Ok(ExecSyncResponse { stdout, stderr, exit_code: exit.code })
    }
}

/// Remaining memory for outputs.
static LEFT: AtomicUsize = AtomicUsize::new(LONGEST_OF_ALL);

/// The beginning of a command's output, within the limits.
struct Kept<'a> {
    bytes: Vec<u8>,
    /// Bytes that were subtracted from `left`.
    taken: usize,
    left: &'a AtomicUsize,
    /// Whether output was dropped; then all further output is dropped too.
    is_full: bool,
}

impl<'a> Kept<'a> {
    fn new(left: &'a AtomicUsize) -> Self {
        Self { bytes: Vec::new(), taken: 0, left, is_full: false }
    }

    fn add(&mut self, chunk: &[u8]) {
        let fits = LONGEST_OUTPUT.saturating_sub(self.bytes.len()).min(chunk.len());
        let order = Ordering::Relaxed;
        let is_free = self.bytes.len() + fits <= SHORTEST_OUTPUT;
        if self.is_full {
            return;
        }
        if !is_free {
            let taken = self.left.fetch_update(order, order, |left| left.checked_sub(fits));
            self.taken += if taken.is_ok() { fits } else { 0 };
            self.is_full = taken.is_err();
        }
        if !self.is_full {
            self.bytes.extend_from_slice(&chunk[..fits]);
        }
    }
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        self.left.fetch_add(self.taken, Ordering::Relaxed);
    }
}

/// Keeps the beginning of the output. The rest is read and dropped, so that the command does not block on a full pipe;
/// but not faster than a log, because a command that writes without end would use up the CPUs of the node.
async fn read_capped(mut from: impl AsyncRead + Unpin, into: &mut Kept<'_>) -> io::Result<()> {
    let mut chunk = vec![0; 64 << 10];
    let mut pace = Pace::new(Instant::now());
    loop {
        if let Some(pause) = pace.pause(Instant::now()) {
            tokio::time::sleep(pause).await;
        }
        match from.read(&mut chunk).await? {
            0 => return Ok(()),
            got => {
                pace.spend(got, Instant::now());
                into.add(&chunk[..got]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn output_is_read_past_what_is_kept() {
        let (from, mut to) = tokio::io::duplex(64 << 10);
        let write = async move {
            let chunk = vec![7; 1 << 20];
            for _ in 0..24 {
                tokio::io::AsyncWriteExt::write_all(&mut to, &chunk).await?;
            }
            Ok::<_, io::Error>(())
        };
        let left = AtomicUsize::new(100 << 20);
        let began = Instant::now();
        let mut kept = Kept::new(&left);
        let (written, collected) = tokio::join!(write, read_capped(from, &mut kept));
        written.and(collected).expect("neither side waits for ever");
        assert_eq!(kept.bytes.len(), 16 << 20);
        // a burst of 16 MiB, then 4 MiB per second
        assert!(began.elapsed() > Duration::from_millis(1500), "{:?}", began.elapsed());
    }

    /// A hundred probes with 16 MiB of output each must not exhaust the node's memory.
    #[test]
    fn all_outputs_together_are_bounded() {
        let left = AtomicUsize::new(1 << 20);
        let mut all: Vec<_> = (0..100).map(|_| Kept::new(&left)).collect();
        for kept in &mut all {
            for _ in 0..1000 {
                kept.add(&[7; 4096]);
            }
            assert!(kept.bytes.len() >= SHORTEST_OUTPUT, "each keeps something");
        }
        let total: usize = all.iter().map(|kept| kept.bytes.len()).sum();
        assert!(total <= (1 << 20) + 100 * SHORTEST_OUTPUT, "{total}");
        drop(all);
        assert_eq!(left.into_inner(), 1 << 20);
    }
}
