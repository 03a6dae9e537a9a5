//! Batches: operations that the kernel applies atomically.

use super::expression::{ANONYMOUS_MAP_NAME, data, verdict};
use super::table::{BaseChain, ChainType, Hook, Policy};
use super::{Data, Error, Family, Key, Result, Rule, Set, Type, concatenated};
use crate::netlink::{self, Message, Socket};
use std::fmt;
use std::io;

/// One operation of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    AddTable,
    DeleteTable,
    AddChain {
        chain: String,
        base: Option<BaseChain>,
    },
    DeleteChain {
        chain: String,
    },
    /// Deletes all rules of a chain.
    FlushChain {
        chain: String,
    },
    AddRule {
        chain: String,
        rule: Rule,
    },
    /// Adds a set without its elements.
    AddSet {
        set: String,
        shape: Set,
    },
    DeleteSet {
        set: String,
    },
    AddElements {
        set: String,
        elements: Vec<(Key, Option<Data>)>,
    },
    DeleteElements {
        set: String,
        elements: Vec<Key>,
    },
}

/// Operations in order, which may belong to several tables.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    operations: Vec<(Family, String, Operation)>,
}

const SUBSYSTEM: u16 = 10 << 8;
const BEGIN: u16 = 0x10;
const END: u16 = 0x11;
const REQUEST: u16 = 1;
const ACK: u16 = 4;
const CREATE: u16 = 0x400;
const APPEND: u16 = 0x800;
/// Maximum number of elements in a message: each takes at most 360 bytes, and an attribute 64 KiB.
pub(super) const ELEMENTS_PER_MESSAGE: usize = 128;

impl Batch {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    pub fn operations(&self) -> impl Iterator<Item = &Operation> {
        self.operations.iter().map(|(_, _, operation)| operation)
    }

    pub fn push(&mut self, family: Family, table: &str, operation: Operation) {
        self.operations.push((family, table.to_owned(), operation));
    }

    pub fn append(&mut self, mut other: Self) {
        self.operations.append(&mut other.operations);
    }

    /// Number of elements, rules, chains and sets that the batch changes.
    pub fn change_count(&self) -> usize {
        self.operations()
            .map(|operation| match operation {
                Operation::AddElements { elements, .. } => elements.len(),
                Operation::DeleteElements { elements, .. } => elements.len(),
                Operation::AddTable => 0,
                Operation::AddRule { rule, .. } => {
                    1 + rule.own_map().map_or(0, |map| map.elements.len())
                }
                _ => 1,
            })
            .sum()
    }

    /// A batch that deletes a table, whether it exists or not.
    pub fn remove_table(family: Family, table: &str) -> Self {
        let mut batch = Self::new();
        batch.push(family, table, Operation::AddTable);
        batch.push(family, table, Operation::DeleteTable);
        batch
    }

