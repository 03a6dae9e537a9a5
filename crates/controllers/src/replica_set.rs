//! Keeps `spec.replicas` pods alive for every ReplicaSet and ReplicationController.

use std::{cmp::Reverse, collections::HashMap, sync::Arc};

use api::{
    apps::{ReplicaSet, ReplicaSetCondition, ReplicaSetStatus},
    core::{
        ContainerStatus, Pod, PodCondition, PodTemplateSpec, ReplicationController,
        ReplicationControllerStatus,
    },
};
use client::Error;
use object::{
    Clock, Key, Lens, NULL, Time, Value, View, count, seconds_left, selector::Selector,
    wait_seconds,
};
use runtime::{Context, Controller, Next, Objects, Reconcile, Step};
use schema::Kind;

use crate::{
    Config,
    claim::{Selects, claimed, index_orphans, wanted_by},
    pods::{Pods, slow_start},
    template,
};

/// More at a time would only make failures more.
const BURST: usize = 500;

pub(crate) fn start(cx: &Context, config: &Config) {
    start_of::<ReplicaSet>("replicaset", "replicaset-controller", cx, config);
}

/// The same for the older kind.
pub(crate) fn start_replication(cx: &Context, config: &Config) {
    start_of::<ReplicationController>("replication", "replication-controller", cx, config);
}

fn start_of<S: Replicated>(name: &'static str, component: &str, cx: &Context, config: &Config) {
    let sets = ReplicaSets::<S> {
        sets: cx.objects(),
        pods: Pods::new(cx, component),
        clock: config.clock.clone(),
    };
    index_orphans(&sets.pods.objects);
    let known = sets.sets.clone();
    Controller::new(name, cx, sets)
        .owns::<Pod>()
        .watches::<Pod>(move |pod| wanted_by(pod, &known))
        .start();
}

/// A kind that wants a number of equal pods.
trait Replicated: Selects {
    fn replicas(&self) -> i32;
    fn min_ready_seconds(&self) -> i32;
    fn template(&self) -> &PodTemplateSpec;
    /// The fields of both kinds have the same names.
    fn status(&self) -> &ReplicaSetStatus;
    fn with_status(self, status: ReplicaSetStatus) -> Self;
}

impl Replicated for ReplicaSet {
    fn replicas(&self) -> i32 {
        self.spec().replicas()
    }

    fn min_ready_seconds(&self) -> i32 {
        self.spec().min_ready_seconds()
    }

    fn template(&self) -> &PodTemplateSpec {
        self.spec().template()
    }

    fn status(&self) -> &ReplicaSetStatus {
        self.status()
    }

    fn with_status(self, status: ReplicaSetStatus) -> Self {
        self.with_status(status)
    }
}

impl Replicated for ReplicationController {
    fn replicas(&self) -> i32 {
        self.spec().replicas()
    }

    fn min_ready_seconds(&self) -> i32 {
        self.spec().min_ready_seconds()
    }

    fn template(&self) -> &PodTemplateSpec {
        self.spec().template().unwrap_or_else(|| PodTemplateSpec::view(&NULL))
    }

    fn status(&self) -> &ReplicaSetStatus {
        ReplicaSetStatus::view(self.status().tree())
    }

    fn with_status(self, mut status: ReplicaSetStatus) -> Self {
        status.clear_terminating_replicas();
        self.with_status(ReplicationControllerStatus::from(Value::from(status)))
    }
}

#[derive(Debug)]
struct ReplicaSets<S> {
    sets: Objects<S>,
    pods: Pods,
    clock: Arc<dyn Clock>,
}

impl<S: Replicated> Reconcile for ReplicaSets<S> {
    type Kind = S;

    async fn reconcile(&self, _: &Key, set: Option<S>) -> Result<Next, Error> {
        let Some(set) = set else { return Ok(Next::OnChange) }; // its pods are the collector's
        let pods = claimed(&set, &self.sets, &self.pods.objects).await?;
        let near = self.neighbours(&set);
        let now = self.clock.now();
        let (mut creates, mut deletes) = (Vec::new(), Vec::new());
        for Step { act, because } in plan(&set, &pods, &near, now) {
            match act {
                Act::Create(pod) => creates.push((pod, because)),
                Act::Delete(pod) => deletes.push((pod, because)),
            }
        }
        let create = async |(pod, because)| self.pods.create(&set, pod, &because).await;
        let made = slow_start(creates, create).await.map_err(|error| ("FailedCreate", error));
        let ended = self.pods.delete_all(&set, &deletes).await;
        let failed = made.and(ended.map_err(|error| ("FailedDelete", error)));

        let why = failed.as_ref().err().map(|(reason, error)| (*reason, error.to_string()));
        let wanted = set.clone().with_status(status(&set, &pods, why, now));
        if wanted.status() != set.status() {
            let because = set.causes("status has changed");
            self.sets.because(&because).update_status(wanted).await?;
        }
        failed.map_err(|(_, error)| error)?;
        Ok(next(&set, &pods, now))
    }
}

