//! Metrics of the scheduler, under upstream's names.

use std::{sync::Arc, time::Duration};

use runtime::metrics::{Counter, Family, Histogram, Metrics, exponential};
use tokio::time::Instant;

use crate::{PLUGINS, Plugin, state::SchedulerState};

static ATTEMPT_SECONDS: [f64; 15] = exponential(0.001, 2.0);
static SLI_SECONDS: [f64; 20] = exponential(0.01, 2.0);
static POINT_SECONDS: [f64; 12] = exponential(0.0001, 2.0);
static PLUGIN_SECONDS: [f64; 20] = exponential(0.00001, 1.5);
static VICTIMS: [f64; 7] = exponential(1.0, 2.0);
static ATTEMPTS: [f64; 5] = exponential(1.0, 2.0);

const SCHEDULE_ATTEMPTS: Family = Family::counter(
    "scheduler_schedule_attempts_total",
    "[STABLE] Number of attempts to schedule pods, by the result. 'unschedulable': no node fits; 'error': an internal problem.",
    &["profile", "result"],
);
const ATTEMPT_DURATION: Family = Family::histogram(
    "scheduler_scheduling_attempt_duration_seconds",
    "[STABLE] Scheduling attempt latency in seconds (scheduling algorithm + binding)",
    &["profile", "result"],
    &ATTEMPT_SECONDS,
);
const ALGORITHM_DURATION: Family = Family::histogram(
    "scheduler_scheduling_algorithm_duration_seconds",
    "[BETA] Scheduling algorithm latency in seconds",
    &[],
    &ATTEMPT_SECONDS,
);
const PREEMPTION_VICTIMS: Family = Family::histogram(
    "scheduler_preemption_victims",
    "[STABLE] Number of selected preemption victims",
    &[],
    &VICTIMS,
);
const PREEMPTION_ATTEMPTS: Family = Family::counter(
    "scheduler_preemption_attempts_total",
    "[STABLE] Total preemption attempts in the cluster till now",
    &[],
);
const PENDING_PODS: Family = Family::gauge(
    "scheduler_pending_pods",
    "[STABLE] Number of pending pods by queue: 'active', 'backoff', 'unschedulable' after a failed attempt, 'gated' by scheduling gates.",
    &["queue"],
);
const SLI_DURATION: Family = Family::histogram(
    "scheduler_pod_scheduling_sli_duration_seconds",
    "[BETA] Latency for a pod being scheduled, from the time it enters the scheduling queue, over all attempts.",
    &["attempts"],
    &SLI_SECONDS,
);
const SCHEDULING_ATTEMPTS: Family = Family::histogram(
    "scheduler_pod_scheduling_attempts",
    "[STABLE] Number of attempts to successfully schedule a pod.",
    &[],
    &ATTEMPTS,
);
const POINT_DURATION: Family = Family::histogram(
    "scheduler_framework_extension_point_duration_seconds",
    "[STABLE] Latency for running all plugins of a specific extension point.",
    &["extension_point", "profile", "status"],
    &POINT_SECONDS,
);
const PLUGIN_DURATION: Family = Family::histogram(
    "scheduler_plugin_execution_duration_seconds",
    "[BETA] Duration for running a plugin at a specific extension point, of every tenth pod.",
    &["extension_point", "plugin", "status"],
    &PLUGIN_SECONDS,
);
const PLUGIN_EVALUATIONS: Family = Family::counter(
    "scheduler_plugin_evaluation_total",
    "[BETA] Number of attempts to schedule pods by each plugin and the extension point.",
    &["extension_point", "plugin", "profile"],
);
const INCOMING_PODS: Family = Family::counter(
    "scheduler_queue_incoming_pods_total",
    "[STABLE] Number of pods added to scheduling queues by event and queue type.",
    &["event", "queue"],
);
const CACHE_SIZE: Family = Family::gauge(
    "scheduler_cache_size",
    "[ALPHA] Number of nodes, pods, and assumed (bound) pods in the scheduler cache.",
    &["type"],
);
const UNSCHEDULABLE_PODS: Family = Family::gauge(
    "scheduler_unschedulable_pods",
    "[BETA] Number of unschedulable pods by the plugin that rejected them; a pod counts for each such plugin.",
    &["plugin", "profile"],
);

/// One of this many pods has the latency of each plugin measured.
const SAMPLED: usize = 10;
/// The measurement is limited to this many nodes, to keep it cheap.
const SAMPLED_NODES: usize = 10;
/// From this many attempts on pods share one label value.
const MANY_ATTEMPTS: u32 = 16;

/// The metrics of the scheduler.
#[derive(Debug)]
pub(crate) struct SchedulerMetrics {
    registry: Metrics,
    profile: String,
    results: [(Arc<Counter>, Arc<Histogram>); 3],
    algorithm: Arc<Histogram>,
    attempts: Arc<Histogram>,
    pub(crate) preemptions: Arc<Counter>,
    pub(crate) victims: Arc<Histogram>,
    /// Latency by extension point and success.
    points: [[Arc<Histogram>; 2]; 5],
    filters: Vec<PluginMetrics>,
    scores: Vec<PluginMetrics>,
}

/// Metrics of a plugin at an extension point.
#[derive(Debug)]
struct PluginMetrics {
    evaluations: Arc<Counter>,
    success: Arc<Histogram>,
    rejected: Arc<Histogram>,
}

/// The result of a scheduling attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AttemptResult {
    Scheduled,
    Unschedulable,
    Error,
}

