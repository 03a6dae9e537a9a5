//! A minimal gRPC client with very little overhead, so that the server is what is measured. A connection has many
//! callers with one request each, or requests at a fixed rate, or one endless stream.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use bytes::{Buf as _, Bytes, BytesMut};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// A flow-control window that is never exhausted.
const WINDOW: u32 = 1 << 30;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;

/// An HTTP/2 connection to a gRPC server.
pub(crate) struct Connection {
    stream: TcpStream,
    input: BytesMut,
    out: Vec<u8>,
    path: &'static str,
    next: u32,
    /// Received bytes that were not yet returned to the flow-control window.
    owed: u32,
    /// Received data of the endless stream.
    body: BytesMut,
    /// Start and caller of each request in progress, by stream.
    open: HashMap<u32, (Instant, usize)>,
}

/// The measurements of one connection.
#[derive(Debug, Default)]
pub(crate) struct ConnectionStats {
    pub(crate) took: Vec<Duration>,
    pub(crate) bytes: u64,
}

impl Connection {
    pub(crate) async fn open(address: &str, path: &'static str) -> Result<Self> {
        let stream = TcpStream::connect(address).await.context("cannot connect")?;
        stream.set_nodelay(true)?;
        let mut out = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        head(&mut out, 6, SETTINGS, 0, 0);
        out.extend_from_slice(&[0, 4]);
        out.extend_from_slice(&WINDOW.to_be_bytes());
        head(&mut out, 4, 8, 0, 0);
        out.extend_from_slice(&WINDOW.to_be_bytes());
        let (input, body, open) = (BytesMut::new(), BytesMut::new(), HashMap::new());
        Ok(Self { stream, input, out, path, next: 1, owed: 0, body, open })
    }

    /// Runs this many callers for this time; `message` returns the next request of each.
    pub(crate) async fn run(
        &mut self,
        callers: usize,
        lasts: Duration,
        message: impl Fn(usize) -> Vec<u8>,
    ) -> Result<ConnectionStats> {
        let (begun, mut seen) = (Instant::now(), ConnectionStats::default());
        for caller in 0..callers {
            self.ask(caller, &message(caller));
        }
        while !self.open.is_empty() {
            self.flush().await?;
            self.read().await?;
            for caller in self.take(&mut seen)? {
                if begun.elapsed() < lasts {
                    self.ask(caller, &message(caller));
                }
            }
        }
        Ok(seen)
    }

    /// Sends `count` requests at a fixed rate, whatever the responses take.
    pub(crate) async fn pace(
        &mut self,
        pace: Duration,
        count: usize,
        message: impl Fn(usize) -> Vec<u8>,
    ) -> Result<ConnectionStats> {
        let (mut ticks, mut nth, mut seen) =
            (tokio::time::interval(pace), 0, ConnectionStats::default());
        while nth < count || !self.open.is_empty() {
            tokio::select! {
                _ = ticks.tick(), if nth < count => {
                    self.ask(nth, &message(nth));
                    nth += 1;
                }
                read = self.read() => {
                    read?;
                    self.take(&mut seen)?;
                }
            }
            self.flush().await?;
        }
        Ok(seen)
    }

    /// Starts an endless stream with these messages.
    pub(crate) fn begin(&mut self, messages: impl Iterator<Item = Vec<u8>>) {
        self.head();
        for message in messages {
            self.message(&message, false);
        }
        self.next += 2;
    }

    /// The next messages of the endless stream.
    pub(crate) async fn messages(&mut self) -> Result<Vec<Bytes>> {
        self.flush().await?;
        self.read().await?;
        self.take(&mut ConnectionStats::default())?;
        let mut messages = Vec::new();
        while let Some(head) = self.body.first_chunk::<5>() {
            let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
            let length = usize::try_from(length)?;
            if self.body.len() < 5 + length {
                break;
            }
            self.body.advance(5);
            messages.push(self.body.split_to(length).freeze());
        }
        Ok(messages)
    }

