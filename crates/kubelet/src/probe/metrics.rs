//! Probe metrics, served at `/metrics/probes`.

use std::{
    collections::BTreeMap,
    fmt::Write,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use api::core::Pod;

use super::ProbeType;

/// Probe counts and durations, by container and probe type.
#[derive(Debug, Default)]
pub(crate) struct ProbeMetrics(Mutex<BTreeMap<Key, Count>>);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    uid: String,
    namespace: String,
    pod: String,
    container: String,
    role: &'static str,
}

#[derive(Clone, Debug, Default)]
struct Count {
    good: u64,
    bad: u64,
    /// Histogram buckets: number of probes that took no longer than the bound at the same index.
    within: [u64; BOUNDS.len()],
    seconds: f64,
}

/// Histogram bounds in seconds, those of upstream.
const BOUNDS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

impl ProbeMetrics {
    /// Counts the result of one probe and its duration.
    pub(super) fn count(&self, of: (&Pod, &str, ProbeType), good: bool, took: Duration) {
        let (pod, container, role) = of;
        let meta = pod.metadata();
        let key = Key {
            uid: meta.uid().into(),
            namespace: meta.namespace().into(),
            pod: meta.name().into(),
            container: container.into(),
            role: role.name(),
        };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = all.entry(key).or_default();
        *if good { &mut count.good } else { &mut count.bad } += 1;
        let seconds = took.as_secs_f64();
        count.seconds += seconds;
        for (within, bound) in count.within.iter_mut().zip(BOUNDS) {
            *within += u64::from(seconds <= bound);
        }
    }

    /// Drops the counts of a deleted pod.
    pub(crate) fn forget(&self, uid: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|key, _| key.uid != uid);
    }

    /// The metrics in Prometheus text format.
    pub(crate) fn render(&self) -> String {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut out = String::from(
            "# HELP prober_probe_total Cumulative number of a liveness, readiness or startup probe for a container by result.\n\
             # TYPE prober_probe_total counter\n",
        );
        for (key, count) in all.iter() {
            for (result, number) in [("failed", count.bad), ("successful", count.good)] {
                if number > 0 {
                    let _ = writeln!(
                        out,
                        "prober_probe_total{{{},pod_uid=\"{}\",result=\"{result}\"}} {number}",
                        key.labels(),
                        key.uid
                    );
                }
            }
        }
        out += "# HELP prober_probe_duration_seconds Duration in seconds for a probe response.\n\
                # TYPE prober_probe_duration_seconds histogram\n";
        for (key, count) in all.iter() {
            let (name, labels) = ("prober_probe_duration_seconds", key.labels());
            for (within, bound) in count.within.iter().zip(BOUNDS) {
                let _ = writeln!(out, "{name}_bucket{{{labels},le=\"{bound}\"}} {within}");
            }
            let whole = count.good + count.bad;
            let _ = writeln!(out, "{name}_bucket{{{labels},le=\"+Inf\"}} {whole}");
            let _ = writeln!(out, "{name}_sum{{{labels}}} {}", count.seconds);
            let _ = writeln!(out, "{name}_count{{{labels}}} {whole}");
        }
        out
    }
}

impl Key {
    fn labels(&self) -> String {
        let Self { namespace, pod, container, role, .. } = self;
        format!(
            "container=\"{container}\",namespace=\"{namespace}\",pod=\"{pod}\",probe_type=\"{role}\""
        )
    }
}

#[test]
fn answers_are_counted_until_the_pod_goes() {
    let text = "{metadata: {name: p, namespace: ns, uid: u}}";
    let pod = Pod::from(object::yaml::from_yaml(text).unwrap());
    let tally = ProbeMetrics::default();
    let took = Duration::from_millis(30);
    for good in [true, true, false] {
        tally.count((&pod, "c", ProbeType::Readiness), good, took);
    }
    let shown = tally.render();
    let labels = "container=\"c\",namespace=\"ns\",pod=\"p\",probe_type=\"Readiness\"";
    for line in [
        format!("prober_probe_total{{{labels},pod_uid=\"u\",result=\"successful\"}} 2\n"),
        format!("prober_probe_total{{{labels},pod_uid=\"u\",result=\"failed\"}} 1\n"),
        format!("prober_probe_duration_seconds_bucket{{{labels},le=\"0.025\"}} 0\n"),
        format!("prober_probe_duration_seconds_bucket{{{labels},le=\"0.05\"}} 3\n"),
        format!("prober_probe_duration_seconds_count{{{labels}}} 3\n"),
    ] {
        assert!(shown.contains(&line), "{line}{shown}");
    }
    tally.forget("u");
    assert!(!tally.render().contains("probe_type"));
}
