//! Metrics of a queue, under the names of client-go's workqueue package.

use std::{sync::Arc, time::Duration};

use crate::metrics::{Counter, Family, Gauge, Histogram, Metrics, exponential};

const LABELS: &[&str] = &["name"];
static SECONDS: [f64; 10] = exponential(10e-9, 10.0);

const DEPTH: Family = Family::gauge("workqueue_depth", "[BETA] Current depth of workqueue", LABELS);
const ADDS: Family = Family::counter(
    "workqueue_adds_total",
    "[BETA] Total number of adds handled by workqueue",
    LABELS,
);
const WAITED: Family = Family::histogram(
    "workqueue_queue_duration_seconds",
    "[BETA] How long in seconds an item stays in workqueue before being requested.",
    LABELS,
    &SECONDS,
);
const WORKED: Family = Family::histogram(
    "workqueue_work_duration_seconds",
    "[BETA] How long in seconds processing an item from workqueue takes.",
    LABELS,
    &SECONDS,
);
const UNFINISHED: Family = Family::gauge(
    "workqueue_unfinished_work_seconds",
    "[BETA] Seconds of work in progress that work_duration has not observed. Large values mean stuck workers.",
    LABELS,
);
const LONGEST: Family = Family::gauge(
    "workqueue_longest_running_processor_seconds",
    "[BETA] How many seconds has the longest running processor for workqueue been running.",
    LABELS,
);
const RETRIES: Family = Family::counter(
    "workqueue_retries_total",
    "[BETA] Total number of retries handled by workqueue",
    LABELS,
);

#[derive(Debug)]
pub(crate) struct QueueMetrics {
    pub(crate) adds: Arc<Counter>,
    pub(crate) retries: Arc<Counter>,
    pub(crate) waited: Arc<Histogram>,
    pub(crate) worked: Arc<Histogram>,
    depth: Arc<Gauge>,
    unfinished: Arc<Gauge>,
    longest: Arc<Gauge>,
}

impl QueueMetrics {
    pub(crate) fn new(name: &str, metrics: &Metrics) -> Self {
        Self {
            adds: metrics.counter(&ADDS, &[name]),
            retries: metrics.counter(&RETRIES, &[name]),
            waited: metrics.histogram(&WAITED, &[name]),
            worked: metrics.histogram(&WORKED, &[name]),
            depth: metrics.gauge(&DEPTH, &[name]),
            unfinished: metrics.gauge(&UNFINISHED, &[name]),
            longest: metrics.gauge(&LONGEST, &[name]),
        }
    }

    /// Sets the gauges; `running` is how long each key has been worked on.
    pub(crate) fn report(&self, depth: usize, running: impl Iterator<Item = Duration>) {
        let (sum, longest) = running
            .fold((Duration::ZERO, Duration::ZERO), |(sum, longest), one| {
                (sum + one, longest.max(one))
            });
        self.depth.set_count(depth);
        self.unfinished.set(sum.as_secs_f64());
        self.longest.set(longest.as_secs_f64());
    }
}