    async fn read(&mut self) -> Result<()> {
        self.input.reserve(256 << 10);
        ensure!(self.stream.read_buf(&mut self.input).await? > 0, "the server has gone");
        Ok(())
    }

    async fn flush(&mut self) -> Result<()> {
        self.stream.write_all(&self.out).await?;
        self.out.clear();
        Ok(())
    }

    fn ask(&mut self, caller: usize, message: &[u8]) {
        self.head();
        self.message(message, true);
        self.open.insert(self.next, (Instant::now(), caller));
        self.next += 2;
    }

    fn message(&mut self, message: &[u8], last: bool) {
        head(&mut self.out, message.len() + 5, DATA, u8::from(last), self.next);
        self.out.push(0);
        self.out.extend_from_slice(&u32::try_from(message.len()).expect("short").to_be_bytes());
        self.out.extend_from_slice(message);
    }

    fn head(&mut self) {
        let mut block = vec![0x83, 0x86]; // POST, http
        if self.next == 1 {
            for (name, value) in [(0x44, self.path), (0x41, "bench"), (0x5f, "application/grpc")] {
                block.extend_from_slice(&[name, u8::try_from(value.len()).expect("short")]);
                block.extend_from_slice(value.as_bytes());
            }
            block.extend_from_slice(b"\x40\x02te\x08trailers");
        } else {
            block.extend_from_slice(&[0xc1, 0xc0, 0xbf, 0xbe]); // the same header fields again, by their indexes
        }
        head(&mut self.out, block.len(), HEADERS, 4, self.next);
        self.out.extend_from_slice(&block);
    }

    /// Consumes all complete frames. Returns the callers whose responses are complete.
    fn take(&mut self, seen: &mut ConnectionStats) -> Result<Vec<usize>> {
        let mut done = Vec::new();
        while let Some((length, kind, flags, stream)) = parse(&self.input) {
            if self.input.len() < 9 + length {
                break;
            }
            let payload = &self.input[9..9 + length];
            match kind {
                DATA => {
                    seen.bytes += length as u64;
                    self.owed += u32::try_from(length)?;
                    if !self.open.contains_key(&stream) {
                        self.body.extend_from_slice(payload);
                    }
                }
                HEADERS if flags & 1 != 0 => {
                    let well = b"grpc-status";
                    // A server that encodes the header with Huffman coding sends status 0 if there is no message.
                    let plain = payload.windows(well.len()).any(|part| part == well);
                    let fails = plain && !payload.windows(3).any(|part| part == b"s\x010");
                    ensure!(
                        !fails && length < 64,
                        "refused: {:?}",
                        payload.escape_ascii().to_string()
                    );
                    if let Some((since, caller)) = self.open.remove(&stream) {
                        seen.took.push(since.elapsed());
                        done.push(caller);
                    }
                }
                SETTINGS if flags & 1 == 0 => head(&mut self.out, 0, SETTINGS, 1, 0),
                PING if flags & 1 == 0 => {
                    head(&mut self.out, length, PING, 1, 0);
                    self.out.extend_from_slice(payload);
                }
                3 | 7 => bail!("the server ends it: {:?}", payload.escape_ascii().to_string()),
                _ => {}
            }
            self.input.advance(9 + length);
        }
        if self.owed > WINDOW / 4 {
            head(&mut self.out, 4, 8, 0, 0);
            self.out.extend_from_slice(&std::mem::take(&mut self.owed).to_be_bytes());
        }
        Ok(done)
    }
}

fn parse(input: &[u8]) -> Option<(usize, u8, u8, u32)> {
    let &[high, middle, low, kind, flags, ref stream @ ..] = input.first_chunk::<9>()?;
    let length = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
    Some((length, kind, flags, u32::from_be_bytes(*stream)))
}

fn head(out: &mut Vec<u8>, length: usize, kind: u8, flags: u8, stream: u32) {
    let length = u32::try_from(length).expect("short").to_be_bytes();
    out.extend_from_slice(&[length[1], length[2], length[3], kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
}
