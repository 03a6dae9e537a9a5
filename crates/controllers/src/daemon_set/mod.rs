//! DaemonSet controller: runs one pod of each DaemonSet on every node that it fits.
//!
//! ```text
//!  mod.rs        start, reconcile: carries out the plan
//!  plan.rs       plan: record the revision, one pod per node, rolling update
//!  rollout.rs    which outdated pods may be replaced now
//!  placement.rs  which nodes a set fits, and the pod for a node
//!  status.rs     counts
//! ```

mod placement;
mod plan;
mod rollout;
mod status;

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use api::{
    apps::{ControllerRevision, DaemonSet},
    core::{Node, Pod},
};
use client::{Error, Patch};
use object::{Clock, NamespacedName, Text, Value, WriteCause, wait_seconds};
use runtime::{CachedApi, Context, Controller, Reconcile, Requeue, Step};

use self::{
    placement::DaemonPlacement,
    plan::{Action, PlanInput, plan},
};
use crate::{
    Config,
    claim::{claim_owned, index_orphans, potential_owners},
    history,
    pods::{PodControl, slow_start_batch},
};

/// Back-off of a node after a daemon pod failed there, in seconds: initial value, doubled with each
/// failure.
const INITIAL_BACKOFF: i64 = 1;
const MAX_BACKOFF: i64 = 15 * 60;

pub(crate) fn start(cx: &Context, config: &Config) {
    let sets = DaemonSets {
        sets: cx.cached_api(),
        nodes: cx.cached_api(),
        revisions: cx.cached_api(),
        pods: PodControl::new(cx, "daemonset-controller"),
        failed_pod_backoffs: Mutex::default(),
        clock: config.clock.clone(),
    };
    index_orphans(&sets.pods.objects);
    index_orphans(&sets.revisions);
    let (known, nodes, pods) = (sets.sets.clone(), sets.nodes.clone(), sets.pods.objects.clone());
    let by_pod = known.clone();
    Controller::new("daemonset", cx, sets)
        .owns::<Pod>()
        .watches::<Pod>(move |pod| potential_owners(pod, &by_pod))
        .watches::<Node>(move |node| affected_sets(node, &known, &nodes, &pods))
        .start();
}

/// Reconciler of DaemonSets.
#[derive(Debug)]
struct DaemonSets {
    sets: CachedApi<DaemonSet>,
    nodes: CachedApi<Node>,
    revisions: CachedApi<ControllerRevision>,
    pods: PodControl,
    /// Back-off after failed pods, by the set's uid, its generation and the node.
    failed_pod_backoffs: Mutex<HashMap<(Text, i64, Text), NodeBackoff>>,
    clock: Arc<dyn Clock>,
}

/// Until when no failed pod is replaced on a node, and how long the back-off was.
#[derive(Clone, Copy, Debug)]
struct NodeBackoff {
    until: i64,
    length: i64,
}

impl Reconcile for DaemonSets {
    type Kind = DaemonSet;

    async fn reconcile(
        &self,
        _: &NamespacedName,
        set: Option<DaemonSet>,
    ) -> Result<Requeue, Error> {
        let Some(set) = set.filter(|set| !set.metadata().is_terminating()) else {
            return Ok(Requeue::OnChange); // the garbage collector deletes its pods
        };
        let now = self.clock.now();
        let resting = self.nodes_in_backoff(&set, now);
        let scene = PlanInput {
            set: &set,
            pods: claim_owned(&set, &self.sets, &self.pods.objects).await?,
            revisions: claim_owned(&set, &self.sets, &self.revisions).await?,
            nodes: self.nodes.all(),
            nodes_in_backoff: resting.keys().cloned().collect(),
            now,
        };
        let steps = plan(&scene);
        let recorded = steps.iter().any(|step| matches!(step.action, Action::CreateRevision(_)));
        self.act(&set, steps).await?;
        if recorded {
            return Ok(Requeue::After(Duration::ZERO)); // the controller does not watch revisions
        }
        let wake = resting.values().map(|rest| rest.until - now);
        let wake = wake.chain(status::next(&scene)).filter(|left| *left > 0).min();
        Ok(wake.map_or(Requeue::OnChange, |left| Requeue::After(wait_seconds(left))))
    }
}

