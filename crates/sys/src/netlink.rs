//! Netlink: links, addresses, routes, neighbours and conntrack; also the socket and encoding that `nft` uses.
//! Everything is synchronous. A call acts in the network namespace of the calling thread; `run_in_netns` runs work in
//! another namespace, on a thread of its own.

mod address;
mod cidr;
mod conntrack;
mod link;
mod message;
mod namespace;
mod route;
mod socket;

pub use address::{Address, Neighbour, add_address, addresses, set_neighbour};
pub use cidr::Cidr;
pub use conntrack::{ConntrackEntry, delete_conntrack_entry, udp_conntrack_entries};
pub use link::{
    Link, Veth, add_bridge, add_veth, link, links, remove_link, rename_link, set_hairpin,
    set_master, set_mtu, set_up,
};
pub use message::{Attributes, Message, align};
pub use namespace::{NetworkNamespace, run_in_netns};
pub use route::{Route, remove_route, routes, set_route};
pub use socket::{NetlinkFamily, Socket};

use std::io;

/// A netlink error, with the request that failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel returned an error number.
    #[error("{what}: {source}{}", detail(.message.as_deref()))]
    Kernel { what: String, source: io::Error, message: Option<String> },
    /// The socket failed, or no response came in time.
    #[error("netlink socket: {0}")]
    Socket(#[source] io::Error),
    /// The thread could not enter the namespace.
    #[error("network namespace: {0}")]
    Namespace(#[source] io::Error),
    /// The response could not be parsed.
    #[error("malformed netlink answer to {0}")]
    Malformed(String),
    #[error("no such interface: {0}")]
    NoLink(String),
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Whether the object already exists, which often counts as success.
    pub fn is_already_exists(&self) -> bool {
        self.errno() == Some(libc::EEXIST)
    }

    /// Whether the object does not exist, which often counts as success of a removal.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NoLink(_))
            || matches!(self.errno(), Some(libc::ENOENT | libc::ESRCH | libc::ENODEV))
    }

    fn errno(&self) -> Option<i32> {
        match self {
            Self::Kernel { source, .. } | Self::Socket(source) | Self::Namespace(source) => {
                source.raw_os_error()
            }
            _ => None,
        }
    }
}

fn detail(message: Option<&str>) -> String {
    message.map(|text| format!(" ({text})")).unwrap_or_default()
}

#[cfg(test)]
mod tests;
