//! Tables, chains and sets as values: the desired contents of an nftables table.

use super::{Key, Rule, Type};
use std::collections::BTreeMap;
use std::time::Duration;

/// Address family of a table: the packets that it sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    Ip,
    Ip6,
}

/// Several tables, each with its own family and name.
pub type Ruleset = Vec<Table>;

/// A table with all its contents; nobody else writes to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    pub family: Family,
    pub name: String,
    pub chains: BTreeMap<String, Chain>,
    /// Sets and maps, which share one namespace in the kernel.
    pub sets: BTreeMap<String, Set>,
}

/// A list of rules: a base chain at a hook, or a chain that is jumped to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Chain {
    pub base: Option<BaseChain>,
    pub rules: Vec<Rule>,
}

/// The hook of a base chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BaseChain {
    pub kind: ChainType,
    pub hook: Hook,
    pub priority: i32,
    pub policy: Policy,
}

/// Type of a base chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChainType {
    Filter,
    Nat,
    Route,
}

/// The netfilter hook of a base chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hook {
    Prerouting,
    Input,
    Forward,
    Output,
    Postrouting,
}

/// The verdict for packets that no rule of a base chain decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    Accept,
    Drop,
}

/// A set, or a map if `data` is not empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Set {
    pub key: Vec<Type>,
    pub data: Vec<Type>,
    /// Timeout of the elements of a dynamic set, which rules add at run time. Such elements are the kernel's own and
    /// are not compared.
    pub dynamic_timeout: Option<Duration>,
    /// Maximum number of elements of a dynamic set.
    pub size: Option<u32>,
    pub elements: BTreeMap<Key, Option<Data>>,
}

/// The value of an element of a map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Data {
    Value(Key),
    Verdict(Verdict),
}

/// What happens to a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Accept,
    Drop,
    Return,
    Jump(String),
    Goto(String),
}

impl Table {
    pub fn new(family: Family, name: impl Into<String>) -> Self {
        Self { family, name: name.into(), chains: BTreeMap::new(), sets: BTreeMap::new() }
    }

    /// The chain with this name, created if it is missing.
    pub fn chain(&mut self, name: impl Into<String>) -> &mut Chain {
        self.chains.entry(name.into()).or_default()
    }

    /// Adds a base chain with the policy accept.
    pub fn base_chain(&mut self, name: &str, kind: ChainType, hook: Hook, priority: i32) {
        self.chain(name).base = Some(BaseChain { kind, hook, priority, policy: Policy::Accept });
    }

    /// The set with this name, created if it is missing.
    pub fn set(&mut self, name: impl Into<String>, key: &[Type]) -> &mut Set {
        self.map(name, key, &[])
    }

    /// The map with this name, created if it is missing.
    pub fn map(&mut self, name: impl Into<String>, key: &[Type], data: &[Type]) -> &mut Set {
        self.sets.entry(name.into()).or_insert_with(|| Set {
            key: key.to_vec(),
            data: data.to_vec(),
            ..Set::default()
        })
    }
}

impl Chain {
    pub fn rule(&mut self, rule: Rule) -> &mut Self {
        self.rules.push(rule);
        self
    }
}

impl Set {
    pub fn add(&mut self, key: Key) -> &mut Self {
        self.elements.insert(key, None);
        self
    }

    pub fn add_value(&mut self, key: Key, value: Key) -> &mut Self {
        self.elements.insert(key, Some(Data::Value(value)));
        self
    }

    pub fn add_verdict(&mut self, key: Key, verdict: Verdict) -> &mut Self {
        self.elements.insert(key, Some(Data::Verdict(verdict)));
        self
    }

    /// Whether two sets have the same definition: then only their elements must be changed, and the set need not be
    /// recreated.
    pub(super) fn same_shape(&self, other: &Self) -> bool {
        self.key == other.key
            && self.data == other.data
            && self.dynamic_timeout == other.dynamic_timeout
            && self.size == other.size
    }
}

impl Family {
    pub fn of(ip: std::net::IpAddr) -> Self {
        if ip.is_ipv4() { Self::Ip } else { Self::Ip6 }
    }

    /// The type of an address of this family in keys.
    pub fn address(self) -> Type {
        match self {
            Self::Ip => Type::Ipv4,
            Self::Ip6 => Type::Ipv6,
        }
    }

    pub(super) fn number(self) -> u8 {
        match self {
            Self::Ip => 2,
            Self::Ip6 => 10,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ip => "ip",
            Self::Ip6 => "ip6",
        }
    }
}
