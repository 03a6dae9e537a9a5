//! Values of metrics. All operations are atomic and take no lock.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Relaxed);
    }

    /// Sets the total, where it is counted elsewhere.
    pub fn set(&self, total: u64) {
        self.0.store(total, Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Holds the bits of a float.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    pub fn set(&self, value: f64) {
        self.0.store(value.to_bits(), Relaxed);
    }

    /// Sets the number of things.
    pub fn set_count(&self, count: usize) {
        self.set(f64::from(u32::try_from(count).unwrap_or(u32::MAX)));
    }

    pub fn add(&self, more: f64) {
        add_float(&self.0, more);
    }

    pub fn get(&self) -> f64 {
        f64::from_bits(self.0.load(Relaxed))
    }
}

#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [f64],
    /// Observations by bucket, not cumulative; the last is for those above all bounds.
    buckets: Box<[AtomicU64]>,
    /// The bits of a float.
    sum: AtomicU64,
}

impl Histogram {
    pub fn new(bounds: &'static [f64]) -> Self {
        let buckets = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self { bounds, buckets, sum: AtomicU64::new(0) }
    }

    pub fn observe(&self, value: f64) {
        let at = self.bounds.partition_point(|bound| *bound < value);
        if let Some(bucket) = self.buckets.get(at) {
            bucket.fetch_add(1, Relaxed);
        }
        add_float(&self.sum, value);
    }

    pub fn observe_duration(&self, took: Duration) {
        self.observe(took.as_secs_f64());
    }

    /// Observes whole seconds, such as the difference of two times of objects.
    pub fn observe_seconds(&self, seconds: i64) {
        let seconds =
            i32::try_from(seconds).unwrap_or(if seconds < 0 { i32::MIN } else { i32::MAX });
        self.observe(seconds.into());
    }

    /// Observes a number of things.
    pub fn observe_count(&self, count: usize) {
        self.observe(u32::try_from(count).unwrap_or(u32::MAX).into());
    }

    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.load(Relaxed)).sum()
    }

    pub(super) fn sum(&self) -> f64 {
        f64::from_bits(self.sum.load(Relaxed))
    }

    /// Upper bounds, the last of them infinite, each with how many observations are not above it.
    pub(super) fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> {
        let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
        let mut count = 0;
        bounds.zip(&self.buckets).map(move |(bound, bucket)| {
            count += bucket.load(Relaxed);
            (bound, count)
        })
    }
}

fn add_float(bits: &AtomicU64, more: f64) {
    let add = |old| Some((f64::from_bits(old) + more).to_bits());
    let _ = bits.fetch_update(Relaxed, Relaxed, add); // never refused
}
