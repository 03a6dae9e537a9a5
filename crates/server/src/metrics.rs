//! Metrics of the server, under upstream's names.

mod admissions;
mod allowed;
mod histogram;
mod labels;
mod native_histogram;
mod process;
pub(crate) mod protobuf;
mod slis;
mod telemetry;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt::{self, Write},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use object::Text;
use schema::ResourceDefinition;

pub(crate) use self::{
    admissions::{AdmissionMetrics, Phase},
    labels::{Labels, method_verb},
};
pub use self::{
    allowed::AllowedLabels,
    histogram::Histogram,
    process::report_process,
    telemetry::{CounterVec, GaugeVec, HistogramVec, MetricDesc},
};
use crate::Config;

const DURATION: &str = "apiserver_request_duration_seconds";
const SLI_DURATION: &str = "apiserver_request_sli_duration_seconds";
const SECONDS: &[f64] = &[
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0,
    10.0, 15.0, 20.0, 30.0, 45.0, 60.0,
];
const DECISIONS: &[f64] = &[
    0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096,
    8.192, 16.384,
];
const SIZES: &[f64] = &[1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9];
const BODIES: &[f64] = &[
    5e4, 1.5e5, 2.5e5, 3.5e5, 4.5e5, 5.5e5, 6.5e5, 7.5e5, 8.5e5, 9.5e5, 1.05e6, 1.15e6, 1.25e6,
    1.35e6, 1.45e6, 1.55e6, 1.65e6, 1.75e6, 1.85e6, 1.95e6, 2.05e6, 2.15e6, 2.25e6, 2.35e6, 2.45e6,
    2.55e6, 2.65e6, 2.75e6, 2.85e6, 2.95e6, 3.05e6,
];
const IN_FILTERS: &[f64] =
    &[0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 5.0, 10.0, 15.0, 30.0];
/// The filters whose latency is measured.
const FILTERS: [&str; 4] =
    ["authentication", "authorization", "constrainedimpersonation", "priorityandfairness"];
/// The values of the `fieldValidation` option.
const VALIDATIONS: [&str; 4] = ["", "Ignore", "Strict", "Warn"];
const EVENTS: &[f64] = &[1024.0, 2048.0, 4096.0, 8192.0, 16384.0, 32768.0, 65536.0, 131_072.0];

/// A further source of lines for `/metrics`.
pub trait MetricsSource: fmt::Debug + Send + Sync {
    /// Writes lines in the Prometheus text format.
    fn report(&self, out: &mut String);
}

/// The metrics of the server.
#[derive(Debug)]
pub(crate) struct Metrics {
    requests: Mutex<HashMap<Labels, Requests>>,
    watches: Mutex<HashMap<Labels, Arc<WatchMetrics>>>,
    pub(crate) reading: AtomicU64,
    pub(crate) writing: AtomicU64,
    pub(crate) handshake_errors: AtomicU64,
    pub(crate) slis: slis::Slis,
    pub(crate) known: Histogram,
    pub(crate) unknown: Histogram,
    pub(crate) allowed: Histogram,
    pub(crate) denied: Histogram,
    /// Latency of each filter.
    filters: [Histogram; FILTERS.len()],
    validations: [Histogram; VALIDATIONS.len()],
    /// Requests by user name; only a few names are distinguished.
    callers: Mutex<BTreeMap<&'static str, u64>>,
    /// Label sets of the deprecated APIs that were requested.
    deprecated: Mutex<BTreeSet<String>>,
}

/// The request metrics of one label set.
#[derive(Debug)]
struct Requests {
    by_code: BTreeMap<u16, u64>,
    seconds: Histogram,
    sizes: Histogram,
    bodies: Histogram,
}

/// The watches of one label set: how many are open, and the sizes of their events.
#[derive(Debug)]
pub(crate) struct WatchMetrics {
    pub(crate) open: AtomicU64,
    pub(crate) events: Histogram,
}

/// Statistics of a stored resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StorageStats {
    pub(crate) group: Text,
    pub(crate) resource: Text,
    pub(crate) count: usize,
    /// The resourceVersion that the watch cache has reached.
    pub(crate) revision: u64,
}

/// Increments a gauge until it is dropped.
#[derive(Debug)]
pub(crate) struct GaugeGuard<'a>(&'a AtomicU64);

impl<'a> GaugeGuard<'a> {
    pub(crate) fn new(count: &'a AtomicU64) -> Self {
        count.fetch_add(1, Relaxed);
        Self(count)
    }
}

