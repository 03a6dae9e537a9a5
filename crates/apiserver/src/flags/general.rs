//! Flags about the server as a whole.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::{ArgAction, Args};
use server::VERSION;

use crate::{config::duration, emulation::Emulation};

#[derive(Args, Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct GeneralFlags {
    /// The kinds of addresses of nodes at which kubelets are called, the best first.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "InternalIP,Hostname,InternalDNS,ExternalDNS,ExternalIP"
    )]
    pub kubelet_preferred_address_types: Vec<String>,
    /// How long it may take to reach a kubelet.
    #[arg(long, default_value = "5s")]
    pub kubelet_timeout: String,
    /// How many seconds pods stay on a node that is not ready, if they do not say.
    #[arg(long, default_value_t = 300)]
    pub default_not_ready_toleration_seconds: i64,
    /// How many seconds pods stay on a node that cannot be reached, if they do not say.
    #[arg(long, default_value_t = 300)]
    pub default_unreachable_toleration_seconds: i64,
    /// How long events are kept.
    #[arg(long, default_value = "1h0m0s")]
    pub event_ttl: String,
    /// How the endpoints of the kubernetes service follow the servers: lease, or none: they do not.
    #[arg(long, default_value = "lease", value_parser = ["lease", "none"])]
    pub endpoint_reconciler_type: String,
    /// The port on all nodes of the kubernetes service; 0: none.
    #[arg(long, default_value_t = 0)]
    pub kubernetes_service_node_port: u16,
    /// Whether reads are answered from memory: they always are.
    #[arg(long, default_value_t = true, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub watch_cache: bool,
    /// Whether aggregated servers are called at their own addresses: they always are.
    #[arg(long, default_value_t = true, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub enable_aggregator_routing: bool,
    /// Whether objects wait for what they own to be deleted: they always can.
    #[arg(long, default_value_t = true, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub enable_garbage_collector: bool,
    /// Whether profiles are served below /debug/pprof/: there are none.
    #[arg(long, default_value_t = true, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub profiling: bool,
    /// Whether waiting for locks is profiled: it is not.
    #[arg(long, default_value_t = false, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub contention_profiling: bool,
    /// Metrics that are not told, by their full names.
    #[arg(long, value_delimiter = ',')]
    pub disabled_metrics: Vec<String>,
    /// The version before this one, if its metrics shall be told that are no longer: there
    /// are none.
    #[arg(long, value_parser = ["", "1.36"], default_value = "")]
    pub show_hidden_metrics_for_version: String,
    /// How long the start may take before this server counts as dead. It answers only when
    /// that is over.
    #[arg(long, default_value = "0s")]
    pub livez_grace_period: String,
    /// How many objects of resources are kept in memory: all are, whatever is said, as
    /// upstream does; but 0, none, cannot be.
    #[arg(long, value_delimiter = ',', value_name = "RESOURCE[.GROUP]#SIZE")]
    pub watch_cache_sizes: Vec<String>,
    /// The release that this one behaves like: 1.34 to 1.37, or kube=1.36.
    #[arg(long, value_delimiter = ',', value_name = "[kube=]VERSION")]
    pub emulated_version: Vec<String>,
    /// The oldest release that may run beside this one: by default that before the emulated one.
    #[arg(long, value_delimiter = ',', value_name = "[kube=]VERSION")]
    pub min_compatibility_version: Vec<String>,
    /// Whether newer versions of kinds are served that the emulated release has.
    #[arg(long, default_value_t = false, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub emulation_forward_compatible: bool,
    /// Whether versions are served that --runtime-config names and that are newer than the
    /// emulated release.
    #[arg(long, default_value_t = false, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub runtime_config_emulation_forward_compatible: bool,
    /// Whether the files of /var/log are served below /logs/.
    #[arg(long, default_value_t = false, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub enable_logs_handler: bool,
    /// Whether an aggregated server may not send callers elsewhere.
    #[arg(long, default_value_t = true, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub aggregator_reject_forwarding_redirect: bool,
    /// Says the version and ends; raw: all of it; vX.Y.Z…: serves, and says that it is this one.
    #[arg(long, default_value = "false", num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "true|raw|VERSION")]
    pub version: String,
}

const ADDRESSES: [&str; 5] = ["Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP"];

impl GeneralFlags {
    pub(crate) fn check(&self) -> Result<()> {
        for kind in &self.kubelet_preferred_address_types {
            let known = ADDRESSES.contains(&kind.as_str());
            ensure!(known, "--kubelet-preferred-address-types: {kind:?} is none of {ADDRESSES:?}");
        }
        for (name, on) in [
            ("watch-cache", self.watch_cache),
            ("enable-aggregator-routing", self.enable_aggregator_routing),
            ("enable-garbage-collector", self.enable_garbage_collector),
        ] {
            ensure!(on, "--{name}=false is not supported: it cannot be turned off");
        }
        ensure!(
            !self.emulation_forward_compatible || self.emulation()?.is_older(),
            "emulation version must be lower than the binary version to set \
             --emulation-forward-compatible=true"
        );
        ensure!(
            !self.contention_profiling,
            "--contention-profiling is not supported: there are no profiles to serve"
        );
        let seconds = [
            self.default_not_ready_toleration_seconds,
            self.default_unreachable_toleration_seconds,
        ];
        ensure!(seconds.iter().all(|seconds| *seconds >= 0), "tolerations cannot be negative");
        for size in &self.watch_cache_sizes {
            let number = size.split_once('#').and_then(|(_, number)| number.parse::<u32>().ok());
            ensure!(
                number.is_some_and(|number| number > 0),
                "--watch-cache-sizes: {size:?} is not supported: say RESOURCE#SIZE, and no 0, since \
                 all objects are kept in memory"
            );
        }
        self.reported_version()?;
        self.emulation()?;
        duration(&self.livez_grace_period).context("--livez-grace-period")?;
        self.kubelet_timeout()?;
        self.event_ttl().map(drop)
    }

    pub(crate) fn kubelet_timeout(&self) -> Result<Duration> {
        duration(&self.kubelet_timeout).context("--kubelet-timeout")
    }

    pub(crate) fn event_ttl(&self) -> Result<Duration> {
        duration(&self.event_ttl).context("--event-ttl")
    }

    pub(crate) fn emulation(&self) -> Result<Emulation> {
        Emulation::new(&self.emulated_version, &self.min_compatibility_version)
    }

    /// The version that the server reports.
    pub(crate) fn reported_version(&self) -> Result<&str> {
        let said = self.version.as_str();
        let ours = ["true", "false", "raw"].contains(&said);
        if ours || said == VERSION {
            return Ok(VERSION);
        }
        let rest = said.strip_prefix(VERSION);
        ensure!(
            rest.is_some_and(|rest| rest.starts_with(['-', '+'])),
            "invalid argument {said:?} for \"--version\" flag: must match the major, minor and \
             patch version of {VERSION}"
        );
        Ok(said)
    }
}
