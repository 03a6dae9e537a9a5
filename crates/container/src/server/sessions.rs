//! Exec, attach and port-forward sessions: streams between a client and a process.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    os::fd::OwnedFd,
    path::PathBuf,
    sync::{Arc, Weak},
    time::Duration,
};

use rustix::{
    net::{AddressFamily, SocketFlags, SocketType, socket_with},
    pipe::{PipeFlags, pipe_with},
};
use sys::stdio::StdioStream;
use tokio::{
    io::{AsyncWriteExt, copy},
    net::{TcpSocket, TcpStream},
};
use tonic::Status;

use super::{Inner, internal};
use crate::{
    cri,
    shim::protocol::Request,
    streaming::{
        self, AttachRequest, BoxFuture, Duplex, Error, ExecRequest, ExitStatus, Input, Output,
        PortForwardRequest, SessionIo,
    },
};

/// How long to wait for the rest of the output after a command has exited; its children may keep the pipe open.
const DRAIN: Duration = Duration::from_secs(1);
const CONNECT: Duration = Duration::from_secs(10);

/// Handles the sessions of the streaming server.
#[derive(Debug)]
pub(super) struct SessionHandler(pub(super) Weak<Inner>);

impl Inner {
    fn streaming(&self) -> &streaming::Server {
        self.streaming.get().expect("set when the server was built")
    }

    pub(super) fn exec_url(&self, request: cri::ExecRequest) -> Result<String, Status> {
        let container = self.running(&request.container_id)?;
        let (namespace, container_id) = (self.namespace_of(&container.sandbox), container.id);
        let cri::ExecRequest { cmd, tty, stdin, stdout, stderr, .. } = request;
        let request = ExecRequest { namespace, container_id, cmd, tty, stdin, stdout, stderr };
        self.streaming()
            .url_for_exec(request)
            .map_err(|error| Status::invalid_argument(error.to_string()))
    }

    pub(super) fn attach_url(&self, request: &cri::AttachRequest) -> Result<String, Status> {
        let container = self.running(&request.container_id)?;
        let (namespace, container_id) = (self.namespace_of(&container.sandbox), container.id);
        let cri::AttachRequest { tty, stdin, stdout, stderr, .. } = *request;
        let request = AttachRequest { namespace, container_id, tty, stdin, stdout, stderr };
        self.streaming()
            .url_for_attach(request)
            .map_err(|error| Status::invalid_argument(error.to_string()))
    }

    pub(super) fn port_forward_url(
        &self,
        request: &cri::PortForwardRequest,
    ) -> Result<String, Status> {
        let sandbox = self.state.sandbox(&request.pod_sandbox_id)?;
        if !sandbox.ready {
            return Err(Status::failed_precondition("sandbox is not running"));
        }
        let ports = request.port.iter().map(|port| u16::try_from(*port));
        let ports = ports.collect::<Result<_, _>>();
        let ports = ports.map_err(|_| Status::invalid_argument("no port has such a number"))?;
        let namespace = self.namespace_of(&sandbox.id);
        let request = PortForwardRequest { namespace, sandbox_id: sandbox.id, ports };
        self.streaming()
            .url_for_port_forward(request)
            .map_err(|error| Status::unavailable(error.to_string()))
    }

    /// The namespace of the pod of a sandbox.
    fn namespace_of(&self, sandbox: &str) -> String {
        let sandbox = self.state.sandbox(sandbox).ok();
        let metadata = sandbox.and_then(|sandbox| sandbox.config?.metadata);
        metadata.map(|metadata| metadata.namespace).unwrap_or_default()
    }

    async fn exec_session(
        &self,
        request: ExecRequest,
        io: SessionIo,
    ) -> Result<ExitStatus, Status> {
        let container = self.running(&request.container_id)?;
        let process = self.process(&container, request.cmd, request.tty)?;
        let (ends, passed) = if request.tty {
            (StdioEnds::default(), Vec::new())
        } else {
            pipes(io.stdin.is_some()).map_err(internal("exec"))?
        };
        let ask = Request::Exec { id: container.id, process };
        let mut answer =
            self.shim(&container.sandbox).request(ask, passed).await.map_err(internal("exec"))?;
        let ends = match answer.passed.pop() {
            Some(terminal) => StdioEnds::terminal(terminal).map_err(internal("exec"))?,
            None => ends,
        };
        let exit = ends.connect(io, answer.exit(), Leave::Never).await.map_err(internal("exec"))?;
        Ok(ExitStatus(exit.map_or(0, |exit| exit.code)))
    }