impl Drop for GaugeGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let decisions = || Histogram::new(DECISIONS);
        Self {
            requests: Mutex::default(),
            watches: Mutex::default(),
            reading: AtomicU64::new(0),
            writing: AtomicU64::new(0),
            handshake_errors: AtomicU64::new(0),
            known: decisions(),
            unknown: decisions(),
            allowed: decisions(),
            denied: decisions(),
            filters: FILTERS.map(|_| Histogram::new(IN_FILTERS)),
            validations: VALIDATIONS.map(|_| Histogram::new(SECONDS.get(2..).unwrap_or_default())),
            slis: slis::Slis::default(),
            callers: Mutex::default(),
            deprecated: Mutex::default(),
        }
    }
}

impl Metrics {
    pub(crate) fn observe(&self, labels: Labels, code: u16, took: Duration, size: Option<u64>) {
        let mut requests = lock(&self.requests);
        let entry = requests.entry(labels).or_insert_with(|| Requests {
            by_code: BTreeMap::new(),
            seconds: Histogram::with_native(SECONDS),
            sizes: Histogram::new(SIZES),
            bodies: Histogram::new(BODIES),
        });
        *entry.by_code.entry(code).or_default() += 1;
        entry.seconds.observe(took.as_secs_f64());
        if let Some(size) = size {
            entry.sizes.observe(float(size));
        }
    }

    /// Records the latency of a filter.
    pub(crate) fn observe_filter(&self, filter: &str, took: Duration) {
        let own = FILTERS.iter().position(|own| *own == filter);
        let own = own.and_then(|at| self.filters.get(at));
        own.into_iter().for_each(|own| own.observe(took.as_secs_f64()));
    }

    /// Records a write: the size of its body if it is known, and its duration by `fieldValidation`.
    pub(crate) fn observe_sent(
        &self,
        labels: &Labels,
        size: Option<u64>,
        check: &str,
        took: Duration,
    ) {
        let Some(verb) = labels.writes() else { return };
        if let (Some(size), Some(entry)) = (size, lock(&self.requests).get(labels)) {
            entry.bodies.observe(float(size));
        }
        if verb != "delete" {
            let own = VALIDATIONS.iter().position(|own| *own == check).unwrap_or_default();
            let own = self.validations.get(own);
            own.into_iter().for_each(|own| own.observe(took.as_secs_f64()));
        }
    }

    /// Records the size of a response that was not known when the response began.
    pub(crate) fn observe_size(&self, labels: &Labels, size: u64) {
        if let Some(entry) = lock(&self.requests).get(labels) {
            entry.sizes.observe(float(size));
        }
    }

    /// The metrics of the watches of one label set.
    pub(crate) fn watched(&self, labels: Labels) -> Arc<WatchMetrics> {
        let new = || WatchMetrics { open: AtomicU64::new(0), events: Histogram::new(EVENTS) };
        lock(&self.watches).entry(labels).or_insert_with(|| Arc::new(new())).clone()
    }

    /// Counts an authenticated request. Only a few user names are labels, to bound the number of
    /// series.
    pub(crate) fn count_authenticated(&self, user: &str) {
        const TOLD: [&str; 4] = ["admin", "client", "kube_proxy", "kubelet"];
        let told = TOLD.into_iter().find(|told| *told == user).unwrap_or("other");
        *lock(&self.callers).entry(told).or_default() += 1;
    }

    /// Records that a deprecated API was requested.
    pub(crate) fn mark_deprecated_requested(
        &self,
        definition: &ResourceDefinition,
        subresource: &str,
    ) {
        if definition.deprecated.is_empty() {
            return;
        }
        let names = &definition.names;
        let removed = definition.deprecated.rsplit_once("unavailable in v");
        let removed = removed.map_or("", |(_, rest)| rest.split('+').next().unwrap_or_default());
        let subresource = definition.subresource(subresource).map_or("", |sub| sub.name);
        lock(&self.deprecated).insert(format!(
            "group=\"{}\",removed_release=\"{removed}\",resource=\"{}\",\
             subresource=\"{subresource}\",version=\"{}\"",
            names.group, names.plural, names.version
        ));
    }

    /// Resets the request metrics.
    pub(crate) fn reset(&self) {
        lock(&self.requests).clear();
    }

