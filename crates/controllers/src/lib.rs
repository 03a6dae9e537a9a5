//! The controllers of the controller manager, one file or directory each. All have the same shape:
//! `start` → struct → `reconcile` → `plan` → tests. To add a controller, add its file and a line in
//! `CONTROLLERS`.

mod account;
mod autoscaler;
mod bootstrap;
mod certificates;
mod claim;
mod cluster_role_aggregation;
mod conditions;
mod cron_job;
mod daemon_set;
mod deployment;
mod disruption;
mod endpoint_slice;
mod endpoint_slice_mirroring;
mod ephemeral_volume;
mod garbage;
mod history;
mod job;
mod legacy_token;
mod namespace;
mod node_ipam;
mod node_lifecycle;
mod pod_certificate_cleaner;
mod pod_garbage;
mod pods;
mod policy_status;
mod protection;
mod publisher_metrics;
mod replica_set;
mod resource_claim;
mod resource_quota;
mod root_ca;
mod service_account;
mod service_account_token;
mod service_cidr;
mod stateful_set;
mod template;
mod trust_bundle;
mod ttl;
mod ttl_after_finished;
mod volume_binder;
mod volume_expander;

use std::{sync::Arc, time::Duration};

use client::Client;
use object::{Clock, SystemClock};
use runtime::Context;

pub use self::{account::service_account_client, certificates::SigningConfig};

/// Settings of the controllers that are not stored in the API: flags, signing keys and the clock.
#[derive(Clone, Debug)]
pub struct Config {
    /// Which controllers run, in the syntax of `--controllers`: `*`, `name`, `-name`.
    pub controllers: Vec<String>,
    /// CIDR that node podCIDRs are allocated from; empty: nodes get no podCIDR.
    pub cluster_cidr: String,
    pub node_cidr_mask: u8,
    /// CIDR of Service IPs, which is never allocated to nodes.
    pub service_cidr: String,
    /// CA bundle (PEM) with which pods verify the API server; empty: it is not published.
    pub root_ca: String,
    /// Node monitor grace period: a node without a heartbeat for this long gets the status Unknown.
    pub node_monitor_grace: Duration,
    /// Maximum number of addresses that are mirrored for each subset of an Endpoints object.
    pub mirrored_endpoints_per_subset: usize,
    /// Maximum number of finished pods, beyond which the oldest are deleted; 0: no limit.
    pub terminated_pod_threshold: usize,
    /// How often autoscalers evaluate their metrics.
    pub autoscaler_period: Duration,
    /// CA that signs approved CertificateSigningRequests; without it the signing controller does
    /// not run.
    pub signing: Option<SigningConfig>,
    /// Key that signs the tokens in service account token Secrets; without it that controller does
    /// not run.
    pub token_signer: Option<Arc<pki::TokenSigner>>,
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
            mirrored_endpoints_per_subset: 1000,
            terminated_pod_threshold: 12_500,
            autoscaler_period: Duration::from_secs(15),
            signing: None,
            token_signer: None,
            clock: Arc::new(SystemClock),
        }
    }
}

/// A controller: its names, its service account and its start function. The names are upstream's.
#[derive(Clone, Copy, Debug)]
pub struct ControllerDescriptor {
    /// Name in `--controllers`.
    pub name: &'static str,
    /// Deprecated name, which `--controllers` also accepts; empty: none.
    pub alias: &'static str,
    /// Service account in kube-system whose identity the controller's writes have; empty: the
    /// controller writes as the manager itself.
    pub account: &'static str,
    /// Whether `*` includes the controller.
    pub enabled_by_default: bool,
    start: fn(&Context, &Config),
}

const fn entry(
    name: &'static str,
    alias: &'static str,
    account: &'static str,
    start: fn(&Context, &Config),
) -> ControllerDescriptor {
    ControllerDescriptor { name, alias, account, enabled_by_default: true, start }
}

/// Marks a controller that runs only if `--controllers` names it.
const fn disabled_by_default(entry: ControllerDescriptor) -> ControllerDescriptor {
    ControllerDescriptor { enabled_by_default: false, ..entry }
}

