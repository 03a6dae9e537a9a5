//! Metrics of the proxy, under upstream's names.

use std::{
    collections::BTreeMap,
    fmt::Write,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use object::{Clock as _, SystemClock};

use crate::{Family, health::family_name};

/// The metrics of the proxy.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    numbers: Mutex<Numbers>,
}

/// Labels in text format: `ip_family="IPv4"`.
type Labels = String;

/// All values, by metric and labels.
#[derive(Debug, Default)]
struct Numbers {
    histograms: BTreeMap<(&'static str, Labels), Histogram>,
    values: BTreeMap<(&'static str, Labels), f64>,
}

#[derive(Debug, Default)]
struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    sum: f64,
}

/// Name, type and help of a metric.
struct Metric {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
}

const fn metric(name: &'static str, kind: &'static str, help: &'static str) -> Metric {
    Metric { name, kind, help }
}

const SYNC: &str = "kubeproxy_sync_proxy_rules_duration_seconds";
const FULL: &str = "kubeproxy_sync_full_proxy_rules_duration_seconds";
const PARTIAL: &str = "kubeproxy_sync_partial_proxy_rules_duration_seconds";
const PROGRAMMING: &str = "kubeproxy_network_programming_duration_seconds";
const LAST: &str = "kubeproxy_sync_proxy_rules_last_timestamp_seconds";
const LAST_QUEUED: &str = "kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds";
const ENDPOINTS_PENDING: &str = "kubeproxy_sync_proxy_rules_endpoint_changes_pending";
const ENDPOINTS_TOTAL: &str = "kubeproxy_sync_proxy_rules_endpoint_changes_total";
const SERVICES_PENDING: &str = "kubeproxy_sync_proxy_rules_service_changes_pending";
const SERVICES_TOTAL: &str = "kubeproxy_sync_proxy_rules_service_changes_total";
const FAILURES: &str = "kubeproxy_sync_proxy_rules_nftables_sync_failures_total";
const NO_LOCAL: &str = "kubeproxy_sync_proxy_rules_no_local_endpoints_total";
const HEALTHZ: &str = "kubeproxy_proxy_healthz_total";
const LIVEZ: &str = "kubeproxy_proxy_livez_total";

const ALL: [Metric; 14] = [
    metric(SYNC, "histogram", "SyncProxyRules latency in seconds"),
    metric(FULL, "histogram", "SyncProxyRules latency in seconds for full resyncs"),
    metric(PARTIAL, "histogram", "SyncProxyRules latency in seconds for partial resyncs"),
    metric(PROGRAMMING, "histogram", "In Cluster Network Programming Latency in seconds"),
    metric(LAST, "gauge", "The last time proxy rules were successfully synced"),
    metric(LAST_QUEUED, "gauge", "The last time a sync of proxy rules was queued"),
    metric(ENDPOINTS_PENDING, "gauge", "Pending proxy rules Endpoint changes"),
    metric(ENDPOINTS_TOTAL, "counter", "Cumulative proxy rules Endpoint changes"),
    metric(SERVICES_PENDING, "gauge", "Pending proxy rules Service changes"),
    metric(SERVICES_TOTAL, "counter", "Cumulative proxy rules Service changes"),
    metric(FAILURES, "counter", "Cumulative proxy nftables sync failures"),
    metric(NO_LOCAL, "gauge", "Number of services with a Local traffic policy and no endpoints"),
    metric(HEALTHZ, "counter", "Cumulative proxy healthz HTTP status"),
    metric(LIVEZ, "counter", "Cumulative proxy livez HTTP status"),
];

impl Metrics {
    /// Records that a transaction was written, of the whole tables or of the differences.
    pub(crate) fn synced(&self, families: &[Family], took: Duration, whole: bool) {
        let mut numbers = self.numbers();
        for family in families.iter().map(|family| of_family(*family)) {
            numbers.observe(SYNC, &family, took.as_secs_f64());
            numbers.observe(if whole { FULL } else { PARTIAL }, &family, took.as_secs_f64());
            numbers.set(LAST, &family, seconds());
        }
        numbers.set(ENDPOINTS_PENDING, "", 0.0);
        numbers.set(SERVICES_PENDING, "", 0.0);
    }

    /// Records the network programming latency: since the endpoints changed that were just written.
    pub(crate) fn programmed(&self, families: &[Family], since: &[i64]) {
        let mut numbers = self.numbers();
        for family in families.iter().map(|family| of_family(*family)) {
            for since in since {
                let micros = SystemClock.now_micros().saturating_sub(*since).max(0);
                #[expect(clippy::cast_precision_loss, reason = "a bucket is far wider")]
                numbers.observe(PROGRAMMING, &family, micros as f64 / 1e6);
            }
        }
    }

    pub(crate) fn failed(&self, families: &[Family]) {
        for family in families {
            self.numbers().add(FAILURES, &of_family(*family));
        }
    }

    pub(crate) fn service_changed(&self) {
        self.queued(SERVICES_PENDING, SERVICES_TOTAL);
    }

    pub(crate) fn endpoints_changed(&self) {
        self.queued(ENDPOINTS_PENDING, ENDPOINTS_TOTAL);
    }

    fn queued(&self, pending: &'static str, total: &'static str) {
        let mut numbers = self.numbers();
        numbers.add(pending, "");
        numbers.add(total, "");
        for family in [Family::Ip, Family::Ip6] {
            numbers.set(LAST_QUEUED, &of_family(family), seconds());
        }
    }

