//! The pod network behind the `Cni` trait: the built-in one (`BuiltinNetwork`: routed veth pairs, IPAM on disk,
//! nftables) or CNI plugins (`CniExec`).

#![deny(clippy::indexing_slicing, clippy::string_slice, clippy::unwrap_used, clippy::expect_used)]

mod addresses;
mod attachment;
mod builtin;
mod exec;
mod interface;
mod names;
mod routes;
mod rules;

pub use attachment::{AddResult, Attachment, Bandwidth, PortMapping, Protocol};
pub use builtin::{BuiltinConfig, BuiltinNetwork, remove};
pub use exec::{CniExec, CniExecConfig, NetworkConfigList};
pub use sys::netlink::{Cidr, NetworkNamespace};

use futures_util::future::BoxFuture;
use std::collections::BTreeSet;
use std::io;

/// Connects sandboxes to the pod network.
pub trait Cni: Send + Sync {
    /// Connects a sandbox. Called again with the same id, the built-in network returns the same addresses; a plugin
    /// decides for itself.
    fn add<'a>(&'a self, attachment: &'a Attachment) -> BoxFuture<'a, Result<AddResult>>;

    /// Disconnects a sandbox. It is no error if it is disconnected already, so that this can be retried.
    fn remove<'a>(&'a self, attachment: &'a Attachment) -> BoxFuture<'a, Result<()>>;

    /// Fails if the sandbox's network is not as `add` configured it.
    fn check<'a>(&'a self, attachment: &'a Attachment) -> BoxFuture<'a, Result<()>>;

    /// Fails if no sandbox can be connected now; determines the NetworkReady condition.
    fn status(&self) -> BoxFuture<'_, Result<()>>;

    /// Removes everything that belongs to none of these sandboxes.
    fn gc<'a>(&'a self, live: &'a BTreeSet<String>) -> BoxFuture<'a, Result<()>>;
}

/// Errors of the pod network.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("no free address in {0}")]
    Exhausted(Cidr),
    #[error("host port {0} is taken by sandbox {1}")]
    PortTaken(String, String),
    #[error("sandbox {0} is not connected: {1}")]
    NotConnected(String, String),
    #[error("not supported by this network: {0}")]
    Unsupported(String),
    #[error("network configuration: {0}")]
    Configuration(String),
    #[error("network plugin {plugin}: {message} (code {code}){}", suffix(.details))]
    Plugin { plugin: String, code: u32, message: String, details: String },
    #[error(transparent)]
    Kernel(#[from] sys::netlink::Error),
    #[error("{0}: {1}")]
    Io(String, #[source] io::Error),
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

fn suffix(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(": {text}") }
}

/// Adds the subject of an I/O error.
fn io_error(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
    let what = what.into();
    move |error| Error::Io(what, error)
}