impl<S: Replicated> ReplicaSets<S> {
    /// How many active pods of the same Deployment each node has.
    fn neighbours(&self, set: &S) -> HashMap<String, usize> {
        let siblings = match set.meta().controller() {
            Some(owner) => self.sets.cache().controlled_by(owner.uid()),
            None => vec![set.clone()],
        };
        let pods = siblings.iter().flat_map(|set| self.pods.objects.owned_by(set));
        let mut near = HashMap::new();
        for pod in pods.filter(Pod::is_active) {
            *near.entry(pod.spec().node_name().to_owned()).or_default() += 1;
        }
        near
    }
}

#[derive(Debug, PartialEq)]
enum Act {
    Create(Pod),
    Delete(Pod),
}

/// Decides what to do. Pure, so its tests need no cluster.
fn plan<S: Replicated>(
    set: &S,
    pods: &[Pod],
    near: &HashMap<String, usize>,
    now: i64,
) -> Vec<Step<Act>> {
    if set.is_terminating() {
        return Vec::new();
    }
    let mut active: Vec<Pod> = pods.iter().filter(|pod| pod.is_active()).cloned().collect();
    let want = usize::try_from(set.replicas()).unwrap_or_default();
    let missing = want.saturating_sub(active.len()).min(BURST);
    let extra = active.len().saturating_sub(want).min(BURST);
    if extra > 0 {
        active.sort_by_cached_key(|pod| worth(pod, near, now));
    }
    active.truncate(extra);
    let step = |rule| move |act| Step { act, because: set.causes(rule) };
    let create = || Act::Create(template::new_pod(set, set.template()));
    let creates = (0..missing).map(|_| create()).map(step("too few pods"));
    let deletes = active.into_iter().map(Act::Delete).map(step("too many pods"));
    creates.chain(deletes).collect()
}

type Worth = (bool, u8, bool, i32, Reverse<usize>, u32, Reverse<i32>, Reverse<String>, String);

/// The least is deleted first: not placed, not running, not ready, cheap to delete, with
/// many of its kind on the node, ready for a short time, restarted often, young.
fn worth(pod: &Pod, near: &HashMap<String, usize>, now: i64) -> Worth {
    let phase = match pod.status().phase() {
        "Pending" => 0,
        "Running" => 2,
        _ => 1,
    };
    let cost = pod.metadata().annotations().get("controller.kubernetes.io/pod-deletion-cost");
    let cost = cost.and_then(|cost| cost.parse().ok()).unwrap_or_default();
    let crowd = near.get(pod.spec().node_name()).copied().unwrap_or_default();
    let since = pod.status().condition("Ready").filter(|_| pod.is_ready());
    let since = since.and_then(|ready| Time::seconds(ready.last_transition_time()));
    // In powers of two, so that chance decides among pods of about the same age.
    let ready_for = since.map_or(0, |since| now - since).max(0).checked_ilog2().unwrap_or(0);
    let restarts =
        pod.status().container_statuses().iter().map(ContainerStatus::restart_count).max();
    let created = pod.metadata().creation_timestamp().to_owned();
    (
        pod.is_scheduled(),
        phase,
        pod.is_ready(),
        cost,
        Reverse(crowd),
        ready_for,
        Reverse(restarts.unwrap_or_default()),
        Reverse(created),
        pod.metadata().uid().to_owned(),
    )
}

fn status<S: Replicated>(
    set: &S,
    pods: &[Pod],
    failed: Option<(&str, String)>,
    now: i64,
) -> ReplicaSetStatus {
    let template = Selector::labels(set.template().metadata().labels().iter());
    let going = pods.iter().filter(|pod| pod.is_terminating() && !pod.is_finished()).count();
    let active: Vec<_> = pods.iter().filter(|pod| pod.is_active()).collect();
    let how_many = |is: &dyn Fn(&Pod) -> bool| count(active.iter().filter(|pod| is(pod)).count());
    let wait = set.min_ready_seconds();
    let mut status = ReplicaSetStatus::new()
        .with_replicas(count(active.len()))
        .with_fully_labeled_replicas(how_many(&|pod| template.matches(pod.metadata().labels())))
        .with_ready_replicas(how_many(&Pod::is_ready))
        .with_available_replicas(how_many(&|pod| pod.is_available(wait, now)))
        .with_terminating_replicas(count(going))
        .with_observed_generation(set.meta().generation());
    if let Some((reason, message)) = failed {
        let before = set.status().conditions().find(|c| c.type_() == "ReplicaFailure");
        let condition = before.cloned().unwrap_or_else(|| {
            ReplicaSetCondition::new()
                .with_type("ReplicaFailure")
                .with_status("True")
                .with_last_transition_time(Time::text(now))
                .with_reason(reason)
                .with_message(message)
        });
        status.set_conditions([condition]);
    }
    status
}

