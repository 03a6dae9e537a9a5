//! The server's side of a shim.

use std::{
    ffi::OsString,
    fs::File,
    io,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::net::UnixStream,
    },
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};

use crate::{
    shim::{
        SOCKET, SPEC,
        protocol::{self, Exit, Reply, Request, Started},
    },
    spec::Sandbox,
};

/// How long a shim may take to start, or to answer what needs no waiting.
const PATIENCE: Duration = Duration::from_secs(90);

/// A pod's shim, by its folder.
#[derive(Clone, Debug)]
pub(crate) struct Shim {
    folder: PathBuf,
}

/// An answer, with what came along.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) reply: Reply,
    pub(crate) passed: Vec<OwnedFd>,
    rest: UnixStream,
}

impl Shim {
    pub(crate) fn at(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Starts a shim with its sandbox; gives the process id of the namespaces' holder.
    pub(crate) async fn start(
        folder: PathBuf,
        program: &Path,
        args: &[OsString],
        spec: &Sandbox,
    ) -> io::Result<(Self, i32, tokio::process::Child)> {
        std::fs::write(folder.join(SPEC), serde_json::to_vec(spec)?)?;
        let mut child = tokio::process::Command::new(program)
            .args(args)
            .arg(&folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(folder.join("shim.log"))?)
            .process_group(0)
            .spawn()?;
        let stdout = child.stdout.take().expect("piped above");
        let mut line = String::new();
        let mut reader = BufReader::new(stdout.take(64 << 10));
        let read = reader.read_line(&mut line);
        tokio::time::timeout(PATIENCE, read).await.map_err(|_| slow())??;
        if let Some(pid) = line.trim().strip_prefix("ready ").and_then(|pid| pid.parse().ok()) {
            return Ok((Self { folder }, pid, child));
        }
        child.kill().await?;
        Err(io::Error::other(if line.is_empty() { "the shim ended".into() } else { line }))
    }

    /// Asks, with descriptors to pass, and reads the first answer.
    pub(crate) async fn ask(&self, request: Request, passed: Vec<OwnedFd>) -> io::Result<Answer> {
        let folder = self.folder.clone();
        let asked = tokio::task::spawn_blocking(move || {
            let socket = connect(&folder)?;
            socket.set_read_timeout(Some(PATIENCE))?;
            let borrowed: Vec<_> = passed.iter().map(AsFd::as_fd).collect();
            protocol::send(&socket, &request, &borrowed)?;
            drop(passed);
            let mut passed = Vec::new();
            let reply = protocol::receive(&socket, &mut passed)?.ok_or_else(ended)?;
            Ok::<_, io::Error>(Answer { reply, passed, rest: socket })
        });
        let answer = asked.await.map_err(io::Error::other)??;
        match answer.reply {
            Reply::Failed(message) => Err(io::Error::other(message)),
            _ => Ok(answer),
        }
    }

    /// Asks for something that has no result.
    pub(crate) async fn tell(&self, request: Request) -> io::Result<()> {
        self.ask(request, Vec::new()).await.map(drop)
    }

    pub(crate) async fn start_container(&self, id: &str, spec: PathBuf) -> io::Result<Started> {
        let request = Request::Start { id: id.to_owned(), spec };
        match self.ask(request, Vec::new()).await?.reply {
            Reply::Started(started) => Ok(started),
            _ => Err(unexpected()),
        }
    }

    /// Waits until a container ends, or the sandbox if `id` is empty.
    pub(crate) async fn wait(&self, id: &str) -> io::Result<Exit> {
        let socket = {
            let folder = self.folder.clone();
            let request = Request::Wait { id: id.to_owned() };
            let sent = tokio::task::spawn_blocking(move || {
                let socket = connect(&folder)?;
                protocol::send(&socket, &request, &[])?;
                Ok::<_, io::Error>(socket)
            });
            sent.await.map_err(io::Error::other)??
        };
        next_exit(socket).await
    }
}

impl Answer {
    /// The second answer to an `Exec`: how it ended.
    pub(crate) async fn exit(self) -> io::Result<Exit> {
        next_exit(self.rest).await
    }
}

async fn next_exit(socket: UnixStream) -> io::Result<Exit> {
    socket.set_nonblocking(true)?;
    let mut socket = tokio::net::UnixStream::from_std(socket)?;
    let length = socket.read_u32_le().await?;
    let mut body = Vec::new();
    socket.take(u64::from(length).min(1 << 20)).read_to_end(&mut body).await?;
    match serde_json::from_slice(&body)? {
        Reply::Exited(exit) => Ok(exit),
        Reply::Failed(message) => Err(io::Error::other(message)),
        _ => Err(unexpected()),
    }
}

fn connect(folder: &Path) -> io::Result<UnixStream> {
    let place = sys::descriptor::place(folder)?;
    UnixStream::connect(format!("/proc/self/fd/{}/{SOCKET}", place.as_raw_fd()))
}

fn slow() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the shim does not answer")
}

fn ended() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the shim has ended")
}

fn unexpected() -> io::Error {
    io::Error::other("the shim gave an answer to another question")
}
