//! Metrics of the server, under etcd's names.

use std::{
    fmt::Write as _,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use super::{maintenance::VERSION, member::Member};

/// Upper bounds of the histogram buckets in microseconds.
const BUCKETS: [u64; 14] = [
    1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000, 256_000, 512_000, 1_024_000,
    2_048_000, 4_096_000, 8_192_000,
];

/// Counters and histograms of the server.
#[derive(Debug, Default)]
pub(super) struct Metrics {
    pub(super) ranges: AtomicU64,
    pub(super) puts: AtomicU64,
    pub(super) deletions: AtomicU64,
    pub(super) transactions: AtomicU64,
    pub(super) events: AtomicU64,
    pub(super) granted: AtomicU64,
    pub(super) received: AtomicU64,
    pub(super) sent: AtomicU64,
    /// Writes that were executed but could not be made durable.
    pub(super) failed: AtomicU64,
    /// Duration until a batch is synced, and until it is visible as well.
    pub(super) syncs: Durations,
    pub(super) commits: Durations,
}

/// A histogram of durations.
#[derive(Debug, Default)]
pub(super) struct Durations {
    buckets: [AtomicU64; BUCKETS.len()],
    count: AtomicU64,
    micros: AtomicU64,
}

impl Durations {
    pub(super) fn add(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        if let Some(bucket) = BUCKETS.iter().position(|end| micros <= *end) {
            self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }
}

pub(super) fn text(member: &Member) -> String {
    let metrics = &member.metrics;
    let (keys, bytes, quota, floor, revision, watchers) = {
        let inner = member.inner();
        let state = &inner.state;
        let (keys, watchers) = (&state.keys, inner.watches.len());
        (keys.count, keys.bytes, state.quota, keys.compact_revision, state.durable, watchers)
    };
    let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let mut text = String::new();
    let mut line = |name: &str, kind: &str, value: u64| {
        let (family, _) = name.split_once('{').unwrap_or((name, ""));
        let _ = writeln!(text, "# TYPE {family} {kind}\n{name} {value}"); // a string takes all
    };
    line("etcd_server_has_leader", "gauge", 1);
    line("etcd_server_is_leader", "gauge", 1);
    line("etcd_server_leader_changes_seen_total", "counter", 1);
    line("etcd_server_proposals_committed_total", "gauge", revision);
    line("etcd_server_proposals_applied_total", "gauge", revision);
    line("etcd_server_proposals_pending", "gauge", 0);
    line("etcd_server_proposals_failed_total", "counter", load(&metrics.failed));
    line("etcd_server_is_learner", "gauge", 0);
    line("etcd_server_quota_backend_bytes", "gauge", quota);
    line("etcd_mvcc_db_total_size_in_bytes", "gauge", bytes);
    line("etcd_mvcc_db_total_size_in_use_in_bytes", "gauge", bytes);
    line("etcd_mvcc_range_total", "counter", load(&metrics.ranges));
    line("etcd_mvcc_put_total", "counter", load(&metrics.puts));
    line("etcd_mvcc_delete_total", "counter", load(&metrics.deletions));
    line("etcd_mvcc_txn_total", "counter", load(&metrics.transactions));
    line("etcd_debugging_mvcc_keys_total", "gauge", keys as u64);
    line("etcd_debugging_mvcc_current_revision", "gauge", revision);
    line("etcd_debugging_mvcc_compact_revision", "gauge", floor);
    line("etcd_debugging_mvcc_watcher_total", "gauge", watchers as u64);
    line("etcd_debugging_mvcc_events_total", "counter", load(&metrics.events));
    line("etcd_debugging_lease_granted_total", "counter", load(&metrics.granted));
    line("etcd_network_client_grpc_received_bytes_total", "counter", load(&metrics.received));
    line("etcd_network_client_grpc_sent_bytes_total", "counter", load(&metrics.sent));
    line("process_resident_memory_bytes", "gauge", resident());
    let files = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    line("process_open_fds", "gauge", files as u64);
    let (minor, _) = VERSION.rsplit_once('.').unwrap_or((VERSION, ""));
    line(&format!("etcd_server_version{{server_version=\"{VERSION}\"}}"), "gauge", 1);
    line(&format!("etcd_cluster_version{{cluster_version=\"{minor}\"}}"), "gauge", 1);
    histogram(&mut text, "etcd_disk_wal_fsync_duration_seconds", &metrics.syncs);
    histogram(&mut text, "etcd_disk_backend_commit_duration_seconds", &metrics.commits);
    panics::report(&mut text);
    text
}

/// Resident memory in bytes; 0 if the system does not report it.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kilobytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = kilobytes.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
    kilobytes.map_or(0, |kilobytes: u64| kilobytes << 10)
}

fn histogram(text: &mut String, name: &str, durations: &Durations) {
    let seconds = |micros: u64| Duration::from_micros(micros).as_secs_f64();
    let _ = writeln!(text, "# TYPE {name} histogram");
    let mut sum = 0;
    for (end, bucket) in BUCKETS.iter().zip(&durations.buckets) {
        sum += bucket.load(Ordering::Relaxed);
        let _ = writeln!(text, "{name}_bucket{{le=\"{}\"}} {sum}", seconds(*end));
    }
    let count = durations.count.load(Ordering::Relaxed);
    let _ = writeln!(text, "{name}_bucket{{le=\"+Inf\"}} {count}");
    let _ = writeln!(text, "{name}_sum {}", seconds(durations.micros.load(Ordering::Relaxed)));
    let _ = writeln!(text, "{name}_count {count}");
}
