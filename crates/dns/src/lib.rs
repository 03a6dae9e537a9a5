//! The cluster DNS server. It answers queries for the cluster domain from memory, kept up to date by watches, and
//! forwards all other queries.
//!
//! ```text
//!  source ── watches ──► Zone ──► Resolver ◄── udp, tcp        http: health, ready, metrics
//!                                   └► Forwarder ── cache ── upstream DNS servers
//! ```

#![deny(clippy::indexing_slicing, clippy::string_slice, clippy::unwrap_used, clippy::expect_used)]

mod cache;
mod forward;
mod http;
mod manifest;
mod metrics;
mod resolver;
mod serve;
mod service_entry;
mod source;
mod zone;

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, RwLock},
};

use hickory_proto::rr::Name;
use runtime::Context;
use tokio::net::{TcpListener, UdpSocket};
use tracing::info;

use self::{
    forward::Forwarder, metrics::Metrics, resolver::Resolver, source::ZoneSync, zone::Zone,
};
pub use self::{forward::name_servers, manifest::manifest};

/// Configuration of the server.
#[derive(Debug, Clone)]
pub struct Config {
    /// The addresses to listen on, over UDP and TCP.
    pub listen: Vec<SocketAddr>,
    /// The cluster's domain, such as cluster.local.
    pub domain: String,
    /// The upstream DNS servers for other names; see `name_servers`.
    pub upstreams: Vec<SocketAddr>,
    /// The address of /health, /ready and /metrics.
    pub http_listen: SocketAddr,
}

/// Why the server could not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0:?} is not a domain")]
    Domain(String),
    #[error("cannot listen on {0}: {1}")]
    Listen(SocketAddr, #[source] io::Error),
}

/// Binds the sockets, then serves until the context is stopped.
pub async fn run(cx: &Context, config: Config) -> Result<(), Error> {
    let domain = domain(&config.domain)?;
    let zone = Arc::new(RwLock::new(Zone::new(&domain)));
    let source = ZoneSync::start(cx, &zone);
    let metrics = Arc::new(Metrics::default());
    let forward = Forwarder::new(config.upstreams, metrics.clone());
    let resolver = Arc::new(Resolver::new(zone, source, forward, metrics));
    for address in config.listen {
        let refused = |error| Error::Listen(address, error);
        let udp = UdpSocket::bind(address).await.map_err(refused)?;
        let tcp = TcpListener::bind(address).await.map_err(refused)?;
        cx.spawn("udp", serve::udp(udp, resolver.clone()));
        cx.spawn("tcp", serve::tcp(tcp, resolver.clone()));
    }
    let refused = |error| Error::Listen(config.http_listen, error);
    let http = TcpListener::bind(config.http_listen).await.map_err(refused)?;
    cx.spawn("http", http::serve(http, resolver));
    info!(domain = config.domain, "serving DNS");
    cx.stopping().await;
    Ok(())
}

fn domain(text: &str) -> Result<Name, Error> {
    let wrong = |_| Error::Domain(text.to_owned());
    let mut name = Name::from_ascii(text).map_err(wrong)?;
    name.set_fqdn(true);
    if name.is_root() { Err(Error::Domain(text.to_owned())) } else { Ok(name) }
}