    /// Formats all metrics in the Prometheus text format.
    pub(crate) fn text(&self, config: &Config, objects: &[StorageStats]) -> String {
        let mut out = String::new();
        self.requests_text(&mut out);
        self.watches_text(&mut out);
        head(
            "apiserver_current_inflight_requests",
            "gauge",
            "Requests currently being handled, by request kind.",
            &mut out,
        );
        for (kind, count) in [("mutating", &self.writing), ("readOnly", &self.reading)] {
            let count = count.load(Relaxed);
            let _ = writeln!(
                out,
                "apiserver_current_inflight_requests{{request_kind=\"{kind}\"}} {count}"
            );
        }
        self.decisions_text(&mut out);
        let name = "authenticated_user_requests";
        head(name, "counter", "Authenticated requests by user name.", &mut out);
        for (user, count) in &*lock(&self.callers) {
            let _ = writeln!(out, "{name}{{username=\"{user}\"}} {count}");
        }
        let name = "apiserver_requested_deprecated_apis";
        head(name, "gauge", "Deprecated API versions that have been requested.", &mut out);
        for labels in &*lock(&self.deprecated) {
            let _ = writeln!(out, "{name}{{{labels}}} 1");
        }
        if config.export_object_counts {
            head(
                "apiserver_resource_objects",
                "gauge",
                "Number of stored objects, by resource.",
                &mut out,
            );
        }
        for StorageStats { group, resource, count, .. } in
            objects.iter().filter(|_| config.export_object_counts)
        {
            let _ = writeln!(
                out,
                "apiserver_resource_objects{{group=\"{group}\",resource=\"{resource}\"}} {count}"
            );
        }
        let name = "apiserver_watch_cache_resource_version";
        head(name, "gauge", "Resource version up to which the watch cache is complete.", &mut out);
        for StorageStats { group, resource, revision, .. } in objects {
            let labels = format_args!("group=\"{group}\",resource=\"{resource}\"");
            let _ = writeln!(out, "{name}{{{labels}}} {revision}");
        }
        let name = "apiserver_tls_handshake_errors_total";
        head(name, "counter", "Connections whose TLS handshake failed.", &mut out);
        let _ = writeln!(out, "{name} {}", self.handshake_errors.load(Relaxed));
        head("kubernetes_build_info", "gauge", "Build information of this executable.", &mut out);
        let (version, commit) = (&config.version, config.commit);
        let mut parts = version.trim_start_matches('v').split('.');
        let (major, minor) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let _ = writeln!(
            out,
            "kubernetes_build_info{{build_date=\"1970-01-01T00:00:00Z\",compiler=\"rustc\",\
             git_commit=\"{commit}\",git_tree_state=\"clean\",git_version=\"{version}\",\
             go_version=\"\",major=\"{major}\",minor=\"{minor}\",platform=\"linux/{}\"}} 1",
            crate::non_resource::architecture()
        );
        report_process(&mut out);
        out
    }

    /// The native histograms of request durations by series, for the protobuf format.
    pub(crate) fn native_histograms(&self) -> HashMap<String, native_histogram::NativeHistogram> {
        let mut all = HashMap::new();
        for (labels, entry) in &*lock(&self.requests) {
            let Some(native) = entry.seconds.native() else { continue };
            let (component, dry) = (labels.component(), labels.dry());
            if !labels.dry_run {
                let series = format!("{SLI_DURATION}{{component=\"{component}\",{labels}}}");
                all.insert(series, native.clone());
            }
            let series = format!("{DURATION}{{component=\"{component}\",{dry},{labels}}}");
            all.insert(series, native);
        }
        all
    }

