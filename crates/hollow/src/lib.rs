//! Hollow nodes: the API behaviour of kubelets without containers, thousands in one process. Nodes register, renew
//! their leases and report their status; pods start, become ready, end and are removed as annotations ask
//! (module `stages`).
//!
//! One watch serves all nodes, and only pods that wait for a delay are held in memory.

#![deny(clippy::indexing_slicing, clippy::string_slice, clippy::unwrap_used, clippy::expect_used)]

mod addresses;
mod nodes;
mod pods;
mod stages;
mod status;

use std::{collections::BTreeMap, sync::Arc};

use runtime::Context;

/// The label of every hollow node.
pub const LABEL: &str = "tiphys.dev/hollow";
/// Maximum number of requests in flight, of all nodes together.
const CONCURRENCY: usize = 128;

/// Configuration of hollow nodes.
#[derive(Clone, Debug)]
pub struct Config {
    /// How many nodes there are.
    pub nodes: u32,
    /// The nodes are called `PREFIX` and their number.
    pub prefix: String,
    /// Capacity of each node, by resource.
    pub capacity: BTreeMap<String, String>,
    /// Further labels of each node.
    pub labels: BTreeMap<String, String>,
    /// The number of zones that the nodes are spread over; 0: the nodes have none.
    pub zones: u32,
}

impl Default for Config {
    fn default() -> Self {
        let capacity = [
            ("cpu", "4"),
            ("memory", "32Gi"),
            ("ephemeral-storage", "256Gi"),
            ("hugepages-1Gi", "0"),
            ("hugepages-2Mi", "0"),
            ("pods", "110"),
        ];
        let capacity = capacity.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Self {
            nodes: 1,
            prefix: "hollow-".to_owned(),
            capacity: capacity.into(),
            labels: BTreeMap::new(),
            zones: 0,
        }
    }
}

/// Starts the nodes; they run until `cx` is stopped.
pub fn start(cx: &Context, config: &Config) {
    let nodes = Arc::new(nodes::Nodes::new(config));
    nodes::start(cx, config, &nodes);
    pods::start(cx, nodes);
}
