//! Netlink sockets: send a request, read its acknowledgement or its dump.

use super::message::{Attributes, Message, Received, ReceivedAll, number};
use super::{Error, Result};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
    sockopt,
};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

pub(super) const REQUEST: u16 = 0x1;
pub(super) const ACK: u16 = 0x4;
pub(super) const DUMP: u16 = 0x300;
pub(super) const REPLACE: u16 = 0x100;
pub(super) const EXCLUSIVE: u16 = 0x200;
pub(super) const CREATE: u16 = 0x400;
const INTERRUPTED: u16 = 0x10;

const ERROR: u16 = 2;
const DONE: u16 = 3;
const CAPPED: u16 = 0x100;
const ACK_TLVS: u16 = 0x200;

/// Timeout for a reply. The kernel replies during `send`, so a longer wait means that something was lost.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);
const RECEIVE_BUFFER_BYTES: usize = 64 * 1024;
const SOCKET_BUFFER_BYTES: usize = 4 * 1024 * 1024;

/// The kernel subsystem that the socket talks to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetlinkFamily {
    Route,
    Netfilter,
}

/// A netlink socket: one request at a time, in the network namespace where it was opened.
#[derive(Debug)]
pub struct Socket {
    descriptor: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

/// The kernel's reply to one of the sent messages.
pub(crate) struct Acknowledgement {
    pub(crate) sequence: u32,
    pub(crate) outcome: Result<(), (i32, Option<String>)>,
}

impl Socket {
    /// Opens a socket in the network namespace of the calling thread.
    pub fn open(family: NetlinkFamily) -> Result<Self> {
        let protocol = match family {
            NetlinkFamily::Route => None,
            NetlinkFamily::Netfilter => Some(netlink::NETFILTER),
        };
        let descriptor =
            socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)
                .map_err(|e| Error::Socket(e.into()))?;
        sockopt::set_socket_timeout(&descriptor, sockopt::Timeout::Recv, Some(REPLY_TIMEOUT))
            .map_err(|e| Error::Socket(e.into()))?;
        // Without the capability the default size stays, which is enough for small requests.
        let _ = sockopt::set_socket_recv_buffer_size_force(&descriptor, SOCKET_BUFFER_BYTES);
        extended_acknowledgements(&descriptor);
        Ok(Self { descriptor, sequence: 0, buffer: vec![0; RECEIVE_BUFFER_BYTES] })
    }

    /// Sends one request and waits for its acknowledgement.
    pub(super) fn request(
        &mut self,
        what: &str,
        (kind, flags): (u16, u16),
        fixed: &[u8],
        fill: impl FnOnce(&mut Message),
    ) -> Result<()> {
        let sequence = self.next_sequence();
        let mut message = Message::new();
        message.message((kind, REQUEST | ACK | flags), sequence, fixed, fill);
        self.send(message.as_bytes())?;
        loop {
            for answer in self.acknowledgements()? {
                if answer.sequence == sequence {
                    return answer.outcome.map_err(|refusal| refused(what, refusal));
                }
            }
        }
    }

    /// Requests one object and returns its body.
    pub(crate) fn get(
        &mut self,
        what: &str,
        kind: u16,
        fixed: &[u8],
        fill: impl FnOnce(&mut Message),
    ) -> Result<Vec<u8>> {
        let sequence = self.next_sequence();
        let mut message = Message::new();
        message.message((kind, REQUEST), sequence, fixed, fill);
        self.send(message.as_bytes())?;
        loop {
            let length = self.receive()?;
            for received in ReceivedAll(&self.buffer[..length]) {
                if received.sequence != sequence {
                    continue;
                }
                if received.kind != ERROR {
                    return Ok(received.body.to_vec());
                }
                if let Err(refusal) = outcome(received) {
                    return Err(refused(what, refusal));
                }
            }
        }
    }

    /// Requests a dump and passes each message's body (fixed part and attributes) to `read`. Starts again if the kernel
    /// reports that the data changed meanwhile.
    pub(crate) fn dump<T>(
        &mut self,
        what: &str,
        kind: u16,
        fixed: &[u8],
        read: impl FnMut(&[u8]) -> Option<T>,
    ) -> Result<Vec<T>> {
        self.dump_some(what, kind, fixed, |_| {}, read)
    }

    /// Like `dump`, for the objects that the attributes added by `fill` select.
    #[expect(clippy::too_many_arguments, reason = "a request is these")]
    pub(crate) fn dump_some<T>(
        &mut self,
        what: &str,
        kind: u16,
        fixed: &[u8],
        fill: impl Fn(&mut Message),
        mut read: impl FnMut(&[u8]) -> Option<T>,
    ) -> Result<Vec<T>> {
        for _ in 0..8 {
            let sequence = self.next_sequence();
            let mut message = Message::new();
            message.message((kind, REQUEST | DUMP), sequence, fixed, &fill);
            self.send(message.as_bytes())?;
            if let Some(all) = self.dump_once(what, sequence, &mut read)? {
                return Ok(all);
            }
        }
        Err(Error::Malformed(format!("{what}: changed during every attempt")))
    }