    async fn attach_session(&self, request: AttachRequest, io: SessionIo) -> Result<(), Status> {
        let container = self.running(&request.container_id)?;
        let (mut ends, mut passed) = pipes(false).map_err(internal("attach"))?;
        passed.remove(0); // no stdin is passed; the shim returns the container's own
        let ask = Request::Attach { id: container.id.clone(), stdin: request.stdin };
        let mut answer =
            self.shim(&container.sandbox).request(ask, passed).await.map_err(internal("attach"))?;
        if let Some(input) = answer.passed.pop() {
            let input = StdioStream::new(input).map_err(internal("attach"))?;
            if container.config().tty {
                ends.terminal = Some(input.clone());
            }
            ends.stdin = Some(input);
        }
        let ended = async {
            self.state.wait_until_stopped(&container.id).await;
            Ok(())
        };
        // Where the end of the client's input does not close the container's stdin, it is how the client detaches.
        let once = container.config().stdin_once && !container.config().tty;
        let when = if once { Leave::Never } else { Leave::WithInput };
        ends.connect(io, ended, when).await.map(drop).map_err(internal("attach"))
    }

    async fn forward(
        &self,
        sandbox: &str,
        port: u16,
        mut stream: Box<dyn Duplex>,
    ) -> Result<(), Status> {
        let seat = self.forwarded.take(&self.namespace_of(sandbox));
        let _seat = seat.map_err(|error| Status::resource_exhausted(error.to_string()))?;
        let path = self.state.sandbox(sandbox)?.netns();
        let to = |ip: IpAddr| connect(path.clone(), SocketAddr::new(ip, port));
        let socket = match to(Ipv4Addr::LOCALHOST.into()).await {
            Err(first) => to(Ipv6Addr::LOCALHOST.into()).await.map_err(|_| first),
            connected => connected,
        };
        let mut socket = socket.map_err(internal(&format!("connect to port {port}")))?;
        tokio::io::copy_bidirectional(&mut stream, &mut socket)
            .await
            .map_err(internal("forward"))?;
        Ok(())
    }
}

/// Connects from inside a network namespace. Only the socket is created there; connecting is asynchronous and blocks no
/// thread, however long the pod takes.
async fn connect(namespace: PathBuf, to: SocketAddr) -> io::Result<TcpStream> {
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = crate::threads::run(move || {
        sys::namespace::run_in_network_namespace(&namespace, move || {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            Ok(socket_with(family, SocketType::STREAM, flags, None)?)
        })
    });
    let socket = TcpSocket::from_std_stream(socket.await??.into());
    let late = |_| io::Error::from(io::ErrorKind::TimedOut);
    tokio::time::timeout(CONNECT, socket.connect(to)).await.map_err(late)?
}

impl streaming::StreamingRuntime for SessionHandler {
    fn exec(
        &self,
        request: ExecRequest,
        io: SessionIo,
    ) -> BoxFuture<'_, Result<ExitStatus, Error>> {
        Box::pin(async move { self.inner()?.exec_session(request, io).await.map_err(error) })
    }

    fn attach(&self, request: AttachRequest, io: SessionIo) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move { self.inner()?.attach_session(request, io).await.map_err(error) })
    }

    fn port_forward(
        &self,
        sandbox_id: String,
        port: u16,
        stream: Box<dyn Duplex>,
    ) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(
            async move { self.inner()?.forward(&sandbox_id, port, stream).await.map_err(error) },
        )
    }
}

