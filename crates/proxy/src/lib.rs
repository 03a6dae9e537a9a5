//! kube-proxy in nftables mode. `plan` computes the table for a set of services; a `TableTracker`
//! keeps it up to date as services change and returns the difference; and `Proxier` writes each
//! difference in one nftables transaction. The layout and the table name are those of upstream's
//! kube-proxy. `start` connects it to the API.

#![deny(clippy::indexing_slicing, clippy::string_slice, clippy::unwrap_used, clippy::expect_used)]

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
