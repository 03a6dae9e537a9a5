//! Reads a table from the kernel, to detect changes by other programs.

use super::{Error, Result, Table};
use crate::netlink::{self, Attributes, Socket};
use std::collections::BTreeMap;

const SUBSYSTEM: u16 = 10 << 8;
const GET_CHAIN: u16 = SUBSYSTEM | 0x4;
const GET_RULE: u16 = SUBSYSTEM | 0x7;
const GET_SET: u16 = SUBSYSTEM | 0xa;
const GET_ELEMENTS: u16 = SUBSYSTEM | 0xd;
const GET_GENERATION: u16 = SUBSYSTEM | 0x10;

/// Attributes of chains, rules, sets and elements.
const TABLE: u16 = 1;
const CHAIN_NAME: u16 = 3;
const CHAIN_HOOK: u16 = 4;
const RULE_CHAIN: u16 = 2;
const SET_NAME: u16 = 2;
const SET_FLAGS: u16 = 3;
const ELEMENTS: u16 = 3;
const ANONYMOUS: u32 = 1;

/// The generation of the ruleset in the calling thread's network namespace. Every transaction changes it, whoever
/// commits it.
pub fn generation() -> Result<u32> {
    let mut socket = Socket::open(netlink::NetlinkFamily::Netfilter)?;
    let body = socket.get("read the generation", GET_GENERATION, &[0; 4], |_| {})?;
    let id = Attributes(body.get(4..).unwrap_or_default()).value(1).and_then(be32);
    id.ok_or_else(|| Error::Malformed("a generation without a number".to_owned()))
}

/// Whether the kernel has exactly the chains, rules, sets and elements of `wanted`, compared by names and counts.
/// Elements that rules add are not counted.
pub fn is_intact(wanted: &Table) -> Result<bool> {
    let mut socket = Socket::open(netlink::NetlinkFamily::Netfilter)?;
    let head = [wanted.family.number(), 0, 0, 0];
    let of_table = |body: &[u8]| {
        let attributes = Attributes(body.get(4..)?);
        (text(attributes.value(TABLE)?) == wanted.name).then(|| body.to_vec())
    };
    let mut chains = BTreeMap::new();
    for body in socket.dump("list chains", GET_CHAIN, &head, of_table)? {
        let attributes = Attributes(&body[4..]);
        let name = attributes.value(CHAIN_NAME).map(text).unwrap_or_default();
        chains.insert(name, (attributes.value(CHAIN_HOOK).is_some(), 0));
    }
    for body in socket.dump("list rules", GET_RULE, &head, of_table)? {
        let name = Attributes(&body[4..]).value(RULE_CHAIN).map(text).unwrap_or_default();
        chains.entry(name).or_insert((false, 0)).1 += 1;
    }
    let wanted_chains = wanted.chains.iter();
    let wanted_chains =
        wanted_chains.map(|(name, it)| (name.clone(), (it.base.is_some(), it.rules.len())));
    if chains != wanted_chains.collect() {
        return Ok(false);
    }
    has_sets(&mut socket, wanted, head, of_table)
}

fn has_sets(
    socket: &mut Socket,
    wanted: &Table,
    head: [u8; 4],
    of_table: impl FnMut(&[u8]) -> Option<Vec<u8>>,
) -> Result<bool> {
    let mut sets = Vec::new();
    for body in socket.dump("list sets", GET_SET, &head, of_table)? {
        let attributes = Attributes(&body[4..]);
        if attributes.value(SET_FLAGS).and_then(be32).unwrap_or(0) & ANONYMOUS == 0 {
            sets.push(attributes.value(SET_NAME).map(text).unwrap_or_default());
        }
    }
    sets.sort_unstable();
    if !sets.iter().eq(wanted.sets.keys()) {
        return Ok(false);
    }
    for (name, set) in wanted.sets.iter().filter(|(_, set)| set.dynamic_timeout.is_none()) {
        let fill = |m: &mut netlink::Message| {
            m.string(1, &wanted.name).string(2, name);
        };
        let count = |body: &[u8]| {
            let elements = Attributes(body.get(4..)?).value(ELEMENTS)?;
            Some(Attributes(elements).count())
        };
        let counts = socket.dump_some("list elements", GET_ELEMENTS, &head, fill, count)?;
        if counts.iter().sum::<usize>() != set.elements.len() {
            return Ok(false);
        }
    }
    Ok(true)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned()
}

fn be32(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.try_into().ok()?))
}