    /// Commits the batch in the network namespace of the calling thread.
    pub fn commit(&self) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        let mut socket = Socket::open(netlink::NetlinkFamily::Netfilter)?;
        let count = u32::try_from(self.operations.len()).expect("far fewer than 2^32 operations");
        let first = socket.reserve(count + 2);
        socket.send(self.encode(first).as_bytes())?;
        self.read_answers(&mut socket, first)
    }

    /// Encodes the batch. Sequence numbers: `first` is the begin message, then one for each operation, then the end.
    /// Only the last operation requests an acknowledgement: the kernel sends errors anyway, in order, so that its reply
    /// is the last one.
    fn encode(&self, first: u32) -> Message {
        let mut message = Message::new();
        let subsystem = [0, 0, 0, 10];
        message.message((BEGIN, REQUEST), first, &subsystem, |_| {});
        let last = self.operations.len() - 1;
        let mut sequence = first;
        for (at, (family, table, operation)) in self.operations.iter().enumerate() {
            sequence = sequence.wrapping_add(1);
            let flags = REQUEST | operation.flags() | if at == last { ACK } else { 0 };
            let fixed = [family.number(), 0, 0, 0];
            if let Operation::AddRule { rule, .. } = operation
                && let Some(map) = rule.own_map()
            {
                encode_own_map(&mut message, (sequence, &fixed), table, map);
            }
            message.message((SUBSYSTEM | operation.kind(), flags), sequence, &fixed, |m| {
                operation.encode(m, table, sequence);
            });
        }
        message.message((END, REQUEST), sequence.wrapping_add(1), &subsystem, |_| {});
        message
    }

    fn read_answers(&self, socket: &mut Socket, first: u32) -> Result<()> {
        let last = first.wrapping_add(u32::try_from(self.operations.len()).expect("counted"));
        let mut refused = None;
        loop {
            for answer in socket.acknowledgements()? {
                let at = answer.sequence.wrapping_sub(first);
                if let Err((errno, message)) = answer.outcome {
                    refused.get_or_insert_with(|| self.operation_error(at, errno, message));
                }
                // A batch that the kernel could not begin or commit gets one reply for the whole.
                if answer.sequence == last || (at == 0 && refused.is_some()) {
                    return refused.map_or(Ok(()), Err);
                }
            }
        }
    }

    fn operation_error(&self, at: u32, errno: i32, message: Option<String>) -> Error {
        let operation =
            usize::try_from(at).ok().and_then(|at| self.operations.get(at.wrapping_sub(1)));
        let what = match operation {
            Some((family, table, operation)) => {
                format!("nftables {} {table}: {operation}", family.name())
            }
            None => "nftables transaction".to_owned(),
        };
        Error::Kernel { what, source: io::Error::from_raw_os_error(errno), message }
    }
}

impl Operation {
    /// The kernel's message type.
    fn kind(&self) -> u16 {
        match self {
            Self::AddTable => 0,
            Self::DeleteTable => 2,
            Self::AddChain { .. } => 3,
            Self::DeleteChain { .. } => 5,
            Self::AddRule { .. } => 6,
            Self::FlushChain { .. } => 8,
            Self::AddSet { .. } => 9,
            Self::DeleteSet { .. } => 11,
            Self::AddElements { .. } => 12,
            Self::DeleteElements { .. } => 14,
        }
    }

    fn flags(&self) -> u16 {
        match self {
            Self::AddRule { .. } => CREATE | APPEND,
            Self::AddTable
            | Self::AddChain { .. }
            | Self::AddSet { .. }
            | Self::AddElements { .. } => CREATE,
            _ => 0,
        }
    }

    fn encode(&self, m: &mut Message, table: &str, sequence: u32) {
        m.string(1, table);
        match self {
            Self::AddTable => {
                m.be32(2, 0);
            }
            Self::DeleteTable => {}
            Self::AddChain { chain, base } => {
                m.string(3, chain);
                if let Some(base) = base {
                    encode_base(m, *base);
                }
            }
            Self::DeleteChain { chain } => {
                m.string(3, chain);
            }
            Self::FlushChain { chain } => {
                m.string(2, chain);
            }
            Self::AddRule { chain, rule } => {
                m.string(2, chain);
                encode_rule(m, rule, sequence);
            }
            Self::AddSet { set, shape } => {
                m.string(2, set);
                encode_shape(m, shape, (0, sequence));
            }
            Self::DeleteSet { set } => {
                m.string(2, set);
            }
            Self::AddElements { set, elements } => {
                let elements = elements.iter().map(|(key, data)| (key, data.as_ref()));
                encode_elements(m, set, elements);
            }
            Self::DeleteElements { set, elements } => {
                encode_elements(m, set, elements.iter().map(|key| (key, None)));
            }
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AddTable => write!(f, "add table"),
            Self::DeleteTable => write!(f, "delete table"),
            Self::AddChain { chain, .. } => write!(f, "add chain {chain}"),
            Self::DeleteChain { chain } => write!(f, "delete chain {chain}"),
            Self::FlushChain { chain } => write!(f, "flush chain {chain}"),
            Self::AddRule { chain, rule } => {
                write!(f, "add rule to {chain} {}", rule.comment_text().unwrap_or_default())
            }
            Self::AddSet { set, .. } => write!(f, "add set {set}"),
            Self::DeleteSet { set } => write!(f, "delete set {set}"),
            Self::AddElements { set, elements } => {
                write!(f, "add {} elements to {set}", elements.len())
            }
            Self::DeleteElements { set, elements } => {
                write!(f, "delete {} elements of {set}", elements.len())
            }
        }
    }
}

