//! Metrics that count pod and container starts and terminations.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use object::Value;

use super::exposition::Exposition;

/// The status lists of a pod, and the container type of each in metrics.
const LISTS: [(&str, &str); 3] = [
    ("initContainerStatuses", "init_container"),
    ("containerStatuses", "container"),
    ("ephemeralContainerStatuses", "ephemeral_container"),
];

/// Counters since the start of the kubelet.
#[derive(Debug, Default)]
pub(crate) struct Counters(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    started_pods: u64,
    pod_errors: u64,
    /// By container type.
    started: BTreeMap<&'static str, u64>,
    /// By container type and reason.
    start_errors: BTreeMap<(&'static str, String), u64>,
    /// By container type, exit code and reason.
    terminated: BTreeMap<(&'static str, i64, String), u64>,
}

impl Counters {
    pub(crate) fn started_pod(&self, started: bool) {
        self.change(|counts| {
            *if started { &mut counts.started_pods } else { &mut counts.pod_errors } += 1;
        });
    }

    /// Counts a container start, or a failed one with its reason.
    pub(crate) fn started_container(&self, kind: &'static str, failure: Option<&str>) {
        self.change(|counts| match failure {
            None => *counts.started.entry(kind).or_default() += 1,
            Some(reason) => {
                *counts.start_errors.entry((kind, reason.to_owned())).or_default() += 1;
            }
        });
    }

    /// Counts the containers that terminated between two statuses of a pod.
    pub(crate) fn ended_between(&self, old: &Value, new: &Value) {
        for (list, kind) in LISTS {
            for container in new[list].items() {
                let before = old[list].items().iter().find(|one| one["name"] == container["name"]);
                for ended in ends(container) {
                    let known = before.is_some_and(|one| {
                        ends(one).any(|end| end["containerID"] == ended["containerID"])
                    });
                    if !known {
                        let code = ended["exitCode"].as_i64().unwrap_or_default();
                        let reason = ended["reason"].as_str().unwrap_or_default().to_owned();
                        self.change(|counts| {
                            *counts.terminated.entry((kind, code, reason)).or_default() += 1;
                        });
                    }
                }
            }
        }
    }

    /// Writes the metrics.
    pub(super) fn show(&self, out: &mut Exposition) {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        out.family("kubelet_started_pods_total", "counter", "Cumulative number of pods started")
            .put(&[], counts.started_pods, None);
        out.family(
            "kubelet_started_pods_errors_total",
            "counter",
            "Cumulative number of errors when starting pods",
        )
        .put(&[], counts.pod_errors, None);
        let help = "Cumulative number of containers started";
        let mut family = out.family("kubelet_started_containers_total", "counter", help);
        for (kind, number) in &counts.started {
            family.put(&[("container_type", kind)], number, None);
        }
        let help = "Cumulative number of errors when starting containers";
        let mut family = out.family("kubelet_started_containers_errors_total", "counter", help);
        for ((kind, code), number) in &counts.start_errors {
            family.put(&[("code", code), ("container_type", kind)], number, None);
        }
        let help = "Cumulative number of container terminations.";
        let mut family = out.family("kubelet_terminated_containers_total", "counter", help);
        for ((kind, code, reason), number) in &counts.terminated {
            let labels =
                [("container_type", *kind), ("exit_code", &code.to_string()), ("reason", reason)];
            family.put(&labels, number, None);
        }
    }

    fn change(&self, change: impl FnOnce(&mut Counts)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// The `terminated` states of the current and the previous container.
fn ends(container: &Value) -> impl Iterator<Item = &Value> {
    let states = ["state", "lastState"].map(|state| &container[state]["terminated"]);
    states.into_iter().filter(|ended| !ended.is_null())
}

#[test]
fn each_end_is_counted_once() {
    let status = |text: &str| object::yaml::from_yaml(text).unwrap();
    let running = status("{containerStatuses: [{name: a, state: {running: {}}}]}");
    let ended = status(
        "{containerStatuses: [{name: a, state: {terminated: {containerID: '1', exitCode: 139, reason: Error}}}]}",
    );
    let waiting = status(
        "{containerStatuses: [{name: a, state: {waiting: {}}, lastState: {terminated: {containerID: '1', exitCode: 139, reason: Error}}}]}",
    );
    let again = status(
        "{containerStatuses: [{name: a, state: {waiting: {}}, lastState: {terminated: {containerID: '2', exitCode: 139, reason: Error}}}]}",
    );
    let counters = Counters::default();
    for (old, new) in
        [(&Value::Null, &running), (&running, &ended), (&ended, &waiting), (&waiting, &again)]
    {
        counters.ended_between(old, new);
    }
    counters.started_container("container", None);
    let mut out = Exposition::default();
    counters.show(&mut out);
    let shown = out.finish();
    let line = "kubelet_terminated_containers_total{container_type=\"container\",exit_code=\"139\",reason=\"Error\"} 2\n";
    assert!(shown.contains(line), "{shown}");
    assert!(shown.contains("kubelet_started_containers_total{container_type=\"container\"} 1\n"));
}
