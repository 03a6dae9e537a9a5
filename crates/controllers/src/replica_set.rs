//! ReplicaSet and ReplicationController controllers: keep `spec.replicas` pods running.

mod deletion_age;

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
    Clock, Lens, NULL, NamespacedName, Time, Value, View, saturating_i32, seconds_left,
    selector::Selector, wait_seconds,
};
use runtime::{CachedApi, Context, Controller, Reconcile, Requeue, Step, metrics::Histogram};
use schema::Kind;

use self::deletion_age::{DELETION_AGE_RATIO, age_ratios};
use crate::{
    Config,
    claim::{HasSelector, claim_owned, index_orphans, potential_owners},
    pods::{PodControl, slow_start_batch},
    template,
};

/// Maximum number of pods that one reconcile creates or deletes.
const BURST_REPLICAS: usize = 500;

pub(crate) fn start(cx: &Context, config: &Config) {
    start_of::<ReplicaSet>("replicaset", "replicaset-controller", cx, config);
}

/// Starts the ReplicationController controller.
pub(crate) fn start_replication(cx: &Context, config: &Config) {
    start_of::<ReplicationController>("replication", "replication-controller", cx, config);
}

fn start_of<S: ReplicaWorkload>(
    name: &'static str,
    component: &str,
    cx: &Context,
    config: &Config,
) {
    let sets = ReplicaSets::<S> {
        sets: cx.cached_api(),
        pods: PodControl::new(cx, component),
        deletion_age_ratio: cx.metrics().histogram(&DELETION_AGE_RATIO, &[]),
        clock: config.clock.clone(),
    };
    index_orphans(&sets.pods.objects);
    let known = sets.sets.clone();
    Controller::new(name, cx, sets)
        .owns::<Pod>()
        .watches::<Pod>(move |pod| potential_owners(pod, &known))
        .start();
}

/// A kind that has a number of identical pods.
trait ReplicaWorkload: HasSelector {
    fn replicas(&self) -> i32;
    fn min_ready_seconds(&self) -> i32;
    fn template(&self) -> &PodTemplateSpec;
    /// The status, as that of a ReplicaSet: the fields of both kinds have the same names.
    fn status(&self) -> &ReplicaSetStatus;
    fn with_status(self, status: ReplicaSetStatus) -> Self;
}

impl ReplicaWorkload for ReplicaSet {
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

impl ReplicaWorkload for ReplicationController {
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

/// Reconciler of ReplicaSets or ReplicationControllers.
#[derive(Debug)]
struct ReplicaSets<S> {
    sets: CachedApi<S>,
    pods: PodControl,
    deletion_age_ratio: Arc<Histogram>,
    clock: Arc<dyn Clock>,
}

impl<S: ReplicaWorkload> Reconcile for ReplicaSets<S> {
    type Kind = S;