    /// Sets how many services with this traffic policy (`internal` or `external`) have no local
    /// endpoint.
    pub(crate) fn without_local(&self, family: Family, policy: &str, count: usize) {
        let labels = format!("{},traffic_policy=\"{policy}\"", of_family(family));
        #[expect(clippy::cast_precision_loss, reason = "far fewer services")]
        self.numbers().set(NO_LOCAL, &labels, count as f64);
    }

    pub(crate) fn answered(&self, path: &str, code: u16) {
        let name = if path == "/healthz" { HEALTHZ } else { LIVEZ };
        self.numbers().add(name, &format!("code=\"{code}\""));
    }

    /// Formats all metrics in the Prometheus text format.
    pub(crate) fn text(&self) -> String {
        let (numbers, mut text) = (self.numbers(), String::new());
        for family in &ALL {
            let Metric { name, kind, help } = family;
            let _ = writeln!(text, "# HELP {name} [ALPHA] {help}.\n# TYPE {name} {kind}");
            for ((_, labels), value) in numbers.values.range(range(name)) {
                let _ = writeln!(text, "{name}{} {value}", braced(labels));
            }
            for ((_, labels), histogram) in numbers.histograms.range(range(name)) {
                histogram.write(&mut text, name, labels);
            }
        }
        text
    }

    fn numbers(&self) -> MutexGuard<'_, Numbers> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Numbers {
    fn observe(&mut self, name: &'static str, labels: &str, value: f64) {
        let ends = ends(name);
        let one = self.histograms.entry((name, labels.to_owned())).or_default();
        one.buckets.resize(ends.len(), 0);
        one.count += 1;
        one.sum += value;
        for (bucket, _) in one.buckets.iter_mut().zip(ends).filter(|(_, end)| value <= *end) {
            *bucket += 1;
        }
    }

    fn add(&mut self, name: &'static str, labels: &str) {
        *self.values.entry((name, labels.to_owned())).or_default() += 1.0;
    }

    fn set(&mut self, name: &'static str, labels: &str, value: f64) {
        self.values.insert((name, labels.to_owned()), value);
    }
}

impl Histogram {
    fn write(&self, text: &mut String, name: &'static str, labels: &str) {
        let comma = if labels.is_empty() { "" } else { "," };
        for (end, count) in ends(name).into_iter().zip(&self.buckets) {
            let _ = writeln!(text, "{name}_bucket{{{labels}{comma}le=\"{end}\"}} {count}");
        }
        let count = self.count;
        let _ = writeln!(text, "{name}_bucket{{{labels}{comma}le=\"+Inf\"}} {count}");
        let _ = writeln!(text, "{name}_sum{} {}", braced(labels), self.sum);
        let _ = writeln!(text, "{name}_count{} {count}", braced(labels));
    }
}

/// The bucket bounds of a histogram, in seconds.
fn ends(name: &str) -> Vec<f64> {
    if name != PROGRAMMING {
        return (0..15).map(|power| 0.001 * f64::from(1 << power)).collect();
    }
    let linear =
        |first: f64, step: f64, count: i32| (0..count).map(move |at| first + step * f64::from(at));
    let all = linear(0.25, 0.25, 2).chain(linear(1.0, 1.0, 59));
    all.chain(linear(60.0, 5.0, 12)).chain(linear(120.0, 30.0, 7)).collect()
}

/// The key range of all label sets of a metric.
fn range(name: &'static str) -> std::ops::RangeInclusive<(&'static str, Labels)> {
    (name, String::new())..=(name, "\u{10ffff}".to_owned())
}

fn of_family(family: Family) -> Labels {
    format!("ip_family=\"{}\"", family_name(family))
}

fn braced(labels: &str) -> String {
    if labels.is_empty() { String::new() } else { format!("{{{labels}}}") }
}

#[expect(clippy::cast_precision_loss, reason = "to the microsecond for 285 years")]
fn seconds() -> f64 {
    SystemClock.now_micros() as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prometheus_can_read_them() {
        let metrics = Metrics::default();
        metrics.service_changed();
        metrics.synced(&[Family::Ip], Duration::from_millis(3), true);
        metrics.synced(&[Family::Ip], Duration::from_millis(1), false);
        metrics.programmed(&[Family::Ip], &[SystemClock.now_micros()]);
        metrics.failed(&[Family::Ip6]);
        metrics.answered("/healthz", 200);
        let text = metrics.text();
        for line in [
            "# TYPE kubeproxy_sync_proxy_rules_duration_seconds histogram",
            "kubeproxy_sync_proxy_rules_duration_seconds_bucket{ip_family=\"IPv4\",le=\"0.001\"} 1",
            "kubeproxy_sync_proxy_rules_duration_seconds_bucket{ip_family=\"IPv4\",le=\"0.004\"} 2",
            "kubeproxy_sync_proxy_rules_duration_seconds_bucket{ip_family=\"IPv4\",le=\"16.384\"} 2",
            "kubeproxy_sync_full_proxy_rules_duration_seconds_count{ip_family=\"IPv4\"} 1",
            "kubeproxy_network_programming_duration_seconds_bucket{ip_family=\"IPv4\",le=\"0.25\"} 1",
            "kubeproxy_network_programming_duration_seconds_bucket{ip_family=\"IPv4\",le=\"300\"} 1",
            "kubeproxy_sync_proxy_rules_service_changes_pending 0",
            "kubeproxy_sync_proxy_rules_service_changes_total 1",
            "kubeproxy_sync_proxy_rules_nftables_sync_failures_total{ip_family=\"IPv6\"} 1",
            "kubeproxy_proxy_healthz_total{code=\"200\"} 1",
        ] {
            assert!(text.lines().any(|one| one == line), "{line}\n{text}");
        }
    }
}
