//! Flows that the kernel remembers: a UDP client that keeps sending is led to
//! where its first packet went, even when nobody is there any more.

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

/// A UDP flow: where it was sent to, and who answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flow {
    pub to: (IpAddr, u16),
    pub answers: (IpAddr, u16),
    /// The original direction, as the kernel wrote it.
    key: Vec<u8>,
}

/// Every UDP flow of both families.
pub fn udp_flows(socket: &mut Socket) -> Result<Vec<Flow>> {
    socket.dump("list flows", GET, &[0; 4], read)
}

/// Forgets a flow: its next packet is looked at anew.
pub fn remove_flow(socket: &mut Socket, flow: &Flow) -> Result<()> {
    let what = format!("remove flow to {}", flow.to.0);
    socket.request(&what, (DELETE, 0), &[family(flow.to.0), 0, 0, 0], |m| {
        m.nested(ORIGINAL, |m| {
            m.raw(&flow.key);
        });
    })
}

/// None is a flow of another protocol.
fn read(body: &[u8]) -> Option<Flow> {
    let attributes = Attributes(body.get(4..)?);
    let key = attributes.value(ORIGINAL)?;
    Some(Flow {
        to: end(key, (2, 4), DESTINATION_PORT)?,
        answers: end(attributes.value(REPLY)?, (1, 3), SOURCE_PORT)?,
        key: key.to_vec(),
    })
}

/// One end of one direction; its address has another number in each family.
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
