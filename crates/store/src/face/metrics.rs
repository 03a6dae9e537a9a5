//! What is counted, under etcd's names.

use std::{
    fmt::Write as _,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use super::member::Member;

/// Upper ends of the buckets of a sync's duration, in microseconds.
const BUCKETS: [u64; 14] = [
    1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000, 256_000, 512_000, 1_024_000,
    2_048_000, 4_096_000, 8_192_000,
];

#[derive(Debug, Default)]
pub(super) struct Metrics {
    pub(super) ranges: AtomicU64,
    pub(super) puts: AtomicU64,
    pub(super) deletions: AtomicU64,
    pub(super) transactions: AtomicU64,
    pub(super) events: AtomicU64,
    pub(super) commits: AtomicU64,
    buckets: [AtomicU64; BUCKETS.len()],
    syncs: AtomicU64,
    micros: AtomicU64,
}

impl Metrics {
    pub(super) fn synced(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        if let Some(bucket) = BUCKETS.iter().position(|end| micros <= *end) {
            self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        }
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }
}

pub(super) fn text(member: &Member) -> String {
    let metrics = &member.metrics;
    let (keys, bytes, quota, floor, revision, leases, watchers) = {
        let inner = member.inner();
        let state = &inner.state;
        let keys = &state.keys;
        let (leases, watchers) = (state.leases.0.len(), inner.hub.len());
        (keys.count, keys.bytes, state.quota, keys.floor, state.durable, leases, watchers)
    };
    let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let mut text = String::new();
    let mut line = |name: &str, kind: &str, value: u64| {
        let _ = writeln!(text, "# TYPE {name} {kind}\n{name} {value}"); // a string takes all
    };
    line("etcd_server_has_leader", "gauge", 1);
    line("etcd_server_is_leader", "gauge", 1);
    line("etcd_server_leader_changes_seen_total", "counter", 1);
    line("etcd_server_proposals_committed_total", "gauge", revision);
    line("etcd_server_proposals_applied_total", "gauge", revision);
    line("etcd_server_proposals_pending", "gauge", 0);
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
    line("etcd_debugging_lease_granted_total", "gauge", leases as u64);
    line("etcd_disk_backend_commit_total", "counter", load(&metrics.commits));
    histogram(&mut text, metrics);
    text
}

fn histogram(text: &mut String, metrics: &Metrics) {
    const NAME: &str = "etcd_disk_wal_fsync_duration_seconds";
    let seconds = |micros: u64| Duration::from_micros(micros).as_secs_f64();
    let _ = writeln!(text, "# TYPE {NAME} histogram");
    let mut sum = 0;
    for (end, bucket) in BUCKETS.iter().zip(&metrics.buckets) {
        sum += bucket.load(Ordering::Relaxed);
        let _ = writeln!(text, "{NAME}_bucket{{le=\"{}\"}} {sum}", seconds(*end));
    }
    let count = metrics.syncs.load(Ordering::Relaxed);
    let _ = writeln!(text, "{NAME}_bucket{{le=\"+Inf\"}} {count}");
    let _ = writeln!(text, "{NAME}_sum {}", seconds(metrics.micros.load(Ordering::Relaxed)));
    let _ = writeln!(text, "{NAME}_count {count}");
}
