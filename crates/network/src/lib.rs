//! The pod network behind one seam, `Cni`: our own (`BuiltinNetwork`: routed veth pairs,
//! addresses kept on disk, nftables) or any plugin through the CNI protocol
//! (`CniExec`).

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
    /// Connects a sandbox; again with the same id gives the same addresses (the
    /// built-in one) or what the plugin says.
    fn add<'a>(&'a self, attachment: &'a Attachment) -> BoxFuture<'a, Result<AddResult>>;

    /// Disconnects it. What is gone already is no error, so that it can be retried.
    fn remove<'a>(&'a self, attachment: &'a Attachment) -> BoxFuture<'a, Result<()>>;

    /// Fails when the sandbox's network is not as `add` left it.
    fn check<'a>(&'a self, attachment: &'a Attachment) -> BoxFuture<'a, Result<()>>;

    /// Fails when no sandbox could be connected now; decides NetworkReady.
    fn status(&self) -> BoxFuture<'_, Result<()>>;

    /// Removes what belongs to none of these sandboxes.
    fn gc<'a>(&'a self, live: &'a BTreeSet<String>) -> BoxFuture<'a, Result<()>>;
}

/// What a caller can act upon.
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

/// Names the thing that an I/O error happened to.
fn io_error(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
    let what = what.into();
    move |error| Error::Io(what, error)
}