impl DaemonSets {
    async fn act(&self, set: &DaemonSet, steps: Vec<Step<Action>>) -> Result<(), Error> {
        let (mut creates, mut deletes, mut report) = (Vec::new(), Vec::new(), None);
        for Step { action: act, cause: because } in steps {
            let revisions = self.revisions.with_cause(&because);
            match act {
                Action::CreateRevision(revision) => self.record(set, revision, &because).await?,
                Action::UpdateRevision(revision) => drop(revisions.update(revision).await?),
                Action::DeleteRevision(revision) => revisions.delete(&revision).await?,
                Action::Relabel(pod, hash) => self.relabel(&pod, hash, &because).await?,
                Action::Create(pod) => creates.push((pod, because)),
                Action::Delete(pod) => deletes.push((pod, because)),
                Action::Replace { pod, node } => {
                    self.record_pod_finished(set, &pod, &node);
                    deletes.push((pod, because));
                }
                Action::UpdateStatus(status) => report = Some((status, because)),
            }
        }
        let create = async |(pod, because)| self.pods.create(set, pod, &because).await;
        let made = slow_start_batch(creates, create).await;
        let ended = self.pods.delete_all(set, &deletes).await;
        if let Some((status, because)) = report {
            let new = set.clone().with_status(status);
            self.sets.with_cause(&because).update_status(new).await?;
        }
        made.and(ended)
    }

    /// Creates a ControllerRevision. If its name is taken by a different revision, increments
    /// `collisionCount` so that the next attempt uses another name.
    async fn record(
        &self,
        set: &DaemonSet,
        revision: ControllerRevision,
        because: &WriteCause,
    ) -> Result<(), Error> {
        if history::create_revision(&self.revisions, revision, because).await? {
            return Ok(());
        }
        let mut set = set.clone();
        let collisions = set.status().collision_count().unwrap_or_default().saturating_add(1);
        set.status_mut().set_collision_count(collisions);
        self.sets.with_cause(because).update_status(set).await.map(drop)
    }

    async fn relabel(&self, pod: &Pod, hash: Text, because: &WriteCause) -> Result<(), Error> {
        let mut patch = Value::object();
        patch["metadata"]["labels"][history::HASH] = hash.into();
        let pods = self.pods.objects.with_cause(because);
        pods.patch(&NamespacedName::from_meta(pod.metadata()), &Patch::Merge(patch)).await.map(drop)
    }

    fn record_pod_finished(&self, set: &DaemonSet, pod: &Pod, node: &str) {
        let key = NamespacedName::from_meta(pod.metadata());
        if pod.status().phase() == "Failed" {
            self.back_off(set, node);
            let message =
                format!("Found failed daemon pod {key} on node {node}, will try to kill it");
            self.pods.events.warning(set, "FailedDaemonPod", message);
        } else {
            let message =
                format!("Found succeeded daemon pod {key} on node {node}, will try to delete it");
            self.pods.events.normal(set, "SucceededDaemonPod", message);
        }
    }

    /// Starts the back-off of a node, or doubles it.
    fn back_off(&self, set: &DaemonSet, node: &str) {
        let now = self.clock.now();
        let key = (set.metadata().uid().into(), set.metadata().generation(), node.into());
        let mut rests = self.failed_pod_backoffs.lock().unwrap_or_else(PoisonError::into_inner);
        rests.retain(|_, rest| rest.until + 2 * MAX_BACKOFF > now);
        let length =
            rests.get(&key).map_or(INITIAL_BACKOFF, |rest| (rest.length * 2).min(MAX_BACKOFF));
        rests.insert(key, NodeBackoff { until: now + length, length });
    }

    /// The nodes that are in back-off now.
    fn nodes_in_backoff(&self, set: &DaemonSet, now: i64) -> HashMap<Text, NodeBackoff> {
        let rests = self.failed_pod_backoffs.lock().unwrap_or_else(PoisonError::into_inner);
        let (uid, generation) = (set.metadata().uid(), set.metadata().generation());
        let ours = rests
            .iter()
            .filter(|((of, at, _), rest)| of == uid && *at == generation && rest.until > now);
        ours.map(|((_, _, node), rest)| (node.clone(), *rest)).collect()
    }
}

/// The sets to reconcile because a node has changed.
fn affected_sets(
    node: &Node,
    sets: &CachedApi<DaemonSet>,
    nodes: &CachedApi<Node>,
    pods: &CachedApi<Pod>,
) -> Vec<NamespacedName> {
    let name = node.metadata().name();
    let gone = nodes.get(&NamespacedName::new("", name)).is_none();
    let here = pods.by_index("spec.nodeName", name);
    let owners: HashSet<&str> =
        here.iter().filter_map(|pod| Some(pod.metadata().controller_ref()?.uid())).collect();
    let all = sets.all().into_iter().filter(|set| {
        let fit = DaemonPlacement::of(set).fit(node);
        let placed = owners.contains(set.metadata().uid());
        let misplaced = placed && set.status().number_misscheduled() > 0;
        gone || fit.should_run && !placed || !fit.should_continue_running && placed || misplaced
    });
    all.map(|set| NamespacedName::from_meta(set.metadata())).collect()
}
