//! SPDY frames: an eight-byte header and a body. The body of a data frame is read by its stream; all other bodies are
//! small and bounded.

use std::io;

use bytes::{BufMut, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::header::{Decoder, Encoder, Headers};

const VERSION: u16 = 3;
const LARGEST_CONTROL: u32 = 64 << 10;
const FIN: u8 = 1;
const SETTING_INITIAL_WINDOW: u32 = 7;

/// A SPDY frame.
#[derive(Debug)]
pub(super) enum Frame {
    Open {
        id: u32,
        fin: bool,
        headers: Headers,
    },
    Reply {
        id: u32,
        fin: bool,
        headers: Headers,
    },
    Reset {
        id: u32,
        status: u32,
    },
    /// The initial window of new streams.
    Settings {
        window: Option<u32>,
    },
    Ping(u32),
    GoAway {
        last: u32,
    },
    Window {
        id: u32,
        more: u32,
    },
    Data {
        id: u32,
        fin: bool,
        bytes: Bytes,
    },
}

/// A received frame. Of a data frame only the length is read; the bytes follow.
#[derive(Debug)]
pub(super) enum Arrival {
    Control(Frame),
    Data {
        id: u32,
        fin: bool,
        length: u32,
    },
    /// A frame that is ignored.
    Other,
}

/// Reads a frame; `None` at the end of the connection.
pub(super) async fn read(
    from: &mut (impl AsyncRead + Unpin),
    headers: &mut Decoder,
) -> io::Result<Option<Arrival>> {
    let mut head = [0; 8];
    if from.read(&mut head[..1]).await? == 0 {
        return Ok(None);
    }
    from.read_exact(&mut head[1..]).await?;
    let [a, b, c, d, flags, length @ ..] = head;
    let [high, middle, low] = length;
    let (first, length) =
        (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([0, high, middle, low]));
    let fin = flags & FIN != 0;
    if first >> 31 == 0 {
        return Ok(Some(Arrival::Data { id: first, fin, length }));
    }
    let (version, kind) = (first >> 16 & 0x7fff, first & 0xffff);
    if version != u32::from(VERSION) || length > LARGEST_CONTROL {
        return Err(invalid());
    }
    let mut body = vec![0; length as usize];
    from.read_exact(&mut body).await?;
    parse(kind, fin, &body, headers).map(Some)
}

fn parse(kind: u32, fin: bool, body: &[u8], headers: &mut Decoder) -> io::Result<Arrival> {
    let word = |at: usize| {
        let bytes =
            body.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).ok_or_else(invalid)?;
        Ok::<_, io::Error>(u32::from_be_bytes(bytes))
    };
    let id = || Ok::<_, io::Error>(word(0)? & 0x7fff_ffff);
    let mut block = |at: usize| headers.decode(body.get(at..).ok_or_else(invalid)?);
    Ok(Arrival::Control(match kind {
        1 => Frame::Open { id: id()?, fin, headers: block(10)? },
        2 => Frame::Reply { id: id()?, fin, headers: block(4)? },
        3 => Frame::Reset { id: id()?, status: word(4)? },
        4 => Frame::Settings { window: initial_window(body)? },
        6 => Frame::Ping(word(0)?),
        7 => Frame::GoAway { last: id()? },
        8 => {
            block(4)?; // further headers are ignored, but must be decoded for the compression state
            return Ok(Arrival::Other);
        }
        9 => Frame::Window { id: id()?, more: word(4)? & 0x7fff_ffff },
        _ => return Ok(Arrival::Other),
    }))
}

fn initial_window(body: &[u8]) -> io::Result<Option<u32>> {
    let (count, entries) = body.split_first_chunk::<4>().ok_or_else(invalid)?;
    let (entries, _) = entries.as_chunks::<8>();
    let entries = entries.iter().take(u32::from_be_bytes(*count) as usize);
    let values = entries.map(|[_, high, middle, low, value @ ..]| {
        (u32::from_be_bytes([0, *high, *middle, *low]), u32::from_be_bytes(*value))
    });
    Ok(values.filter(|(key, _)| *key == SETTING_INITIAL_WINDOW).map(|(_, value)| value).next_back())
}

