//! Metrics of a component, for Prometheus.
//!
//! A [`Family`] is declared once as a constant. A [`Metrics`] registry gives out handles to its series; counting through
//! a handle is one atomic operation. Values that are known elsewhere are set when the metrics are read.

mod requests;
mod series;
mod text;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

pub(crate) use self::requests::RequestMetrics;
pub use self::series::{Counter, Gauge, Histogram};

/// A metric with the names of its labels.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    pub name: &'static str,
    pub help: &'static str,
    pub labels: &'static [&'static str],
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Counter,
    Gauge,
    /// With the upper bounds of its buckets.
    Histogram(&'static [f64]),
}

impl Family {
    pub const fn counter(
        name: &'static str,
        help: &'static str,
        labels: &'static [&'static str],
    ) -> Self {
        Self { name, help, labels, kind: Kind::Counter }
    }

    pub const fn gauge(
        name: &'static str,
        help: &'static str,
        labels: &'static [&'static str],
    ) -> Self {
        Self { name, help, labels, kind: Kind::Gauge }
    }

    pub const fn histogram(
        name: &'static str,
        help: &'static str,
        labels: &'static [&'static str],
        bounds: &'static [f64],
    ) -> Self {
        Self { name, help, labels, kind: Kind::Histogram(bounds) }
    }
}

/// Upper bounds of buckets: `start`, `start * factor`, and so on.
pub const fn exponential<const N: usize>(start: f64, factor: f64) -> [f64; N] {
    let mut bounds = [start; N];
    let mut at = 1;
    while at < N {
        bounds[at] = bounds[at - 1] * factor;
        at += 1;
    }
    bounds
}

/// The registry of a component's metrics. Clones share it.
#[derive(Clone, Default)]
pub struct Metrics {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    families: Mutex<BTreeMap<&'static str, Registered>>,
    collectors: Mutex<Vec<Collector>>,
}

/// Sets values before they are read; false when the owner of the values is gone.
type Collector = Box<dyn Fn(&Metrics) -> bool + Send + Sync>;

struct Registered {
    family: Family,
    /// By the values of the labels.
    series: BTreeMap<Vec<String>, Series>,
}

#[derive(Clone, Debug)]
enum Series {
    Counter(Arc<Counter>),
    Gauge(Arc<Gauge>),
    Histogram(Arc<Histogram>),
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

impl Metrics {
    /// The counter with these values of the labels.
    pub fn counter(&self, family: &Family, labels: &[&str]) -> Arc<Counter> {
        match self.series(family, labels) {
            Series::Counter(counter) => counter,
            _ => Arc::default(),
        }
    }

    /// The gauge with these values of the labels.
    pub fn gauge(&self, family: &Family, labels: &[&str]) -> Arc<Gauge> {
        match self.series(family, labels) {
            Series::Gauge(gauge) => gauge,
            _ => Arc::default(),
        }
    }

    /// The histogram with these values of the labels.
    pub fn histogram(&self, family: &Family, labels: &[&str]) -> Arc<Histogram> {
        match self.series(family, labels) {
            Series::Histogram(histogram) => histogram,
            _ => Arc::new(Histogram::new(&[])),
        }
    }

    /// Removes all series of a family, for a collector that sets them anew.
    pub fn clear(&self, family: &Family) {
        if let Some(registered) = lock(&self.shared.families).get_mut(family.name) {
            registered.series.clear();
        }
    }

    /// Removes one series of a family, when the object that it is about is gone.
    pub fn remove(&self, family: &Family, labels: &[&str]) {
        if let Some(registered) = lock(&self.shared.families).get_mut(family.name) {
            registered.series.retain(|own, _| !own.iter().eq(labels));
        }
    }

    /// Calls `collect` before the metrics are read, as long as `owner` lives.
    pub fn on_read<T: Send + Sync + 'static>(
        &self,
        owner: &Arc<T>,
        collect: impl Fn(&T, &Self) + Send + Sync + 'static,
    ) {
        let owner = Arc::downgrade(owner);
        let collect = move |metrics: &Self| {
            let owner = owner.upgrade();
            owner.as_deref().map(|owner| collect(owner, metrics)).is_some()
        };
        lock(&self.shared.collectors).push(Box::new(collect));
    }

