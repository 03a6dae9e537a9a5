//! Processes beside a container's first: run to their end, or connected to somebody.

use std::{fs, io, time::Duration};

use rustix::pipe::{PipeFlags, pipe_with};
use sys::stdio::Pipe;
use tokio::io::{AsyncRead, AsyncReadExt};
use tonic::Status;

use super::{
    Inner, internal,
    shim::{Answer, Shim},
    state::Container,
};
use crate::{
    cri::{ContainerState, ExecSyncResponse},
    shim::protocol::{Reply, Request},
    spec,
};

/// What an answer may hold of a command's output.
const LONGEST_OUTPUT: u64 = 16 << 20;

/// After a command has ended, what it started may hold its output open.
const DRAIN: Duration = Duration::from_secs(1);

impl Inner {
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
            shim.tell(Request::KillExec { pid }).await.map_err(internal("end the command"))?;
        } // else the shim ends what nobody waits for
        let seconds = limit.as_secs();
        Err(Status::deadline_exceeded(format!(
            "timeout {seconds}s exceeded: context deadline exceeded"
        )))
    }

    pub(super) fn running(&self, id: &str) -> Result<Container, Status> {
        let container = self.state.container(id)?;
        if container.state() == ContainerState::ContainerRunning {
            return Ok(container);
        }
        let state = container.state().as_str_name();
        Err(Status::failed_precondition(format!("container is in {state} state")))
    }

    /// A further process has the rights of the first.
    pub(super) fn process(
        &self,
        container: &Container,
        command: Vec<String>,
        terminal: bool,
    ) -> Result<spec::Process, Status> {
        let path = self.state.container_folder(&container.id).join("config.json");
        let read = fs::read(path).and_then(|bytes| {
            serde_json::from_slice::<spec::Container>(&bytes).map_err(io::Error::from)
        });
        let spec = read.map_err(internal("read the specification"))?;
        if command.is_empty() {
            return Err(Status::invalid_argument("no command specified"));
        }
        Ok(spec::Process { args: command, terminal, ..spec.process })
    }
}

/// A command on its way, with its output.
struct Run {
    pid: i32,
    answer: Answer,
    stdout: Pipe,
    stderr: Pipe,
}

async fn run(shim: &Shim, id: String, process: spec::Process) -> io::Result<Run> {
    let (from_stdout, stdout) = pipe_with(PipeFlags::CLOEXEC)?;
    let (from_stderr, stderr) = pipe_with(PipeFlags::CLOEXEC)?;
    let stdin = sys::descriptor::null()?;
    let answer = shim.ask(Request::Exec { id, process }, vec![stdin, stdout, stderr]).await?;
    let Reply::Started(started) = &answer.reply else {
        return Err(io::Error::other("the shim did not start the command"));
    };
    Ok(Run {
        pid: started.pid,
        answer,
        stdout: Pipe::new(from_stdout)?,
        stderr: Pipe::new(from_stderr)?,
    })
}

impl Run {
    async fn finish(self) -> io::Result<ExecSyncResponse> {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let exit = {
            let read = async {
                tokio::try_join!(
                    collect(self.stdout, &mut stdout),
                    collect(self.stderr, &mut stderr)
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
                let _ = tokio::time::timeout(DRAIN, read).await; // what is there by then is the output
            }
            exit
        };
        Ok(ExecSyncResponse { stdout, stderr, exit_code: exit.code })
    }
}

/// Keeps the beginning of an output; the rest is read all the same, so that the command does not wait for a reader.
async fn collect(mut from: impl AsyncRead + Unpin, into: &mut Vec<u8>) -> io::Result<()> {
    (&mut from).take(LONGEST_OUTPUT).read_to_end(into).await?;
    tokio::io::copy(&mut from, &mut tokio::io::sink()).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn output_is_read_past_what_is_kept() {
        let (from, mut to) = tokio::io::duplex(64 << 10);
        let write = async move {
            let chunk = vec![7; 1 << 20];
            for _ in 0..18 {
                tokio::io::AsyncWriteExt::write_all(&mut to, &chunk).await?;
            }
            Ok::<_, io::Error>(())
        };
        let mut kept = Vec::new();
        let (written, collected) = tokio::join!(write, collect(from, &mut kept));
        written.and(collected).expect("neither side waits for ever");
        assert_eq!(kept.len(), 16 << 20);
    }
}
