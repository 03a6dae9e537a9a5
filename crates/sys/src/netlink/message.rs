//! Netlink encoding: messages with nested attributes.

use std::net::IpAddr;

/// Rounds up to four bytes, the alignment of attributes and headers.
pub const fn align(length: usize) -> usize {
    (length + 3) & !3
}

const HEADER: usize = 16;
const NESTED: u16 = 0x8000;
const TYPE_MASK: u16 = 0x3fff;

/// A buffer of one or more messages. The length of a nested attribute is written when its closure returns, so it cannot
/// be left open.
#[derive(Debug, Default)]
pub struct Message {
    bytes: Vec<u8>,
}

impl Message {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Appends a message: header, the fixed part of its family, attributes.
    pub fn message(
        &mut self,
        (kind, flags): (u16, u16),
        sequence: u32,
        fixed: &[u8],
        fill: impl FnOnce(&mut Self),
    ) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(&flags.to_ne_bytes());
        self.bytes.extend_from_slice(&sequence.to_ne_bytes());
        self.bytes.extend_from_slice(&[0; 4]);
        self.bytes.extend_from_slice(fixed);
        self.pad();
        fill(self);
        let length = u32::try_from(self.bytes.len() - start).expect("a message is far below 4 GiB");
        self.bytes[start..start + 4].copy_from_slice(&length.to_ne_bytes());
    }

    /// Appends an attribute with raw bytes.
    pub fn bytes(&mut self, kind: u16, value: &[u8]) -> &mut Self {
        let length = u16::try_from(value.len() + 4).expect("an attribute is below 64 KiB");
        self.bytes.extend_from_slice(&length.to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(value);
        self.pad();
        self
    }

    /// Appends a NUL-terminated string.
    pub fn string(&mut self, kind: u16, value: &str) -> &mut Self {
        let mut bytes = Vec::with_capacity(value.len() + 1);
        bytes.extend_from_slice(value.as_bytes());
        bytes.push(0);
        self.bytes(kind, &bytes)
    }

    pub fn u8(&mut self, kind: u16, value: u8) -> &mut Self {
        self.bytes(kind, &[value])
    }

    /// Appends a number in host byte order, as in rtnetlink.
    pub fn u32(&mut self, kind: u16, value: u32) -> &mut Self {
        self.bytes(kind, &value.to_ne_bytes())
    }

    /// Appends a number in network byte order, as in nfnetlink.
    pub fn be32(&mut self, kind: u16, value: u32) -> &mut Self {
        self.bytes(kind, &value.to_be_bytes())
    }

    pub fn be64(&mut self, kind: u16, value: u64) -> &mut Self {
        self.bytes(kind, &value.to_be_bytes())
    }

    pub fn address(&mut self, kind: u16, value: IpAddr) -> &mut Self {
        match value {
            IpAddr::V4(address) => self.bytes(kind, &address.octets()),
            IpAddr::V6(address) => self.bytes(kind, &address.octets()),
        }
    }

    /// Appends a nested attribute, whose contents `fill` adds.
    pub fn nested(&mut self, kind: u16, fill: impl FnOnce(&mut Self)) -> &mut Self {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 2]);
        self.bytes.extend_from_slice(&(kind | NESTED).to_ne_bytes());
        fill(self);
        let length =
            u16::try_from(self.bytes.len() - start).expect("a nested attribute is below 64 KiB");
        self.bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self
    }

    /// Appends raw bytes inside a nested attribute, such as the link header of a veth peer.
    pub fn raw(&mut self, value: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(value);
        self.pad();
        self
    }

    fn pad(&mut self) {
        self.bytes.resize(align(self.bytes.len()), 0);
    }
}

/// Iterator over attributes; stops at the first malformed one.
#[derive(Debug, Clone)]
pub struct Attributes<'a>(pub &'a [u8]);

impl<'a> Attributes<'a> {
    /// The value of the first attribute of this type.
    pub fn value(&self, kind: u16) -> Option<&'a [u8]> {
        self.clone().find(|(found, _)| *found == kind).map(|(_, value)| value)
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let length = usize::from(u16::from_ne_bytes(self.0.get(..2)?.try_into().ok()?));
        let kind = u16::from_ne_bytes(self.0.get(2..4)?.try_into().ok()?) & TYPE_MASK;
        let value = self.0.get(4..length)?;
        self.0 = self.0.get(align(length)..).unwrap_or_default();
        Some((kind, value))
    }
}

/// One received message, borrowed from the buffer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Received<'a> {
    pub(super) kind: u16,
    pub(super) flags: u16,
    pub(super) sequence: u32,
    pub(super) body: &'a [u8],
}

/// Iterator over the messages of a datagram.
pub(super) struct ReceivedAll<'a>(pub(super) &'a [u8]);

impl<'a> Iterator for ReceivedAll<'a> {
    type Item = Received<'a>;

    fn next(&mut self) -> Option<Received<'a>> {
        let length = usize::try_from(number(self.0, 0)?).ok()?;
        let received = Received {
            kind: u16::from_ne_bytes(self.0.get(4..6)?.try_into().ok()?),
            flags: u16::from_ne_bytes(self.0.get(6..8)?.try_into().ok()?),
            sequence: number(self.0, 8)?,
            body: self.0.get(HEADER..length)?,
        };
        self.0 = self.0.get(align(length)..).unwrap_or_default();
        Some(received)
    }
}

pub(super) fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

pub(super) fn ip(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(octets) = <[u8; 4]>::try_from(bytes) {
        return Some(IpAddr::from(octets));
    }
    <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_read_back_as_written() {
        let mut message = Message::new();
        message.message((16, 5), 7, &[1, 2, 3, 4], |m| {
            m.string(3, "eth0").nested(18, |m| {
                m.u32(1, 42);
            });
        });
        let all: Vec<_> = ReceivedAll(message.as_bytes()).collect();
        assert_eq!(all.len(), 1);
        assert_eq!((all[0].kind, all[0].flags, all[0].sequence), (16, 5, 7));
        let attributes = Attributes(&all[0].body[4..]);
        assert_eq!(attributes.value(3), Some(&b"eth0\0"[..]));
        let nested = attributes.value(18).expect("nested");
        assert_eq!(Attributes(nested).value(1), Some(&42_u32.to_ne_bytes()[..]));
    }

    #[test]
    fn a_cut_message_ends_the_walk() {
        let mut message = Message::new();
        message.message((16, 0), 1, &[], |m| {
            m.u32(1, 1);
        });
        let cut = &message.as_bytes()[..message.as_bytes().len() - 1];
        assert_eq!(ReceivedAll(cut).count(), 0);
        assert_eq!(Attributes(&[9, 0, 1, 0, 1]).count(), 0);
    }
}
