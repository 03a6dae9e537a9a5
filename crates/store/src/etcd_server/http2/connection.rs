//! A connection: one task that reads, judges, and writes.

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

/// How many requests may be under way: an API server has one connection for each kind,
/// and many watches on it.
pub(super) const STREAMS: u32 = 65_536;
/// How much of one request may come before more is allowed.
pub(super) const STREAM_WINDOW: u32 = 1 << 20;
/// How much of all of them.
pub(super) const ALL_WINDOW: u32 = 16 << 20;
/// How much is read at once.
const READ: usize = 64 << 10;
/// More is not put together while so much waits to be written.
pub(super) const OUT: usize = 256 << 10;
/// And no more is read while so much waits.
const MAX_WRITE_BACKLOG: usize = 1 << 20;

/// Answers what is no call of KV.
pub(in crate::etcd_server) type Handler = Arc<
    dyn Fn(Request<RequestBody>) -> Pin<Box<dyn Future<Output = Response<Body>> + Send>>
        + Send
        + Sync,
>;

/// What a service has done for a stream.
pub(super) enum ServiceOutput {
    Answer(Response<Body>),
    /// The next part, and who will say more.
    Part(Option<Result<Frame<Bytes>, Status>>, Body),
}

type Work = Abortable<Pin<Box<dyn Future<Output = (u32, ServiceOutput)> + Send>>>;

pub(in crate::etcd_server) struct Connection<S> {
    io: S,
    pub(super) service: Service,
    pub(super) serve: Handler,
    pub(super) mailbox: Arc<CompletionQueue>,
    pub(super) input: BytesMut,
    pub(super) out: WriteBuffer,
    pub(super) decoder: Decoder,
    /// Headers that are not whole yet: of which stream, and whether they are all of it.
    pub(super) block: Option<(u32, bool, Vec<u8>)>,
    pub(super) streams: HashMap<u32, Stream>,
    /// Streams that were closed last, and whether by the client.
    pub(super) closed: VecDeque<(u32, bool)>,
    /// The newest stream.
    pub(super) last: u32,
    /// How much may be sent: in all, on a new stream, and in one frame.
    pub(super) window: i64,
    pub(super) initial: i64,
    pub(super) frame: usize,
    /// What has come, and is not given back yet.
    pub(super) unreturned_window: u32,
    /// What has come of calls that are not whole.
    pub(super) buffered: usize,
    /// Calls that are whole.
    pub(super) calls: Vec<(u32, KvRequest, bool)>,
    /// Streams that have something to send, and may.
    pub(super) ready: VecDeque<u32>,
    /// Streams that have something to send, and may not before their window is wider.
    pub(super) blocked: HashSet<u32>,
    /// How often a client may change its settings, and give up what it has asked for.
    pub(super) settings: Rate,
    pub(super) resets: Rate,
    work: FuturesUnordered<Work>,
    /// Whether some of it has not been polled yet.
    fresh: bool,
    /// No new streams are taken.
    pub(super) going_away: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Connection<S> {
    /// Answers until the client goes; from `ending` on only what it has asked before.
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
    /// `input` is what has come behind the preface.
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
                let _ = self.flush(cx); // it ends in any case
                return Poll::Ready(Err(io::Error::other(reason)));
            }
            self.judge();
            self.flush_streams();
            let written = self.flush(cx)?;
            let over = self.going_away && written && self.streams.values().all(Stream::is_answered);
            if over || matches!(read, Poll::Ready(0)) {
                return Poll::Ready(Ok(()));
            }
            // What was written may have made room for more.
            let more = written && self.window > 0 && !self.ready.is_empty();
            if read.is_pending() && !self.fresh && !more {
                return Poll::Pending;
            }
        }
    }

    /// Answers for what has become durable. False: there is more to do.
    fn answer(&mut self, cx: &mut Context<'_>) -> bool {
        for (stream, outcome) in self.mailbox.take(cx) {
            self.on_committed(stream, outcome);
        }
        let written = self.flush(cx).is_ok();
        written && self.calls.is_empty() && self.ready.is_empty() && !self.going_away
    }

    /// How many bytes have come; 0: the client has gone.
    fn read(&mut self, cx: &mut Context<'_>) -> io::Result<Poll<usize>> {
        if self.out.len() > MAX_WRITE_BACKLOG {
            return Ok(Poll::Pending); // woken when it is written
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

    /// Polls `service` from now on for a stream.
    pub(super) fn start(
        &mut self,
        stream: u32,
        service: impl Future<Output = Response<Body>> + Send + 'static,
    ) {
        self.push(stream, async move { (stream, ServiceOutput::Answer(service.await)) });
    }

    /// Polls a body for its next part.
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

    /// Writes what there is; true: all of it.
    fn flush(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        let before = self.out.len();
        let all = self.out.write(Pin::new(&mut self.io), cx)?;
        let sent = (before - self.out.len()) as u64;
        self.service.member.metrics.sent.fetch_add(sent, Ordering::Relaxed);
        Ok(all && !matches!(Pin::new(&mut self.io).poll_flush(cx)?, Poll::Pending))
    }
}
