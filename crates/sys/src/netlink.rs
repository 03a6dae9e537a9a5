//! Netlink: links, addresses, routes and neighbours, and the socket and the
//! encoding that `nft` uses too. Everything is synchronous: a call acts in the
//! network namespace of the calling thread, and `run_in_netns` brings a thread of its
//! own into another one.

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

/// What went wrong, with the request that the kernel refused.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel answered with an error number.
    #[error("{what}: {source}{}", detail(.message.as_deref()))]
    Kernel { what: String, source: io::Error, message: Option<String> },
    /// The socket itself failed, or no answer came in time.
    #[error("netlink socket: {0}")]
    Socket(#[source] io::Error),
    /// The thread could not enter the namespace.
    #[error("network namespace: {0}")]
    Namespace(#[source] io::Error),
    /// The answer could not be read.
    #[error("malformed netlink answer to {0}")]
    Malformed(String),
    #[error("no such interface: {0}")]
    NoLink(String),
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// The thing was there already: often as good as success.
    pub fn is_already_exists(&self) -> bool {
        self.errno() == Some(libc::EEXIST)
    }

    /// The thing was not there: often as good as success when removing.
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