    fn dump_once<T>(
        &mut self,
        what: &str,
        sequence: u32,
        read: &mut impl FnMut(&[u8]) -> Option<T>,
    ) -> Result<Option<Vec<T>>> {
        let mut all = Vec::new();
        let mut consistent = true;
        loop {
            let length = self.receive()?;
            for received in ReceivedAll(&self.buffer[..length]) {
                if received.sequence != sequence {
                    continue;
                }
                consistent &= received.flags & INTERRUPTED == 0;
                match received.kind {
                    DONE => return Ok(consistent.then_some(all)),
                    ERROR => {
                        return match outcome(received) {
                            Ok(()) => Ok(consistent.then_some(all)),
                            Err(refusal) => Err(refused(what, refusal)),
                        };
                    }
                    _ => all.extend(read(received.body)),
                }
            }
        }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<()> {
        if bytes.len() > SOCKET_BUFFER_BYTES / 32 {
            // The whole transaction must fit, because a netlink datagram is never split.
            sockopt::set_socket_send_buffer_size_force(
                &self.descriptor,
                bytes.len() * 2 + SOCKET_BUFFER_BYTES,
            )
            .map_err(|e| Error::Socket(e.into()))?;
        }
        let sent = send(&self.descriptor, bytes, SendFlags::empty())
            .map_err(|e| Error::Socket(e.into()))?;
        if sent == bytes.len() {
            return Ok(());
        }
        Err(Error::Socket(io::Error::new(io::ErrorKind::WriteZero, "request sent in part")))
    }

    /// The acknowledgements in one datagram; other messages are skipped.
    pub(crate) fn acknowledgements(&mut self) -> Result<Vec<Acknowledgement>> {
        let length = self.receive()?;
        Ok(ReceivedAll(&self.buffer[..length])
            .filter(|received| received.kind == ERROR)
            .map(|received| Acknowledgement {
                sequence: received.sequence,
                outcome: outcome(received),
            })
            .collect())
    }

    pub(crate) fn next_sequence(&mut self) -> u32 {
        self.sequence = self.sequence.wrapping_add(1);
        self.sequence
    }

    /// Reserves `count` sequence numbers; returns the first one.
    pub(crate) fn reserve(&mut self, count: u32) -> u32 {
        let first = self.sequence.wrapping_add(1);
        self.sequence = self.sequence.wrapping_add(count);
        first
    }

    fn receive(&mut self) -> Result<usize> {
        loop {
            match recv(&self.descriptor, &mut self.buffer[..], RecvFlags::empty()) {
                Ok((length, _)) => return Ok(length),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(Error::Socket(error.into())),
            }
        }
    }
}

fn refused(what: &str, (errno, message): (i32, Option<String>)) -> Error {
    let source = io::Error::from_raw_os_error(errno);
    Error::Kernel { what: what.to_owned(), source, message }
}

/// Parses an acknowledgement: zero is success; otherwise the error number and, if the kernel sends one, its message.
fn outcome(received: Received<'_>) -> Result<(), (i32, Option<String>)> {
    let errno = number(received.body, 0).map_or(libc::EBADMSG, |n| -(n.cast_signed()));
    if errno == 0 {
        return Ok(());
    }
    let mut message = None;
    if received.flags & ACK_TLVS != 0 {
        // The failed request is echoed first: complete, or capped to its header.
        let echoed = number(received.body, 4).and_then(|n| usize::try_from(n).ok()).unwrap_or(16);
        let skip = 4 + if received.flags & CAPPED != 0 { 16 } else { super::align(echoed) };
        let text = received.body.get(skip..).and_then(|tlvs| Attributes(tlvs).value(1));
        message = text.map(|text| String::from_utf8_lossy(text).trim_end_matches('\0').to_owned());
    }
    Err((errno, message))
}

/// Enables error messages (extended acknowledgements), and disables the echo of the failed request.
fn extended_acknowledgements(descriptor: &OwnedFd) {
    for option in [libc::NETLINK_EXT_ACK, libc::NETLINK_CAP_ACK] {
        let on: libc::c_int = 1;
        // SAFETY: the descriptor is open, and pointer and length describe one c_int that outlives the call. Old kernels
        // reject the option; errors then come without a message.
        unsafe {
            libc::setsockopt(
                descriptor.as_raw_fd(),
                libc::SOL_NETLINK,
                option,
                (&raw const on).cast(),
                size_of::<libc::c_int>().try_into().expect("four fits"),
            );
        }
    }
}
