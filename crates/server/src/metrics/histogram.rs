//! Histogram metric.

use std::{
    fmt::{Display, Write},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use super::native_histogram::NativeHistogram;

/// Counts observations by upper bounds; can be updated concurrently.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [f64],
    buckets: Box<[AtomicU64]>,
    /// The bits of an `f64`.
    sum: AtomicU64,
    /// The observations in exponential buckets, for the protobuf format.
    native: Option<Mutex<NativeHistogram>>,
}

impl Histogram {
    pub fn new(bounds: &'static [f64]) -> Self {
        let buckets = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self { bounds, buckets, sum: AtomicU64::new(0f64.to_bits()), native: None }
    }

    /// A histogram that also counts in exponential buckets.
    pub(super) fn with_native(bounds: &'static [f64]) -> Self {
        Self { native: Some(Mutex::default()), ..Self::new(bounds) }
    }

    /// The native histogram, if this histogram has one.
    pub(super) fn native(&self) -> Option<NativeHistogram> {
        let native = self.native.as_ref()?;
        Some(native.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// Adds an observation.
    pub fn observe(&self, size: f64) {
        let at = self.bounds.partition_point(|bound| *bound < size);
        if let Some(bucket) = self.buckets.get(at) {
            bucket.fetch_add(1, Relaxed);
        }
        let add = |bits| Some((f64::from_bits(bits) + size).to_bits());
        let _ = self.sum.fetch_update(Relaxed, Relaxed, add); // the update function never returns None
        if let Some(native) = &self.native {
            native.lock().unwrap_or_else(PoisonError::into_inner).observe(size);
        }
    }

    /// Adds the counts of another histogram with the same bounds.
    pub(super) fn add(&self, other: &Self) {
        for (own, other) in self.buckets.iter().zip(&other.buckets) {
            own.fetch_add(other.load(Relaxed), Relaxed);
        }
        let sum = f64::from_bits(other.sum.load(Relaxed));
        let add = |bits| Some((f64::from_bits(bits) + sum).to_bits());
        let _ = self.sum.fetch_update(Relaxed, Relaxed, add); // the update function never returns None
    }

    /// The number of observations.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.load(Relaxed)).sum()
    }

    /// Writes the lines of the histogram with these labels.
    pub fn write(&self, name: &str, labels: impl Display, out: &mut String) {
        let labels = labels.to_string();
        let comma = if labels.is_empty() { "" } else { "," };
        let mut count = 0;
        for (at, bucket) in self.buckets.iter().enumerate() {
            count += bucket.load(Relaxed);
            let bound =
                self.bounds.get(at).map_or_else(|| "+Inf".to_owned(), |bound| number(*bound));
            let _ = writeln!(out, "{name}_bucket{{{labels}{comma}le=\"{bound}\"}} {count}");
        }
        let sum = f64::from_bits(self.sum.load(Relaxed));
        let braces = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
        let _ = writeln!(out, "{name}_sum{braces} {}", number(sum));
        let _ = writeln!(out, "{name}_count{braces} {count}");
    }
}

/// Formats a number as Prometheus' Go library does.
fn number(n: f64) -> String {
    if n.abs() < 1e6 {
        return n.to_string();
    }
    let text = format!("{n:e}");
    match text.split_once('e') {
        Some((digits, power)) if power.len() == 1 => format!("{digits}e+0{power}"),
        Some((digits, power)) => format!("{digits}e+{power}"),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_is_written() {
        let histogram = Histogram::new(&[0.5, 1e6]);
        [0.25, 0.5, 7.0, 2e6].into_iter().for_each(|size| histogram.observe(size));
        let mut out = String::new();
        histogram.write("x", "a=\"b\"", &mut out);
        let expected = "x_bucket{a=\"b\",le=\"0.5\"} 2\nx_bucket{a=\"b\",le=\"1e+06\"} 3\n\
                        x_bucket{a=\"b\",le=\"+Inf\"} 4\nx_sum{a=\"b\"} 2.00000775e+06\nx_count{a=\"b\"} 4\n";
        assert_eq!(out, expected);
    }
}
