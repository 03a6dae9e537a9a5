//! IP addresses of interfaces, and permanent neighbour entries, which make ARP unnecessary for pods.

use super::Result;
use super::message::{Attributes, ip, number};
use super::socket::{CREATE, REPLACE, Socket};
use std::net::IpAddr;

const NEW_ADDRESS: u16 = 20;
const GET_ADDRESS: u16 = 22;
const NEW_NEIGHBOUR: u16 = 28;

const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;

const NO_DUPLICATE_DETECTION: u8 = 0x02;
const PERMANENT: u16 = 0x80;

/// An address and its prefix length, on the interface with this index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address {
    pub index: u32,
    pub ip: IpAddr,
    pub prefix: u8,
}

/// A permanent entry of the neighbour table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Neighbour {
    pub index: u32,
    pub ip: IpAddr,
    pub mac: [u8; 6],
}

/// Adds an address; succeeds if it already exists.
pub fn add_address(socket: &mut Socket, address: Address) -> Result<()> {
    let what = format!("add address {}/{}", address.ip, address.prefix);
    let flags = if address.ip.is_ipv6() { NO_DUPLICATE_DETECTION } else { 0 };
    let mut fixed = [family(address.ip), address.prefix, flags, 0, 0, 0, 0, 0];
    fixed[4..].copy_from_slice(&address.index.to_ne_bytes());
    socket.request(&what, (NEW_ADDRESS, CREATE | REPLACE), &fixed, |m| {
        m.address(IFA_LOCAL, address.ip).address(IFA_ADDRESS, address.ip);
    })
}

/// All addresses in the network namespace.
pub fn addresses(socket: &mut Socket) -> Result<Vec<Address>> {
    socket.dump("list addresses", GET_ADDRESS, &[0; 8], |body| {
        let attributes = Attributes(body.get(8..)?);
        let value = attributes.value(IFA_LOCAL).or_else(|| attributes.value(IFA_ADDRESS))?;
        Some(Address { index: number(body, 4)?, ip: ip(value)?, prefix: *body.get(1)? })
    })
}

/// Sets a permanent neighbour entry.
pub fn set_neighbour(socket: &mut Socket, neighbour: Neighbour) -> Result<()> {
    let what = format!("set neighbour {}", neighbour.ip);
    let mut fixed = [0; 12];
    fixed[0] = family(neighbour.ip);
    fixed[4..8].copy_from_slice(&neighbour.index.to_ne_bytes());
    fixed[8..10].copy_from_slice(&PERMANENT.to_ne_bytes());
    socket.request(&what, (NEW_NEIGHBOUR, CREATE | REPLACE), &fixed, |m| {
        m.address(NDA_DST, neighbour.ip).bytes(NDA_LLADDR, &neighbour.mac);
    })
}

pub(super) fn family(ip: IpAddr) -> u8 {
    let family = if ip.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    u8::try_from(family).expect("address families are small numbers")
}
