//! kube-proxy in nftables mode: `plan` says what the kernel should hold for these
//! services, a `TableTracker` keeps that as the services change and gives the
//! difference, and `Proxy` writes each difference as one transaction. The layout
//! is that of the upstream proxy, under the same table name. `start` feeds it from
//! the API.

mod base_table;
mod conntrack;
mod endpoints;
mod health;
mod http;
mod input;
mod manifest;
mod metrics;
mod names;
mod node_port_health;
mod proxy;
mod route;
mod serve;
mod service_rules;
mod source;
mod stale_conntrack;
mod sync_loop;
mod tracker;

pub use base_table::TABLE;
pub use endpoints::{CategorizedEndpoints, categorize_endpoints};
pub use input::{Endpoint, NodeConfig, Protocol, Service, ServiceName, ServicePort};
pub use manifest::manifest;
pub use proxy::{Proxier, cleanup};
pub use route::watch_pod_routes;
pub use serve::Listeners;
pub use sync_loop::{Config, start};
pub use sys::netlink::{Cidr, Error, Result};
pub use sys::nft::Family;
pub use tracker::{TableTracker, plan};