    async fn reconcile(&self, _: &NamespacedName, set: Option<S>) -> Result<Requeue, Error> {
        let Some(set) = set else { return Ok(Requeue::OnChange) }; // the garbage collector deletes its pods
        let pods = claim_owned(&set, &self.sets, &self.pods.objects).await?;
        let near = self.related_pods_per_node(&set);
        let now = self.clock.now();
        let (mut creates, mut deletes) = (Vec::new(), Vec::new());
        for Step { action: act, cause: because } in plan(&set, &pods, &near, now) {
            match act {
                Action::Create(pod) => creates.push((pod, because)),
                Action::Delete(pod) => deletes.push((pod, because)),
            }
        }
        let ratios = age_ratios(&pods, deletes.iter().map(|(pod, _)| pod), self.clock.now_micros());
        ratios.into_iter().for_each(|ratio| self.deletion_age_ratio.observe_seconds(ratio));
        let create = async |(pod, because)| self.pods.create(&set, pod, &because).await;
        let made = slow_start_batch(creates, create).await.map_err(|error| ("FailedCreate", error));
        let ended = self.pods.delete_all(&set, &deletes).await;
        let failed = made.and(ended.map_err(|error| ("FailedDelete", error)));

        let why = failed.as_ref().err().map(|(reason, error)| (*reason, error.to_string()));
        let wanted = set.clone().with_status(status(&set, &pods, why, now));
        if wanted.status() != set.status() {
            let because = set.write_cause("status has changed");
            self.sets.with_cause(&because).update_status(wanted).await?;
        }
        failed.map_err(|(_, error)| error)?;
        Ok(next(&set, &pods, now))
    }
}

impl<S: ReplicaWorkload> ReplicaSets<S> {
    /// The number of active pods of the same Deployment on each node.
    fn related_pods_per_node(&self, set: &S) -> HashMap<String, usize> {
        let siblings = match set.meta().controller_ref() {
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

/// A step of the plan.
#[derive(Debug, PartialEq)]
enum Action {
    Create(Pod),
    Delete(Pod),
}

/// Computes the steps. Pure, so its tests need no cluster.
fn plan<S: ReplicaWorkload>(
    set: &S,
    pods: &[Pod],
    near: &HashMap<String, usize>,
    now: i64,
) -> Vec<Step<Action>> {
    if set.is_terminating() {
        return Vec::new();
    }
    let mut active: Vec<Pod> = pods.iter().filter(|pod| pod.is_active()).cloned().collect();
    let want = usize::try_from(set.replicas()).unwrap_or_default();
    let missing = want.saturating_sub(active.len()).min(BURST_REPLICAS);
    let extra = active.len().saturating_sub(want).min(BURST_REPLICAS);
    if extra > 0 {
        active.sort_by_cached_key(|pod| deletion_rank(pod, near, now));
    }
    active.truncate(extra);
    let step = |rule| move |act| Step { action: act, cause: set.write_cause(rule) };
    let create = || Action::Create(template::new_pod(set, set.template()));
    let creates = (0..missing).map(|_| create()).map(step("too few pods"));
    let deletes = active.into_iter().map(Action::Delete).map(step("too many pods"));
    creates.chain(deletes).collect()
}

/// Sort key for scale-down.
type DeletionRank =
    (bool, u8, bool, i32, Reverse<usize>, u32, Reverse<i32>, Reverse<String>, String);

/// Sort key for scale-down; the pod with the smallest key is deleted first. In order: unscheduled
/// before scheduled, pending before running, not ready before ready, lower `pod-deletion-cost`,
/// more sibling pods on the node, ready for a shorter time, more restarts, newer.
fn deletion_rank(pod: &Pod, near: &HashMap<String, usize>, now: i64) -> DeletionRank {
    let phase = match pod.status().phase() {
        "Pending" => 0,
        "Running" => 2,
        _ => 1,
    };
    let cost = pod.metadata().annotations().get("controller.kubernetes.io/pod-deletion-cost");
    let cost = cost.and_then(|cost| cost.parse().ok()).unwrap_or_default();
    let crowd = near.get(pod.spec().node_name()).copied().unwrap_or_default();
    let since = pod.status().condition("Ready").filter(|_| pod.is_ready());
    let since = since.and_then(|ready| Time::parse_seconds(ready.last_transition_time()));
    // Logarithmic, so that among pods ready for about the same time the later criteria decide.
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

fn status<S: ReplicaWorkload>(
    set: &S,
    pods: &[Pod],
    failed: Option<(&str, String)>,
    now: i64,
) -> ReplicaSetStatus {
    let template = Selector::from_labels(set.template().metadata().labels().iter());
    let going = pods.iter().filter(|pod| pod.is_terminating() && !pod.is_finished()).count();
    let active: Vec<_> = pods.iter().filter(|pod| pod.is_active()).collect();
    let how_many =
        |is: &dyn Fn(&Pod) -> bool| saturating_i32(active.iter().filter(|pod| is(pod)).count());
    let wait = set.min_ready_seconds();
    let mut status = ReplicaSetStatus::new()
        .with_replicas(saturating_i32(active.len()))
        .with_fully_labeled_replicas(how_many(&|pod| template.matches(pod.metadata().labels())))
        .with_ready_replicas(how_many(&Pod::is_ready))
        .with_available_replicas(how_many(&|pod| pod.is_available(wait, now)))
        .with_terminating_replicas(saturating_i32(going))
        .with_observed_generation(set.meta().generation());
    if let Some((reason, message)) = failed {
        let before = set.status().conditions().find(|c| c.type_() == "ReplicaFailure");
        let condition = before.cloned().unwrap_or_else(|| {
            ReplicaSetCondition::new()
                .with_type("ReplicaFailure")
                .with_status("True")
                .with_last_transition_time(Time::format(now))
                .with_reason(reason)
                .with_message(message)
        });
        status.set_conditions([condition]);
    }
    status
}

/// When to reconcile again: when the next ready pod becomes available.
fn next<S: ReplicaWorkload>(set: &S, pods: &[Pod], now: i64) -> Requeue {
    let wait = i64::from(set.min_ready_seconds());
    let left = |ready: &PodCondition| {
        Time::parse_seconds(ready.last_transition_time())
            .map(|since| seconds_left(since, wait, now))
    };
    let ready = pods.iter().filter(|pod| pod.is_active() && pod.is_ready());
    let left = ready.filter_map(|pod| pod.status().condition("Ready").and_then(left));
    match left.filter(|left| *left > 0).min() {
        Some(left) => Requeue::After(wait_seconds(left)),
        None => Requeue::OnChange,
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
            let created =
                plan.iter().filter(|step| matches!(step.action, Action::Create(_))).count();
            let deleted = plan.iter().filter_map(|step| match &step.action {
                Action::Delete(pod) => Some(pod.metadata().name()),
                Action::Create(_) => None,
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
        let at = Time::parse_seconds("2030-01-01T00:00:04Z").unwrap();
        let pods = [pod("a", true)];
        let early = status(&set, &pods, Some(("FailedCreate", "no".into())), at);
        assert_eq!((early.ready_replicas(), early.available_replicas()), (1, 0));
        assert_eq!(early.conditions().iter().next().unwrap().reason(), "FailedCreate");
        assert_eq!(next(&set, &pods, at), Requeue::After(Duration::from_secs(6)));
        assert_eq!(status(&set, &pods, None, at + 6).available_replicas(), 1);
    }
}