impl SessionHandler {
    fn inner(&self) -> Result<Arc<Inner>, Error> {
        self.0.upgrade().ok_or_else(|| Error("the runtime has stopped".into()))
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn error(status: Status) -> Error {
    Error(status.message().to_owned())
}

/// When a client detaches from a process that keeps running.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Leave {
    Never,
    /// When the client's input ends, if it has any.
    WithInput,
}

/// Our ends of a process's standard streams.
#[derive(Debug, Default)]
struct StdioEnds {
    stdin: Option<StdioStream>,
    stdout: Option<StdioStream>,
    stderr: Option<StdioStream>,
    terminal: Option<StdioStream>,
}

/// Creates pipes; returns our ends and those of the process.
fn pipes(stdin: bool) -> io::Result<(StdioEnds, Vec<OwnedFd>)> {
    let (from_stdout, stdout) = pipe_with(PipeFlags::CLOEXEC)?;
    let (from_stderr, stderr) = pipe_with(PipeFlags::CLOEXEC)?;
    let (theirs, ours) = if stdin {
        let (theirs, ours) = pipe_with(PipeFlags::CLOEXEC)?;
        (theirs, Some(StdioStream::new(ours)?))
    } else {
        (sys::descriptor::null()?, None)
    };
    let ends = StdioEnds {
        stdin: ours,
        stdout: Some(StdioStream::new(from_stdout)?),
        stderr: Some(StdioStream::new(from_stderr)?),
        terminal: None,
    };
    Ok((ends, vec![theirs, stdout, stderr]))
}

impl StdioEnds {
    fn terminal(fd: OwnedFd) -> io::Result<Self> {
        let terminal = StdioStream::new(fd)?;
        Ok(Self {
            stdin: Some(terminal.clone()),
            stdout: Some(terminal.clone()),
            stderr: None,
            terminal: Some(terminal),
        })
    }

    /// Copies streams until the process has `ended` and its output is drained. `None` if the client detaches before.
    async fn connect<T>(
        self,
        io: SessionIo,
        ended: impl Future<Output = io::Result<T>>,
        leave: Leave,
    ) -> io::Result<Option<T>> {
        let Self { stdin, stdout, stderr, terminal } = self;
        let output =
            async { tokio::join!(copy_output(stdout, io.stdout), copy_output(stderr, io.stderr)) };
        let input = copy_input(io.stdin, stdin);
        let sizes = async {
            let (Some(mut sizes), Some(terminal)) = (io.resize, terminal) else { return };
            while let Some(size) = sizes.recv().await {
                let _ = terminal.set_window_size(size.width, size.height); // fails if the terminal is closed
            }
        };
        tokio::pin!(output, input, sizes, ended);
        let (mut through, mut fed, mut settled) = (false, false, false);
        let result = loop {
            tokio::select! {
                result = &mut ended => break result,
                _ = &mut output, if !through => through = true,
                end = &mut input, if !fed => match end {
                    InputEnd::Client if leave == Leave::WithInput => return Ok(None),
                    _ => fed = true,
                },
                () = &mut sizes, if !settled => settled = true,
            }
        };
        if !through {
            let _ = tokio::time::timeout(DRAIN, output).await; // output after this time is dropped
        }
        result.map(Some)
    }
}

/// Copies output to the client. If the client disconnects, the rest is read and dropped; the process goes on.
async fn copy_output(from: Option<StdioStream>, to: Option<Output>) {
    let Some(mut from) = from else { return };
    if let Some(mut to) = to {
        let _ = copy(&mut from, &mut to).await; // fails if the client has disconnected
        let _ = to.shutdown().await;
    }
    let _ = copy(&mut from, &mut tokio::io::sink()).await; // so that the process does not block
}

/// Why input is no longer copied.
#[derive(Clone, Copy, Debug, PartialEq)]
enum InputEnd {
    /// The client has closed its side.
    Client,
    /// The process no longer reads, or there is no input.
    Process,
}

/// Copies input to the process. When the client's input ends, the process's stdin is closed.
async fn copy_input(from: Option<Input>, to: Option<StdioStream>) -> InputEnd {
    let (Some(mut from), Some(mut to)) = (from, to) else { return InputEnd::Process };
    match copy(&mut from, &mut to).await {
        Ok(_) => InputEnd::Client,
        Err(_) => InputEnd::Process,
    }
}