/// An extension point of the scheduling framework.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Point {
    PreFilter,
    Filter,
    PostFilter,
    Score,
    Bind,
}

/// A scheduling attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempt {
    pub(crate) began: Instant,
    /// When the pod was added to the queue.
    pub(crate) queued: Instant,
    /// Number of this attempt, starting at 1.
    pub(crate) number: u32,
}

const RESULTS: [&str; 3] = ["scheduled", "unschedulable", "error"];
const POINTS: [&str; 5] = ["PreFilter", "Filter", "PostFilter", "Score", "Bind"];

impl SchedulerMetrics {
    pub(crate) fn new(registry: &Metrics, profile: &str) -> Self {
        let plugins = |point: &str| {
            let new = |plugin: &&dyn Plugin| PluginMetrics {
                evaluations: registry
                    .counter(&PLUGIN_EVALUATIONS, &[point, plugin.name(), profile]),
                success: registry.histogram(&PLUGIN_DURATION, &[point, plugin.name(), "Success"]),
                rejected: registry
                    .histogram(&PLUGIN_DURATION, &[point, plugin.name(), "Unschedulable"]),
            };
            PLUGINS.iter().map(new).collect()
        };
        let result = |result| {
            let labels = [profile, result];
            let attempts = registry.counter(&SCHEDULE_ATTEMPTS, &labels);
            (attempts, registry.histogram(&ATTEMPT_DURATION, &labels))
        };
        let point = |point| {
            ["Success", "Unschedulable"]
                .map(|status| registry.histogram(&POINT_DURATION, &[point, profile, status]))
        };
        Self {
            registry: registry.clone(),
            profile: profile.to_owned(),
            results: RESULTS.map(result),
            algorithm: registry.histogram(&ALGORITHM_DURATION, &[]),
            attempts: registry.histogram(&SCHEDULING_ATTEMPTS, &[]),
            preemptions: registry.counter(&PREEMPTION_ATTEMPTS, &[]),
            victims: registry.histogram(&PREEMPTION_VICTIMS, &[]),
            points: POINTS.map(point),
            filters: plugins("Filter"),
            scores: plugins("Score"),
        }
    }

    /// Records the end of an attempt.
    pub(crate) fn attempted(&self, attempt: &Attempt, result: AttemptResult) {
        let (attempts, duration) = &self.results[result as usize];
        attempts.add(1);
        duration.observe_duration(attempt.began.elapsed());
        if let AttemptResult::Scheduled = result {
            self.attempts.observe(f64::from(attempt.number));
            let number = match attempt.number {
                number if number < MANY_ATTEMPTS => number.to_string(),
                _ => format!("{MANY_ATTEMPTS}+"),
            };
            let sli = self.registry.histogram(&SLI_DURATION, &[&number]);
            sli.observe_duration(attempt.queued.elapsed());
        }
    }

    pub(crate) fn algorithm(&self, took: Duration) {
        self.algorithm.observe_duration(took);
    }

    /// Records that all plugins have run at an extension point.
    pub(crate) fn ran(&self, point: Point, began: Instant, success: bool) {
        let [succeeded, rejected] = &self.points[point as usize];
        let histogram = if success { succeeded } else { rejected };
        histogram.observe_duration(began.elapsed());
    }

    /// Whether the latency of each plugin is measured in this cycle.
    pub(crate) fn samples(turn: usize) -> bool {
        turn.is_multiple_of(SAMPLED)
    }

    /// How many nodes are measured in such a cycle.
    pub(crate) const fn sampled_nodes() -> usize {
        SAMPLED_NODES
    }

    /// Counts that a plugin, by its index in `PLUGINS`, applies to a pod.
    pub(crate) fn evaluated(&self, point: Point, plugin: usize) {
        if let Some(plugin) = self.plugins(point).get(plugin) {
            plugin.evaluations.add(1);
        }
    }

    /// Records the latency of a plugin: filtering one node, or scoring all.
    pub(crate) fn plugin_ran(&self, point: Point, plugin: usize, took: Duration, success: bool) {
        if let Some(plugin) = self.plugins(point).get(plugin) {
            let histogram = if success { &plugin.success } else { &plugin.rejected };
            histogram.observe_duration(took);
        }
    }

    fn plugins(&self, point: Point) -> &[PluginMetrics] {
        if let Point::Score = point { &self.scores } else { &self.filters }
    }

    /// Sets the gauges from the state.
    pub(crate) fn report(&self, state: &SchedulerState) {
        let registry = &self.registry;
        let pending = state.queue.pending();
        for (queue, count) in [
            ("active", pending.active),
            ("backoff", pending.backoff),
            ("unschedulable", pending.unschedulable),
            ("gated", state.gated()),
        ] {
            registry.gauge(&PENDING_PODS, &[queue]).set_count(count);
        }
        for ((queue, event), count) in state.queue.incoming() {
            registry.counter(&INCOMING_PODS, &[event, queue]).set(count);
        }
        let (nodes, pods, assumed) = state.sizes();
        for (what, count) in [("nodes", nodes), ("pods", pods), ("assumed_pods", assumed)] {
            registry.gauge(&CACHE_SIZE, &[what]).set_count(count);
        }
        registry.clear(&UNSCHEDULABLE_PODS);
        for plugin in state.queue.rejected_by() {
            registry.gauge(&UNSCHEDULABLE_PODS, &[plugin, &self.profile]).add(1.0);
        }
    }
}
