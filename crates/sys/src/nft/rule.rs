//! Rules, built by chained methods: `Rule::new(Family::Ip).when(…).dnat(…)`.

use super::{Comparison, Expression, Family, Map, Register, Set, Type, Verdict};
use crate::netlink::{Cidr, align};
use std::net::IpAddr;
use std::time::Duration;

/// Bits of a connection's state and status, with the kernel's values.
pub mod ct {
    pub const INVALID: u32 = 1;
    pub const ESTABLISHED: u32 = 2;
    pub const RELATED: u32 = 4;
    pub const NEW: u32 = 8;
    /// Status: the destination was translated.
    pub const DNAT: u32 = 0x20;
}

const MARK: u32 = 3;
const IN_NAME: u32 = 6;
const OUT_NAME: u32 = 7;
const SOCKET_USER: u32 = 10;
const L4_PROTOCOL: u32 = 16;
const CT_STATE: u32 = 0;
const CT_STATUS: u32 = 2;
const CT_MARK: u32 = 3;
const NETWORK: u32 = 1;
const TRANSPORT: u32 = 2;
const LOCAL: u32 = 2;

/// A list of expressions, with a comment for `nft list`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    family: Family,
    expressions: Vec<Expression>,
    comment: Option<String>,
}

/// A field of a packet, or a value related to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    Source,
    Destination,
    Protocol,
    SourcePort,
    DestinationPort,
    InInterface,
    OutInterface,
    Mark,
    SocketUid,
    /// A random number below the given one.
    Random(u32),
}

/// How a field is compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Match {
    Is(Vec<u8>),
    IsNot(Vec<u8>),
    /// Inside an address range.
    In(Cidr),
    NotIn(Cidr),
    /// Between two values, both included.
    Between(Vec<u8>, Vec<u8>),
}

impl Match {
    pub fn protocol(number: u8) -> Self {
        Self::Is(vec![number])
    }

    pub fn port(port: u16) -> Self {
        Self::Is(port.to_be_bytes().to_vec())
    }

    /// An interface with exactly this name.
    pub fn interface(name: &str) -> Self {
        let mut bytes = name.as_bytes().to_vec();
        bytes.resize(16, 0);
        Self::Is(bytes)
    }

    /// An interface whose name begins with this prefix.
    pub fn interface_prefix(prefix: &str) -> Self {
        Self::Is(prefix.as_bytes().to_vec())
    }
}

impl Rule {
    pub fn new(family: Family) -> Self {
        Self { family, expressions: Vec::new(), comment: None }
    }

    pub fn expressions(&self) -> &[Expression] {
        &self.expressions
    }

    /// The anonymous map of the rule; a rule has at most one.
    pub(super) fn own_map(&self) -> Option<&Set> {
        self.expressions.iter().find_map(Expression::anonymous_map)
    }

    pub fn comment_text(&self) -> Option<&str> {
        self.comment.as_deref()
    }

    /// Sets the comment, which `nft list` shows.
    pub fn comment(mut self, text: &str) -> Self {
        // The kernel stores 256 bytes including headers. Comments are only informative, so longer ones are truncated.
        let end = (0..=text.len().min(128)).rev().find(|at| text.is_char_boundary(*at));
        self.comment = Some(text[..end.unwrap_or(0)].to_owned());
        self
    }

    /// Appends an expression; the other methods are shorthands for common ones.
    pub fn expression(mut self, expression: Expression) -> Self {
        self.expressions.push(expression);
        self
    }

    /// Matches only packets whose field passes the test.
    pub fn when(mut self, field: Field, test: Match) -> Self {
        let register = Register(0);
        self.load(field, register);
        let compare = |how, value| Expression::Compare { from: register, how, value };
        match test {
            Match::Is(value) => self.expression(compare(Comparison::Equal, value)),
            Match::IsNot(value) => self.expression(compare(Comparison::NotEqual, value)),
            Match::In(range) => self.network(range, Comparison::Equal),
            Match::NotIn(range) => self.network(range, Comparison::NotEqual),
            Match::Between(first, last) => self.expression(Expression::Range {
                from: register,
                how: Comparison::Equal,
                first,
                last,
            }),
        }
    }

    /// Matches only if these fields, concatenated, are in a set.
    pub fn when_in(mut self, fields: &[Field], set: &str) -> Self {
        self.load_all(fields);
        self.expression(Expression::Lookup {
            from: Register(0),
            set: set.to_owned(),
            inverted: false,
        })
    }

