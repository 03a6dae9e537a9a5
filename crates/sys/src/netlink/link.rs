//! Network interfaces: bridges and veth pairs.

use super::message::{Attributes, number};
use super::socket::{CREATE, EXCLUSIVE, Socket};
use super::{Error, NetworkNamespace, Result};
use std::os::fd::{AsFd, AsRawFd};

const NEW: u16 = 16;
const DELETE: u16 = 17;
const GET: u16 = 18;

const ADDRESS: u16 = 1;
const NAME: u16 = 3;
const MTU: u16 = 4;
const MASTER: u16 = 10;
const INFO: u16 = 18;
const NAMESPACE: u16 = 28;
const INFO_KIND: u16 = 1;
const INFO_DATA: u16 = 2;
const INFO_SLAVE_KIND: u16 = 4;
const INFO_SLAVE_DATA: u16 = 5;
const VETH_PEER: u16 = 1;
const PORT_MODE: u16 = 4;

const UP: u32 = 1;

/// An interface of the current network namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    pub index: u32,
    pub name: String,
    pub mac: Option<[u8; 6]>,
    pub mtu: u32,
    pub up: bool,
    pub master: Option<u32>,
    /// The driver, such as "bridge" or "veth"; `None` for physical interfaces.
    pub kind: Option<String>,
}

/// A veth pair. One end is here and up, the other one in `peer_namespace` and down, because the kernel does not bring
/// up an interface before its peer exists.
#[derive(Debug)]
pub struct Veth<'a> {
    pub name: &'a str,
    pub mac: [u8; 6],
    pub peer_name: &'a str,
    pub peer_mac: [u8; 6],
    pub peer_namespace: &'a NetworkNamespace,
    pub mtu: u32,
}

/// All interfaces of the network namespace.
pub fn links(socket: &mut Socket) -> Result<Vec<Link>> {
    socket.dump("list links", GET, &header(0, 0, 0), read)
}

/// The interface with this name; `NoLink` if it does not exist.
pub fn link(socket: &mut Socket, name: &str) -> Result<Link> {
    let what = format!("find interface {name}");
    let found = socket.get(&what, GET, &header(0, 0, 0), |m| {
        m.string(NAME, name);
    });
    match found {
        Ok(body) => read(&body).ok_or(Error::Malformed(what)),
        Err(error) if error.is_not_found() => Err(Error::NoLink(name.to_owned())),
        Err(error) => Err(error),
    }
}

/// Creates a bridge and brings it up.
pub fn add_bridge(socket: &mut Socket, name: &str, mac: [u8; 6]) -> Result<()> {
    let what = format!("add bridge {name}");
    socket.request(&what, (NEW, CREATE | EXCLUSIVE), &header(0, UP, UP), |m| {
        m.string(NAME, name).bytes(ADDRESS, &mac).nested(INFO, |m| {
            m.string(INFO_KIND, "bridge");
        });
    })
}

/// Creates a veth pair.
pub fn add_veth(socket: &mut Socket, veth: &Veth<'_>) -> Result<()> {
    let what = format!("add interface {}", veth.name);
    let namespace = veth.peer_namespace.as_fd().as_raw_fd().cast_unsigned();
    socket.request(&what, (NEW, CREATE | EXCLUSIVE), &header(0, UP, UP), |m| {
        m.string(NAME, veth.name).bytes(ADDRESS, &veth.mac).u32(MTU, veth.mtu).nested(INFO, |m| {
            m.string(INFO_KIND, "veth").nested(INFO_DATA, |m| {
                m.nested(VETH_PEER, |m| {
                    m.raw(&header(0, 0, 0))
                        .string(NAME, veth.peer_name)
                        .bytes(ADDRESS, &veth.peer_mac)
                        .u32(MTU, veth.mtu)
                        .u32(NAMESPACE, namespace);
                });
            });
        });
    })
}

pub fn remove_link(socket: &mut Socket, name: &str) -> Result<()> {
    let what = format!("remove interface {name}");
    socket.request(&what, (DELETE, 0), &header(0, 0, 0), |m| {
        m.string(NAME, name);
    })
}

pub fn set_up(socket: &mut Socket, index: u32) -> Result<()> {
    socket.request(&format!("set interface {index} up"), (NEW, 0), &header(index, UP, UP), |_| {})
}

pub fn set_mtu(socket: &mut Socket, index: u32, mtu: u32) -> Result<()> {
    socket.request(&format!("set mtu of {index}"), (NEW, 0), &header(index, 0, 0), |m| {
        m.u32(MTU, mtu);
    })
}

/// Renames an interface, which must be down.
pub fn rename_link(socket: &mut Socket, index: u32, name: &str) -> Result<()> {
    socket.request(&format!("rename {index} to {name}"), (NEW, 0), &header(index, 0, 0), |m| {
        m.string(NAME, name);
    })
}

/// Makes an interface a port of a bridge.
pub fn set_master(socket: &mut Socket, index: u32, bridge: u32) -> Result<()> {
    socket.request(&format!("attach {index} to {bridge}"), (NEW, 0), &header(index, 0, 0), |m| {
        m.u32(MASTER, bridge);
    })
}

/// Sets hairpin mode: whether a bridge port sends a frame back to the port it came from.
pub fn set_hairpin(socket: &mut Socket, index: u32, on: bool) -> Result<()> {
    socket.request(&format!("set hairpin of {index}"), (NEW, 0), &header(index, 0, 0), |m| {
        m.nested(INFO, |m| {
            m.string(INFO_SLAVE_KIND, "bridge").nested(INFO_SLAVE_DATA, |m| {
                m.u8(PORT_MODE, u8::from(on));
            });
        });
    })
}

/// `struct ifinfomsg`.
fn header(index: u32, flags: u32, change: u32) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[4..8].copy_from_slice(&index.to_ne_bytes());
    bytes[8..12].copy_from_slice(&flags.to_ne_bytes());
    bytes[12..16].copy_from_slice(&change.to_ne_bytes());
    bytes
}

fn read(body: &[u8]) -> Option<Link> {
    let attributes = Attributes(body.get(16..)?);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned();
    let info = attributes.value(INFO).map(Attributes);
    Some(Link {
        index: number(body, 4)?,
        name: text(attributes.value(NAME)?),
        mac: attributes.value(ADDRESS).and_then(|mac| mac.try_into().ok()),
        mtu: attributes.value(MTU).and_then(|mtu| number(mtu, 0)).unwrap_or_default(),
        up: number(body, 8)? & UP != 0,
        master: attributes.value(MASTER).and_then(|master| number(master, 0)),
        kind: info.and_then(|info| info.value(INFO_KIND)).map(text),
    })
}
