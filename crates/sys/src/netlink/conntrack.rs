//! Conntrack entries of UDP. A client that keeps sending is forwarded to the endpoint of its first packet, even if that
//! endpoint no longer exists, until the entry is deleted.

use super::message::{Attributes, ip};
use super::socket::Socket;
use super::{Result, address::family};
use std::net::IpAddr;

const GET: u16 = 0x101;
const DELETE: u16 = 0x102;

const ORIGINAL: u16 = 1;
const REPLY: u16 = 2;
const ADDRESSES: u16 = 1;
const PROTOCOL: u16 = 2;
const NUMBER: u16 = 1;
const SOURCE_PORT: u16 = 2;
const DESTINATION_PORT: u16 = 3;
const UDP: u8 = 17;

/// A conntrack entry of a UDP flow: its original destination, and the address that replies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConntrackEntry {
    pub original_destination: (IpAddr, u16),
    pub reply_source: (IpAddr, u16),
    /// The tuple of the original direction, as the kernel encoded it.
    key: Vec<u8>,
}

/// All UDP conntrack entries of both families.
pub fn udp_conntrack_entries(socket: &mut Socket) -> Result<Vec<ConntrackEntry>> {
    socket.dump("list flows", GET, &[0; 4], read)
}

/// Deletes a conntrack entry, so that the next packet of the flow is evaluated by the rules again.
pub fn delete_conntrack_entry(socket: &mut Socket, flow: &ConntrackEntry) -> Result<()> {
    let what = format!("remove flow to {}", flow.original_destination.0);
    socket.request(&what, (DELETE, 0), &[family(flow.original_destination.0), 0, 0, 0], |m| {
        m.nested(ORIGINAL, |m| {
            m.raw(&flow.key);
        });
    })
}

/// Parses an entry; `None` for other protocols.
fn read(body: &[u8]) -> Option<ConntrackEntry> {
    let attributes = Attributes(body.get(4..)?);
    let key = attributes.value(ORIGINAL)?;
    Some(ConntrackEntry {
        original_destination: end(key, (2, 4), DESTINATION_PORT)?,
        reply_source: end(attributes.value(REPLY)?, (1, 3), SOURCE_PORT)?,
        key: key.to_vec(),
    })
}

/// Address and port of one end of a tuple; the attribute of the address differs by family.
fn end(tuple: &[u8], (four, six): (u16, u16), port: u16) -> Option<(IpAddr, u16)> {
    let protocol = Attributes(Attributes(tuple).value(PROTOCOL)?);
    if protocol.value(NUMBER)? != [UDP] {
        return None;
    }
    let addresses = Attributes(Attributes(tuple).value(ADDRESSES)?);
    let address = addresses.value(four).or_else(|| addresses.value(six)).and_then(ip)?;
    let port = protocol.value(port)?.try_into().ok()?;
    Some((address, u16::from_be_bytes(port)))
}
