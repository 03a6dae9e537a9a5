//! HTTP/2 frames: parsing and encoding (RFC 9113).

/// The connection preface of a client.
pub(in crate::etcd_server) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Length of a frame header in bytes.
pub(super) const HEAD: usize = 9;
/// Default maximum frame size in bytes.
pub(super) const LARGEST: usize = 16_384;
/// Default flow-control window in bytes.
pub(super) const WINDOW: i64 = 65_535;
/// Maximum flow-control window in bytes.
pub(super) const MAX_WINDOW: i64 = (1 << 31) - 1;

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const PRIORITY: u8 = 2;
pub(super) const RESET: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PUSH: u8 = 5;
pub(super) const PING: u8 = 6;
pub(super) const GO_AWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;

pub(super) const END_STREAM: u8 = 1;
pub(super) const ACK: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;
pub(super) const PADDED: u8 = 8;
pub(super) const WITH_PRIORITY: u8 = 32;

// Identifiers of settings.
pub(super) const ENABLE_PUSH: u16 = 2;
pub(super) const STREAMS: u16 = 3;
pub(super) const INITIAL_WINDOW: u16 = 4;
pub(super) const FRAME_SIZE: u16 = 5;

/// Error codes of HTTP/2, sent when a stream or a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[repr(u32)]
pub(in crate::etcd_server) enum ErrorCode {
    #[error("NO_ERROR: graceful shutdown")]
    NoError = 0,
    #[error("the protocol is violated")]
    Protocol = 1,
    #[error("FLOW_CONTROL_ERROR: the peer exceeded its flow-control window")]
    FlowControl = 3,
    #[error("the stream is closed")]
    Closed = 5,
    #[error("a frame has a wrong size")]
    FrameSize = 6,
    #[error("there are too many streams")]
    Refused = 7,
    #[error("COMPRESSION_ERROR: invalid HPACK block")]
    Compression = 9,
    #[error("ENHANCE_YOUR_CALM: the peer sent more than this server buffers")]
    EnhanceYourCalm = 11,
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct FrameHeader {
    pub(super) length: usize,
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
}

impl FrameHeader {
    /// Parses the frame header at the beginning of `bytes`, if it is complete.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; HEAD] = bytes.get(..HEAD)?.try_into().ok()?;
        let [a, b, c, kind, flags, rest @ ..] = *bytes;
        let length = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
        Some(Self { length, kind, flags, stream: u32::from_be_bytes(rest) & 0x7fff_ffff })
    }

    pub(super) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The stream that a HEADERS or PRIORITY frame depends on.
    pub(super) fn dependency(&self, payload: &[u8]) -> Option<u32> {
        let padding = usize::from(self.kind == HEADERS && self.has(PADDED));
        if self.kind == PRIORITY || self.has(WITH_PRIORITY) {
            let (_, rest) = payload.split_at_checked(padding)?;
            let number = rest.first_chunk::<4>()?;
            return Some(u32::from_be_bytes(*number) & 0x7fff_ffff);
        }
        None
    }

    /// The payload without padding and priority.
    pub(super) fn content<'a>(&self, mut payload: &'a [u8]) -> Result<&'a [u8], ErrorCode> {
        if self.has(PADDED) {
            let (padding, rest) = payload.split_first().ok_or(ErrorCode::FrameSize)?;
            let length =
                rest.len().checked_sub(usize::from(*padding)).ok_or(ErrorCode::Protocol)?;
            payload = &rest[..length];
        }
        if self.kind == HEADERS && self.has(WITH_PRIORITY) {
            payload = payload.get(5..).ok_or(ErrorCode::FrameSize)?;
        }
        Ok(payload)
    }
}

/// Writes a frame header; `length` bytes follow.
pub(super) fn head(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, length: usize) {
    let length = u32::try_from(length).expect("frames are bounded").to_be_bytes();
    let stream = stream.to_be_bytes();
    out.extend_from_slice(&[length[1], length[2], length[3], kind, flags]);
    out.extend_from_slice(&stream);
}

/// Writes a frame whose payload is one 32-bit number.
pub(super) fn number(out: &mut Vec<u8>, kind: u8, stream: u32, number: u32) {
    head(out, kind, 0, stream, 4);
    out.extend_from_slice(&number.to_be_bytes());
}

pub(super) fn settings(out: &mut Vec<u8>, settings: &[(u16, u32)]) {
    head(out, SETTINGS, 0, 0, settings.len() * 6);
    for (name, value) in settings {
        out.extend_from_slice(&name.to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
}

pub(super) fn go_away(out: &mut Vec<u8>, last: u32, reason: ErrorCode) {
    head(out, GO_AWAY, 0, 0, 8);
    out.extend_from_slice(&last.to_be_bytes());
    out.extend_from_slice(&(reason as u32).to_be_bytes());
}

/// Writes a header block, split into as many frames as needed.
pub(super) fn headers(out: &mut Vec<u8>, stream: u32, block: &[u8], end: bool) {
    let mut parts = block.chunks(LARGEST).peekable();
    let (mut kind, mut flags) = (HEADERS, if end { END_STREAM } else { 0 });
    loop {
        let part = parts.next().unwrap_or_default();
        let last = parts.peek().is_none();
        head(out, kind, flags | if last { END_HEADERS } else { 0 }, stream, part.len());
        out.extend_from_slice(part);
        if last {
            return;
        }
        (kind, flags) = (CONTINUATION, 0);
    }
}

/// The first setting of a payload, and the rest.
pub(super) fn setting(payload: &[u8]) -> Option<((u16, u32), &[u8])> {
    let (six, rest) = payload.split_at_checked(6)?;
    let name = u16::from_be_bytes([six[0], six[1]]);
    Some(((name, u32::from_be_bytes([six[2], six[3], six[4], six[5]])), rest))
}

/// The number that is the payload of a frame.
pub(super) fn to_number(payload: &[u8]) -> Result<u32, ErrorCode> {
    Ok(u32::from_be_bytes(payload.try_into().map_err(|_| ErrorCode::FrameSize)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_reads_as_it_was_written() {
        let mut out = Vec::new();
        headers(&mut out, 5, &vec![7; LARGEST + 3], true);
        let first = FrameHeader::parse(&out).unwrap();
        assert_eq!((first.kind, first.flags, first.length), (HEADERS, END_STREAM, LARGEST));
        let second = FrameHeader::parse(&out[HEAD + LARGEST..]).unwrap();
        assert_eq!((second.kind, second.flags, second.length), (CONTINUATION, END_HEADERS, 3));
        assert_eq!((second.stream, FrameHeader::parse(&out[..8])), (5, None));
    }

    #[test]
    fn padding_is_left_out() {
        let head =
            FrameHeader { length: 0, kind: HEADERS, flags: PADDED | WITH_PRIORITY, stream: 1 };
        assert_eq!(head.content(&[2, 0, 0, 0, 0, 0, b'x', 9, 9]), Ok(&b"x"[..]));
        assert_eq!(head.content(&[9, 1]), Err(ErrorCode::Protocol));
        assert_eq!(head.content(&[]), Err(ErrorCode::FrameSize));
    }
}
