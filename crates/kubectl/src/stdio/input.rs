//! Stdin for a session. A thread reads it, because the runtime cannot poll files; the thread stops reading when the
//! session is over, and is not waited for.

use std::{
    io,
    os::fd::OwnedFd,
    pin::Pin,
    task::{Context, Poll, ready},
    thread,
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
    pipe::{PipeFlags, pipe_with},
};
use tokio::{
    io::{AsyncRead, ReadBuf},
    sync::mpsc,
};

const CHUNK: usize = 32 << 10;
/// Maximum number of chunks that are queued for the connection.
const WAITING: usize = 4;

/// The data of stdin, until this is dropped.
#[derive(Debug)]
pub(crate) struct Input {
    chunks: mpsc::Receiver<Vec<u8>>,
    /// The current chunk, and how much of it has been read.
    current: (Vec<u8>, usize),
    /// Closed on drop, which stops the thread.
    _open: OwnedFd,
}

impl Input {
    /// Starts to read stdin. `detach`: keys that end the input.
    pub(crate) fn new(detach: Option<DetachKeys>) -> io::Result<Self> {
        let (stopped, open) = pipe_with(PipeFlags::CLOEXEC)?;
        let (sender, chunks) = mpsc::channel(WAITING);
        let thread = thread::Builder::new().name("stdin".into());
        thread.spawn(move || read(&sender, &stopped, detach))?;
        Ok(Self { chunks, current: (Vec::new(), 0), _open: open })
    }
}

/// Reads until the end of the input, or until the receiver is dropped.
fn read(to: &mpsc::Sender<Vec<u8>>, stopped: &OwnedFd, mut detach: Option<DetachKeys>) {
    let stdin = io::stdin();
    let mut buffer = vec![0; CHUNK];
    loop {
        let mut ready = [PollFd::new(&stdin, PollFlags::IN), PollFd::new(stopped, PollFlags::IN)];
        match poll(&mut ready, None) {
            Err(Errno::INTR) => continue,
            Err(_) => return,
            Ok(_) if !ready[1].revents().is_empty() => return,
            Ok(_) => {}
        }
        let length = match rustix::io::read(&stdin, &mut buffer) {
            Err(Errno::INTR | Errno::AGAIN) => continue,
            Ok(0) | Err(_) => return,
            Ok(length) => length,
        };
        let (bytes, detached) = match &mut detach {
            None => (buffer[..length].to_vec(), false),
            Some(keys) => keys.filter(&buffer[..length]),
        };
        if !bytes.is_empty() && to.blocking_send(bytes).is_err() || detached {
            return;
        }
    }
}

impl AsyncRead for Input {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.current.1 == self.current.0.len() {
            match ready!(self.chunks.poll_recv(context)) {
                None => return Poll::Ready(Ok(())),
                Some(chunk) => self.current = (chunk, 0),
            }
        }
        let (chunk, at) = &mut self.current;
        let length = to.remaining().min(chunk.len() - *at);
        to.put_slice(&chunk[*at..*at + length]);
        *at += length;
        Poll::Ready(Ok(()))
    }
}

/// A key sequence that detaches from a session without ending its process.
#[derive(Clone, Debug)]
pub(crate) struct DetachKeys {
    keys: Vec<u8>,
    /// How many keys of the sequence have been typed.
    typed: usize,
}

impl DetachKeys {
    /// Parses a key sequence: `ctrl-p,ctrl-q`, `a,b`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let key = |word: &str| match word.as_bytes() {
            [byte] => Some(*byte),
            [b'c', b't', b'r', b'l', b'-', letter] => match letter {
                b'a'..=b'z' => Some(letter - b'a' + 1),
                b'@' => Some(0),
                b'[' => Some(27),
                b'\\' => Some(28),
                b']' => Some(29),
                b'^' => Some(30),
                b'_' => Some(31),
                _ => None,
            },
            _ => None,
        };
        let keys = text.split(',').map(|word| key(word).ok_or(word));
        let keys = keys.collect::<Result<Vec<_>, _>>();
        match keys {
            Ok(keys) => Ok(Self { keys, typed: 0 }),
            Err(word) => Err(format!("Unknown character: '{word}'")),
        }
    }

    /// The part of `bytes` that is passed on to the process, and whether the sequence is complete. Keys that may
    /// start the sequence are held back until the next ones are known.
    fn filter(&mut self, bytes: &[u8]) -> (Vec<u8>, bool) {
        let mut passed = Vec::with_capacity(bytes.len());
        for &byte in bytes {
            if byte != self.keys[self.typed] {
                passed.extend_from_slice(&self.keys[..self.typed]);
                self.typed = 0;
            }
            if byte == self.keys[self.typed] {
                self.typed += 1;
                if self.typed == self.keys.len() {
                    self.typed = 0;
                    return (passed, true);
                }
            } else {
                passed.push(byte);
            }
        }
        (passed, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_leave_a_session() {
        let mut keys = DetachKeys::parse("ctrl-p,ctrl-q").unwrap();
        assert_eq!(keys.filter(b"before\x10\x11after"), (b"before".to_vec(), true));
        assert_eq!(keys.filter(b"a\x10b"), (b"a\x10b".to_vec(), false));
        assert_eq!(keys.filter(b"a\x10"), (b"a".to_vec(), false));
        assert_eq!(keys.filter(b"\x10\x10"), (b"\x10\x10".to_vec(), false));
        assert_eq!(keys.filter(b"\x11b"), (Vec::new(), true));
        assert_eq!(DetachKeys::parse("a").unwrap().filter(b"xay"), (b"x".to_vec(), true));
    }

    #[test]
    fn keys_have_names() {
        assert_eq!(DetachKeys::parse("ctrl-@,ctrl-_,z").unwrap().keys, [0, 31, b'z']);
        for wrong in ["", "ctrl-", "ctrl-é", "shift-a", "a,,b"] {
            assert!(DetachKeys::parse(wrong).is_err(), "{wrong}");
        }
    }
}
