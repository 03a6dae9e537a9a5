//! An HTTP/2 connection: one task that reads, executes and writes.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    io,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError, Weak, atomic::Ordering},
    task::{Context, Poll, Waker},
};

use bytes::{Bytes, BytesMut};
use futures_util::{
    Stream as _,
    future::{AbortHandle, Abortable},
    stream::FuturesUnordered,
};
use http::{Request, Response};
use http_body_util::BodyExt as _;
use hyper::body::Frame;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::{io::poll_read_buf, sync::CancellationToken};
use tonic::{Status, body::Body};

use super::{
    frame::{self, ErrorCode, LARGEST, WINDOW},
    hpack::Decoder,
    rate::Rate,
    stream::Stream,
    upload::RequestBody,
    write_buffer::WriteBuffer,
};
use crate::etcd_server::{
    kv_call::KvRequest,
    mailbox::{CompletionHandler, CompletionQueue},
    service::Service,
};

/// Maximum number of concurrent streams. An API server uses one connection per resource, with many watches on it.
pub(super) const STREAMS: u32 = 65_536;
/// Flow-control window of a stream in bytes.
pub(super) const STREAM_WINDOW: u32 = 1 << 20;
/// Flow-control window of the connection in bytes.
pub(super) const ALL_WINDOW: u32 = 16 << 20;
/// Read size in bytes.
const READ: usize = 64 << 10;
/// No further responses are encoded while this many bytes wait to be written.
pub(super) const OUT: usize = 256 << 10;
/// No further requests are read while this many bytes wait to be written.
const MAX_WRITE_BACKLOG: usize = 1 << 20;

/// Handles the requests that are not KV calls.
pub(in crate::etcd_server) type Handler = Arc<
    dyn Fn(Request<RequestBody>) -> Pin<Box<dyn Future<Output = Response<Body>> + Send>>
        + Send
        + Sync,
>;

/// Output of a service for a stream.
pub(super) enum ServiceOutput {
    Answer(Response<Body>),
    /// The next part of a response body, and the body with the remaining parts.
    Part(Option<Result<Frame<Bytes>, Status>>, Body),
}

type Work = Abortable<Pin<Box<dyn Future<Output = (u32, ServiceOutput)> + Send>>>;