    /// Matches only if these fields, concatenated, are not in a set.
    pub fn when_not_in(mut self, fields: &[Field], set: &str) -> Self {
        self.load_all(fields);
        self.expression(Expression::Lookup {
            from: Register(0),
            set: set.to_owned(),
            inverted: true,
        })
    }

    /// Matches only connections in one of these states.
    pub fn when_state(self, bits: u32) -> Self {
        self.bits(Expression::Ct { to: Register(0), key: CT_STATE }, bits)
    }

    /// Matches only connections with one of these status bits.
    pub fn when_status(self, bits: u32) -> Self {
        self.bits(Expression::Ct { to: Register(0), key: CT_STATUS }, bits)
    }

    /// Matches only packets with one of these mark bits.
    pub fn when_mark(self, bits: u32) -> Self {
        self.bits(Expression::Meta { to: Register(0), key: MARK }, bits)
    }

    /// Matches one time out of `times`, at random.
    pub fn when_one_in(self, times: u32) -> Self {
        self.when(Field::Random(times), Match::Is(vec![0; 4]))
    }

    /// Matches if the source (or destination) is an address of this host.
    pub fn when_local(self, field: Field) -> Self {
        let source = field == Field::Source;
        self.expression(Expression::FibAddressType { to: Register(0), source }).expression(
            Expression::Compare {
                from: Register(0),
                how: Comparison::Equal,
                value: LOCAL.to_ne_bytes().to_vec(),
            },
        )
    }

    /// Matches if the route to the packet's source does not lead through its input interface (reverse path filter).
    pub fn when_source_is_elsewhere(self) -> Self {
        self.expression(Expression::ReversePath { to: Register(0) }).expression(
            Expression::Compare {
                from: Register(0),
                how: Comparison::Equal,
                value: 0_u32.to_ne_bytes().to_vec(),
            },
        )
    }

    /// Sets bits of the packet's mark.
    pub fn set_mark_bits(self, bits: u32) -> Self {
        self.change_mark(!bits, bits)
    }

    /// Inverts bits of the packet's mark.
    pub fn flip_mark_bits(self, bits: u32) -> Self {
        self.change_mark(u32::MAX, bits)
    }

    /// Saves the packet's mark as the mark of its connection.
    pub fn save_mark(self) -> Self {
        self.expression(Expression::Meta { to: Register(0), key: MARK })
            .expression(Expression::SetCt { from: Register(0), key: CT_MARK })
    }

    /// Applies the verdict that a map has for these fields, if any.
    pub fn vmap(mut self, fields: &[Field], map: impl Into<Map>) -> Self {
        self.load_all(fields);
        self.expression(Expression::LookupVerdict { from: Register(0), map: map.into() })
    }

    pub fn verdict(self, verdict: Verdict) -> Self {
        self.expression(Expression::Verdict(verdict))
    }

    pub fn jump(self, chain: impl Into<String>) -> Self {
        self.verdict(Verdict::Jump(chain.into()))
    }

    pub fn goto(self, chain: impl Into<String>) -> Self {
        self.verdict(Verdict::Goto(chain.into()))
    }

    pub fn accept(self) -> Self {
        self.verdict(Verdict::Accept)
    }

    pub fn drop(self) -> Self {
        self.verdict(Verdict::Drop)
    }

    /// Translates the destination to this address and port.
    pub fn dnat(self, ip: IpAddr, port: u16) -> Self {
        let family = self.family;
        let after = Register(address_registers(family));
        self.expression(Expression::Load { to: Register(0), value: octets(ip) })
            .expression(Expression::Load { to: after, value: port.to_be_bytes().to_vec() })
            .expression(Expression::Nat {
                destination: true,
                family,
                address: Register(0),
                port: Some(after),
            })
    }

    /// Translates the destination to the address and port that a map has for these fields.
    pub fn dnat_map(mut self, fields: &[Field], map: impl Into<Map>) -> Self {
        let family = self.family;
        self.load_all(fields);
        self.expression(Expression::LookupValue {
            from: Register(0),
            to: Register(0),
            map: map.into(),
        })
        .expression(Expression::Nat {
            destination: true,
            family,
            address: Register(0),
            port: Some(Register(address_registers(family))),
        })
    }

    /// Translates the source to this address.
    pub fn snat(self, ip: IpAddr) -> Self {
        let family = self.family;
        self.expression(Expression::Load { to: Register(0), value: octets(ip) }).expression(
            Expression::Nat { destination: false, family, address: Register(0), port: None },
        )
    }

