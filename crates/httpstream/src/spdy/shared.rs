//! State shared by a connection's two tasks and its streams: the streams by id, and the send queue.

use std::{
    collections::HashMap,
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering},
    },
};

use tokio::{
    io::{DuplexStream, duplex},
    sync::oneshot,
};
use tokio_util::sync::CancellationToken;

use super::{
    frame::Frame,
    header::Headers,
    stream::{Stream, Window},
};
use crate::Outbox;

/// Receive buffer of a stream in bytes. A slow reader then blocks the whole connection, unless the peer uses flow
/// control; Go's library behaves the same.
pub(super) const WINDOW: u32 = 256 << 10;
const STANDARD_WINDOW: i64 = 64 << 10;
const MOST_STREAMS: usize = 4096;

/// State of a connection that its tasks and streams share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) outbox: Outbox<Frame>,
    pub(super) streams: Mutex<HashMap<u32, Slot>>,
    pub(super) next: AtomicU32,
    /// Whether the peer uses flow control.
    pub(super) flow: AtomicBool,
    pub(super) initial_window: AtomicI64,
    pub(super) gone: CancellationToken,
}

/// The connection's side of a stream.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) window: Arc<Window>,
    /// Taken out while it is being written to, and for good when the peer has finished.
    pub(super) pipe: Option<DuplexStream>,
    pub(super) reply: Option<oneshot::Sender<()>>,
    peer_done: bool,
    we_done: bool,
}

impl Shared {
    /// `first` is the id of the first stream that this side opens: odd for clients, even for servers.
    pub(super) fn new(first: u32) -> Self {
        Self {
            outbox: Outbox::default(),
            streams: Mutex::default(),
            next: AtomicU32::new(first),
            flow: AtomicBool::new(false),
            initial_window: AtomicI64::new(STANDARD_WINDOW),
            gone: CancellationToken::new(),
        }
    }

    pub(super) fn flow_controlled(&self) -> bool {
        self.flow.load(Ordering::Relaxed)
    }

    /// This side has finished a stream.
    pub(super) fn finished(&self, id: u32) {
        let mut streams = self.streams();
        if let Some(slot) = streams.get_mut(&id) {
            slot.we_done = true;
            if slot.peer_done {
                streams.remove(&id);
            }
        }
    }

    /// Adds a stream; `None` if there are too many.
    pub(super) fn add(
        self: &Arc<Self>,
        id: u32,
        headers: Headers,
        reply: Option<oneshot::Sender<()>>,
    ) -> Option<Stream> {
        let (near, far) = duplex(WINDOW as usize);
        let window = Arc::new(Window::new(self.initial_window.load(Ordering::Relaxed)));
        let slot = Slot {
            window: window.clone(),
            pipe: Some(far),
            reply,
            peer_done: false,
            we_done: false,
        };
        let mut streams = self.streams();
        if streams.len() >= MOST_STREAMS || streams.contains_key(&id) {
            return None;
        }
        streams.insert(id, slot);
        Some(Stream::new(id, headers, self.clone(), window, near))
    }

    /// Sends a reply frame. If nothing more can be sent, because this side is closing or the peer no longer reads, the
    /// reply is dropped: received data is still read, and queued data still sent.
    pub(super) fn answer(&self, frame: Frame) -> io::Result<()> {
        match self.outbox.push(frame) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            pushed => pushed,
        }
    }

    pub(super) fn streams(&self) -> MutexGuard<'_, HashMap<u32, Slot>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a stream or ping with this id was started by this side.
    pub(super) fn is_ours(&self, id: u32) -> bool {
        id % 2 == self.next.load(Ordering::Relaxed) % 2
    }

    /// The peer has finished a stream: its reader gets the end of the stream.
    pub(super) fn peer_finished(&self, id: u32) {
        let mut streams = self.streams();
        if let Some(slot) = streams.get_mut(&id) {
            slot.peer_done = true;
            slot.pipe = None;
            if slot.we_done {
                streams.remove(&id);
            }
        }
    }
}
