//! nftables over netlink, without the `nft` program. A table is a value (`Table`), the difference between two values is
//! a `Batch`, and a batch is one atomic transaction of the kernel.

mod batch;
mod diff;
mod expression;
mod kernel_state;
mod key;
mod rule;
mod table;

pub use batch::{Batch, Operation};
pub use diff::diff;
pub use expression::{Comparison, Expression, Map, Register};
pub use kernel_state::{generation, is_intact};
pub use key::{Key, Type, concatenated};
pub use rule::{Field, Match, Rule, ct};
pub use table::{
    BaseChain, Chain, ChainType, Data, Family, Hook, Policy, Ruleset, Set, Table, Verdict,
};

pub use crate::netlink::{Error, Result};

#[cfg(test)]
mod tests;
