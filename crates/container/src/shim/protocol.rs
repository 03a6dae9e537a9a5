//! Protocol between server and shim: one request per connection, and one or more replies.
//!
//! A frame is a length (4 bytes, little endian) and JSON. Descriptors are passed with a frame's first byte. Fields may
//! be added; an older shim answers an unknown request with `Failed`.

#![deny(clippy::indexing_slicing, clippy::string_slice, clippy::unwrap_used, clippy::expect_used)]

use std::{
    io::{self, Read, Write},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
    path::PathBuf,
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::spec::Process;

pub(crate) const VERSION: u32 = 1;
const LONGEST: usize = 4 << 20;

/// A request of the server.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    State,
    /// Starts the container of the specification in this file.
    Start {
        id: String,
        spec: PathBuf,
    },
    Wait {
        id: String,
    },
    Signal {
        id: String,
        signal: i32,
    },
    /// With stdin, stdout and stderr, or without descriptors for a terminal, which is returned.
    Exec {
        id: String,
        process: Process,
    },
    /// Kills a process that `Exec` started.
    KillExec {
        pid: i32,
    },
    /// With writers for stdout and stderr; the container's stdin or terminal is returned.
    Attach {
        id: String,
        stdin: bool,
    },
    ReopenLog {
        id: String,
    },
    /// Drops the state of an exited container.
    Delete {
        id: String,
    },
    /// Kills the sandbox and all its containers, and ends the shim.
    Shutdown,
}

/// A reply of the shim.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    Done,
    State {
        version: u32,
        sandbox: i32,
        containers: Vec<(String, Status)>,
        /// Number of containers that are being started.
        #[serde(default)]
        pending: usize,
    },
    Started(Started),
    Exited(Exit),
    Failed(String),
}

/// State of a container.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Status {
    Running {
        pid: i32,
        /// Missing in replies of older shims.
        #[serde(default)]
        started: Started,
    },
    Exited(Exit),
}

/// A started process.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Started {
    pub(crate) pid: i32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) groups: Vec<u32>,
    pub(crate) warnings: Vec<String>,
    /// Nanoseconds since 1970; 0 in replies of older shims.
    #[serde(default)]
    pub(crate) at: i64,
}

impl Started {
    pub(crate) fn with(self, warnings: Vec<String>) -> Self {
        Self { warnings, ..self }
    }
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Exit {
    pub(crate) code: i32,
    /// Nanoseconds since 1970.
    pub(crate) at: i64,
    pub(crate) out_of_memory: bool,
}

pub(crate) fn send<T: Serialize>(
    mut socket: &UnixStream,
    message: &T,
    passed: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let frame = frame(message)?;
    let sent = sys::descriptor::send_with_fds(socket.as_fd(), &frame, passed)?;
    socket.write_all(frame.get(sent..).unwrap_or_default())
}

/// Encodes a message as a frame.
pub(crate) fn frame<T: Serialize>(message: &T) -> io::Result<Vec<u8>> {
    let mut frame = vec![0; 4];
    serde_json::to_writer(&mut frame, message)?;
    let length = u32::try_from(frame.len() - 4).ok().filter(|length| *length as usize <= LONGEST);
    let (Some(length), Some(head)) = (length, frame.first_chunk_mut::<4>()) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "message too long"));
    };
    *head = length.to_le_bytes();
    Ok(frame)
}

/// The length of a frame's body, from its first 4 bytes.
pub(crate) fn length(head: [u8; 4]) -> io::Result<usize> {
    let length = u32::from_le_bytes(head) as usize;
    if length > LONGEST {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "message too long"));
    }
    Ok(length)
}

/// Receives the next frame; `None` when the peer has closed the connection.
pub(crate) fn receive<T: DeserializeOwned>(
    mut socket: &UnixStream,
    passed: &mut Vec<OwnedFd>,
) -> io::Result<Option<T>> {
    let mut head = [0; 4];
    match sys::descriptor::receive_with_fds(socket.as_fd(), &mut head, passed)? {
        0 => return Ok(None),
        got => socket.read_exact(head.get_mut(got..).unwrap_or_default())?,
    }
    let mut body = vec![0; length(head)?];
    socket.read_exact(&mut body)?;
    Ok(Some(serde_json::from_slice(&body)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_carry_descriptors() {
        let (a, b) = UnixStream::pair().expect("pair");
        send(&a, &Request::Wait { id: "x".into() }, &[a.as_fd()]).expect("sent");
        drop(a);
        let mut passed = Vec::new();
        let got: Option<Request> = receive(&b, &mut passed).expect("received");
        assert!(matches!(got, Some(Request::Wait { id }) if id == "x"));
        assert_eq!(passed.len(), 1);
        passed.clear();
        assert!(receive::<Request>(&b, &mut passed).expect("end").is_none());
    }
}