/// All controllers.
#[rustfmt::skip]
pub const CONTROLLERS: &[ControllerDescriptor] = &[
    entry("serviceaccount-token-controller", "serviceaccount-token", "", service_account_token::start),
    entry("serviceaccount-controller", "serviceaccount", "service-account-controller", service_account::start),
    entry("root-ca-certificate-publisher-controller", "root-ca-cert-publisher", "root-ca-cert-publisher", root_ca::start),
    entry("clusterrole-aggregation-controller", "clusterrole-aggregation", "clusterrole-aggregation-controller", cluster_role_aggregation::start),
    entry("node-ipam-controller", "nodeipam", "node-controller", node_ipam::start),
    entry("endpointslice-controller", "endpointslice", "endpointslice-controller", endpoint_slice::start),
    entry("endpoints-controller", "endpoint", "endpoint-controller", endpoint_slice::start_endpoints),
    entry("deployment-controller", "deployment", "deployment-controller", deployment::start),
    entry("replicaset-controller", "replicaset", "replicaset-controller", replica_set::start),
    entry("replicationcontroller-controller", "replicationcontroller", "replication-controller", replica_set::start_replication),
    entry("daemonset-controller", "daemonset", "daemon-set-controller", daemon_set::start),
    entry("statefulset-controller", "statefulset", "statefulset-controller", stateful_set::start),
    entry("job-controller", "job", "job-controller", job::start),
    entry("cronjob-controller", "cronjob", "cronjob-controller", cron_job::start),
    entry("ttl-after-finished-controller", "ttl-after-finished", "ttl-after-finished-controller", ttl_after_finished::start),
    entry("disruption-controller", "disruption", "disruption-controller", disruption::start),
    entry("resourcequota-controller", "resourcequota", "resourcequota-controller", resource_quota::start),
    entry("endpointslice-mirroring-controller", "endpointslicemirroring", "endpointslicemirroring-controller", endpoint_slice_mirroring::start),
    entry("pod-garbage-collector-controller", "podgc", "pod-garbage-collector", pod_garbage::start),
    entry("ttl-controller", "ttl", "ttl-controller", ttl::start),
    entry("persistentvolume-binder-controller", "persistentvolume-binder", "persistent-volume-binder", volume_binder::start),
    entry("persistentvolumeclaim-protection-controller", "pvc-protection", "pvc-protection-controller", protection::start_claims),
    entry("persistentvolume-protection-controller", "pv-protection", "pv-protection-controller", protection::start_volumes),
    entry("volumeattributesclass-protection-controller", "", "volumeattributesclass-protection-controller", protection::start_classes),
    entry("horizontal-pod-autoscaler-controller", "horizontalpodautoscaling", "horizontal-pod-autoscaler", autoscaler::start),
    entry("ephemeral-volume-controller", "ephemeral-volume", "ephemeral-volume-controller", ephemeral_volume::start),
    entry("certificatesigningrequest-approving-controller", "csrapproving", "certificate-controller", certificates::start_approving),
    entry("certificatesigningrequest-signing-controller", "csrsigning", "certificate-controller", certificates::start_signing),
    entry("certificatesigningrequest-cleaner-controller", "csrcleaner", "certificate-controller", certificates::start_cleaner),
    entry("resourceclaim-controller", "resource-claim-controller", "resource-claim-controller", resource_claim::start),
    entry("validatingadmissionpolicy-status-controller", "validatingadmissionpolicy-status", "validatingadmissionpolicy-status-controller", policy_status::start),
    entry("legacy-serviceaccount-token-cleaner-controller", "legacy-service-account-token-cleaner", "legacy-service-account-token-cleaner", legacy_token::start),
    entry("persistentvolume-expander-controller", "persistentvolume-expander", "expand-controller", volume_expander::start),
    entry("podcertificaterequest-cleaner-controller", "", "podcertificaterequestcleaner", pod_certificate_cleaner::start),
    entry("kube-apiserver-serving-clustertrustbundle-publisher-controller", "", "kube-apiserver-serving-clustertrustbundle-publisher", trust_bundle::start),
    entry("service-cidr-controller", "", "service-cidrs-controller", service_cidr::start),
    disabled_by_default(entry("bootstrap-signer-controller", "bootstrapsigner", "bootstrap-signer", bootstrap::start_signer)),
    disabled_by_default(entry("token-cleaner-controller", "tokencleaner", "token-cleaner", bootstrap::start_cleaner)),
    entry("namespace-controller", "namespace", "namespace-controller", namespace::start),
    entry("node-lifecycle-controller", "nodelifecycle", "node-controller", node_lifecycle::start),
    entry("taint-eviction-controller", "", "node-controller", node_lifecycle::eviction::start),
    entry("garbage-collector-controller", "garbagecollector", "generic-garbage-collector", garbage::start),
];

/// Starts every controller that `config` enables. Each writes as its own service account:
/// `identity` returns the client of `system:serviceaccount:kube-system:ACCOUNT`.
pub fn start(cx: &Context, config: &Config, identity: &dyn Fn(&str) -> Client) {
    for entry in CONTROLLERS.iter().filter(|entry| config.runs(entry)) {
        let own = match entry.account {
            "" => cx.with_write_client(cx.client()),
            account => cx.with_write_client(&identity(account)),
        };
        (entry.start)(&own, config);
    }
}

/// Validates one item of `--controllers`: `*`, or the name of a controller, optionally after `-`.
pub fn check_controller_name(word: &str) -> Result<(), String> {
    let name = word.strip_prefix('-').unwrap_or(word);
    if word == "*" || CONTROLLERS.iter().any(|entry| entry.is(name)) {
        return Ok(());
    }
    Err(format!("{name:?} is not in the list of known controllers"))
}

impl ControllerDescriptor {
    fn is(&self, name: &str) -> bool {
        !name.is_empty() && (self.name == name || self.alias == name)
    }
}

impl Config {
    fn runs(&self, entry: &ControllerDescriptor) -> bool {
        let words = || self.controllers.iter().map(String::as_str);
        if words().any(|word| entry.is(word)) {
            return true;
        }
        let barred = words().filter_map(|word| word.strip_prefix('-')).any(|word| entry.is(word));
        !barred && entry.enabled_by_default && words().any(|word| word == "*")
    }
}

#[test]
fn controllers_are_chosen_by_name() {
    let runs = |words: &[&str], usual| {
        let controllers = words.iter().map(ToString::to_string).collect();
        let entry = ControllerDescriptor {
            enabled_by_default: usual,
            ..entry("job-controller", "job", "job-controller", |_, _| ())
        };
        Config { controllers, ..Config::default() }.runs(&entry)
    };
    assert!(runs(&["*"], true) && !runs(&["*"], false));
    assert!(!runs(&["*", "-job-controller"], true) && !runs(&["*", "-job"], true));
    assert!(runs(&["job-controller"], false) && runs(&["*", "job"], false));
    assert!(!runs(&["cronjob"], true) && !runs(&[""], true));
    assert!(check_controller_name("-daemonset").is_ok() && check_controller_name("*").is_ok());
    assert_eq!(
        check_controller_name("-x").unwrap_err(),
        r#""x" is not in the list of known controllers"#
    );
}
