//! The IP and CIDR libraries. Parsing and error messages are those of Go's `netip`.

#![deny(clippy::indexing_slicing, clippy::string_slice, clippy::unwrap_used, clippy::expect_used)]

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use object::quote::quote;

use super::{Opaque, Outcome, text_of};
use crate::{error::Error, function::Function, value::Value};

pub(crate) const FUNCTIONS: &[Function] = &[
    Function {
        name: "ip",
        overloads: &[("string_to_ip", "(string) -> net.IP"), ("cidr_ip", "net.CIDR.() -> net.IP")],
        body: |_, args| match args {
            [Value::Opaque(Opaque::Cidr(prefix))] => Ok(wrap(CelIp(prefix.address))),
            [text] => address(text_of(text)?).map(wrap).map_err(Error::new),
            _ => Err(Error::no_overload()),
        },
    },
    Function {
        name: "isIP",
        overloads: &[("is_ip", "(string) -> bool")],
        body: |_, args| {
            let [text] = args else { return Err(Error::no_overload()) };
            Ok(Value::Bool(address(text_of(text)?).is_ok()))
        },
    },
    Function {
        name: "ip.isCanonical",
        overloads: &[("ip_is_canonical", "(string) -> bool")],
        body: |_, args| {
            let [text] = args else { return Err(Error::no_overload()) };
            let text = text_of(text)?;
            let address = address(text).map_err(Error::new)?;
            Ok(Value::Bool(address.to_string() == **text))
        },
    },
    Function {
        name: "family",
        overloads: &[("ip_family", "net.IP.() -> int")],
        body: |_, args| ask(args, |ip| Value::Int(if ip.is_ipv4() { 4 } else { 6 })),
    },
    Function {
        name: "isUnspecified",
        overloads: &[("ip_is_unspecified", "net.IP.() -> bool")],
        body: |_, args| ask(args, |ip| Value::Bool(ip.is_unspecified())),
    },
    Function {
        name: "isLoopback",
        overloads: &[("ip_is_loopback", "net.IP.() -> bool")],
        body: |_, args| ask(args, |ip| Value::Bool(ip.is_loopback())),
    },
    Function {
        name: "isLinkLocalMulticast",
        overloads: &[("ip_is_link_local_multicast", "net.IP.() -> bool")],
        body: |_, args| ask(args, |ip| Value::Bool(is_link_local_multicast(ip))),
    },
    Function {
        name: "isLinkLocalUnicast",
        overloads: &[("ip_is_link_local_unicast", "net.IP.() -> bool")],
        body: |_, args| ask(args, |ip| Value::Bool(is_link_local(ip))),
    },
    Function {
        name: "isGlobalUnicast",
        overloads: &[("ip_is_global_unicast", "net.IP.() -> bool")],
        body: |_, args| ask(args, |ip| Value::Bool(is_global(ip))),
    },
    Function {
        name: "cidr",
        overloads: &[("string_to_cidr", "(string) -> net.CIDR")],
        body: |_, args| {
            let [text] = args else { return Err(Error::no_overload()) };
            network(text_of(text)?).map(|prefix| Value::Opaque(Opaque::Cidr(prefix)))
        },
    },
    Function {
        name: "isCIDR",
        overloads: &[("is_cidr", "(string) -> bool")],
        body: |_, args| {
            let [text] = args else { return Err(Error::no_overload()) };
            Ok(Value::Bool(prefix(text_of(text)?).is_ok()))
        },
    },
    Function {
        name: "containsIP",
        overloads: &[
            ("cidr_contains_ip_string", "net.CIDR.(string) -> bool"),
            ("cidr_contains_ip_ip", "net.CIDR.(net.IP) -> bool"),
        ],
        body: |_, args| contains_ip(args),
    },
    Function {
        name: "containsCIDR",
        overloads: &[
            ("cidr_contains_cidr_string", "net.CIDR.(string) -> bool"),
            ("cidr_contains_cidr", "net.CIDR.(net.CIDR) -> bool"),
        ],
        body: |_, args| contains_network(args),
    },
    Function {
        name: "prefixLength",
        overloads: &[("cidr_prefix_length", "net.CIDR.() -> int")],
        body: |_, args| net(args).map(|prefix| Value::Int(prefix.bits.into())),
    },
    Function {
        name: "masked",
        overloads: &[("cidr_masked", "net.CIDR.() -> net.CIDR")],
        body: |_, args| {
            let CelCidr { address, bits } = net(args)?;
            let address = mask(address, bits);
            Ok(Value::Opaque(Opaque::Cidr(CelCidr { address, bits })))
        },
    },
    Function {
        name: "string",
        overloads: &[
            ("ip_to_string", "(net.IP) -> string"),
            ("cidr_to_string", "(net.CIDR) -> string"),
        ],
        body: |_, args| match args {
            [Value::Opaque(opaque @ (Opaque::Ip(_) | Opaque::Cidr(_)))] => {
                Ok(Value::text(opaque.to_string()))
            }
            _ => Err(Error::no_overload()),
        },
    },
];

