//! Metrics of API Priority and Fairness.

use std::{
    fmt::Write as _,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use server::Histogram;

const SECONDS: &[f64] = &[0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0];
const PREFIX: &str = "apiserver_flowcontrol_";

/// Counters of one FlowSchema.
#[derive(Debug)]
pub(super) struct FlowMetrics {
    pub(super) waiting: AtomicU64,
    pub(super) executing: AtomicU64,
    pub(super) dispatched: AtomicU64,
    pub(super) rejected: [AtomicU64; 4],
    /// How long requests waited: those that were executed, and those that were rejected.
    waited: [Histogram; 2],
    lasted: Histogram,
}

/// Why a request is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RejectReason {
    QueueFull,
    Limit,
    TimedOut,
    Cancelled,
}

const REFUSALS: [(RejectReason, &str); 4] = [
    (RejectReason::QueueFull, "queue-full"),
    (RejectReason::Limit, "concurrency-limit"),
    (RejectReason::TimedOut, "time-out"),
    (RejectReason::Cancelled, "cancelled"),
];

impl Default for FlowMetrics {
    fn default() -> Self {
        Self {
            waiting: AtomicU64::default(),
            executing: AtomicU64::default(),
            dispatched: AtomicU64::default(),
            rejected: Default::default(),
            waited: [Histogram::new(SECONDS), Histogram::new(SECONDS)],
            lasted: Histogram::new(SECONDS),
        }
    }
}

impl FlowMetrics {
    /// Counts a request whose execution begins, after this many seconds in a queue.
    pub(super) fn begins(&self, waited: f64) {
        self.dispatched.fetch_add(1, Relaxed);
        self.executing.fetch_add(1, Relaxed);
        self.waited[0].observe(waited);
    }

    /// Counts a request whose execution has ended, after this many seconds.
    pub(super) fn ends(&self, lasted: f64) {
        self.executing.fetch_sub(1, Relaxed);
        self.lasted.observe(lasted);
    }

    /// Counts a rejected request, after this many seconds in a queue.
    pub(super) fn refuses(&self, why: RejectReason, waited: f64) {
        self.rejected[why as usize].fetch_add(1, Relaxed);
        self.waited[1].observe(waited);
    }
}

/// Writes all metrics, by FlowSchema and priority level.
pub(super) fn report(tallies: &[(&str, &str, &FlowMetrics)], out: &mut String) {
    type Count = fn(&FlowMetrics) -> &AtomicU64;
    let counts: [(&str, &str, &str, Count); 4] = [
        ("current_inqueue_requests", "gauge", "Number of queued requests.", |own| &own.waiting),
        ("current_executing_requests", "gauge", "Number of executing requests.", |own| {
            &own.executing
        }),
        ("current_executing_seats", "gauge", "Number of occupied seats.", |own| &own.executing),
        ("dispatched_requests_total", "counter", "Requests dispatched.", |own| &own.dispatched),
    ];
    for (name, kind, help, of) in counts {
        head(name, kind, help, out);
        for (schema, level, tally) in tallies {
            let count = of(tally).load(Relaxed);
            let _ = writeln!(out, "{PREFIX}{name}{{{}}} {count}", labels(schema, level));
        }
    }
    head("rejected_requests_total", "counter", "Requests rejected.", out);
    for (schema, level, tally) in tallies {
        for (why, reason) in REFUSALS {
            let count = tally.rejected[why as usize].load(Relaxed);
            if count > 0 {
                let labels = labels(schema, level);
                let _ = writeln!(
                    out,
                    "{PREFIX}rejected_requests_total{{{labels},reason=\"{reason}\"}} {count}"
                );
            }
        }
    }
    let name = "request_wait_duration_seconds";
    head(name, "histogram", "Time that requests spent queued, in seconds.", out);
    for (schema, level, tally) in tallies {
        for (histogram, execute) in tally.waited.iter().zip(["true", "false"]) {
            let labels = format!("execute=\"{execute}\",{}", labels(schema, level));
            if histogram.count() > 0 {
                histogram.write(&format!("{PREFIX}{name}"), labels, out);
            }
        }
    }
    let name = "request_execution_seconds";
    head(name, "histogram", "Time that requests took to execute, in seconds.", out);
    for (schema, level, tally) in tallies {
        if tally.lasted.count() > 0 {
            let labels = format!("{},type=\"regular\"", labels(schema, level));
            tally.lasted.write(&format!("{PREFIX}{name}"), labels, out);
        }
    }
}

/// Writes the HELP and TYPE lines of a metric.
pub(super) fn head(name: &str, kind: &str, help: &str, out: &mut String) {
    let _ = writeln!(out, "# HELP {PREFIX}{name} {help}\n# TYPE {PREFIX}{name} {kind}");
}

/// Writes one sample of a priority level.
pub(super) fn line(name: &str, level: &str, value: f64, out: &mut String) {
    let _ = writeln!(out, "{PREFIX}{name}{{priority_level=\"{level}\"}} {value}");
}

fn labels(schema: &str, level: &str) -> String {
    format!("flow_schema=\"{schema}\",priority_level=\"{level}\"")
}
