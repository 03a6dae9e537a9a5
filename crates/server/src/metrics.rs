//! Numbers about the server, under upstream's names.

use std::{collections::BTreeMap, fmt::Write, sync::Mutex, time::Duration};

/// Upper bounds of the buckets of request durations, in seconds.
const BUCKETS: [f64; 10] = [0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 1.0, 5.0, 60.0];

#[derive(Debug, Default)]
pub(crate) struct Metrics {
    requests: Mutex<BTreeMap<Labels, Requests>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Labels {
    pub(crate) verb: String,
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
    pub(crate) code: u16,
}

#[derive(Debug, Default)]
struct Requests {
    count: u64,
    seconds: f64,
    buckets: [u64; BUCKETS.len()],
}

impl Metrics {
    pub(crate) fn observe(&self, labels: Labels, took: Duration) {
        let mut requests = self.requests.lock().expect("not poisoned");
        let entry = requests.entry(labels).or_default();
        let seconds = took.as_secs_f64();
        entry.count += 1;
        entry.seconds += seconds;
        for (bucket, bound) in entry.buckets.iter_mut().zip(BUCKETS) {
            *bucket += u64::from(seconds <= bound);
        }
    }

    /// Begins to count anew.
    pub(crate) fn reset(&self) {
        self.requests.lock().expect("not poisoned").clear();
    }

    /// All of it in the text form that Prometheus reads.
    pub(crate) fn text(&self, objects: &[(String, usize)]) -> String {
        let requests = self.requests.lock().expect("not poisoned");
        let mut out = String::new();
        out.push_str("# HELP apiserver_request_total Requests by verb, resource and answer.\n");
        out.push_str("# TYPE apiserver_request_total counter\n");
        for (labels, entry) in &*requests {
            let (code, count) = (labels.code, entry.count);
            let _ = writeln!(out, "apiserver_request_total{{code=\"{code}\",{labels}}} {count}");
        }
        out.push_str("# HELP apiserver_request_duration_seconds Time to answer.\n");
        out.push_str("# TYPE apiserver_request_duration_seconds histogram\n");
        let name = "apiserver_request_duration_seconds";
        for (labels, entry) in &*requests {
            for (count, bound) in entry.buckets.iter().zip(BUCKETS) {
                let _ = writeln!(out, "{name}_bucket{{{labels},le=\"{bound}\"}} {count}");
            }
            let Requests { count, seconds, .. } = entry;
            let _ = writeln!(out, "{name}_bucket{{{labels},le=\"+Inf\"}} {count}");
            let _ = writeln!(out, "{name}_sum{{{labels}}} {seconds}");
            let _ = writeln!(out, "{name}_count{{{labels}}} {count}");
        }
        out.push_str("# HELP apiserver_storage_objects Objects in the store.\n");
        out.push_str("# TYPE apiserver_storage_objects gauge\n");
        for (resource, count) in objects {
            let _ = writeln!(out, "apiserver_storage_objects{{resource=\"{resource}\"}} {count}");
        }
        out
    }
}

impl std::fmt::Display for Labels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { verb, group, version, resource, subresource, .. } = self;
        write!(
            f,
            "group=\"{group}\",resource=\"{resource}\",subresource=\"{subresource}\",\
             verb=\"{verb}\",version=\"{version}\""
        )
    }
}
