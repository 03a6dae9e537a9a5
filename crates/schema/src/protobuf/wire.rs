//! Protobuf wire format: varints, lengths and field headers.

/// The bytes are not a valid message of this type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed protobuf message")]
pub struct DecodeError;

pub(super) const VARINT: u64 = 0;
pub(super) const FIXED64: u64 = 1;
pub(super) const BYTES: u64 = 2;
pub(super) const FIXED32: u64 = 5;

/// The value of one field on the wire.
#[derive(Clone, Copy, Debug)]
pub(super) enum WireValue<'a> {
    Number(u64),
    Double(u64),
    Bytes(&'a [u8]),
}

impl<'a> WireValue<'a> {
    /// Decodes the next field: its number and value.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "what it gives then stays in registers")]
    pub(super) fn decode_field(from: &mut &'a [u8]) -> Result<(u64, Self), DecodeError> {
        let header = take_varint(from)?;
        let wire = match header & 7 {
            BYTES => {
                let length = usize::try_from(take_varint(from)?).map_err(|_| DecodeError)?;
                Self::Bytes(take(from, length)?)
            }
            VARINT => Self::Number(take_varint(from)?),
            kind => Self::fixed(kind, from)?,
        };
        Ok((header >> 3, wire))
    }

    #[inline]
    pub(super) fn bytes(self) -> Result<&'a [u8], DecodeError> {
        if let Self::Bytes(bytes) = self { Ok(bytes) } else { Err(DecodeError) }
    }

    #[inline]
    pub(super) fn number(self) -> Result<u64, DecodeError> {
        if let Self::Number(n) = self { Ok(n) } else { Err(DecodeError) }
    }

    #[cold]
    fn fixed(kind: u64, from: &mut &'a [u8]) -> Result<Self, DecodeError> {
        let size = match kind {
            FIXED64 => 8,
            FIXED32 => 4,
            _ => return Err(DecodeError),
        };
        let bytes = take(from, size)?.iter().rev();
        Ok(Self::Double(bytes.fold(0, |bits, byte| bits << 8 | u64::from(*byte))))
    }
}

#[inline]
fn take<'a>(from: &mut &'a [u8], length: usize) -> Result<&'a [u8], DecodeError> {
    let (bytes, rest) = from.split_at_checked(length).ok_or(DecodeError)?;
    *from = rest;
    Ok(bytes)
}

#[inline]
fn take_varint(from: &mut &[u8]) -> Result<u64, DecodeError> {
    match from {
        [byte, rest @ ..] if *byte < 0x80 => {
            *from = rest;
            Ok(u64::from(*byte))
        }
        _ => {
            let (n, length) = take_long(from)?;
            take(from, length)?;
            Ok(n)
        }
    }
}

/// Decodes a varint; returns it and its length in bytes.
#[cold]
fn take_long(from: &[u8]) -> Result<(u64, usize), DecodeError> {
    let mut n = 0;
    for (shift, (at, byte)) in (0..64).step_by(7).zip(from.iter().enumerate()) {
        n |= u64::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            return Ok((n, at + 1));
        }
    }
    Err(DecodeError)
}

#[inline]
pub(super) fn put_varint(mut n: u64, out: &mut Vec<u8>) {
    while n >= 0x80 {
        out.push(n.to_le_bytes()[0] | 0x80);
        n >>= 7;
    }
    out.push(n.to_le_bytes()[0]);
}

pub(super) fn put_number(tag: u32, n: u64, out: &mut Vec<u8>) {
    put_head(tag, VARINT, n, out);
}

/// Writes a field header and a varint; mostly two bytes.
#[inline]
fn put_head(tag: u32, kind: u64, n: u64, out: &mut Vec<u8>) {
    let head = u64::from(tag) << 3 | kind;
    if (head | n) < 0x80 {
        out.extend_from_slice(&[head.to_le_bytes()[0], n.to_le_bytes()[0]]);
    } else {
        put_long(head, n, out);
    }
}

#[inline(never)]
fn put_long(head: u64, n: u64, out: &mut Vec<u8>) {
    put_varint(head, out);
    put_varint(n, out);
}

pub(super) fn put_double(tag: u32, n: f64, out: &mut Vec<u8>) {
    put_varint(u64::from(tag) << 3 | FIXED64, out);
    out.extend_from_slice(&n.to_bits().to_le_bytes());
}

pub(super) fn put_bytes(tag: u32, bytes: &[u8], out: &mut Vec<u8>) {
    put_length(tag, bytes.len(), out);
    out.extend_from_slice(bytes);
}

/// Writes the header of a field with this many bytes.
pub(super) fn put_length(tag: u32, length: usize, out: &mut Vec<u8>) {
    put_head(tag, BYTES, length as u64, out);
}

/// Writes a nested message in place. One byte is reserved for its length; the message is moved if
/// the length needs more.
#[expect(clippy::indexing_slicing, reason = "writes only within what it has written itself")]
pub(super) fn put_message(tag: u32, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    put_length(tag, 0, out);
    let begin = out.len() - 1;
    write(out);
    let end = out.len();
    let length = end - begin - 1;
    if let Ok(short @ ..0x80) = u8::try_from(length) {
        out[begin] = short;
        return;
    }
    put_varint(length as u64, out);
    let mut digits = [0; 10];
    let count = out.len() - end;
    digits[..count].copy_from_slice(&out[end..]);
    out.truncate(end);
    out.resize(end + count - 1, 0);
    out.copy_within(begin + 1..end, begin + count);
    out[begin..begin + count].copy_from_slice(&digits[..count]);
}
