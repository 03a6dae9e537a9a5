//! Keys of sets: a value or a concatenation of values, each padded to a register.

use std::net::IpAddr;

/// Type of a component of a key; the codes are those that `nft list` knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    Ipv4,
    Ipv6,
    Protocol,
    Port,
    /// A packet mark, in host byte order.
    Mark,
    /// A plain number, in host byte order.
    Index,
    Interface,
    Verdict,
}

/// The bytes of a key, or of a value of a map.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Key(Vec<u8>);

impl Key {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn address(mut self, ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(ip) => self.0.extend_from_slice(&ip.octets()),
            IpAddr::V6(ip) => self.0.extend_from_slice(&ip.octets()),
        }
        self
    }

    pub fn protocol(mut self, number: u8) -> Self {
        self.0.extend_from_slice(&[number, 0, 0, 0]);
        self
    }

    pub fn port(mut self, port: u16) -> Self {
        self.0.extend_from_slice(&port.to_be_bytes());
        self.0.extend_from_slice(&[0, 0]);
        self
    }

    /// Appends a number in host byte order.
    pub fn number(mut self, number: u32) -> Self {
        self.0.extend_from_slice(&number.to_ne_bytes());
        self
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Type {
    /// Length of the value in bytes, without padding.
    pub(super) fn length(self) -> usize {
        match self {
            Self::Protocol => 1,
            Self::Port => 2,
            Self::Ipv4 | Self::Mark | Self::Index => 4,
            Self::Ipv6 | Self::Interface | Self::Verdict => 16,
        }
    }

    fn code(self) -> u32 {
        match self {
            Self::Index => 4,
            Self::Ipv4 => 7,
            Self::Ipv6 => 8,
            Self::Protocol => 12,
            Self::Port => 13,
            Self::Mark => 19,
            Self::Interface => 41,
            Self::Verdict => 0xffff_ff00,
        }
    }
}

/// The kernel's type code and length of a key or value with these components: six bits per component, each padded to
/// four bytes; a single component is not padded.
pub fn concatenated(types: &[Type]) -> (u32, u32) {
    if let [one] = types {
        return (one.code(), u32::try_from(one.length()).expect("small"));
    }
    types.iter().fold((0, 0), |(code, length), part| {
        let padded = u32::try_from(crate::netlink::align(part.length())).expect("small");
        (code << 6 | part.code(), length + padded)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn concatenations_pad_each_part() {
        assert_eq!(concatenated(&[Type::Ipv4, Type::Protocol, Type::Port]).1, 12);
        assert_eq!(concatenated(&[Type::Port]), (13, 2));
        let key = Key::new().address([10, 0, 0, 1].into()).protocol(6).port(80);
        assert_eq!(key.as_bytes(), &[10, 0, 0, 1, 6, 0, 0, 0, 0, 80, 0, 0]);
    }
}
