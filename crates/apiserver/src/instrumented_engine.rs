//! A storage engine whose writes are measured, for a remote etcd.

use std::sync::Arc;

use server::{CounterVec, HistogramVec, MetricDesc, MetricsSource};
use store::{Engine, Error, Provenance, Record, ReplaySink, WatchCache, Write, WriteFuture};
use tokio::time::Instant;

const LABELS: &[&str] = &["group", "operation", "resource"];
const SECONDS: &[f64] = &[
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0,
    10.0, 15.0, 20.0, 30.0, 45.0, 60.0,
];

/// Wraps an engine, and measures its writes.
#[derive(Debug)]
pub(crate) struct InstrumentedEngine<V> {
    engine: Arc<dyn Engine<V>>,
    tally: Arc<EtcdRequestMetrics>,
}

/// Metrics of requests to etcd.
#[derive(Debug)]
pub(crate) struct EtcdRequestMetrics {
    seconds: HistogramVec,
    requests: CounterVec,
    errors: CounterVec,
}

impl<V> InstrumentedEngine<V> {
    pub(crate) fn new(engine: Arc<dyn Engine<V>>) -> (Self, Arc<EtcdRequestMetrics>) {
        let name = |name, help| MetricDesc { name, help, labels: LABELS };
        let tally = Arc::new(EtcdRequestMetrics {
            seconds: HistogramVec::new(
                name("etcd_request_duration_seconds", "Latency of requests to etcd in seconds."),
                SECONDS,
            ),
            requests: CounterVec::new(name(
                "etcd_requests_total",
                "Requests to etcd, by operation and resource.",
            )),
            errors: CounterVec::new(name(
                "etcd_request_errors_total",
                "Failed requests to etcd, by operation and resource.",
            )),
        });
        (Self { engine, tally: tally.clone() }, tally)
    }
}

impl MetricsSource for EtcdRequestMetrics {
    fn report(&self, out: &mut String) {
        self.seconds.write(out);
        self.requests.write(out);
        self.errors.write(out);
    }
}

impl<V: std::fmt::Debug + Send + Sync> Engine<V> for InstrumentedEngine<V> {
    fn write(&self, write: Write<V>) -> WriteFuture<'_> {
        let (group, resource) = of_key(&write.key);
        let (group, resource) = (group.to_owned(), resource.to_owned());
        let operation = match (&write.put, write.expected_revision) {
            (None, _) => "delete",
            (Some(_), 0) => "create",
            (Some(_), _) => "update",
        };
        Box::pin(async move {
            let began = Instant::now();
            let name = match operation {
                "create" => "Create etcd3",
                "update" => "GuaranteedUpdate etcd3",
                _ => "Delete etcd3",
            };
            let key = write.key.clone();
            let about = || vec![("key", key.as_str().into()), ("resource", (&*resource).into())];
            let done = server::trace::span(name, about, self.engine.write(write)).await;
            let labels = [group.as_str(), operation, &resource];
            self.tally.seconds.observe(&labels, began.elapsed().as_secs_f64());
            self.tally.requests.count(&labels);
            if done.is_err() {
                self.tally.errors.count(&labels);
            }
            done
        })
    }

    fn replay(&self, prefix: &str, room: usize, take: &mut ReplaySink<'_>) -> Result<(), Error> {
        self.engine.replay(prefix, room, take)
    }

    fn replay_after(&self, prefix: &str, revision: u64) -> Result<Vec<Record>, Error> {
        self.engine.replay_after(prefix, revision)
    }

    fn list_at(&self, prefix: &str, revision: u64) -> Result<Vec<Record>, Error> {
        self.engine.list_at(prefix, revision)
    }

    fn start_watch(&self, prefix: &str, after: u64, resource: &Arc<WatchCache<V>>) {
        self.engine.start_watch(prefix, after, resource);
    }

    fn has_external_writers(&self) -> bool {
        self.engine.has_external_writers()
    }

    fn latest_revision(&self, prefix: &str) -> WriteFuture<'_> {
        self.engine.latest_revision(prefix)
    }

    fn durable_revision(&self) -> u64 {
        self.engine.durable_revision()
    }

    fn health(&self) -> Result<(), Error> {
        self.engine.health()
    }

    fn readiness(&self) -> Result<(), Error> {
        self.engine.readiness()
    }

    fn size(&self) -> Option<u64> {
        self.engine.size()
    }

    fn share_keys(&self, keys: &[Arc<str>]) {
        self.engine.share_keys(keys);
    }

    fn provenance_after(&self, after: u64) -> Vec<Provenance> {
        self.engine.provenance_after(after)
    }
}

/// Group and resource of a storage key; keys of built-in resources have no group.
fn of_key(key: &str) -> (&str, &str) {
    let mut parts = key.trim_start_matches("/registry/").split('/');
    match (parts.next().unwrap_or_default(), parts.next()) {
        (group, Some(resource)) if group.contains('.') => (group, resource),
        (resource, _) => ("", resource),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_says_what_is_kept_there() {
        assert_eq!(of_key("/registry/pods/default/a"), ("", "pods"));
        assert_eq!(of_key("/registry/example.com/things/default/a"), ("example.com", "things"));
    }
}
