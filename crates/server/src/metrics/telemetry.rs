//! Metrics with labels: counters, gauges and histograms.

use std::{
    collections::BTreeMap,
    fmt::{Display, Write as _},
    sync::{Mutex, MutexGuard, PoisonError},
};

use super::Histogram;

/// Maximum number of series of a metric, so that clients cannot exhaust the memory.
const MAX_SERIES: usize = 1000;

/// Name, help and labels of a metric.
#[derive(Clone, Copy, Debug)]
pub struct MetricDesc {
    pub name: &'static str,
    pub help: &'static str,
    pub labels: &'static [&'static str],
}

/// A counter with labels.
#[derive(Debug)]
pub struct CounterVec {
    name: MetricDesc,
    counts: Mutex<BTreeMap<Vec<String>, u64>>,
}

/// A gauge with labels.
#[derive(Debug)]
pub struct GaugeVec {
    name: MetricDesc,
    values: Mutex<BTreeMap<Vec<String>, f64>>,
}

/// A histogram of durations with labels.
#[derive(Debug)]
pub struct HistogramVec {
    name: MetricDesc,
    bounds: &'static [f64],
    times: Mutex<BTreeMap<Vec<String>, Histogram>>,
}

impl CounterVec {
    pub fn new(name: MetricDesc) -> Self {
        Self { name, counts: Mutex::default() }
    }

    /// Increments the counter with these label values.
    pub fn count(&self, values: &[&str]) {
        let mut counts = lock(&self.counts);
        let key: Vec<String> = values.iter().map(ToString::to_string).collect();
        if counts.len() < MAX_SERIES || counts.contains_key(&key) {
            *counts.entry(key).or_default() += 1;
        }
    }

    pub fn write(&self, out: &mut String) {
        self.name.head("counter", out);
        let counts = lock(&self.counts);
        if self.name.labels.is_empty() && counts.is_empty() {
            self.name.line(&[], 0, out);
        }
        for (values, count) in &*counts {
            self.name.line(values, count, out);
        }
    }
}

impl GaugeVec {
    pub fn new(name: MetricDesc) -> Self {
        Self { name, values: Mutex::default() }
    }

    pub fn set(&self, values: &[&str], is: f64) {
        let mut all = lock(&self.values);
        let key: Vec<String> = values.iter().map(ToString::to_string).collect();
        if all.len() < MAX_SERIES || all.contains_key(&key) {
            all.insert(key, is);
        }
    }

    /// Drops the series whose labels `keep` does not accept.
    pub fn retain(&self, keep: impl Fn(&[String]) -> bool) {
        lock(&self.values).retain(|labels, _| keep(labels));
    }

    pub fn write(&self, out: &mut String) {
        self.name.head("gauge", out);
        for (values, is) in &*lock(&self.values) {
            self.name.line(values, is, out);
        }
    }
}

impl HistogramVec {
    pub fn new(name: MetricDesc, bounds: &'static [f64]) -> Self {
        Self { name, bounds, times: Mutex::default() }
    }

    pub fn observe(&self, values: &[&str], seconds: f64) {
        let mut times = lock(&self.times);
        let key: Vec<String> = values.iter().map(ToString::to_string).collect();
        if times.len() < MAX_SERIES || times.contains_key(&key) {
            times.entry(key).or_insert_with(|| Histogram::new(self.bounds)).observe(seconds);
        }
    }

    pub fn write(&self, out: &mut String) {
        self.name.head("histogram", out);
        for (values, histogram) in &*lock(&self.times) {
            histogram.write(self.name.name, self.name.with(values), out);
        }
    }
}

impl MetricDesc {
    fn head(&self, kind: &str, out: &mut String) {
        let Self { name, help, .. } = self;
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn line(&self, values: &[String], number: impl Display, out: &mut String) {
        let _ = match self.with(values) {
            labels if labels.is_empty() => writeln!(out, "{} {number}", self.name),
            labels => writeln!(out, "{}{{{labels}}} {number}", self.name),
        };
    }

    fn with(&self, values: &[String]) -> String {
        let pairs = self.labels.iter().zip(values);
        let pairs: Vec<_> = pairs.map(|(label, value)| format!("{label}={value:?}")).collect();
        pairs.join(",")
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_is_told_with_its_labels() {
        let name = MetricDesc { name: "n", help: "h", labels: &["a", "b"] };
        let counter = CounterVec::new(name);
        counter.count(&["x", "y\"z"]);
        counter.count(&["x", "y\"z"]);
        let timing = HistogramVec::new(MetricDesc { name: "t", help: "h", labels: &[] }, &[1.0]);
        timing.observe(&[], 0.5);
        let mut out = String::new();
        counter.write(&mut out);
        timing.write(&mut out);
        assert!(out.contains("n{a=\"x\",b=\"y\\\"z\"} 2\n"), "{out}");
        assert!(out.contains("t_bucket{le=\"1\"} 1\n") && out.contains("t_count 1\n"), "{out}");
    }

    #[test]
    fn there_is_an_end_to_it() {
        let counter = CounterVec::new(MetricDesc { name: "n", help: "h", labels: &["a"] });
        (0..2 * MAX_SERIES).for_each(|at| counter.count(&[&at.to_string()]));
        let mut out = String::new();
        counter.write(&mut out);
        assert_eq!(out.lines().count(), MAX_SERIES + 2);
    }
}