    /// Appends all metrics in Prometheus' text format.
    pub fn write(&self, out: &mut String) {
        lock(&self.shared.collectors).retain(|collect| collect(self));
        for Registered { family, series } in lock(&self.shared.families).values() {
            text::write_header(family, out);
            for (labels, series) in series {
                text::write_series(family, labels, series, out);
            }
        }
    }

    fn series(&self, family: &Family, labels: &[&str]) -> Series {
        let mut families = lock(&self.shared.families);
        let registered = families
            .entry(family.name)
            .or_insert_with(|| Registered { family: *family, series: BTreeMap::new() });
        let labels = labels.iter().map(|&value| value.to_owned()).collect();
        let new = || match family.kind {
            Kind::Counter => Series::Counter(Arc::default()),
            Kind::Gauge => Series::Gauge(Arc::default()),
            Kind::Histogram(bounds) => Series::Histogram(Arc::new(Histogram::new(bounds))),
        };
        registered.series.entry(labels).or_insert_with(new).clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: [f64; 5] = exponential(10e-9, 10.0);
    const DURATION: Family =
        Family::histogram("x_duration_seconds", "How long.", &["name"], &BOUNDS);
    const TOTAL: Family = Family::counter("x_total", "How many.", &[]);
    const DEPTH: Family = Family::gauge("a_depth", "How deep.", &["a", "b"]);

    #[test]
    fn text_equals_that_of_prometheus_go_library() {
        let metrics = Metrics::default();
        metrics.counter(&TOTAL, &[]).add(1);
        metrics.counter(&TOTAL, &[]).add(1);
        let duration = metrics.histogram(&DURATION, &["q\"1"]);
        duration.observe(10e-9);
        duration.observe(2.5);
        let owner = Arc::new(7.0);
        metrics.on_read(&owner, |value, metrics| metrics.gauge(&DEPTH, &["1", "2"]).set(*value));
        let expected = "# HELP a_depth How deep.\n# TYPE a_depth gauge\na_depth{a=\"1\",b=\"2\"} 7\n\
            # HELP x_duration_seconds How long.\n# TYPE x_duration_seconds histogram\n\
            x_duration_seconds_bucket{name=\"q\\\"1\",le=\"1e-08\"} 1\n\
            x_duration_seconds_bucket{name=\"q\\\"1\",le=\"1e-07\"} 1\n\
            x_duration_seconds_bucket{name=\"q\\\"1\",le=\"1e-06\"} 1\n\
            x_duration_seconds_bucket{name=\"q\\\"1\",le=\"9.999999999999999e-06\"} 1\n\
            x_duration_seconds_bucket{name=\"q\\\"1\",le=\"9.999999999999999e-05\"} 1\n\
            x_duration_seconds_bucket{name=\"q\\\"1\",le=\"+Inf\"} 2\n\
            x_duration_seconds_sum{name=\"q\\\"1\"} 2.50000001\n\
            x_duration_seconds_count{name=\"q\\\"1\"} 2\n\
            # HELP x_total How many.\n# TYPE x_total counter\nx_total 2\n";
        let text = |metrics: &Metrics| {
            let mut out = String::new();
            metrics.write(&mut out);
            out
        };
        assert_eq!(text(&metrics), expected);

        drop(owner);
        metrics.clear(&DEPTH);
        assert!(!text(&metrics).contains("a_depth{"), "nobody sets it any more");
    }

    #[test]
    fn counts_of_many_threads_add_up() {
        let metrics = Metrics::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let duration = metrics.histogram(&DURATION, &["n"]);
                    (0..1000).for_each(|_| duration.observe(0.5));
                });
            }
        });
        let mut out = String::new();
        metrics.write(&mut out);
        assert!(out.contains("x_duration_seconds_sum{name=\"n\"} 2000\n"), "{out}");
        assert!(out.contains("x_duration_seconds_count{name=\"n\"} 4000\n"), "{out}");
    }
}
