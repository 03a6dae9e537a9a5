//! Routes of the main table.

use super::address::family;
use super::message::{Attributes, ip, number};
use super::socket::{CREATE, REPLACE, Socket};
use super::{Cidr, Error, Result};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const NEW: u16 = 24;
const DELETE: u16 = 25;
const GET: u16 = 26;

const DESTINATION: u16 = 1;
const OUT_INDEX: u16 = 4;
const GATEWAY: u16 = 5;
const PRIORITY: u16 = 6;
const PREFERRED_SOURCE: u16 = 7;
const TABLE: u16 = 15;

const MAIN: u32 = 254;
const UNICAST: u8 = 1;
const SCOPE_UNIVERSE: u8 = 0;
const SCOPE_LINK: u8 = 253;
const ON_LINK: u32 = 4;

/// A unicast route: through a gateway, an interface or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    pub destination: Cidr,
    pub gateway: Option<IpAddr>,
    pub interface_index: Option<u32>,
    pub source: Option<IpAddr>,
    /// The originator of the route (rtm_protocol), by which a program finds its own routes again.
    pub protocol: u8,
    /// Whether the gateway may be outside of the networks of the interface (onlink).
    pub on_link: bool,
}

/// Adds a route, or replaces the one with the same destination.
pub fn set_route(socket: &mut Socket, route: &Route) -> Result<()> {
    let what = format!("set route {}", route.destination);
    request(socket, &what, (NEW, CREATE | REPLACE), route)
}

pub fn remove_route(socket: &mut Socket, route: &Route) -> Result<()> {
    let what = format!("remove route {}", route.destination);
    request(socket, &what, (DELETE, 0), route)
}

/// The unicast routes of the main table, of both families.
pub fn routes(socket: &mut Socket) -> Result<Vec<Route>> {
    let mut all = Vec::new();
    for any in [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)] {
        let mut fixed = [0; 12];
        fixed[0] = family(any);
        match socket.dump("list routes", GET, &fixed, |body| read(body, any)) {
            Ok(found) => all.extend(found),
            // A kernel without IPv6 returns an error.
            Err(Error::Kernel { .. }) if any.is_ipv6() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}

fn request(socket: &mut Socket, what: &str, request: (u16, u16), route: &Route) -> Result<()> {
    let scope = if route.gateway.is_none() && route.destination.ip.is_ipv4() {
        SCOPE_LINK
    } else {
        SCOPE_UNIVERSE
    };
    let mut fixed = [0; 12];
    fixed[0] = family(route.destination.ip);
    fixed[1] = route.destination.prefix;
    fixed[4] = u8::try_from(MAIN).expect("254 fits");
    fixed[5] = route.protocol;
    fixed[6] = scope;
    fixed[7] = UNICAST;
    let flags = if route.on_link { ON_LINK } else { 0 };
    fixed[8..].copy_from_slice(&flags.to_ne_bytes());
    socket.request(what, request, &fixed, |m| {
        m.address(DESTINATION, route.destination.ip);
        if let Some(gateway) = route.gateway {
            m.address(GATEWAY, gateway);
        }
        if let Some(index) = route.interface_index {
            m.u32(OUT_INDEX, index);
        }
        if let Some(source) = route.source {
            m.address(PREFERRED_SOURCE, source);
        }
        if route.destination.ip.is_ipv6() {
            m.u32(PRIORITY, 1024);
        }
    })
}

/// Parses a route; `None` if it is of another table or type.
fn read(body: &[u8], any: IpAddr) -> Option<Route> {
    let attributes = Attributes(body.get(12..)?);
    let table = attributes.value(TABLE).and_then(|table| number(table, 0));
    if table.unwrap_or(u32::from(*body.get(4)?)) != MAIN || *body.get(7)? != UNICAST {
        return None;
    }
    Some(Route {
        destination: Cidr {
            ip: attributes.value(DESTINATION).and_then(ip).unwrap_or(any),
            prefix: *body.get(1)?,
        },
        gateway: attributes.value(GATEWAY).and_then(ip),
        interface_index: attributes.value(OUT_INDEX).and_then(|index| number(index, 0)),
        source: attributes.value(PREFERRED_SOURCE).and_then(ip),
        protocol: *body.get(5)?,
        on_link: number(body, 8)? & ON_LINK != 0,
    })
}
