//! The CRI streaming server: exec, attach and port-forward over SPDY/3.1 and WebSocket, at single-use URLs that the CRI
//! calls return.
//!
//! This module only implements the protocols; [`StreamingRuntime`] does the work in containers.

mod channels;
mod port_forward;
mod remote_command;
mod server;
mod session_limit;
mod tokens;
mod web_socket;

use std::{fmt, pin::Pin};

use serde::Deserialize;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::mpsc,
};

pub use server::Server;
pub use session_limit::{Seat, Seats};

pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
pub type Input = Box<dyn AsyncRead + Send + Unpin>;
pub type Output = Box<dyn AsyncWrite + Send + Unpin>;

/// What the runtime does for a session. Each future completes when the session is over and everything has been written;
/// it is dropped when the client disconnects.
pub trait StreamingRuntime: Send + Sync + 'static {
    /// Runs a command in a container.
    fn exec(&self, request: ExecRequest, io: SessionIo)
    -> BoxFuture<'_, Result<ExitStatus, Error>>;

    /// Attaches to the first process of a container.
    fn attach(&self, request: AttachRequest, io: SessionIo) -> BoxFuture<'_, Result<(), Error>>;

    /// Connects `stream` with a port inside the sandbox.
    fn port_forward(
        &self,
        sandbox_id: String,
        port: u16,
        stream: Box<dyn Duplex>,
    ) -> BoxFuture<'_, Result<(), Error>>;
}

/// An exec session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "as in the CRI")]
pub struct ExecRequest {
    /// The pod's namespace, by which the number of concurrent sessions is limited.
    pub namespace: String,
    pub container_id: String,
    pub cmd: Vec<String>,
    pub tty: bool,
    pub stdin: bool,
    pub stdout: bool,
    pub stderr: bool,
}

/// An attach session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "as in the CRI")]
pub struct AttachRequest {
    pub namespace: String,
    pub container_id: String,
    pub tty: bool,
    pub stdin: bool,
    pub stdout: bool,
    pub stderr: bool,
}

/// A port-forward session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortForwardRequest {
    pub namespace: String,
    pub sandbox_id: String,
    /// For clients whose protocol cannot name the ports later.
    pub ports: Vec<u16>,
}

/// The client's ends of the streams. Those that it did not request are `None`; with a terminal there is no stderr.
pub struct SessionIo {
    pub stdin: Option<Input>,
    pub stdout: Option<Output>,
    pub stderr: Option<Output>,
    /// Sizes of the client's terminal; the first one arrives soon after the start.
    pub resize: Option<mpsc::Receiver<TerminalSize>>,
}

/// Size of a terminal, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct TerminalSize {
    pub width: u16,
    pub height: u16,
}

/// Exit code of the command; 0 is success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExitStatus(pub i32);

/// Why a session failed.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Error(pub String);

/// A bidirectional byte stream.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

impl fmt::Debug for SessionIo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Io")
            .field("stdin", &self.stdin.is_some())
            .field("stdout", &self.stdout.is_some())
            .field("stderr", &self.stderr.is_some())
            .field("resize", &self.resize.is_some())
            .finish()
    }
}
