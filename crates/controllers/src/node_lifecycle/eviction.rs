//! Taint eviction controller: deletes pods from nodes with a NoExecute taint that they do not
//! tolerate, or no longer tolerate.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use api::core::{Node, Pod, PodCondition, Taint};
use client::{Error, Patch};
use object::{
    Clock, Lens, List, NamespacedName, SteadyClock, Text, Time, Value, seconds_left, wait_seconds,
};
use runtime::{
    CachedApi, Context, Controller, EventRecorder, Reconcile, Requeue,
    metrics::{Counter, Family, Histogram},
};
use schema::Kind;

use crate::Config;

/// From 5 ms to 4 minutes.
static DELETION_SECONDS: [f64; 12] =
    [0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0, 120.0, 180.0, 240.0];
const DELETIONS: Family = Family::counter(
    "taint_eviction_controller_pod_deletions_total",
    "[ALPHA] Total number of Pods deleted by TaintEvictionController since its start.",
    &[],
);
const DELETION_DURATION: Family = Family::histogram(
    "taint_eviction_controller_pod_deletion_duration_seconds",
    "[ALPHA] Latency, in seconds, between the time when a taint effect has been activated for the Pod and its deletion via TaintEvictionController.",
    &[],
    &DELETION_SECONDS,
);

pub(crate) fn start(cx: &Context, config: &Config) {
    let eviction = Eviction {
        pods: cx.cached_api(),
        nodes: cx.cached_api(),
        waiting: Mutex::default(),
        events: EventRecorder::start(cx, "taint-eviction-controller", ""),
        deletions: cx.metrics().counter(&DELETIONS, &[]),
        deletion_duration: cx.metrics().histogram(&DELETION_DURATION, &[]),
        clock: config.clock.clone(),
        steady: SteadyClock::new(),
    };
    let pods = eviction.pods.clone();
    Controller::new("taint-eviction", cx, eviction)
        .queue_named("noexec_taint_pod")
        .watches::<Node>(move |node| {
            if !node.spec().taints().iter().any(is_no_execute) {
                return Vec::new();
            }
            let here = pods.by_index("spec.nodeName", node.metadata().name()).into_iter();
            here.map(|pod| NamespacedName::from_meta(pod.metadata())).collect()
        })
        .start();
}

/// Reconciler of pods on tainted nodes.
#[derive(Debug)]
struct Eviction {
    pods: CachedApi<Pod>,
    nodes: CachedApi<Node>,
    waiting: Mutex<ScheduledEvictions>,
    events: EventRecorder,
    deletions: Arc<Counter>,
    deletion_duration: Arc<Histogram>,
    clock: Arc<dyn Clock>,
    /// Toleration times are counted by it, so that setting the clock evicts no pod.
    steady: SteadyClock,
}

/// For each pod that tolerates the taints for a limited time: its uid, and when that time began, by
/// the steady clock. Taints need not have `timeAdded`, and a pod may be newer than the taint.
type ScheduledEvictions = HashMap<NamespacedName, (Text, i64)>;

/// What to do with a pod.
#[derive(Clone, Copy, Debug, PartialEq)]
enum EvictionDecision {
    Stay,
    /// Its eviction was scheduled, and is cancelled.
    Cancelled,
    /// Evict it after this many seconds.
    Wait(i64),
    Delete,
}

impl Reconcile for Eviction {
    type Kind = Pod;

    async fn reconcile(&self, key: &NamespacedName, pod: Option<Pod>) -> Result<Requeue, Error> {
        let Some(pod) = pod.filter(|pod| pod.is_scheduled() && !pod.is_terminating()) else {
            self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
            return Ok(Requeue::OnChange);
        };
        let Some(node) = self.nodes.get(&NamespacedName::new("", pod.spec().node_name())) else {
            return Ok(Requeue::OnChange);
        };
        let micros = self.clock.now_micros();
        let fate = decide(
            &pod,
            &node,
            &mut self.waiting.lock().unwrap_or_else(PoisonError::into_inner),
            self.steady.now(),
        );
        match fate {
            EvictionDecision::Stay => Ok(Requeue::OnChange),
            EvictionDecision::Cancelled => {
                let message = format!("Cancelling deletion of Pod {key}");
                self.events.normal(&pod, "TaintManagerEviction", message);
                Ok(Requeue::OnChange)
            }
            EvictionDecision::Wait(left) => Ok(Requeue::After(wait_seconds(left))),
            EvictionDecision::Delete => {
                self.delete(&pod, &node, micros).await.map(|()| Requeue::OnChange)
            }
        }
    }
}

impl Eviction {
    /// Deletes a pod whose toleration ended at `due`, in microseconds.
    async fn delete(&self, pod: &Pod, node: &Node, due: i64) -> Result<(), Error> {
        let key = NamespacedName::from_meta(pod.metadata());
        let pods =
            self.pods.with_cause(&node.write_cause("the pod does not tolerate a NoExecute taint"));
        let message = format!("Marking for deletion Pod {key}");
        self.events.normal(pod, "TaintManagerEviction", message);
        match pods.patch_status(&key, &disruption_target_patch(pod, self.clock.now())).await {
            // Deleted, or replaced by another pod of that name.
            Err(error) if error.is_not_found() || error.is_conflict() => return Ok(()),
            done => drop(done?),
        }
        pods.delete(pod).await?;
        self.deletions.add(1);
        let late = self.clock.now_micros().saturating_sub(due).max(0).unsigned_abs();
        self.deletion_duration.observe_duration(Duration::from_micros(late));
        Ok(())
    }
}

