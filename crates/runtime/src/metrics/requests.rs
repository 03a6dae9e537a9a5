//! Requests to the API server, under the names of client-go's metrics.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use client::{REQUEST_SECONDS, REQUEST_SIZES, RequestObserver, Sent};

use super::{Counter, Family, Histogram, Metrics, lock};

const REQUESTS: Family = Family::counter(
    "rest_client_requests_total",
    "[ALPHA] Number of HTTP requests, partitioned by status code, method, and host.",
    &["code", "host", "method"],
);
const RETRIES: Family = Family::counter(
    "rest_client_request_retries_total",
    "[ALPHA] Number of request retries, partitioned by status code, verb, and host.",
    &["code", "host", "verb"],
);
const DURATION: Family = Family::histogram(
    "rest_client_request_duration_seconds",
    "[ALPHA] Request latency in seconds. Broken down by verb, and host.",
    &["host", "verb"],
    REQUEST_SECONDS,
);
const REQUEST_SIZE: Family = Family::histogram(
    "rest_client_request_size_bytes",
    "[ALPHA] Request size in bytes. Broken down by verb and host.",
    &["host", "verb"],
    REQUEST_SIZES,
);

/// Counts the requests of all clients of a component.
#[derive(Debug)]
pub(crate) struct RequestMetrics {
    metrics: Metrics,
    /// Few: one for each method with each status code. Found without allocating.
    known: Mutex<Vec<Known>>,
}

/// The series of requests that ended the same way.
#[derive(Debug)]
struct Known {
    method: String,
    host: String,
    status: Option<u16>,
    requests: Arc<Counter>,
    /// Absent until one of them is sent again.
    retries: Option<Arc<Counter>>,
    duration: Arc<Histogram>,
    size: Arc<Histogram>,
}

impl RequestMetrics {
    pub(crate) fn new(metrics: &Metrics) -> Self {
        Self { metrics: metrics.clone(), known: Mutex::default() }
    }

    fn series(&self, sent: &Sent<'_>) -> Known {
        let Sent { method, host, status, .. } = *sent;
        Known {
            method: method.to_owned(),
            host: host.to_owned(),
            status,
            requests: self.metrics.counter(&REQUESTS, &[&code(status), host, method]),
            retries: None,
            duration: self.metrics.histogram(&DURATION, &[host, method]),
            size: self.metrics.histogram(&REQUEST_SIZE, &[host, method]),
        }
    }
}

impl RequestObserver for RequestMetrics {
    fn observe(&self, sent: &Sent<'_>, took: Duration) {
        let Sent { method, host, size, status, retry } = *sent;
        let mut known = lock(&self.known);
        let own = |own: &Known| own.status == status && own.method == method && own.host == host;
        let at = known.iter().position(own).unwrap_or_else(|| {
            known.push(self.series(sent));
            known.len() - 1
        });
        let Some(own) = known.get_mut(at) else { return };
        if retry {
            let new = || self.metrics.counter(&RETRIES, &[&code(status), host, method]);
            own.retries.get_or_insert_with(new).add(1);
            return;
        }
        own.requests.add(1);
        own.duration.observe_duration(took);
        own.size.observe(f64::from(u32::try_from(size).unwrap_or(u32::MAX)));
    }
}

fn code(status: Option<u16>) -> String {
    status.map_or_else(|| "<error>".to_owned(), |code| code.to_string())
}