/// An IP address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CelIp(IpAddr);

impl CelIp {
    /// The size of the address in bytes.
    pub(crate) fn size(self) -> u64 {
        if self.0.is_ipv4() { 4 } else { 16 }
    }
}

impl fmt::Display for CelIp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A CIDR: an IP address and a prefix length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CelCidr {
    address: IpAddr,
    bits: u8,
}

impl CelCidr {
    /// The number of bytes that the prefix covers.
    pub(crate) fn size(self) -> u64 {
        u64::from(self.bits).div_ceil(8)
    }
}

impl fmt::Display for CelCidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

fn wrap(address: CelIp) -> Value<'static> {
    Value::Opaque(Opaque::Ip(address))
}

fn ask<'a>(args: &[Value<'a>], what: fn(IpAddr) -> Value<'static>) -> Outcome<'a> {
    match args {
        [Value::Opaque(Opaque::Ip(address))] => Ok(what(address.0)),
        _ => Err(Error::no_overload()),
    }
}

fn net(args: &[Value<'_>]) -> Result<CelCidr, Error> {
    match args {
        [Value::Opaque(Opaque::Cidr(prefix)), ..] => Ok(*prefix),
        _ => Err(Error::no_overload()),
    }
}

fn is_link_local_multicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.octets()[..3] == [224, 0, 0],
        IpAddr::V6(ip) => ip.segments()[0] & 0xff0f == 0xff02,
    }
}

fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

fn is_global(ip: IpAddr) -> bool {
    let broadcast = ip == IpAddr::V4(Ipv4Addr::BROADCAST);
    !broadcast
        && !ip.is_unspecified()
        && !ip.is_loopback()
        && !ip.is_multicast()
        && !is_link_local(ip)
}

fn mask(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(ip) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or_default();
            IpAddr::V4(Ipv4Addr::from_bits(ip.to_bits() & mask))
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or_default();
            IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() & mask))
        }
    }
}

fn holds(prefix: CelCidr, address: IpAddr) -> bool {
    prefix.address.is_ipv4() == address.is_ipv4()
        && mask(address, prefix.bits) == mask(prefix.address, prefix.bits)
}

fn contains_ip<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let prefix = net(args)?;
    let ip = match args {
        [_, Value::Opaque(Opaque::Ip(address))] => *address,
        // Upstream does not report what is wrong with the string.
        [_, text] => address(text_of(text)?).map_err(|_| Error::new("no such overload"))?,
        _ => return Err(Error::no_overload()),
    };
    Ok(Value::Bool(holds(prefix, ip.0)))
}

fn contains_network<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let outer = net(args)?;
    let inner = match args {
        [_, Value::Opaque(Opaque::Cidr(prefix))] => *prefix,
        [_, text] => network(text_of(text)?)?,
        _ => return Err(Error::no_overload()),
    };
    Ok(Value::Bool(outer.bits <= inner.bits && holds(outer, inner.address)))
}

fn network(text: &str) -> Result<CelCidr, Error> {
    prefix(text).map_err(|error| {
        Error::new(format!("network address parse error during conversion from string: {error}"))
    })
}

