//! Computes the number of replicas that a metric proposes. Pure.
//!
//! Pods that are not ready or have no metrics are counted with the value that makes the change
//! smaller: as idle when scaling up, as fully used when scaling down.

use std::collections::HashMap;

use api::core::Pod;
use object::{Duration, Time, Value};

/// Period after a pod's start in which its CPU usage counts only while it is ready, in seconds.
const CPU_INITIALIZATION_PERIOD: i64 = 300;
/// A pod that became unready within this many seconds of its start has never been ready.
const INITIAL_READINESS_DELAY: i64 = 30;

/// Resource usage of one pod, in milli-units.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sample {
    pub(super) value: i64,
    at: i64,
    window: i64,
}

/// The target value of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Target {
    /// Average value per pod, in milli-units.
    Average(i64),
    /// Average utilization in percent of the pods' requests.
    Utilization(i32),
}

/// How far the ratio of usage to target may differ from 1 without a change, below and above.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tolerance {
    pub(super) down: f64,
    pub(super) up: f64,
}

/// The number of replicas that a metric proposes, and the usage it was computed from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Proposal {
    pub(super) replicas: i32,
    /// In percent of the requests; set only if the target is a utilization.
    pub(super) utilization: Option<i32>,
    /// Average per pod, in milli-units.
    pub(super) average: i64,
}

/// The metric to evaluate: one resource and its target.
#[derive(Clone, Copy, Debug)]
pub(super) struct MetricQuery<'a> {
    pub(super) resource: &'a str,
    /// Only this container counts; empty: the whole pod.
    pub(super) container: &'a str,
    pub(super) target: Target,
    pub(super) tolerance: Tolerance,
    pub(super) current: i32,
    pub(super) now: i64,
}

/// Reads the usage of each pod from a PodMetrics list.
pub(super) fn samples(list: &Value, resource: &str, container: &str) -> HashMap<String, Sample> {
    let mut found = HashMap::new();
    for item in list["items"].items() {
        let all = item["containers"].items();
        let wanted: Vec<&Value> = all
            .iter()
            .filter(|one| container.is_empty() || one["name"].as_str() == Some(container))
            .collect();
        let usage = |one: &&Value| {
            let text = one["usage"][resource].as_str()?;
            text.parse::<object::Quantity>().ok().map(|amount| amount.milli_value())
        };
        let Some(values) = wanted.iter().map(usage).collect::<Option<Vec<i64>>>() else { continue };
        let name = item["metadata"]["name"].as_str().unwrap_or_default();
        if values.is_empty() || name.is_empty() {
            continue;
        }
        let window = item["window"].as_str().and_then(|text| Duration::parse_nanos(text).ok());
        let sample = Sample {
            value: values.into_iter().fold(0, i64::saturating_add),
            at: item["timestamp"].as_str().and_then(Time::parse_seconds).unwrap_or_default(),
            window: window.unwrap_or_default() / 1_000_000_000,
        };
        found.insert(name.to_owned(), sample);
    }
    found
}

/// Computes the number of replicas from the usage of the ready pods, corrected for pods that are
/// not ready or have no metrics.
pub(super) fn propose_replicas(
    ask: &MetricQuery<'_>,
    pods: &[Pod],
    mut samples: HashMap<String, Sample>,
) -> Result<Proposal, String> {
    if pods.is_empty() {
        return Err("no pods returned by selector while calculating replica count".into());
    }
    let groups = group(ask, pods, &samples);
    for name in groups.ignored.iter().chain(&groups.unready) {
        samples.remove(*name);
    }
    if samples.is_empty() {
        return Err("did not receive metrics for targeted pods (pods might be unready)".into());
    }
    let requests = match ask.target {
        Target::Average(_) => HashMap::new(),
        Target::Utilization(_) => requests(ask, pods)?,
    };
    let first = measure(ask.target, &samples, &requests)?;
    let proposal =
        |replicas| Proposal { replicas, utilization: first.utilization, average: first.average };
    let near = |ratio: f64| {
        ratio <= 1.0 && 1.0 - ratio <= ask.tolerance.down
            || ratio >= 1.0 && ratio - 1.0 <= ask.tolerance.up
    };
    let grows = !groups.unready.is_empty() && first.ratio > 1.0;
    if !grows && groups.missing.is_empty() {
        let wanted = if near(first.ratio) { ask.current } else { up(first.ratio, groups.ready) };
        return Ok(proposal(wanted));
    }
    let full = |name: &str| match ask.target {
        Target::Average(value) => value,
        Target::Utilization(percent) => {
            let asked = requests.get(name).copied().unwrap_or_default();
            asked.saturating_mul(percent.max(100).into()) / 100
        }
    };
    for name in &groups.missing {
        let value = if first.ratio < 1.0 { full(name) } else { 0 };
        samples.insert((*name).to_owned(), Sample { value, at: 0, window: 0 });
    }
    if grows {
        for name in &groups.unready {
            samples.insert((*name).to_owned(), Sample { value: 0, at: 0, window: 0 });
        }
    }
    let second = measure(ask.target, &samples, &requests)?.ratio;
    let turned = (first.ratio < 1.0) != (second < 1.0);
    let wanted = up(second, samples.len());
    let odd = second < 1.0 && wanted > ask.current || second > 1.0 && wanted < ask.current;
    Ok(proposal(if near(second) || turned || odd { ask.current } else { wanted }))
}

