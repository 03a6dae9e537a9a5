//! The two tasks of a connection: one handles received frames, one sends the queued frames.

use std::{
    io,
    sync::{Arc, atomic::Ordering},
};

use bytes::BytesMut;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader},
    sync::mpsc,
};

use super::{
    frame::{self, Arrival, Frame},
    header::{Decoder, Encoder, Headers},
    shared::Shared,
    stream::Stream,
};

const PIECE: usize = 64 << 10;
const REFUSED: u32 = 3;

/// The task that handles received frames.
pub(super) struct Reader<R> {
    shared: Arc<Shared>,
    from: BufReader<R>,
    incoming: mpsc::Sender<Stream>,
    buffer: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Reader<R> {
    pub(super) fn new(shared: Arc<Shared>, from: R, incoming: mpsc::Sender<Stream>) -> Self {
        let from = BufReader::with_capacity(PIECE, from);
        Self { shared, from, incoming, buffer: vec![0; PIECE] }
    }

    pub(super) async fn run(mut self) {
        let mut headers = Decoder::new();
        let end = loop {
            match frame::read(&mut self.from, &mut headers).await {
                Ok(None) => break Ok(()),
                Ok(Some(arrival)) => {
                    if let Err(error) = self.take(arrival).await {
                        break Err(error);
                    }
                }
                Err(error) => break Err(error),
            }
        };
        if let Err(error) = end {
            tracing::debug!(%error, "SPDY connection broke");
        }
        self.shared.outbox.fail();
        self.shared.streams().drain().for_each(|(_, slot)| slot.window.reset());
        self.shared.gone.cancel();
    }

    async fn take(&mut self, arrival: Arrival) -> io::Result<()> {
        let shared = &self.shared;
        match arrival {
            Arrival::Data { id, fin, length } => return self.data(id, fin, length).await,
            Arrival::Control(Frame::Open { id, fin, headers }) => {
                return self.opened(id, fin, headers).await;
            }
            Arrival::Control(Frame::Reply { id, fin, .. }) => {
                if let Some(reply) =
                    shared.streams().get_mut(&id).and_then(|slot| slot.reply.take())
                {
                    let _ = reply.send(()); // the opener may have given up
                }
                if fin {
                    shared.peer_finished(id);
                }
            }
            Arrival::Control(Frame::Reset { id, .. }) => {
                if let Some(slot) = shared.streams().remove(&id) {
                    slot.window.reset();
                }
            }
            Arrival::Control(Frame::Settings { window: Some(window) }) => {
                shared.flow.store(true, Ordering::Relaxed);
                let more = i64::from(window)
                    - shared.initial_window.swap(window.into(), Ordering::Relaxed);
                shared.streams().values().for_each(|slot| slot.window.add(more));
            }
            Arrival::Control(Frame::Window { id, more }) => {
                if let Some(slot) = shared.streams().get(&id) {
                    slot.window.add(more.into());
                }
            }
            Arrival::Control(Frame::Ping(id)) => {
                if !shared.is_ours(id) {
                    shared.answer(Frame::Ping(id))?;
                }
            }
            // After a GOAWAY the open streams may still finish.
            Arrival::Control(_) | Arrival::Other => {}
        }
        Ok(())
    }

    async fn opened(&mut self, id: u32, fin: bool, headers: Headers) -> io::Result<()> {
        let stream =
            if self.shared.is_ours(id) { None } else { self.shared.add(id, headers, None) };
        let Some(stream) = stream else {
            return self.shared.answer(Frame::Reset { id, status: REFUSED });
        };
        self.shared.answer(Frame::Reply { id, fin: false, headers: Headers::default() })?;
        if fin {
            self.shared.peer_finished(id);
        }
        let _ = self.incoming.send(stream).await; // no one accepts any more: dropping the stream closes it
        Ok(())
    }

    /// Copies data from the connection to its stream, in pieces. Data for a stream that is gone is discarded.
    async fn data(&mut self, id: u32, fin: bool, length: u32) -> io::Result<()> {
        let mut pipe = self.shared.streams().get_mut(&id).and_then(|slot| slot.pipe.take());
        let mut left = length as usize;
        while left > 0 {
            let most = left.min(self.buffer.len());
            let (buffer, _) = self.buffer.split_at_mut(most);
            let count = self.from.read(buffer).await?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            left -= count;
            if let Some(to) = &mut pipe
                && to.write_all(self.buffer.get(..count).unwrap_or_default()).await.is_err()
            {
                pipe = None;
            }
        }
        if self.shared.flow_controlled() && length > 0 {
            self.shared.answer(Frame::Window { id: 0, more: length })?; // the connection's window is never limited
        }
        if fin {
            self.shared.peer_finished(id);
        } else if let Some(slot) = self.shared.streams().get_mut(&id) {
            slot.pipe = pipe;
        }
        Ok(())
    }
}

/// Writes the queued frames and flushes when the queue is empty. After an error the reader ends as well, because the
/// peer closes the connection or the queue fails.
pub(super) async fn write(shared: Arc<Shared>, mut to: impl AsyncWrite + Unpin) {
    let mut headers = Encoder::new();
    let mut bytes = BytesMut::with_capacity(2 * PIECE);
    let result: io::Result<()> = async {
        while let Some(frame) = shared.outbox.pop().await {
            frame.write(&mut bytes, &mut headers)?;
            while bytes.len() < PIECE
                && let Some(frame) = shared.outbox.try_pop()
            {
                frame.write(&mut bytes, &mut headers)?;
            }
            to.write_all_buf(&mut bytes).await?;
            to.flush().await?;
        }
        to.shutdown().await
    }
    .await;
    if let Err(error) = result {
        tracing::debug!(%error, "SPDY connection broke");
        shared.outbox.fail();
        shared.gone.cancel();
    }
}