impl Frame {
    /// Appends the encoded frame.
    pub(super) fn write(&self, to: &mut BytesMut, headers: &mut Encoder) -> io::Result<()> {
        match self {
            Self::Open { id, fin, headers: list } => {
                let block = headers.encode(list)?;
                control(to, 1, *fin, &[&id.to_be_bytes(), &[0; 6], &block])?;
            }
            Self::Reply { id, fin, headers: list } => {
                let block = headers.encode(list)?;
                control(to, 2, *fin, &[&id.to_be_bytes(), &block])?;
            }
            Self::Reset { id, status } => {
                control(to, 3, false, &[&id.to_be_bytes(), &status.to_be_bytes()])?;
            }
            Self::Settings { window } => {
                let entry = window.map(|window| {
                    [SETTING_INITIAL_WINDOW.to_be_bytes(), window.to_be_bytes()].concat()
                });
                let count = u32::from(entry.is_some()).to_be_bytes();
                control(to, 4, false, &[&count, &entry.unwrap_or_default()])?;
            }
            Self::Ping(id) => control(to, 6, false, &[&id.to_be_bytes()])?,
            Self::GoAway { last } => control(to, 7, false, &[&last.to_be_bytes(), &[0; 4]])?,
            Self::Window { id, more } => {
                control(to, 9, false, &[&id.to_be_bytes(), &more.to_be_bytes()])?;
            }
            Self::Data { id, fin, bytes } => {
                to.put_u32(*id);
                put_length(to, *fin, bytes.len())?;
                to.put_slice(bytes);
            }
        }
        Ok(())
    }
}

fn control(to: &mut BytesMut, kind: u16, fin: bool, parts: &[&[u8]]) -> io::Result<()> {
    to.put_u16(0x8000 | VERSION);
    to.put_u16(kind);
    put_length(to, fin, parts.iter().map(|part| part.len()).sum())?;
    for part in parts {
        to.put_slice(part);
    }
    Ok(())
}

/// Writes the flags and the length of a frame. Fails if the frame is too large for 24 bits.
fn put_length(to: &mut BytesMut, fin: bool, length: usize) -> io::Result<()> {
    let length = u32::try_from(length).ok().filter(|length| *length < 1 << 24);
    to.put_u32(u32::from(if fin { FIN } else { 0 }) << 24 | length.ok_or_else(invalid)?);
    Ok(())
}

fn invalid() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "invalid SPDY frame")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn frames_come_back_as_they_went() {
        let headers: Headers = [("a", "b")].into_iter().collect();
        let frames = [
            Frame::Open { id: 1, fin: true, headers: headers.clone() },
            Frame::Reply { id: 1, fin: false, headers },
            Frame::Reset { id: 3, status: 5 },
            Frame::Settings { window: Some(1 << 18) },
            Frame::Ping(7),
            Frame::GoAway { last: 9 },
            Frame::Window { id: 1, more: 100 },
        ];
        let (mut bytes, mut encoder, mut decoder) =
            (BytesMut::new(), Encoder::new(), Decoder::new());
        for frame in &frames {
            frame.write(&mut bytes, &mut encoder).expect("in memory");
        }
        let mut wire = &bytes[..];
        for frame in frames {
            let Ok(Some(Arrival::Control(back))) = read(&mut wire, &mut decoder).await else {
                panic!("{frame:?}")
            };
            assert_eq!(format!("{back:?}"), format!("{frame:?}"));
        }
        assert!(matches!(read(&mut wire, &mut decoder).await, Ok(None)));
    }

    #[tokio::test]
    async fn hostile_frames() {
        for bytes in [
            &[0x80, 3, 0, 1, 0, 0xff, 0xff, 0xff][..],
            &[0x80, 9, 0, 1, 0, 0, 0, 0],
            &[0x80, 3, 0, 6, 0, 0, 0, 0],
            &[0x80],
        ] {
            assert!(read(&mut &bytes[..], &mut Decoder::new()).await.is_err(), "{bytes:?}");
        }
    }
}