    fn requests_text(&self, out: &mut String) {
        let requests = lock(&self.requests);
        let mut all: Vec<_> = requests.iter().collect();
        all.sort_by_key(|(labels, _)| *labels);
        let name = "apiserver_request_total";
        head(name, "counter", "Requests by verb, resource and response code.", out);
        for (labels, entry) in &all {
            for (code, count) in &entry.by_code {
                let dry = labels.dry();
                let _ = writeln!(
                    out,
                    "{name}{{code=\"{code}\",component=\"{}\",{dry},{labels}}} {count}",
                    labels.component()
                );
            }
        }
        let name = DURATION;
        head(name, "histogram", "Response latency in seconds.", out);
        for (labels, entry) in &all {
            let with = format!("component=\"{}\",{},{labels}", labels.component(), labels.dry());
            entry.seconds.write(name, with, out);
        }
        let mut written = |name: &str, help: &str, of: &dyn Fn(&Requests) -> &Histogram| {
            head(name, "histogram", help, out);
            for (labels, entry) in all.iter().filter(|(labels, _)| !labels.dry_run) {
                let with = format!("component=\"{}\",{labels}", labels.component());
                of(entry).write(name, with, out);
            }
        };
        written(
            SLI_DURATION,
            "Response latency in seconds, measured as in apiserver_request_duration_seconds.",
            &|entry| &entry.seconds,
        );
        written("apiserver_response_sizes", "Response size in bytes.", &|entry| &entry.sizes);
        let mut bodies = BTreeMap::new();
        for (labels, entry) in all.iter().filter(|(_, entry)| entry.bodies.count() > 0) {
            let Labels { group, resource, .. } = labels;
            let verb = labels.writes().unwrap_or_default();
            let with = format!("group=\"{group}\",resource=\"{resource}\",verb=\"{verb}\"");
            let all = bodies.entry(with).or_insert_with(|| Histogram::new(BODIES));
            all.add(&entry.bodies);
        }
        let name = "apiserver_request_body_size_bytes";
        head(name, "histogram", "Request body size in bytes.", out);
        bodies.iter().for_each(|(labels, sizes)| sizes.write(name, labels, out));
        for (name, help, label, values, of) in [
            (
                "apiserver_request_filter_duration_seconds",
                "Latency of a request filter in seconds.",
                "filter",
                FILTERS,
                &self.filters,
            ),
            (
                "field_validation_request_duration_seconds",
                "Response latency in seconds, by the fieldValidation of the request.",
                "field_validation",
                VALIDATIONS,
                &self.validations,
            ),
        ] {
            head(name, "histogram", help, out);
            for (value, own) in values.iter().zip(of).filter(|(_, own)| own.count() > 0) {
                own.write(name, format_args!("{label}=\"{value}\""), out);
            }
        }
    }

    fn watches_text(&self, out: &mut String) {
        let watches = lock(&self.watches);
        let mut all: Vec<_> = watches.iter().collect();
        all.sort_by_key(|(labels, _)| *labels);
        let name = "apiserver_longrunning_requests";
        head(name, "gauge", "Number of open watches, by resource.", out);
        for (labels, watched) in &all {
            let open = watched.open.load(Relaxed);
            let _ = writeln!(out, "{name}{{component=\"apiserver\",{labels}}} {open}");
        }
        // These metrics have no scope label: the watches of all scopes are added up.
        let kind = |labels: &Labels| {
            let Labels { group, resource, version, .. } = labels;
            format!("group=\"{group}\",resource=\"{resource}\",version=\"{version}\"")
        };
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for (labels, watched) in &all {
            *counts.entry(kind(labels)).or_default() += watched.events.count();
        }
        let name = "apiserver_watch_events_total";
        head(name, "counter", "Watch events sent, by resource.", out);
        for (labels, count) in &counts {
            let _ = writeln!(out, "{name}{{{labels}}} {count}");
        }
        let name = "apiserver_watch_events_sizes";
        head(name, "histogram", "Size of watch events in bytes, by resource.", out);
        for labels in counts.keys() {
            let sizes = Histogram::new(EVENTS);
            let same = all.iter().filter(|(own, _)| kind(own) == *labels);
            same.for_each(|(_, watched)| sizes.add(&watched.events));
            sizes.write(name, labels, out);
        }
    }

    fn decisions_text(&self, out: &mut String) {
        let (known, unknown) = (("success", &self.known), ("failure", &self.unknown));
        let (allowed, denied) = (("allowed", &self.allowed), ("denied", &self.denied));
        for (count, seconds, help, of) in [
            (
                "authentication_attempts",
                "authentication_duration_seconds",
                "Latency of authentication in seconds, by result.",
                [known, unknown],
            ),
            (
                "authorization_attempts_total",
                "authorization_duration_seconds",
                "Latency of authorization in seconds, by result.",
                [allowed, denied],
            ),
        ] {
            head(count, "counter", help, out);
            for (result, histogram) in of {
                let _ = writeln!(out, "{count}{{result=\"{result}\"}} {}", histogram.count());
            }
            head(seconds, "histogram", help, out);
            for (result, histogram) in of {
                histogram.write(seconds, format_args!("result=\"{result}\""), out);
            }
        }
    }
}

/// Writes the HELP and TYPE lines of a metric.
pub(crate) fn head(name: &str, kind: &str, help: &str, out: &mut String) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

pub(crate) fn float(size: u64) -> f64 {
    f64::from(u32::try_from(size).unwrap_or(u32::MAX))
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
