//! Deletes pods from nodes with a NoExecute taint that they do not tolerate, or no longer.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use api::core::{Node, Pod, PodCondition, Taint};
use client::{Error, Patch};
use object::{Clock, Key, Lens, List, Text, Time, Value, seconds_left, wait_seconds};
use runtime::{Context, Controller, Next, Objects, Reconcile, Recorder};
use schema::Kind;

use crate::Config;

pub(crate) fn start(cx: &Context, config: &Config) {
    let eviction = Eviction {
        pods: cx.objects(),
        nodes: cx.objects(),
        waiting: Mutex::default(),
        events: Recorder::start(cx, "taint-eviction-controller", ""),
        clock: config.clock.clone(),
    };
    let pods = eviction.pods.clone();
    Controller::new("taint-eviction", cx, eviction)
        .watches::<Node>(move |node| {
            if !node.spec().taints().iter().any(sends_away) {
                return Vec::new();
            }
            let here = pods.by("spec.nodeName", node.metadata().name()).into_iter();
            here.map(|pod| Key::of(pod.metadata())).collect()
        })
        .start();
}

#[derive(Debug)]
struct Eviction {
    pods: Objects<Pod>,
    nodes: Objects<Node>,
    waiting: Mutex<Waiting>,
    events: Recorder,
    clock: Arc<dyn Clock>,
}

/// Since when pods tolerate taints for a while, by uid. Taints need not say when they
/// were added, and a pod may have come later.
type Waiting = HashMap<Key, (Text, i64)>;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Stay,
    /// It was to be deleted, and may stay after all.
    Pardoned,
    /// To be deleted in so many seconds.
    Wait(i64),
    Delete,
}

impl Reconcile for Eviction {
    type Kind = Pod;

    async fn reconcile(&self, key: &Key, pod: Option<Pod>) -> Result<Next, Error> {
        let Some(pod) = pod.filter(|pod| pod.is_scheduled() && !pod.is_terminating()) else {
            self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
            return Ok(Next::OnChange);
        };
        let Some(node) = self.nodes.get(&Key::new("", pod.spec().node_name())) else {
            return Ok(Next::OnChange);
        };
        let now = self.clock.now();
        let fate = decide(
            &pod,
            &node,
            &mut self.waiting.lock().unwrap_or_else(PoisonError::into_inner),
            now,
        );
        match fate {
            Fate::Stay => Ok(Next::OnChange),
            Fate::Pardoned => {
                let message = format!("Cancelling deletion of Pod {key}");
                self.events.normal(&pod, "TaintManagerEviction", message);
                Ok(Next::OnChange)
            }
            Fate::Wait(left) => Ok(Next::After(wait_seconds(left))),
            Fate::Delete => self.delete(&pod, &node, now).await.map(|()| Next::OnChange),
        }
    }
}

impl Eviction {
    async fn delete(&self, pod: &Pod, node: &Node, now: i64) -> Result<(), Error> {
        let key = Key::of(pod.metadata());
        let pods = self.pods.because(&node.causes("the pod does not tolerate a NoExecute taint"));
        let message = format!("Marking for deletion Pod {key}");
        self.events.normal(pod, "TaintManagerEviction", message);
        match pods.patch_status(&key, &say_why(pod, now)).await {
            // Gone, or another pod of that name by now.
            Err(error) if error.is_not_found() || error.is_conflict() => return Ok(()),
            done => drop(done?),
        }
        pods.delete(pod).await
    }
}

fn sends_away(taint: &Taint) -> bool {
    taint.effect() == "NoExecute"
}

/// What becomes of a pod, and from when its time counts.
fn decide(pod: &Pod, node: &Node, waiting: &mut Waiting, now: i64) -> Fate {
    let (key, uid) = (Key::of(pod.metadata()), Text::from(pod.metadata().uid()));
    let known = waiting.get(&key).filter(|(known, _)| *known == uid).map(|(_, since)| *since);
    match tolerated_for(pod, node.spec().taints()) {
        None => {
            waiting.remove(&key);
            if known.is_some() { Fate::Pardoned } else { Fate::Stay }
        }
        Some(seconds) => {
            let since = known.unwrap_or(now);
            let left = seconds_left(since, seconds, now);
            if left > 0 {
                waiting.insert(key, (uid, since));
                Fate::Wait(left)
            } else {
                Fate::Delete
            }
        }
    }
}

/// How many seconds the pod bears all the taints; `None`: for ever.
fn tolerated_for(pod: &Pod, taints: &List<Taint>) -> Option<i64> {
    let taints = taints.iter().filter(|taint| sends_away(taint));
    let each = taints.filter_map(|taint| {
        match pod.spec().tolerations().find(|toleration| toleration.tolerates(taint)) {
            None => Some(0),
            Some(toleration) => toleration.toleration_seconds().map(|seconds| seconds.max(0)),
        }
    });
    each.min()
}

fn say_why(pod: &Pod, now: i64) -> Patch {
    let condition = PodCondition::new()
        .with_type("DisruptionTarget")
        .with_status("True")
        .with_last_transition_time(Time::text(now))
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
            let seconds = tolerated_for(&pod(tolerations), node(taints).spec().taints());
            assert_eq!(seconds, expected, "{tolerations:?} {taints:?}");
        }
    }

    #[test]
    fn time_counts_from_when_the_taint_was_seen() {
        let (pod, tainted) = (pod(&[("a", Some(30))]), node(&[("a", "NoExecute")]));
        let mut waiting = Waiting::new();
        assert_eq!(decide(&pod, &node(&[]), &mut waiting, 100), Fate::Stay);
        assert_eq!(decide(&pod, &tainted, &mut waiting, 100), Fate::Wait(30));
        assert_eq!(decide(&pod, &tainted, &mut waiting, 110), Fate::Wait(20));
        assert_eq!(decide(&pod, &tainted, &mut waiting, 130), Fate::Delete);
        assert_eq!(decide(&pod, &node(&[]), &mut waiting, 131), Fate::Pardoned);
        assert_eq!(decide(&pod, &tainted, &mut waiting, 140), Fate::Wait(30), "anew");
        let other = pod.clone().with_metadata(pod.metadata().clone().with_uid("2"));
        assert_eq!(decide(&other, &tainted, &mut waiting, 150), Fate::Wait(30));
    }
}
