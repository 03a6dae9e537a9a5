//! A client of gRPC that costs next to nothing, so that the server is what is measured:
//! one connection, many callers on it, each with one request under way.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use bytes::{Buf as _, BytesMut};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// Wide enough never to be waited for.
const WINDOW: u32 = 1 << 30;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;

pub(crate) struct Connection {
    stream: TcpStream,
    input: BytesMut,
    out: Vec<u8>,
    path: &'static str,
    next: u32,
    /// What has come and was not given back.
    owed: u32,
    /// Since when the requests under way are, and who made them.
    open: HashMap<u32, (Instant, usize)>,
}

/// What one connection has seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
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
        let (input, open) = (BytesMut::new(), HashMap::new());
        Ok(Self { stream, input, out, path, next: 1, owed: 0, open })
    }

    /// Lets so many callers go on for that long; `message` gives what each asks next.
    pub(crate) async fn run(
        &mut self,
        callers: usize,
        lasts: Duration,
        message: impl Fn(usize) -> Vec<u8>,
    ) -> Result<Seen> {
        let (begun, mut seen) = (Instant::now(), Seen::default());
        for caller in 0..callers {
            self.ask(caller, &message(caller));
        }
        while !self.open.is_empty() {
            let out = std::mem::take(&mut self.out);
            self.stream.write_all(&out).await?;
            self.out = out;
            self.out.clear();
            self.input.reserve(256 << 10);
            ensure!(self.stream.read_buf(&mut self.input).await? > 0, "the server has gone");
            for caller in self.take(&mut seen)? {
                if begun.elapsed() < lasts {
                    self.ask(caller, &message(caller));
                }
            }
        }
        Ok(seen)
    }

    fn ask(&mut self, caller: usize, message: &[u8]) {
        let mut block = vec![0x83, 0x86]; // POST, http
        if self.next == 1 {
            for (name, value) in [(0x44, self.path), (0x41, "bench"), (0x5f, "application/grpc")] {
                block.extend_from_slice(&[name, u8::try_from(value.len()).expect("short")]);
                block.extend_from_slice(value.as_bytes());
            }
            block.extend_from_slice(b"\x40\x02te\x08trailers");
        } else {
            block.extend_from_slice(&[0xc1, 0xc0, 0xbf, 0xbe]); // the same again
        }
        head(&mut self.out, block.len(), HEADERS, 4, self.next);
        self.out.extend_from_slice(&block);
        head(&mut self.out, message.len() + 5, DATA, 1, self.next);
        self.out.push(0);
        self.out.extend_from_slice(&u32::try_from(message.len()).expect("short").to_be_bytes());
        self.out.extend_from_slice(message);
        self.open.insert(self.next, (Instant::now(), caller));
        self.next += 2;
    }

    /// Takes all frames that are whole. Gives whose answers have come.
    fn take(&mut self, seen: &mut Seen) -> Result<Vec<usize>> {
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
                }
                HEADERS if flags & 1 != 0 => {
                    let well = b"grpc-status";
                    // Whoever writes it by the Huffman code says 0 if there is no message.
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