/// The pods by how their usage counts: ready pods, and the names of the others.
#[derive(Debug, Default)]
struct PodGroups<'a> {
    ready: usize,
    unready: Vec<&'a str>,
    missing: Vec<&'a str>,
    ignored: Vec<&'a str>,
}

fn group<'a>(
    ask: &MetricQuery<'_>,
    pods: &'a [Pod],
    samples: &HashMap<String, Sample>,
) -> PodGroups<'a> {
    let mut groups = PodGroups::default();
    for pod in pods {
        let name = pod.metadata().name();
        if pod.metadata().is_terminating() || pod.status().phase() == "Failed" {
            groups.ignored.push(name);
        } else if pod.status().phase() == "Pending" {
            groups.unready.push(name);
        } else {
            match samples.get(name) {
                None => groups.missing.push(name),
                Some(sample) if ask.resource == "cpu" && is_initializing(pod, sample, ask.now) => {
                    groups.unready.push(name);
                }
                Some(_) => groups.ready += 1,
            }
        }
    }
    groups
}

/// Whether the pod is still initializing, so that its CPU usage must not be counted.
fn is_initializing(pod: &Pod, sample: &Sample, now: i64) -> bool {
    let ready = pod.status().condition("Ready");
    let start = pod.status().start_time().and_then(Time::parse_seconds);
    let (Some(ready), Some(start)) = (ready, start) else { return true };
    let since = Time::parse_seconds(ready.last_transition_time()).unwrap_or_default();
    let unready = ready.status() == "False";
    if start + CPU_INITIALIZATION_PERIOD > now {
        unready || sample.at < since.saturating_add(sample.window)
    } else {
        unready && start + INITIAL_READINESS_DELAY > since
    }
}

/// The request of each pod, in milli-units.
fn requests(ask: &MetricQuery<'_>, pods: &[Pod]) -> Result<HashMap<String, i64>, String> {
    let mut all = HashMap::new();
    for pod in pods {
        let name = pod.metadata().name();
        let wanted = |container: &&api::core::Container| {
            ask.container.is_empty() || container.name() == ask.container
        };
        let mut sum = 0_i64;
        for container in pod.spec().containers().iter().chain(pod.spec().sidecars()).filter(wanted)
        {
            let asked = container.resources().requests().get(ask.resource);
            let asked = asked.ok_or_else(|| {
                format!(
                    "missing request for {} in container {} of Pod {name}",
                    ask.resource,
                    container.name()
                )
            })?;
            sum = sum.saturating_add(asked.milli_value());
        }
        all.insert(name.to_owned(), sum);
    }
    Ok(all)
}

/// The ratio of usage to target, and the usage itself.
struct Measured {
    ratio: f64,
    utilization: Option<i32>,
    average: i64,
}