    /// Translates the source to the address of the output interface.
    pub fn masquerade(self) -> Self {
        self.expression(Expression::Masquerade { fully_random: true })
    }

    /// Rejects with a TCP reset; the rule must match TCP only.
    pub fn reject_tcp(self) -> Self {
        self.expression(Expression::RejectTcpReset)
    }

    /// Rejects with "port unreachable".
    pub fn reject(self) -> Self {
        let code = match self.family {
            Family::Ip => 3,
            Family::Ip6 => 4,
        };
        self.expression(Expression::RejectUnreachable { code })
    }

    pub fn counter(self) -> Self {
        self.expression(Expression::Counter)
    }

    /// Adds these fields to a dynamic set, or refreshes their timeout.
    pub fn update_set(mut self, fields: &[Field], set: &str, timeout: Option<Duration>) -> Self {
        self.load_all(fields);
        self.expression(Expression::Update {
            set: set.to_owned(),
            from: Register(0),
            timeout: timeout.map(|t| u64::try_from(t.as_millis()).unwrap_or(u64::MAX)),
        })
    }

    fn network(self, range: Cidr, how: Comparison) -> Self {
        let mask = octets(range.mask());
        let network = octets(range.network());
        let xor = vec![0; mask.len()];
        self.expression(Expression::Bitwise { from: Register(0), to: Register(0), mask, xor })
            .expression(Expression::Compare { from: Register(0), how, value: network })
    }

    fn bits(self, load: Expression, bits: u32) -> Self {
        self.expression(load)
            .expression(Expression::Bitwise {
                from: Register(0),
                to: Register(0),
                mask: bits.to_ne_bytes().to_vec(),
                xor: vec![0; 4],
            })
            .expression(Expression::Compare {
                from: Register(0),
                how: Comparison::NotEqual,
                value: vec![0; 4],
            })
    }

    fn change_mark(self, mask: u32, xor: u32) -> Self {
        self.expression(Expression::Meta { to: Register(0), key: MARK })
            .expression(Expression::Bitwise {
                from: Register(0),
                to: Register(0),
                mask: mask.to_ne_bytes().to_vec(),
                xor: xor.to_ne_bytes().to_vec(),
            })
            .expression(Expression::SetMeta { from: Register(0), key: MARK })
    }

    fn load_all(&mut self, fields: &[Field]) {
        let mut at = 0;
        for field in fields {
            self.load(*field, Register(at));
            let padded = align(field.kind(self.family).length()) / 4;
            at += u8::try_from(padded).expect("at most four registers");
        }
    }

    fn load(&mut self, field: Field, to: Register) {
        let length = u32::try_from(field.kind(self.family).length()).expect("small");
        let (source, destination) = match self.family {
            Family::Ip => (12, 16),
            Family::Ip6 => (8, 24),
        };
        let payload = |base, offset| Expression::Payload { to, base, offset, length };
        self.expressions.push(match field {
            Field::Source => payload(NETWORK, source),
            Field::Destination => payload(NETWORK, destination),
            Field::SourcePort => payload(TRANSPORT, 0),
            Field::DestinationPort => payload(TRANSPORT, 2),
            Field::Protocol => Expression::Meta { to, key: L4_PROTOCOL },
            Field::InInterface => Expression::Meta { to, key: IN_NAME },
            Field::OutInterface => Expression::Meta { to, key: OUT_NAME },
            Field::Mark => Expression::Meta { to, key: MARK },
            Field::SocketUid => Expression::Meta { to, key: SOCKET_USER },
            Field::Random(modulus) => Expression::Random { to, modulus },
        });
    }
}

impl Field {
    fn kind(self, family: Family) -> Type {
        match self {
            Self::Source | Self::Destination => family.address(),
            Self::Protocol => Type::Protocol,
            Self::SourcePort | Self::DestinationPort => Type::Port,
            Self::InInterface | Self::OutInterface => Type::Interface,
            Self::Mark | Self::SocketUid => Type::Mark,
            Self::Random(_) => Type::Index,
        }
    }
}

fn address_registers(family: Family) -> u8 {
    match family {
        Family::Ip => 1,
        Family::Ip6 => 4,
    }
}

fn octets(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_comments_are_cut_between_characters() {
        let rule = Rule::new(Family::Ip).comment(&"é".repeat(200));
        assert_eq!(rule.comment_text().map(str::len), Some(128));
    }
}
