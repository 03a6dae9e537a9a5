//! A service CIDR, as in `--service-cluster-ip-range`.

use std::{fmt, net::IpAddr, str::FromStr};

use ring::rand::{SecureRandom, SystemRandom};

/// A service CIDR: network address and number of host bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ServiceCidr {
    base: u128,
    bits: u8,
    ipv4: bool,
}

impl FromStr for ServiceCidr {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let (ip, bits) = text
            .split_once('/')
            .ok_or_else(|| anyhow::anyhow!("{text:?} is no range: say ADDRESS/BITS"))?;
        let (ip, bits): (IpAddr, u8) = (ip.parse()?, bits.parse()?);
        let (width, value) = match ip {
            IpAddr::V4(ip) => (32, u128::from(u32::from(ip))),
            IpAddr::V6(ip) => (128, u128::from(ip)),
        };
        anyhow::ensure!(bits <= width - 2, "{text:?} has too few addresses");
        let host = width - bits;
        let base = if host == 128 { 0 } else { value >> host << host };
        Ok(Self { base, bits: host, ipv4: width == 32 })
    }
}

impl fmt::Display for ServiceCidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = if self.ipv4 { 32 } else { 128 };
        write!(f, "{}/{}", self.nth(0), width - self.bits)
    }
}

impl ServiceCidr {
    pub(crate) fn is_ipv4(&self) -> bool {
        self.ipv4
    }

    /// The address of the `kubernetes` Service.
    pub(crate) fn first(&self) -> IpAddr {
        self.nth(1)
    }

    /// The network address, which is never allocated.
    pub(crate) fn base(&self) -> IpAddr {
        self.nth(0)
    }

    pub(crate) fn family(&self) -> &'static str {
        if self.ipv4 { "IPv4" } else { "IPv6" }
    }

    /// Whether the address can be allocated from this CIDR.
    pub(crate) fn contains(&self, ip: IpAddr) -> bool {
        let value = match ip {
            IpAddr::V4(ip) if self.ipv4 => u128::from(u32::from(ip)),
            IpAddr::V6(ip) if !self.ipv4 => u128::from(ip),
            _ => return false,
        };
        let offset = value.wrapping_sub(self.base);
        offset > 0 && offset <= self.usable()
    }

    /// The addresses to try (of a large range, some), beginning at a random one of the upper band,
    /// and then those of the lower band, which is for addresses that users choose.
    pub(crate) fn dynamic(&self) -> impl Iterator<Item = IpAddr> {
        let (usable, this) = (self.usable(), *self);
        let band = match usable + if self.ipv4 { 2 } else { 1 } {
            0..=16 => 0,
            size => (size / 16).clamp(16, 256),
        };
        let around = |size: u128| {
            let begin = if size > 0 { u128::from(random()) % size } else { 0 };
            (0..size.min(LOOKED_AT)).map(move |n| (begin + n) % size)
        };
        let high = around(usable - band).map(move |n| band + n);
        high.chain(around(band)).map(move |n| this.nth(1 + n))
    }

    fn nth(&self, n: u128) -> IpAddr {
        let value = self.base + n;
        if self.ipv4 {
            IpAddr::V4(u32::try_from(value).expect("within a range of v4 addresses").into())
        } else {
            IpAddr::V6(value.into())
        }
    }

    /// Number of addresses that can be allocated: without the first, and for IPv4 without the last.
    pub(super) fn usable(&self) -> u128 {
        let size = 1 << self.bits.min(64);
        size - if self.ipv4 { 2 } else { 1 }
    }
}

/// Maximum number of addresses of one range that are tried.
const LOOKED_AT: u128 = 1 << 20;

pub(super) fn random() -> u64 {
    let mut bytes = [0; 8];
    SystemRandom::new().fill(&mut bytes).expect("the system has randomness");
    u64::from_le_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_every_address_once_and_none_of_the_ends() {
        let range: ServiceCidr = "10.96.0.0/24".parse().unwrap();
        let mut all: Vec<_> = range.dynamic().collect();
        assert_eq!(all.len(), 254);
        all.sort();
        all.dedup();
        assert_eq!(
            (all.len(), all[0], range.first()),
            (254, range.first(), "10.96.0.1".parse().unwrap())
        );
        assert!(range.contains("10.96.0.254".parse().unwrap()));
        assert!(!range.contains("10.96.0.255".parse().unwrap()));
        assert!(!range.contains("10.97.0.1".parse().unwrap()));
        assert_eq!(range.to_string(), "10.96.0.0/24");
        let small: ServiceCidr = "10.96.0.0/30".parse().unwrap();
        assert_eq!(small.dynamic().count(), 2);
        let other: ServiceCidr = "fd00::/112".parse().unwrap();
        assert!(other.contains("fd00::ffff".parse().unwrap()), "v6 has no broadcasts");
        assert!(!other.contains("fd00::".parse().unwrap()));
        assert_eq!((other.dynamic().count(), other.family()), (65_535, "IPv6"));
    }
}