fn is_no_execute(taint: &Taint) -> bool {
    taint.effect() == "NoExecute"
}

/// Decides whether to evict a pod, and keeps the start of its toleration time in `waiting`.
fn decide(pod: &Pod, node: &Node, waiting: &mut ScheduledEvictions, now: i64) -> EvictionDecision {
    let (key, uid) = (NamespacedName::from_meta(pod.metadata()), Text::from(pod.metadata().uid()));
    let known = waiting.get(&key).filter(|(known, _)| *known == uid).map(|(_, since)| *since);
    match toleration_seconds(pod, node.spec().taints()) {
        None => {
            waiting.remove(&key);
            if known.is_some() { EvictionDecision::Cancelled } else { EvictionDecision::Stay }
        }
        Some(seconds) => {
            let since = known.unwrap_or(now);
            let left = seconds_left(since, seconds, now);
            if left > 0 {
                waiting.insert(key, (uid, since));
                EvictionDecision::Wait(left)
            } else {
                EvictionDecision::Delete
            }
        }
    }
}

/// How many seconds the pod tolerates all NoExecute taints; `None`: for ever.
fn toleration_seconds(pod: &Pod, taints: &List<Taint>) -> Option<i64> {
    let taints = taints.iter().filter(|taint| is_no_execute(taint));
    let each = taints.filter_map(|taint| {
        match pod.spec().tolerations().find(|toleration| toleration.tolerates(taint)) {
            None => Some(0),
            Some(toleration) => toleration.toleration_seconds().map(|seconds| seconds.max(0)),
        }
    });
    each.min()
}

fn disruption_target_patch(pod: &Pod, now: i64) -> Patch {
    let condition = PodCondition::new()
        .with_type("DisruptionTarget")
        .with_status("True")
        .with_last_transition_time(Time::format(now))
        .with_reason("DeletionByTaintManager")
        .with_message("Taint manager: deleting due to NoExecute taint")
        .with_observed_generation(pod.metadata().generation());
    let mut body = Value::object();
    body["metadata"]["uid"] = Text::from(pod.metadata().uid()).into();
    body["status"]["conditions"] = Value::List([condition.tree().clone()].into_iter().collect());
    Patch::Strategic(body)
}

#[cfg(test)]
mod tests {
    use api::core::{PodSpec, Toleration};
    use object::ObjectMeta;

    use super::*;

    fn pod(tolerations: &[(&str, Option<i64>)]) -> Pod {
        let toleration = |(key, seconds): &(&str, Option<i64>)| {
            let toleration = Toleration::new().with_key(*key).with_operator("Exists");
            match seconds {
                Some(seconds) => toleration.with_toleration_seconds(*seconds),
                None => toleration,
            }
        };
        let all: List<Toleration> = tolerations.iter().map(toleration).collect();
        Pod::new()
            .with_metadata(ObjectMeta::new().with_namespace("n").with_name("p").with_uid("1"))
            .with_spec(PodSpec::new().with_tolerations(all))
    }

    fn node(taints: &[(&str, &str)]) -> Node {
        let taint = |(key, effect): &(&str, &str)| Taint::new().with_key(*key).with_effect(*effect);
        let mut node = Node::new();
        node.spec_mut().set_taints(taints.iter().map(taint).collect::<List<Taint>>());
        node
    }

    #[test]
    fn the_shortest_patience_counts() {
        let (a, b) = (("a", "NoExecute"), ("b", "NoExecute"));
        let cases: [(&[_], &[_], _); 8] = [
            (&[], &[], None),
            (&[], &[("a", "NoSchedule")], None),
            (&[], &[a], Some(0)),
            (&[("a", None)], &[a], None),
            (&[("a", None)], &[a, b], Some(0)),
            (&[("a", Some(300)), ("b", Some(20))], &[a, b], Some(20)),
            (&[("a", Some(300)), ("b", None)], &[a, b], Some(300)),
            (&[("a", Some(300)), ("a", None)], &[a], Some(300)),
        ];
        for (tolerations, taints, expected) in cases {
            let seconds = toleration_seconds(&pod(tolerations), node(taints).spec().taints());
            assert_eq!(seconds, expected, "{tolerations:?} {taints:?}");
        }
    }

    #[test]
    fn time_counts_from_when_the_taint_was_seen() {
        let (pod, tainted) = (pod(&[("a", Some(30))]), node(&[("a", "NoExecute")]));
        let mut waiting = ScheduledEvictions::new();
        assert_eq!(decide(&pod, &node(&[]), &mut waiting, 100), EvictionDecision::Stay);
        assert_eq!(decide(&pod, &tainted, &mut waiting, 100), EvictionDecision::Wait(30));
        assert_eq!(decide(&pod, &tainted, &mut waiting, 110), EvictionDecision::Wait(20));
        assert_eq!(decide(&pod, &tainted, &mut waiting, 130), EvictionDecision::Delete);
        assert_eq!(decide(&pod, &node(&[]), &mut waiting, 131), EvictionDecision::Cancelled);
        assert_eq!(decide(&pod, &tainted, &mut waiting, 140), EvictionDecision::Wait(30), "anew");
        let other = pod.clone().with_metadata(pod.metadata().clone().with_uid("2"));
        assert_eq!(decide(&other, &tainted, &mut waiting, 150), EvictionDecision::Wait(30));
    }
}
