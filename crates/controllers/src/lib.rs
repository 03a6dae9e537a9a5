//! The controller manager: one file or folder per controller, all of one shape:
//! `start` → struct → `reconcile` → `plan` → tests. To add one, add its file and a
//! line in `CONTROLLERS`.

mod claim;
mod cluster_role_aggregation;
mod daemon_set;
mod deployment;
mod endpoint_slice;
mod garbage;
mod history;
mod namespace;
mod node_ipam;
mod node_lifecycle;
mod pods;
mod replica_set;
mod root_ca;
mod service_account;
mod template;

use std::{sync::Arc, time::Duration};

use client::Client;
use object::{Clock, SystemClock};
use runtime::Context;

/// What controllers must know that is not in the API.
#[derive(Clone, Debug)]
pub struct Config {
    /// Which controllers run, as `--controllers` says: `*`, `name`, `-name`.
    pub controllers: Vec<String>,
    /// Where the addresses of pods come from; empty: nodes get no ranges.
    pub cluster_cidr: String,
    pub node_cidr_mask: u8,
    /// Not to be given to pods.
    pub service_cidr: String,
    /// The certificates that pods trust the API server by; empty: not published.
    pub root_ca: String,
    /// Without a sign of life for that long, a node's state is unknown.
    pub node_monitor_grace: Duration,
    pub clock: Arc<dyn Clock>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            controllers: vec!["*".into()],
            cluster_cidr: String::new(),
            node_cidr_mask: 24,
            service_cidr: String::new(),
            root_ca: String::new(),
            node_monitor_grace: Duration::from_secs(50),
            clock: Arc::new(SystemClock),
        }
    }
}

/// One controller, by the names that upstream has for it.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// What `--controllers` calls it.
    pub name: &'static str,
    /// The service account in kube-system that it writes as.
    pub account: &'static str,
    start: fn(&Context, &Config),
}

const fn entry(name: &'static str, account: &'static str, start: fn(&Context, &Config)) -> Entry {
    Entry { name, account, start }
}

/// All there are.
pub const CONTROLLERS: &[Entry] = &[
    entry("serviceaccount-controller", "service-account-controller", service_account::start),
    entry("root-ca-certificate-publisher-controller", "root-ca-cert-publisher", root_ca::start),
    entry(
        "clusterrole-aggregation-controller",
        "clusterrole-aggregation-controller",
        cluster_role_aggregation::start,
    ),
    entry("node-ipam-controller", "node-controller", node_ipam::start),
    entry("endpointslice-controller", "endpointslice-controller", endpoint_slice::start),
    entry("endpoints-controller", "endpoint-controller", endpoint_slice::start_endpoints),
    entry("deployment-controller", "deployment-controller", deployment::start),
    entry("replicaset-controller", "replicaset-controller", replica_set::start),
    entry(
        "replicationcontroller-controller",
        "replication-controller",
        replica_set::start_replication,
    ),
    entry("daemonset-controller", "daemon-set-controller", daemon_set::start),
    entry("namespace-controller", "namespace-controller", namespace::start),
    entry("node-lifecycle-controller", "node-controller", node_lifecycle::start),
    entry("taint-eviction-controller", "node-controller", node_lifecycle::eviction::start),
    entry("garbage-collector-controller", "generic-garbage-collector", garbage::start),
];

/// Starts every controller that `config` asks for, each writing as its own account:
/// `identity` gives the client of `system:serviceaccount:kube-system:ACCOUNT`.
pub fn start(cx: &Context, config: &Config, identity: &dyn Fn(&str) -> Client) {
    for entry in CONTROLLERS.iter().filter(|entry| config.runs(entry.name)) {
        (entry.start)(&cx.writing_as(&identity(entry.account)), config);
    }
}

impl Config {
    fn runs(&self, name: &str) -> bool {
        let named = |word: &str| self.controllers.iter().any(|known| known == word);
        named(name) || named("*") && !named(&format!("-{name}"))
    }
}

#[test]
fn controllers_are_chosen_by_name() {
    let config = |words: &[&str]| Config {
        controllers: words.iter().map(ToString::to_string).collect(),
        ..Config::default()
    };
    assert!(config(&["*"]).runs("a"));
    assert!(!config(&["*", "-a"]).runs("a"));
    assert!(config(&["a"]).runs("a") && !config(&["a"]).runs("b"));
}
