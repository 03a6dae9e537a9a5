//! kube-proxy in nftables mode: `plan` says what the kernel should hold for these
//! services, a `Tracker` keeps that as the services change and gives the
//! difference, and `Proxy` writes each difference as one transaction. The layout
//! is that of the upstream proxy, under the same table name. `start` feeds it from
//! the API.

mod base;
mod conntrack;
mod endpoints;
mod health;
mod http;
mod input;
mod manifest;
mod metrics;
mod names;
mod node_port_health;
mod part;
mod proxy;
mod route;
mod run;
mod serve;
mod source;
mod stale;
mod tracker;

pub use base::TABLE;
pub use endpoints::{CategorizedEndpoints, categorize_endpoints};
pub use input::{Endpoint, NodeConfig, Protocol, Service, ServiceName, ServicePort};
pub use manifest::manifest;
pub use proxy::{Proxier, cleanup};
pub use route::watch_pod_routes;
pub use run::{Config, start};
pub use serve::Listeners;
pub use sys::netlink::{Cidr, Error, Result};
pub use sys::nft::Family;
pub use tracker::{TableTracker, plan};