fn encode_base(m: &mut Message, base: BaseChain) {
    let hook = match base.hook {
        Hook::Prerouting => 0,
        Hook::Input => 1,
        Hook::Forward => 2,
        Hook::Output => 3,
        Hook::Postrouting => 4,
    };
    let kind = match base.kind {
        ChainType::Filter => "filter",
        ChainType::Nat => "nat",
        ChainType::Route => "route",
    };
    m.nested(4, |m| {
        m.be32(1, hook).be32(2, base.priority.cast_unsigned());
    });
    m.be32(5, u32::from(base.policy == Policy::Accept)).string(7, kind);
}

fn encode_rule(m: &mut Message, rule: &Rule, id: u32) {
    m.nested(4, |m| {
        for expression in rule.expressions() {
            expression.encode(m, id);
        }
    });
    if let Some(comment) = rule.comment_text() {
        let length = u8::try_from(comment.len() + 1).expect("comments are cut to 128 bytes");
        let mut user = vec![0, length];
        user.extend_from_slice(comment.as_bytes());
        user.push(0);
        m.bytes(7, &user);
    }
}

/// Encodes a rule's anonymous map, which precedes the rule under the same sequence number.
fn encode_own_map(message: &mut Message, head: (u32, &[u8]), table: &str, map: &Set) {
    const ANONYMOUS_CONSTANT: u32 = 0x3;
    let (sequence, fixed) = head;
    message.message((SUBSYSTEM | 0x9, REQUEST | CREATE), sequence, fixed, |m| {
        m.string(1, table).string(2, ANONYMOUS_MAP_NAME);
        encode_shape(m, map, (ANONYMOUS_CONSTANT, sequence));
    });
    message.message((SUBSYSTEM | 0xc, REQUEST | CREATE), sequence, fixed, |m| {
        m.string(1, table);
        encode_elements(
            m,
            ANONYMOUS_MAP_NAME,
            map.elements.iter().map(|(key, data)| (key, data.as_ref())),
        );
        m.be32(4, sequence);
    });
}

fn encode_shape(m: &mut Message, set: &Set, (flags, id): (u32, u32)) {
    const MAP: u32 = 0x8;
    const TIMEOUT: u32 = 0x10;
    const DYNAMIC: u32 = 0x20;
    let mut flags = flags | if set.data.is_empty() { 0 } else { MAP };
    if set.dynamic_timeout.is_some() {
        flags |= TIMEOUT | DYNAMIC;
    }
    let (kind, length) = concatenated(&set.key);
    m.be32(3, flags).be32(4, kind).be32(5, length);
    if set.data == [Type::Verdict] {
        m.be32(6, concatenated(&set.data).0);
    } else if !set.data.is_empty() {
        let (kind, length) = concatenated(&set.data);
        m.be32(6, kind).be32(7, length);
    }
    if let Some(size) = set.size {
        m.nested(9, |m| {
            m.be32(1, size);
        });
    }
    m.be32(10, id);
    if set.key == [Type::Index] {
        // Tells `nft list` that the key is in host byte order.
        m.bytes(13, &[0, 4, 1, 0, 0, 0]);
    }
    if let Some(timeout) = set.dynamic_timeout {
        m.be64(11, u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
    }
}

fn encode_elements<'a>(
    m: &mut Message,
    set: &str,
    elements: impl Iterator<Item = (&'a Key, Option<&'a Data>)>,
) {
    m.string(2, set).nested(3, |m| {
        for (key, value) in elements {
            m.nested(1, |m| {
                m.nested(1, |m| data(m, key.as_bytes()));
                match value {
                    Some(Data::Value(value)) => {
                        m.nested(2, |m| data(m, value.as_bytes()));
                    }
                    Some(Data::Verdict(value)) => {
                        m.nested(2, |m| verdict(m, value));
                    }
                    None => {}
                }
            });
        }
    });
}