fn address(text: &str) -> Result<CelIp, String> {
    let quoted = quote(text);
    let (ip, zone) = parse(text).map_err(|error| {
        format!("IP Address {quoted} parse error during conversion from string: {error}")
    })?;
    if zone {
        return Err(format!("IP address {quoted} with zone value is not allowed"));
    }
    if is_mapped(ip) {
        return Err(format!("IPv4-mapped IPv6 address {quoted} is not allowed"));
    }
    Ok(CelIp(ip))
}

fn is_mapped(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some())
}

fn prefix(text: &str) -> Result<CelCidr, String> {
    let prefix = parse_prefix(text).map_err(|error| {
        let quoted = quote(text);
        format!("network address parse error during conversion from string: netip.ParsePrefix({quoted}): {error}")
    })?;
    if is_mapped(prefix.address) {
        return Err(format!("IPv4-mapped IPv6 address {} is not allowed", quote(text)));
    }
    Ok(prefix)
}

fn parse_prefix(text: &str) -> Result<CelCidr, String> {
    let (ip, digits) = text.rsplit_once('/').ok_or("no '/'")?;
    let (address, zone) = parse(ip)?;
    if zone {
        return Err("IPv6 zones cannot be present in a prefix".to_owned());
    }
    let bad = || format!("bad bits after slash: {}", quote(digits));
    let plain = digits.bytes().all(|b| b.is_ascii_digit());
    if digits.len() > 1 && digits.starts_with('0') || !plain {
        return Err(bad());
    }
    let bits: u64 = digits.parse().map_err(|_| bad())?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    match u8::try_from(bits) {
        Ok(bits) if bits <= most => Ok(CelCidr { address, bits }),
        _ => Err("prefix length out of range".to_owned()),
    }
}

/// An address, and whether it has a zone.
fn parse(text: &str) -> Result<(IpAddr, bool), String> {
    let fail = |(message, at): Fault<'_>| {
        let quoted = quote(text);
        match at {
            "" => format!("ParseAddr({quoted}): {message}"),
            at => format!("ParseAddr({quoted}): {message} (at {})", quote(at)),
        }
    };
    match text.bytes().find(|byte| matches!(byte, b'.' | b':' | b'%')) {
        Some(b'.') => parse_v4(text).map(|ip| (IpAddr::V4(ip), false)).map_err(fail),
        Some(b':') => parse_v6(text).map(|(ip, zone)| (IpAddr::V6(ip), zone)).map_err(fail),
        Some(_) => Err(fail(("missing IPv6 address", ""))),
        None => Err(fail(("unable to parse IP", ""))),
    }
}

/// The error message, and the rest of the input.
type Fault<'a> = (&'static str, &'a str);

fn parse_v4(text: &str) -> Result<Ipv4Addr, Fault<'_>> {
    let mut fields = [0_u8; 4];
    let (mut value, mut place, mut digits) = (0_u32, 0, 0);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'0'..=b'9' => {
                if digits == 1 && value == 0 {
                    return Err(("IPv4 field has octet with leading zero", ""));
                }
                value = value * 10 + u32::from(byte - b'0');
                digits += 1;
                if value > 255 {
                    return Err(("IPv4 field has value >255", ""));
                }
            }
            b'.' => {
                let rest = text.get(at..).unwrap_or_default();
                if digits == 0 || rest.len() == 1 {
                    return Err(("IPv4 field must have at least one digit", rest));
                }
                match fields.get_mut(place) {
                    Some(field) if place < 3 => *field = u8::try_from(value).unwrap_or(u8::MAX),
                    _ => return Err(("IPv4 address too long", "")),
                }
                (place, value, digits) = (place + 1, 0, 0);
            }
            _ => return Err(("unexpected character", text.get(at..).unwrap_or_default())),
        }
    }
    if place < 3 {
        return Err(("IPv4 address too short", ""));
    }
    fields[3] = u8::try_from(value).unwrap_or(u8::MAX);
    Ok(fields.into())
}

