//! The server's client of a shim.

use std::{
    ffi::OsString,
    fs::File,
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Interest},
    net::UnixStream,
    process::{Child, ChildStdin, ChildStdout},
};

use crate::{
    shim::{
        SOCKET, SPEC,
        protocol::{self, Exit, Reply, Request, Started},
    },
    spec::SandboxSpec,
};

/// Timeout for starting a shim, and for its responses.
const SHIM_TIMEOUT: Duration = Duration::from_secs(90);

const QUEUE_FULL: Duration = Duration::from_millis(20);

/// The shim program, opened through a descriptor that does not permit writing.
#[derive(Debug)]
pub(crate) struct Program {
    descriptor: OwnedFd,
    path: PathBuf,
    args: Vec<OsString>,
}

impl Program {
    /// Opens the program. `empty` is an empty directory, created if it is missing.
    pub(crate) fn open(path: &Path, args: &[OsString], empty: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(empty)?;
        let descriptor = sys::executable::protected(path, empty)?;
        Ok(Self { descriptor, path: path.to_owned(), args: args.to_vec() })
    }

    fn by_descriptor(&self) -> String {
        format!("/proc/self/fd/{}", self.descriptor.as_raw_fd())
    }
}

/// Client of a pod's shim, identified by the pod's directory.
#[derive(Clone, Debug)]
pub(crate) struct ShimClient {
    folder: PathBuf,
}

/// A reply with the descriptors that were passed with it.
#[derive(Debug)]
pub(crate) struct ShimReply {
    pub(crate) reply: Reply,
    pub(crate) passed: Vec<OwnedFd>,
    rest: UnixStream,
}

impl ShimClient {
    pub(crate) fn at(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Starts a shim, which creates its sandbox. The shim exits with this server unless `StartedShim::keep` is called.
    pub(crate) async fn start(
        folder: &Path,
        program: &Program,
        spec: &SandboxSpec,
    ) -> io::Result<StartedShim> {
        std::fs::write(folder.join(SPEC), serde_json::to_vec(spec)?)?;
        let mut command = tokio::process::Command::new(program.by_descriptor());
        command.env_clear();
        // in a build of tests/coverage/run, coverage counters of the child go where its parent's go
        if option_env!("TIPHYS_COVERAGE").is_some()
            && let Some(file) = std::env::var_os("LLVM_PROFILE_FILE")
        {
            command.env("LLVM_PROFILE_FILE", file);
        }
        let mut child = command
            .arg0(&program.path)
            .args(&program.args)
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(folder.join("shim.log"))?)
            .process_group(0)
            .spawn()?;
        let lifeline = child.stdin.take().expect("piped above");
        let stdout = child.stdout.take().expect("piped above");
        match read_pid(stdout).await {
            Ok(pid) => Ok(StartedShim { pid, child, lifeline }),
            Err(error) => {
                child.kill().await?;
                Err(error)
            }
        }
    }

    /// Sends a request, with descriptors to pass, and reads the first reply. No thread is blocked, because a pod can
    /// make its shim slow.
    pub(crate) async fn request(
        &self,
        request: Request,
        passed: Vec<OwnedFd>,
    ) -> io::Result<ShimReply> {
        let asked = tokio::time::timeout(SHIM_TIMEOUT, async {
            let rest = self.send(&request, passed).await?;
            let mut passed = Vec::new();
            let reply = receive(&rest, &mut passed).await?.ok_or_else(ended)?;
            Ok::<_, io::Error>(ShimReply { reply, passed, rest })
        });
        let answer = asked.await.map_err(|_| slow())??;
        match answer.reply {
            Reply::Failed(message) => Err(io::Error::other(message)),
            _ => Ok(answer),
        }
    }

    async fn send(&self, request: &Request, passed: Vec<OwnedFd>) -> io::Result<UnixStream> {
        let socket = connect(&self.folder).await?;
        let frame = protocol::frame(request)?;
        let borrowed: Vec<_> = passed.iter().map(AsFd::as_fd).collect();
        let first = || sys::descriptor::send_with_fds(socket.as_fd(), &frame, &borrowed);
        let mut sent = socket.async_io(Interest::WRITABLE, first).await?;
        while sent < frame.len() {
            let more = || sys::descriptor::send_with_fds(socket.as_fd(), &frame[sent..], &[]);
            sent += socket.async_io(Interest::WRITABLE, more).await?;
        }
        Ok(socket)
    }

