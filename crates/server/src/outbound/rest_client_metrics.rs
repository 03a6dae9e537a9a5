//! Metrics of webhook requests, under client-go's names (`rest_client_*`).

use std::time::Duration;

use bytes::Bytes;
use client::{REQUEST_SECONDS, REQUEST_SIZES};
use http::Response;

use crate::metrics::{CounterVec, HistogramVec, MetricDesc, float};

/// Metrics of webhook requests.
#[derive(Debug)]
pub(super) struct RestClientMetrics {
    requests: CounterVec,
    seconds: HistogramVec,
    sent: HistogramVec,
    received: HistogramVec,
    /// Uses of the pool: `hit` for a reused connection, `miss` for a new one.
    pub(super) connections: CounterVec,
}

/// A request, for the metrics.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestLabels<'a> {
    pub(super) host: &'a str,
    pub(super) method: &'a str,
    pub(super) size: usize,
}

impl Default for RestClientMetrics {
    fn default() -> Self {
        let name = |name, help, labels| MetricDesc { name, help, labels };
        let by =
            |named, help, bounds| HistogramVec::new(name(named, help, &["host", "verb"]), bounds);
        Self {
            requests: CounterVec::new(name(
                "rest_client_requests_total",
                "Requests sent to other servers, by code, method and host.",
                &["code", "host", "method"],
            )),
            seconds: by(
                "rest_client_request_duration_seconds",
                "Latency of requests to other servers in seconds.",
                REQUEST_SECONDS,
            ),
            sent: by(
                "rest_client_request_size_bytes",
                "Size of requests to other servers in bytes.",
                REQUEST_SIZES,
            ),
            received: by(
                "rest_client_response_size_bytes",
                "Size of responses of other servers in bytes.",
                REQUEST_SIZES,
            ),
            connections: CounterVec::new(name(
                "rest_client_transport_create_calls_total",
                "Lookups in the connection pool, by result (hit or miss).",
                &["result"],
            )),
        }
    }
}

impl RestClientMetrics {
    pub(super) fn count(
        &self,
        asked: RequestLabels<'_>,
        answer: &Result<Response<Bytes>, String>,
        took: Duration,
    ) {
        let RequestLabels { host, method, size } = asked;
        let code = answer.as_ref().map(|answer| answer.status().as_str().to_owned());
        self.requests.count(&[code.as_deref().unwrap_or("<error>"), host, method]);
        self.seconds.observe(&[host, method], took.as_secs_f64());
        self.sent.observe(&[host, method], bytes(size));
        if let Ok(answer) = answer {
            self.received.observe(&[host, method], bytes(answer.body().len()));
        }
    }

    pub(super) fn write(&self, out: &mut String) {
        self.requests.write(out);
        for timing in [&self.seconds, &self.sent, &self.received] {
            timing.write(out);
        }
        self.connections.write(out);
    }
}

fn bytes(size: usize) -> f64 {
    float(u64::try_from(size).unwrap_or(u64::MAX))
}