fn parse_v6(text: &str) -> Result<(Ipv6Addr, bool), Fault<'_>> {
    let (mut rest, zone) = match text.split_once('%') {
        Some((_, "")) => return Err(("zone must be a non-empty string", "")),
        Some((rest, _)) => (rest, true),
        None => (text, false),
    };
    let mut bytes = Vec::with_capacity(16);
    let mut gap = None;
    if let Some(after) = rest.strip_prefix("::") {
        (gap, rest) = (Some(0), after);
        if rest.is_empty() {
            return Ok((Ipv6Addr::UNSPECIFIED, zone));
        }
    }
    while bytes.len() < 16 {
        let length = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
        if length > 4 {
            return Err(("each group must have 4 or less digits", rest));
        }
        if length == 0 {
            return Err(("each colon-separated field must have at least one digit", rest));
        }
        if rest.as_bytes().get(length) == Some(&b'.') {
            if gap.is_none() && bytes.len() != 12 {
                let message =
                    "embedded IPv4 address must replace the final 2 fields of the address";
                return Err((message, rest));
            }
            if bytes.len() > 12 {
                let message =
                    "too many hex fields to fit an embedded IPv4 at the end of the address";
                return Err((message, rest));
            }
            bytes.extend(parse_v4(rest)?.octets());
            rest = "";
            break;
        }
        let (digits, after) = rest.split_at(length);
        let group = u16::from_str_radix(digits, 16).unwrap_or_default();
        bytes.extend(group.to_be_bytes());
        rest = after;
        if rest.is_empty() {
            break;
        } else if !rest.starts_with(':') {
            return Err(("unexpected character, want colon", rest));
        } else if rest.len() == 1 {
            return Err(("colon must be followed by more characters", rest));
        }
        rest = rest.strip_prefix(':').unwrap_or_default();
        if let Some(after) = rest.strip_prefix(':') {
            if gap.is_some() {
                return Err(("multiple :: in address", rest));
            }
            (gap, rest) = (Some(bytes.len()), after);
            if rest.is_empty() {
                break;
            }
        }
    }
    if !rest.is_empty() {
        return Err(("trailing garbage after address", rest));
    }
    match gap {
        None if bytes.len() < 16 => return Err(("address string too short", "")),
        Some(_) if bytes.len() == 16 => {
            return Err(("the :: must expand to at least one field of zeros", ""));
        }
        Some(gap) => {
            let zeros = vec![0; 16 - bytes.len()];
            bytes.splice(gap..gap, zeros);
        }
        None => {}
    }
    let bytes: [u8; 16] = bytes.try_into().map_err(|_| ("address string too short", ""))?;
    Ok((bytes.into(), zone))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_in_netips_words() {
        for (text, error) in [
            ("bad", r#"ParseAddr("bad"): unable to parse IP"#),
            ("010.0.0.1", r#"ParseAddr("010.0.0.1"): IPv4 field has octet with leading zero"#),
            ("10.0.0.0/8", r#"ParseAddr("10.0.0.0/8"): unexpected character (at "/8")"#),
            ("1.2.3", r#"ParseAddr("1.2.3"): IPv4 address too short"#),
            ("::1::", r#"ParseAddr("::1::"): multiple :: in address (at ":")"#),
            ("1:2", r#"ParseAddr("1:2"): address string too short"#),
            ("fe80::1%", r#"ParseAddr("fe80::1%"): zone must be a non-empty string"#),
        ] {
            assert_eq!(parse(text), Err(error.to_owned()), "{text}");
        }
        assert_eq!(parse("::ffff:1.2.3.4").map(|(ip, _)| is_mapped(ip)), Ok(true));
        assert_eq!(parse("1::8").map(|(ip, _)| ip.to_string()), Ok("1::8".to_owned()));
    }

    #[test]
    fn networks_hold_addresses() {
        let ten = parse_prefix("10.0.0.0/8").expect("valid");
        assert!(holds(ten, Ipv4Addr::new(10, 1, 1, 1).into()));
        assert!(!holds(ten, Ipv4Addr::new(11, 1, 1, 1).into()));
        assert!(parse_prefix("10.0.0.0/33").is_err() && parse_prefix("10.0.0.0/08").is_err());
    }
}