    /// Sends a request that has no result.
    pub(crate) async fn request_done(&self, request: Request) -> io::Result<()> {
        self.request(request, Vec::new()).await.map(drop)
    }

    pub(crate) async fn start_container(&self, id: &str, spec: PathBuf) -> io::Result<Started> {
        let request = Request::Start { id: id.to_owned(), spec };
        match self.request(request, Vec::new()).await?.reply {
            Reply::Started(started) => Ok(started),
            _ => Err(unexpected()),
        }
    }

    /// Waits until a container exits, or the sandbox if `id` is empty.
    pub(crate) async fn wait(&self, id: &str) -> io::Result<Exit> {
        let request = Request::Wait { id: id.to_owned() };
        let socket = tokio::time::timeout(SHIM_TIMEOUT, self.send(&request, Vec::new()));
        next_exit(&socket.await.map_err(|_| slow())??).await
    }
}

/// Reads the first line of a shim's output: the pid of the process that holds the namespaces, or an error.
async fn read_pid(stdout: ChildStdout) -> io::Result<i32> {
    let mut line = String::new();
    let mut reader = BufReader::new(stdout.take(64 << 10));
    let read = reader.read_line(&mut line);
    tokio::time::timeout(SHIM_TIMEOUT, read).await.map_err(|_| slow())??;
    let pid = line.trim().strip_prefix("ready ").and_then(|pid| pid.parse().ok());
    let why = || if line.is_empty() { "the shim ended".to_owned() } else { line.clone() };
    pid.ok_or_else(|| io::Error::other(why()))
}

/// A started shim whose pod is not recorded yet.
#[derive(Debug)]
pub(crate) struct StartedShim {
    /// The process that holds the namespaces.
    pub(crate) pid: i32,
    child: Child,
    lifeline: ChildStdin,
}

impl StartedShim {
    /// Lets the shim outlive this server. Returns its process, which must be waited for.
    pub(crate) async fn keep(mut self) -> io::Result<Child> {
        self.lifeline.write_all(b"\0").await?;
        Ok(self.child)
    }
}

impl ShimReply {
    /// Reads the second reply to an `Exec`: its exit.
    pub(crate) async fn exit(self) -> io::Result<Exit> {
        next_exit(&self.rest).await
    }
}

async fn next_exit(socket: &UnixStream) -> io::Result<Exit> {
    match receive(socket, &mut Vec::new()).await?.ok_or_else(ended)? {
        Reply::Exited(exit) => Ok(exit),
        Reply::Failed(message) => Err(io::Error::other(message)),
        _ => Err(unexpected()),
    }
}

/// Receives the next frame; `None` when the shim has closed the connection.
async fn receive(socket: &UnixStream, passed: &mut Vec<OwnedFd>) -> io::Result<Option<Reply>> {
    let mut head = [0; 4];
    if !fill(socket, &mut head, passed).await? {
        return Ok(None);
    }
    let mut body = vec![0; protocol::length(head)?];
    if !body.is_empty() && !fill(socket, &mut body, passed).await? {
        return Err(ended());
    }
    Ok(Some(serde_json::from_slice(&body)?))
}

/// Fills the buffer. `false` if the peer closed the connection before the first byte.
async fn fill(
    socket: &UnixStream,
    buffer: &mut [u8],
    passed: &mut Vec<OwnedFd>,
) -> io::Result<bool> {
    let mut got = 0;
    while got < buffer.len() {
        let read = || sys::descriptor::receive_with_fds(socket.as_fd(), &mut buffer[got..], passed);
        match socket.async_io(Interest::READABLE, read).await? {
            0 if got == 0 => return Ok(false),
            0 => return Err(ended()),
            more => got += more,
        }
    }
    Ok(true)
}

/// Connects to a shim; retries while its listen queue is full.
async fn connect(folder: &Path) -> io::Result<UnixStream> {
    let place = sys::descriptor::open_path(folder)?;
    let path = format!("/proc/self/fd/{}/{SOCKET}", place.as_raw_fd());
    loop {
        match UnixStream::connect(&path).await {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                tokio::time::sleep(QUEUE_FULL).await;
            }
            connected => return connected,
        }
    }
}

fn slow() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the shim does not respond")
}

fn ended() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the shim has ended")
}

fn unexpected() -> io::Error {
    io::Error::other("unexpected response from the shim")
}
