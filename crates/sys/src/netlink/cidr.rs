//! IP ranges in CIDR notation.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// An address with a prefix length; the address may be any one of the range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cidr {
    pub ip: IpAddr,
    pub prefix: u8,
}

/// The text is not a CIDR.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an address range such as 10.244.0.0/16")]
pub struct ParseCidrError(String);

impl Cidr {
    /// The range of a single address.
    pub fn host(ip: IpAddr) -> Self {
        Self { ip, prefix: if ip.is_ipv4() { 32 } else { 128 } }
    }

    /// The range of all addresses of the same family.
    pub fn any_of_family(ip: IpAddr) -> Self {
        let ip = match ip {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        Self { ip, prefix: 0 }
    }

    /// The network mask.
    pub fn mask(self) -> IpAddr {
        match self.ip {
            IpAddr::V4(_) => {
                let ones = u32::MAX.checked_shl(32 - u32::from(self.prefix)).unwrap_or(0);
                Ipv4Addr::from_bits(ones).into()
            }
            IpAddr::V6(_) => {
                let ones = u128::MAX.checked_shl(128 - u32::from(self.prefix)).unwrap_or(0);
                Ipv6Addr::from_bits(ones).into()
            }
        }
    }

    /// The first address of the range.
    pub fn network(self) -> IpAddr {
        match (self.ip, self.mask()) {
            (IpAddr::V4(ip), IpAddr::V4(mask)) => IpAddr::V4(ip & mask),
            (IpAddr::V6(ip), IpAddr::V6(mask)) => IpAddr::V6(ip & mask),
            _ => unreachable!("a mask has the family of its address"),
        }
    }

    pub fn contains(self, ip: IpAddr) -> bool {
        self.ip.is_ipv4() == ip.is_ipv4()
            && Self { ip, prefix: self.prefix }.network() == self.network()
    }

    /// Number of addresses, at most `u32::MAX`.
    pub fn size(self) -> u32 {
        let bits = if self.ip.is_ipv4() { 32 } else { 128 };
        1_u32.checked_shl(bits - u32::from(self.prefix)).unwrap_or(u32::MAX)
    }

    /// The address at an offset from the first one; `None` if it is outside of the range.
    pub fn nth(self, distance: u32) -> Option<IpAddr> {
        let ip = match self.network() {
            IpAddr::V4(first) => Ipv4Addr::from_bits(first.to_bits().checked_add(distance)?).into(),
            IpAddr::V6(first) => {
                Ipv6Addr::from_bits(first.to_bits().checked_add(distance.into())?).into()
            }
        };
        self.contains(ip).then_some(ip)
    }
}

impl FromStr for Cidr {
    type Err = ParseCidrError;

    fn from_str(text: &str) -> Result<Self, ParseCidrError> {
        let error = || ParseCidrError(text.to_owned());
        let (ip, prefix) = text.split_once('/').ok_or_else(error)?;
        let ip: IpAddr = ip.parse().map_err(|_| error())?;
        let prefix: u8 = prefix.parse().map_err(|_| error())?;
        if prefix > Self::host(ip).prefix {
            return Err(error());
        }
        Ok(Self { ip, prefix })
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.ip, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cidr(text: &str) -> Cidr {
        text.parse().expect("a range")
    }

    #[test]
    fn ranges() {
        let range = cidr("10.244.3.7/24");
        assert_eq!(range.network(), IpAddr::from([10, 244, 3, 0]));
        assert_eq!(range.mask(), IpAddr::from([255, 255, 255, 0]));
        assert!(range.contains([10, 244, 3, 255].into()));
        assert!(!range.contains([10, 244, 4, 0].into()));
        assert_eq!((range.size(), range.nth(1)), (256, Some([10, 244, 3, 1].into())));
        assert_eq!(range.nth(256), None);
        assert!(cidr("0.0.0.0/0").contains([8, 8, 8, 8].into()));
        assert!(!cidr("0.0.0.0/0").contains("::1".parse().expect("an address")));
        assert_eq!(cidr("fd00::/64").nth(9), "fd00::9".parse().ok());
        assert_eq!(cidr("fd00::/64").size(), u32::MAX);
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["10.0.0.0", "10.0.0.0/33", "x/8", "::/129", ""] {
            assert!(text.parse::<Cidr>().is_err(), "{text}");
        }
    }
}
