//! The expressions of the nftables virtual machine, and their encoding.

use super::{Family, Set, Verdict};
use crate::netlink::Message;

/// One of the sixteen 4-byte registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Register(pub u8);

/// How a register is compared with a constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    Equal,
    NotEqual,
}

/// One step of a rule. Constants are the kernel's (linux/netfilter/nf_tables.h).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expression {
    Payload {
        to: Register,
        base: u32,
        offset: u32,
        length: u32,
    },
    Meta {
        to: Register,
        key: u32,
    },
    SetMeta {
        from: Register,
        key: u32,
    },
    Ct {
        to: Register,
        key: u32,
    },
    SetCt {
        from: Register,
        key: u32,
    },
    Compare {
        from: Register,
        how: Comparison,
        value: Vec<u8>,
    },
    Range {
        from: Register,
        how: Comparison,
        first: Vec<u8>,
        last: Vec<u8>,
    },
    /// (register & mask) ^ xor
    Bitwise {
        from: Register,
        to: Register,
        mask: Vec<u8>,
        xor: Vec<u8>,
    },
    Lookup {
        from: Register,
        set: String,
        inverted: bool,
    },
    LookupVerdict {
        from: Register,
        map: Map,
    },
    LookupValue {
        from: Register,
        to: Register,
        map: Map,
    },
    Load {
        to: Register,
        value: Vec<u8>,
    },
    Verdict(Verdict),
    Nat {
        destination: bool,
        family: Family,
        address: Register,
        port: Option<Register>,
    },
    Masquerade {
        fully_random: bool,
    },
    Random {
        to: Register,
        modulus: u32,
    },
    /// The type of an address (local, broadcast…) according to the routing table.
    FibAddressType {
        to: Register,
        source: bool,
    },
    /// Reverse path check: the index of the input interface if the route to the packet's source leads through it, else
    /// 0.
    ReversePath {
        to: Register,
    },
    RejectTcpReset,
    RejectUnreachable {
        code: u8,
    },
    Counter,
    /// Adds an element to a set, or refreshes its timeout.
    Update {
        set: String,
        from: Register,
        timeout: Option<u64>,
    },
}

/// A map that a rule looks up: a named one of the table, or an anonymous one, which is created and deleted with the
/// rule. The kernel finds a named map by a linear search, so thousands of small maps are better anonymous.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Map {
    Named(String),
    Anonymous(Set),
}

impl From<&str> for Map {
    fn from(name: &str) -> Self {
        Self::Named(name.to_owned())
    }
}

impl Expression {
    /// Encodes the expression; `id` identifies the rule's anonymous map inside the transaction.
    pub(super) fn encode(&self, m: &mut Message, id: u32) {
        m.nested(1, |m| {
            m.string(1, self.name()).nested(2, |m| self.body(m, id));
        });
    }

    pub(super) fn anonymous_map(&self) -> Option<&Set> {
        match self {
            Self::LookupVerdict { map: Map::Anonymous(set), .. }
            | Self::LookupValue { map: Map::Anonymous(set), .. } => Some(set),
            _ => None,
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Payload { .. } => "payload",
            Self::Meta { .. } | Self::SetMeta { .. } => "meta",
            Self::Ct { .. } | Self::SetCt { .. } => "ct",
            Self::Compare { .. } => "cmp",
            Self::Range { .. } => "range",
            Self::Bitwise { .. } => "bitwise",
            Self::Lookup { .. } | Self::LookupVerdict { .. } | Self::LookupValue { .. } => "lookup",
            Self::Load { .. } | Self::Verdict(_) => "immediate",
            Self::Nat { .. } => "nat",
            Self::Masquerade { .. } => "masq",
            Self::Random { .. } => "numgen",
            Self::FibAddressType { .. } | Self::ReversePath { .. } => "fib",
            Self::RejectTcpReset | Self::RejectUnreachable { .. } => "reject",
            Self::Counter => "counter",
            Self::Update { .. } => "dynset",
        }
    }

