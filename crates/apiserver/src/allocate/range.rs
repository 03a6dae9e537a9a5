//! A range of addresses, as `--service-cluster-ip-range` gives it.

use std::{fmt, net::IpAddr, str::FromStr};

use ring::rand::{SecureRandom, SystemRandom};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    base: u128,
    bits: u8,
    ipv4: bool,
}

impl FromStr for Range {
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

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = if self.ipv4 { 32 } else { 128 };
        write!(f, "{}/{}", self.nth(0), width - self.bits)
    }
}

impl Range {
    pub(crate) fn is_ipv4(&self) -> bool {
        self.ipv4
    }

    /// The address of the `kubernetes` service.
    pub(crate) fn first(&self) -> IpAddr {
        self.nth(1)
    }

    pub(crate) fn contains(&self, ip: IpAddr) -> bool {
        let value = match ip {
            IpAddr::V4(ip) if self.ipv4 => u128::from(u32::from(ip)),
            IpAddr::V6(ip) if !self.ipv4 => u128::from(ip),
            _ => return false,
        };
        let offset = value.wrapping_sub(self.base);
        offset > 0 && offset < self.size() - 1
    }

    /// Every address that may be given, from a random one of the upper band on and
    /// then through the lower one, which users pick from by hand.
    pub(crate) fn dynamic(&self) -> impl Iterator<Item = IpAddr> {
        let usable = (self.size() - 2).min(1 << 20);
        let band = (usable / 16).clamp(16.min(usable), 256.min(usable));
        let upper = usable - band;
        let begin = if upper > 0 { u128::from(random()) % upper } else { 0 };
        let this = *self;
        let high = (0..upper).map(move |n| band + (begin + n) % upper);
        high.chain(0..band).map(move |n| this.nth(1 + n))
    }

    fn nth(&self, n: u128) -> IpAddr {
        let value = self.base + n;
        if self.ipv4 {
            IpAddr::V4(u32::try_from(value).expect("within a range of v4 addresses").into())
        } else {
            IpAddr::V6(value.into())
        }
    }

    fn size(&self) -> u128 {
        1 << self.bits.min(100)
    }
}

pub(super) fn random() -> u32 {
    let mut bytes = [0; 4];
    SystemRandom::new().fill(&mut bytes).expect("the system has randomness");
    u32::from_le_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_every_address_once_and_none_of_the_ends() {
        let range: Range = "10.96.0.0/24".parse().unwrap();
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
    }
}