fn measure(
    target: Target,
    samples: &HashMap<String, Sample>,
    requests: &HashMap<String, i64>,
) -> Result<Measured, String> {
    let used = samples.values().map(|sample| sample.value).fold(0, i64::saturating_add);
    let count = i64::try_from(samples.len()).unwrap_or(i64::MAX).max(1);
    let average = used / count;
    match target {
        Target::Average(wanted) => {
            Ok(Measured { ratio: ratio(average, wanted), utilization: None, average })
        }
        Target::Utilization(wanted) => {
            let known = samples.keys().filter_map(|name| requests.get(name));
            let asked = known.copied().fold(0, i64::saturating_add);
            if asked == 0 {
                return Err("no metrics returned matched known pods".into());
            }
            let percent = i32::try_from(used.saturating_mul(100) / asked).unwrap_or(i32::MAX);
            let ratio = ratio(percent.into(), wanted.into());
            Ok(Measured { ratio, utilization: Some(percent), average })
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a ratio of amounts")]
fn ratio(a: i64, b: i64) -> f64 {
    a as f64 / b.max(1) as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "a number of pods, and it saturates"
)]
fn up(ratio: f64, pods: usize) -> i32 {
    (ratio * pods as f64).ceil() as i32
}

#[cfg(test)]
mod tests {
    use object::{View, from_json};

    use super::*;

    fn pod(name: &str, phase: &str, ready: bool) -> Pod {
        let text = format!(
            r#"{{"metadata":{{"name":"{name}"}},"spec":{{"containers":[{{"name":"c",
            "resources":{{"requests":{{"cpu":"1"}}}}}}]}},"status":{{"phase":"{phase}",
            "startTime":"1970-01-01T00:00:00Z","conditions":[{{"type":"Ready","status":"{}",
            "lastTransitionTime":"1970-01-01T00:00:10Z"}}]}}}}"#,
            if ready { "True" } else { "False" }
        );
        Pod::view(&from_json(text.as_bytes()).unwrap()).clone()
    }

    fn wanted(current: i32, target: Target, pods: &[(&str, bool, Option<i64>)]) -> i32 {
        let all: Vec<Pod> =
            pods.iter().map(|(name, ready, _)| pod(name, "Running", *ready)).collect();
        let samples = pods.iter().filter_map(|(name, _, value)| {
            Some(((*name).to_owned(), Sample { value: (*value)?, at: 1000, window: 30 }))
        });
        let tolerance = Tolerance { down: 0.1, up: 0.1 };
        let ask =
            MetricQuery { resource: "cpu", container: "", target, tolerance, current, now: 2000 };
        propose_replicas(&ask, &all, samples.collect()).unwrap().replicas
    }

    #[test]
    fn the_average_decides() {
        let half = Target::Utilization(50);
        let both = |a, b| [("a", true, Some(a)), ("b", true, Some(b))];
        assert_eq!(wanted(2, half, &both(1000, 1000)), 4);
        assert_eq!(wanted(2, half, &both(500, 520)), 2, "near enough");
        assert_eq!(wanted(2, half, &both(100, 100)), 1);
        assert_eq!(wanted(2, Target::Average(250), &both(500, 500)), 4);
    }

    #[test]
    fn what_is_not_known_makes_changes_smaller() {
        let half = Target::Utilization(50);
        let up = [("a", true, Some(1000)), ("b", true, None)];
        assert_eq!(wanted(2, half, &up), 2, "b may be idle");
        let down = [("a", true, Some(100)), ("b", true, None)];
        assert_eq!(wanted(2, half, &down), 2, "b may be busy");
        let cold = [("a", true, Some(1200)), ("b", false, Some(1000))];
        assert_eq!(wanted(2, half, &cold), 3, "b has not warmed up");
    }

    #[test]
    fn samples_are_read_and_failures_told() {
        let list = r#"{"items":[{"metadata":{"name":"a"},"window":"30s",
            "timestamp":"1970-01-01T00:00:05Z","containers":[{"name":"c","usage":{"cpu":"250m"}},
            {"name":"d","usage":{"cpu":"1"}}]},{"metadata":{"name":"b"},"containers":[]}]}"#;
        let list = from_json(list.as_bytes()).unwrap();
        let all = samples(&list, "cpu", "");
        assert_eq!(all["a"], Sample { value: 1250, at: 5, window: 30 });
        assert_eq!((all.len(), samples(&list, "cpu", "c")["a"].value), (1, 250));
        let tolerance = Tolerance { down: 0.1, up: 0.1 };
        let target = Target::Utilization(50);
        let ask = MetricQuery {
            resource: "memory",
            container: "",
            target,
            tolerance,
            current: 1,
            now: 0,
        };
        let failed = propose_replicas(&ask, &[pod("a", "Running", true)], all).unwrap_err();
        assert_eq!(failed, "missing request for memory in container c of Pod a");
    }
}