/// The state of one connection.
pub(in crate::etcd_server) struct Connection<S> {
    io: S,
    pub(super) service: Service,
    pub(super) serve: Handler,
    pub(super) mailbox: Arc<CompletionQueue>,
    pub(super) input: BytesMut,
    pub(super) out: WriteBuffer,
    pub(super) decoder: Decoder,
    /// Headers that are incomplete: their stream, whether they end it, and the bytes so far.
    pub(super) block: Option<(u32, bool, Vec<u8>)>,
    pub(super) streams: HashMap<u32, Stream>,
    /// The streams closed most recently, and whether the client closed them.
    pub(super) closed: VecDeque<(u32, bool)>,
    /// The newest stream.
    pub(super) last: u32,
    /// Send windows: of the connection, and the initial one of a stream; and the maximum frame size.
    pub(super) window: i64,
    pub(super) initial: i64,
    pub(super) frame: usize,
    /// Received bytes that have not been returned to the client's window yet.
    pub(super) unreturned_window: u32,
    /// Number of bytes buffered for incomplete calls.
    pub(super) buffered: usize,
    /// Complete KV calls that are not executed yet.
    pub(super) calls: Vec<(u32, KvRequest, bool)>,
    /// Streams with data to send that have window left.
    pub(super) ready: VecDeque<u32>,
    /// Streams with data to send that wait for a window update.
    pub(super) blocked: HashSet<u32>,
    /// Rate limits for changes of settings and for stream resets.
    pub(super) settings: Rate,
    pub(super) resets: Rate,
    work: FuturesUnordered<Work>,
    /// Whether some futures have not been polled yet.
    fresh: bool,
    /// Whether a GOAWAY was sent, so that new streams are refused.
    pub(super) going_away: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Connection<S> {
    /// Serves the client until it disconnects. After `ending`, only the requests received before are answered.
    pub(in crate::etcd_server) async fn run(self, ending: CancellationToken) -> io::Result<()> {
        let mailbox = self.mailbox.clone();
        let this = Arc::new(Mutex::new(self));
        let owner: Weak<Mutex<Self>> = Arc::downgrade(&this);
        mailbox.set_handler(owner);
        let mut ending = std::pin::pin!(ending.cancelled());
        std::future::poll_fn(|cx| {
            let mut this = this.lock().unwrap_or_else(PoisonError::into_inner);
            if !this.going_away && ending.as_mut().poll(cx).is_ready() {
                this.going_away = true;
                let last = this.last;
                frame::go_away(&mut this.out.bytes, last, ErrorCode::NoError);
            }
            this.poll(cx)
        })
        .await
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> CompletionHandler for Mutex<Connection<S>> {
    fn answer(&self, task: &Waker) -> bool {
        self.try_lock().is_ok_and(|mut this| this.answer(&mut Context::from_waker(task)))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    /// `input` holds the bytes received after the preface.
    pub(in crate::etcd_server) fn new(
        io: S,
        service: Service,
        serve: Handler,
        input: BytesMut,
    ) -> Self {
        let mut out = WriteBuffer::default();
        let settings = [(frame::STREAMS, STREAMS), (frame::INITIAL_WINDOW, STREAM_WINDOW)];
        frame::settings(&mut out.bytes, &settings);
        frame::number(&mut out.bytes, frame::WINDOW_UPDATE, 0, ALL_WINDOW - 65_535);
        Self {
            io,
            service,
            serve,
            mailbox: Arc::default(),
            input,
            out,
            decoder: Decoder::default(),
            block: None,
            streams: HashMap::new(),
            closed: VecDeque::new(),
            last: 0,
            window: WINDOW,
            initial: WINDOW,
            frame: LARGEST,
            unreturned_window: 0,
            buffered: 0,
            calls: Vec::new(),
            ready: VecDeque::new(),
            blocked: HashSet::new(),
            settings: Rate::new(100, 10),
            resets: Rate::new(20_000, 1_000),
            work: FuturesUnordered::new(),
            fresh: false,
            going_away: false,
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            self.fresh = false;
            for (stream, outcome) in self.mailbox.take(cx) {
                self.on_committed(stream, outcome);
            }
            while let Poll::Ready(Some(done)) = Pin::new(&mut self.work).poll_next(cx) {
                if let Ok((stream, done)) = done {
                    self.on_service_output(stream, done);
                }
            }
            let read = self.read(cx)?;
            if let Err(reason) = self.receive() {
                frame::go_away(&mut self.out.bytes, self.last, reason);
                let _ = self.flush(cx); // the connection ends in any case
                return Poll::Ready(Err(io::Error::other(reason)));
            }
            self.judge();
            self.flush_streams();
            let written = self.flush(cx)?;
            let over = self.going_away && written && self.streams.values().all(Stream::is_answered);
            if over || matches!(read, Poll::Ready(0)) {
                return Poll::Ready(Ok(()));
            }
            // The write may have made room for more responses.
            let more = written && self.window > 0 && !self.ready.is_empty();
            if read.is_pending() && !self.fresh && !more {
                return Poll::Pending;
            }
        }
    }

    /// Sends the responses of writes that have become durable. Returns false if there is more to do.
    fn answer(&mut self, cx: &mut Context<'_>) -> bool {
        for (stream, outcome) in self.mailbox.take(cx) {
            self.on_committed(stream, outcome);
        }
        let written = self.flush(cx).is_ok();
        written && self.calls.is_empty() && self.ready.is_empty() && !self.going_away
    }

    /// Reads, and returns the number of bytes; 0 if the client has disconnected.
    fn read(&mut self, cx: &mut Context<'_>) -> io::Result<Poll<usize>> {
        if self.out.len() > MAX_WRITE_BACKLOG {
            return Ok(Poll::Pending); // woken when the backlog is written
        }
        self.input.reserve(READ);
        match poll_read_buf(Pin::new(&mut self.io), cx, &mut self.input) {
            Poll::Ready(come) => {
                let come = come?;
                self.service.member.metrics.received.fetch_add(come as u64, Ordering::Relaxed);
                Ok(Poll::Ready(come))
            }
            Poll::Pending => Ok(Poll::Pending),
        }
    }

    /// Starts a service future for a stream.
    pub(super) fn start(
        &mut self,
        stream: u32,
        service: impl Future<Output = Response<Body>> + Send + 'static,
    ) {
        self.push(stream, async move { (stream, ServiceOutput::Answer(service.await)) });
    }

    /// Starts reading the next part of a response body.
    pub(super) fn ask(&mut self, stream: u32, mut body: Body) {
        self.push(stream, async move {
            let part = body.frame().await;
            (stream, ServiceOutput::Part(part, body))
        });
    }

    fn push(
        &mut self,
        stream: u32,
        work: impl Future<Output = (u32, ServiceOutput)> + Send + 'static,
    ) {
        let Some(open) = self.streams.get_mut(&stream) else { return };
        let (handle, registration) = AbortHandle::new_pair();
        open.service = Some(handle);
        self.work.push(Abortable::new(Box::pin(work), registration));
        self.fresh = true;
    }

    /// Writes the buffered output; true if all of it was written.
    fn flush(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        let before = self.out.len();
        let all = self.out.write(Pin::new(&mut self.io), cx)?;
        let sent = (before - self.out.len()) as u64;
        self.service.member.metrics.sent.fetch_add(sent, Ordering::Relaxed);
        Ok(all && !matches!(Pin::new(&mut self.io).poll_flush(cx)?, Poll::Pending))
    }
}
