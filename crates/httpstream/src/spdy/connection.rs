//! A SPDY connection: accepts the peer's streams and opens streams.

use std::{
    io,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::{mpsc, oneshot},
    task::JoinSet,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::{
    frame::Frame,
    header::Headers,
    shared::{Shared, WINDOW},
    stream::Stream,
    wire::{self, Reader},
};

const WAITING_STREAMS: usize = 64;
const REPLY: Duration = Duration::from_secs(30);
const PARTING: Duration = Duration::from_secs(10);

/// A SPDY connection with its two tasks.
#[derive(Debug)]
pub struct Connection {
    shared: Arc<Shared>,
    incoming: mpsc::Receiver<Stream>,
    tasks: JoinSet<()>,
}

/// Opens streams; clones use the same connection.
#[derive(Clone, Debug)]
pub struct Opener(Arc<Shared>);

impl Connection {
    pub fn server(io: impl AsyncRead + AsyncWrite + Send + 'static) -> Self {
        Self::start(io, 2)
    }

    pub fn client(io: impl AsyncRead + AsyncWrite + Send + 'static) -> Self {
        Self::start(io, 1)
    }

    fn start(io: impl AsyncRead + AsyncWrite + Send + 'static, first: u32) -> Self {
        let shared = Arc::new(Shared::new(first));
        // The outbox is new, so it is neither closed nor full.
        let _ = shared.outbox.push(Frame::Settings { window: Some(WINDOW) });
        let (read, write) = tokio::io::split(io);
        let (sender, incoming) = mpsc::channel(WAITING_STREAMS);
        let mut tasks = JoinSet::new();
        tasks.spawn(Reader::new(shared.clone(), read, sender).run());
        tasks.spawn(wire::write(shared.clone(), write));
        Self { shared, incoming, tasks }
    }

    /// The next stream that the peer opens; `None` when the connection is closed.
    pub async fn accept(&mut self) -> Option<Stream> {
        self.incoming.recv().await
    }

    pub fn opener(&self) -> Opener {
        Opener(self.shared.clone())
    }

    /// Cancelled when no more data can arrive.
    pub fn gone(&self) -> CancellationToken {
        self.shared.gone.clone()
    }

    /// Sends what has been written and a GOAWAY, and gives the peer some time to read it: closing a socket at once
    /// could discard data in transit.
    pub async fn close(mut self) {
        self.incoming.close();
        let _ = self.shared.outbox.push(Frame::GoAway { last: 0 }); // fails if the connection is broken already
        self.shared.outbox.finish();
        let _ = timeout(PARTING, async { while self.tasks.join_next().await.is_some() {} }).await;
    }
}

impl Opener {
    /// Opens a stream and waits for the peer's reply.
    pub async fn open(&self, headers: Headers) -> io::Result<Stream> {
        let id = self.0.next.fetch_add(2, Ordering::Relaxed);
        let (reply, replied) = oneshot::channel();
        let stream = self
            .0
            .add(id, headers.clone(), Some(reply))
            .ok_or_else(|| io::Error::other("too many streams"))?;
        self.0.outbox.push(Frame::Open { id, fin: false, headers })?;
        match timeout(REPLY, replied).await {
            Ok(Ok(())) => Ok(stream),
            Ok(Err(_)) => Err(io::ErrorKind::ConnectionReset.into()),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use bytes::BytesMut;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::{
        super::{
            frame::{self, Arrival},
            header::{Decoder, Encoder},
        },
        *,
    };

    const SOON: Duration = Duration::from_mins(1);

    /// Regression: output was lost if input arrived between the last write and its sending.
    #[tokio::test]
    async fn what_was_written_is_sent_though_the_peer_still_sends() {
        let yield_to_others = async || {
            let mut yielded = false;
            std::future::poll_fn(|cx| {
                cx.waker().wake_by_ref();
                if std::mem::replace(&mut yielded, true) { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
        };
        for pauses in 0..6 {
            #[expect(clippy::disallowed_methods, reason = "a test has no context")]
            let exchange = tokio::spawn(async move {
                let (near, far) = duplex(64 << 10);
                let (client, mut server) = (Connection::client(near), Connection::server(far));
                let mut theirs = client.opener().open(Headers::default()).await.expect("agreed");
                let mut ours = server.accept().await.expect("opened");
                theirs.write_all(&[1; 1000]).await.expect("room");
                for _ in 0..pauses {
                    yield_to_others().await;
                }
                ours.write_all(b"last words").await.expect("room");
                drop(ours);
                let reading = async {
                    let mut text = Vec::new();
                    let read = timeout(SOON, theirs.read_to_end(&mut text)).await;
                    assert!(matches!(read, Ok(Ok(10))), "{pauses}: {read:?}");
                    client.close().await;
                };
                tokio::join!(server.close(), reading);
            });
            exchange.await.expect("no panic");
        }
    }

    #[tokio::test]
    async fn a_stream_that_nobody_reads_holds_up_no_other() {
        let (near, far) = duplex(64 << 10);
        let (client, mut server) = (Connection::client(near), Connection::server(far));
        let opener = client.opener();
        let mut slow = opener.open(Headers::default()).await.expect("agreed");
        let mut fast = opener.open(Headers::default()).await.expect("agreed");
        let _unread = server.accept().await.expect("opened");
        let mut read = server.accept().await.expect("opened");
        let much = vec![0; 4 << 20];
        let stuck = timeout(Duration::from_millis(100), slow.write_all(&much)).await;
        assert!(stuck.is_err(), "it waits for its window");
        fast.write_all(b"through").await.expect("open");
        drop(fast);
        let mut text = String::new();
        timeout(SOON, read.read_to_string(&mut text)).await.expect("not held up").expect("text");
        assert_eq!(text, "through");
    }

    #[tokio::test]
    async fn pings_are_answered_and_resets_end_streams() {
        let (mut peer, far) = duplex(64 << 10);
        let mut server = Connection::server(far);
        let (mut bytes, mut encoder, mut decoder) =
            (BytesMut::new(), Encoder::new(), Decoder::new());
        let open = Frame::Open { id: 1, fin: false, headers: Headers::default() };
        for frame in [Frame::Ping(7), open, Frame::Reset { id: 1, status: 5 }] {
            frame.write(&mut bytes, &mut encoder).expect("in memory");
        }
        peer.write_all(&bytes).await.expect("open");
        let mut stream = server.accept().await.expect("opened");
        assert_eq!(stream.read(&mut [0; 8]).await.expect("an end"), 0);
        assert!(stream.write_all(b"x").await.is_err());
        loop {
            match timeout(SOON, frame::read(&mut peer, &mut decoder)).await.expect("an answer") {
                Ok(Some(Arrival::Control(Frame::Ping(id)))) => break assert_eq!(id, 7),
                Ok(Some(_)) => {}
                end => panic!("{end:?}"),
            }
        }
        drop(peer);
        timeout(SOON, server.gone().cancelled()).await.expect("the peer is gone");
    }
}