    /// The attributes of each expression, in the order of the kernel's header.
    fn body(&self, m: &mut Message, id: u32) {
        match self {
            Self::Payload { to, base, offset, length } => {
                m.be32(1, to.number()).be32(2, *base).be32(3, *offset).be32(4, *length);
            }
            Self::Meta { to, key } | Self::Ct { to, key } => {
                m.be32(1, to.number()).be32(2, *key);
            }
            Self::SetMeta { from, key } => {
                m.be32(2, *key).be32(3, from.number());
            }
            Self::SetCt { from, key } => {
                m.be32(2, *key).be32(4, from.number());
            }
            Self::Compare { from, how, value } => {
                m.be32(1, from.number()).be32(2, how.number()).nested(3, |m| data(m, value));
            }
            Self::Range { from, how, first, last } => {
                m.be32(1, from.number()).be32(2, how.number());
                m.nested(3, |m| data(m, first)).nested(4, |m| data(m, last));
            }
            Self::Bitwise { from, to, mask, xor } => {
                let length = u32::try_from(mask.len()).expect("at most sixteen");
                m.be32(1, from.number()).be32(2, to.number()).be32(3, length);
                m.nested(4, |m| data(m, mask)).nested(5, |m| data(m, xor));
            }
            Self::Lookup { from, set, inverted } => {
                m.string(1, set).be32(2, from.number()).be32(5, u32::from(*inverted));
            }
            Self::LookupVerdict { from, map } => {
                map.encode(m, id);
                m.be32(2, from.number()).be32(3, 0);
            }
            Self::LookupValue { from, to, map } => {
                map.encode(m, id);
                m.be32(2, from.number()).be32(3, to.number());
            }
            Self::Load { to, value } => {
                m.be32(1, to.number()).nested(2, |m| data(m, value));
            }
            Self::Verdict(value) => {
                m.be32(1, 0).nested(2, |m| verdict(m, value));
            }
            _ => self.action(m),
        }
    }

    fn action(&self, m: &mut Message) {
        const FULLY_RANDOM: u32 = 1 << 4;
        match self {
            Self::Nat { destination, family, address, port } => {
                m.be32(1, u32::from(*destination)).be32(2, u32::from(family.number()));
                m.be32(3, address.number());
                if let Some(port) = port {
                    m.be32(5, port.number());
                }
            }
            Self::Masquerade { fully_random: true } => {
                m.be32(1, FULLY_RANDOM);
            }
            Self::Random { to, modulus } => {
                m.be32(1, to.number()).be32(2, *modulus).be32(3, 1);
            }
            Self::FibAddressType { to, source } => {
                m.be32(1, to.number()).be32(2, 3).be32(3, if *source { 1 } else { 2 });
            }
            Self::ReversePath { to } => {
                const OUTPUT_INTERFACE: u32 = 1;
                const SOURCE_AND_INPUT_INTERFACE: u32 = 0x1 | 0x8;
                m.be32(1, to.number())
                    .be32(2, OUTPUT_INTERFACE)
                    .be32(3, SOURCE_AND_INPUT_INTERFACE);
            }
            Self::RejectTcpReset => {
                m.be32(1, 1);
            }
            Self::RejectUnreachable { code } => {
                m.be32(1, 0).u8(2, *code);
            }
            Self::Update { set, from, timeout } => {
                m.string(1, set).be32(3, 1).be32(4, from.number());
                if let Some(milliseconds) = timeout {
                    m.be64(6, *milliseconds);
                }
            }
            // A counter starts at zero and a plain masquerade has no flags; all others are encoded in `body`.
            _ => {}
        }
    }
}

/// Name template of an anonymous map; the kernel chooses the number.
pub(super) const ANONYMOUS_MAP_NAME: &str = "__map%d";

impl Map {
    fn encode(&self, m: &mut Message, id: u32) {
        match self {
            Self::Named(name) => m.string(1, name),
            Self::Anonymous(_) => m.string(1, ANONYMOUS_MAP_NAME).be32(4, id),
        };
    }
}

/// A data attribute with raw bytes.
pub(super) fn data(m: &mut Message, value: &[u8]) {
    m.bytes(1, value);
}

/// A data attribute with a verdict.
pub(super) fn verdict(m: &mut Message, verdict: &Verdict) {
    let (code, chain) = match verdict {
        Verdict::Drop => (0, None),
        Verdict::Accept => (1, None),
        Verdict::Jump(chain) => (-3, Some(chain)),
        Verdict::Goto(chain) => (-4, Some(chain)),
        Verdict::Return => (-5_i32, None),
    };
    m.nested(2, |m| {
        m.be32(1, code.cast_unsigned());
        if let Some(chain) = chain {
            m.string(2, chain);
        }
    });
}

impl Register {
    /// NFT_REG32_00 is number 8.
    fn number(self) -> u32 {
        8 + u32::from(self.0)
    }
}

impl Comparison {
    fn number(self) -> u32 {
        match self {
            Self::Equal => 0,
            Self::NotEqual => 1,
        }
    }
}