/// Pods become available by time alone.
fn next<S: Replicated>(set: &S, pods: &[Pod], now: i64) -> Next {
    let wait = i64::from(set.min_ready_seconds());
    let left = |ready: &PodCondition| {
        Time::seconds(ready.last_transition_time()).map(|since| seconds_left(since, wait, now))
    };
    let ready = pods.iter().filter(|pod| pod.is_active() && pod.is_ready());
    let left = ready.filter_map(|pod| pod.status().condition("Ready").and_then(left));
    match left.filter(|left| *left > 0).min() {
        Some(left) => Next::After(wait_seconds(left)),
        None => Next::OnChange,
    }
}

#[cfg(test)]
mod tests {
    use api::{apps::ReplicaSetSpec, core::PodStatus};
    use object::ObjectMeta;

    use std::time::Duration;

    use super::*;

    fn set(replicas: i32) -> ReplicaSet {
        ReplicaSet::new().with_spec(ReplicaSetSpec::new().with_replicas(replicas))
    }

    fn pod(name: &str, ready: bool) -> Pod {
        let condition = PodCondition::new()
            .with_type("Ready")
            .with_status(if ready { "True" } else { "False" })
            .with_last_transition_time("2030-01-01T00:00:00Z");
        Pod::new()
            .with_metadata(ObjectMeta::new().with_name(name))
            .with_status(PodStatus::new().with_conditions([condition]))
    }

    fn on(node: &str, mut pod: Pod) -> Pod {
        pod.spec_mut().set_node_name(node);
        pod
    }

    fn finished(name: &str) -> Pod {
        pod(name, false).with_status(PodStatus::new().with_phase("Failed"))
    }

    #[test]
    fn makes_what_is_missing_and_deletes_the_least_useful() {
        let crowded = || vec![on("x", pod("a", true)), on("y", pod("b", true))];
        let cases = [
            (3, vec![], 3, vec![]),
            (2, vec![pod("a", true), finished("b")], 1, vec![]),
            (1, vec![pod("a", true), pod("b", false)], 0, vec!["b"]),
            (0, vec![pod("a", true), pod("b", false)], 0, vec!["b", "a"]),
            (1, vec![on("x", pod("a", false)), pod("b", true)], 0, vec!["b"]),
            (1, crowded(), 0, vec!["b"]),
        ];
        let near = HashMap::from([("x".to_owned(), 1), ("y".to_owned(), 2)]);
        for (replicas, pods, create, delete) in cases {
            let plan = plan(&set(replicas), &pods, &near, 0);
            let created = plan.iter().filter(|step| matches!(step.act, Act::Create(_))).count();
            let deleted = plan.iter().filter_map(|step| match &step.act {
                Act::Delete(pod) => Some(pod.metadata().name()),
                Act::Create(_) => None,
            });
            let deleted: Vec<_> = deleted.collect();
            assert_eq!((created, deleted), (create, delete), "{replicas} replicas");
        }
    }

    #[test]
    fn a_set_that_is_going_leaves_pods_alone() {
        let mut set = set(5);
        set.metadata_mut().set_deletion_timestamp("2030-01-01T00:00:00Z");
        assert!(plan(&set, &[pod("a", true)], &HashMap::new(), 0).is_empty());
        let status = status(&set, &[pod("a", true)], None, 1_900_000_000);
        assert_eq!((status.replicas(), status.ready_replicas()), (1, 1));
    }

    #[test]
    fn readiness_counts_after_a_while_and_failures_show() {
        let mut set = set(1);
        set.spec_mut().set_min_ready_seconds(10);
        let at = Time::seconds("2030-01-01T00:00:04Z").unwrap();
        let pods = [pod("a", true)];
        let early = status(&set, &pods, Some(("FailedCreate", "no".into())), at);
        assert_eq!((early.ready_replicas(), early.available_replicas()), (1, 0));
        assert_eq!(early.conditions().iter().next().unwrap().reason(), "FailedCreate");
        assert_eq!(next(&set, &pods, at), Next::After(Duration::from_secs(6)));
        assert_eq!(status(&set, &pods, None, at + 6).available_replicas(), 1);
    }
}
