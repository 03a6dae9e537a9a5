//! Computes the steps for a DaemonSet. Pure, so its tests need no cluster.

use std::collections::{BTreeMap, HashSet};

use api::{
    apps::{ControllerRevision, DaemonSet, DaemonSetStatus},
    core::{Node, Pod},
};
use object::Text;
use runtime::Step;
use schema::Kind;

use super::{
    placement::{DaemonPlacement, target},
    rollout::{self, RolloutLimits},
    status,
};
use crate::{
    history::{self, RevisionHistory},
    pods::preference_order,
    template,
};

/// Maximum number of pods that one reconcile creates, and that it deletes.
const BURST: usize = 250;

/// The observed state that the plan is computed from.
#[derive(Debug)]
pub(super) struct PlanInput<'a> {
    pub(super) set: &'a DaemonSet,
    pub(super) pods: Vec<Pod>,
    pub(super) revisions: Vec<ControllerRevision>,
    pub(super) nodes: Vec<Node>,
    /// Nodes in back-off: a failed pod is not replaced there for now.
    pub(super) nodes_in_backoff: HashSet<Text>,
    pub(super) now: i64,
}

/// A step of the plan.
#[derive(Debug, PartialEq)]
pub(super) enum Action {
    /// Record the template, which has no revision yet.
    CreateRevision(ControllerRevision),
    UpdateRevision(ControllerRevision),
    DeleteRevision(ControllerRevision),
    Relabel(Pod, Text),
    Create(Pod),
    Delete(Pod),
    /// Delete a finished pod; a later reconcile creates its replacement.
    Replace {
        pod: Pod,
        node: Text,
    },
    UpdateStatus(DaemonSetStatus),
}

/// The pods of each node; a finished pod that is being deleted does not count.
pub(super) type ByNode<'a> = BTreeMap<&'a str, Vec<&'a Pod>>;

/// Groups the pods by node, in the order in which they are preferred.
pub(super) fn by_node<'a>(scene: &'a PlanInput<'_>) -> ByNode<'a> {
    let mut nodes = ByNode::new();
    for pod in scene.pods.iter().filter(|pod| !(pod.is_terminating() && pod.is_finished())) {
        if let Some(node) = target(pod) {
            nodes.entry(node).or_default().push(pod);
        }
    }
    for pods in nodes.values_mut() {
        pods.sort_by_cached_key(|pod| preference_order(pod));
    }
    nodes
}

/// Computes the steps for a DaemonSet.
pub(super) fn plan(scene: &PlanInput<'_>) -> Vec<Step<Action>> {
    let set = scene.set;
    let step = |rule: &str| {
        let because = set.write_cause(rule);
        move |act| Step { action: act, cause: because.clone() }
    };
    let patch = history::patch(set.spec().template());
    let history = RevisionHistory::new(scene.revisions.clone(), &patch);
    let Some(current) = history.current.last() else {
        let hash = template::hash(set.spec().template(), set.status().collision_count());
        let mut labels = set.spec().template().metadata().labels().clone();
        labels.insert(history::HASH, hash.clone());
        let new = history::revision(set, &labels, (&hash, patch), history.number());
        return vec![step("the template has no revision")(Action::CreateRevision(new))];
    };
    let mut steps: Vec<_> =
        number(scene, &history, current).into_iter().map(step("the revision is current")).collect();
    let hash = hash_of(current);
    let daemons = Planner { scene, placing: DaemonPlacement::of(set), nodes: by_node(scene), hash };
    let managed = daemons.manage();
    if managed.is_empty() && set.spec().update_strategy().type_() == "RollingUpdate" {
        let rolled = daemons.roll();
        steps.extend(rolled.into_iter().map(step("the template has changed")));
    }
    steps.extend(managed.into_iter().map(step("every node has one pod")));
    steps.extend(daemons.forget(&history).into_iter().map(step("the history is too long")));
    let status = status::status(scene, &daemons.placing, &daemons.nodes, hash);
    let changed = (status != *set.status()).then_some(Action::UpdateStatus(status));
    steps.extend(changed.into_iter().map(step("status has changed")));
    steps
}

/// The hash label of a revision, or else its name.
pub(super) fn hash_of(revision: &ControllerRevision) -> &str {
    let meta = revision.metadata();
    meta.labels().get(history::HASH).unwrap_or(meta.name())
}

/// Gives the current revision the highest number, and merges duplicates of it.
fn number(
    scene: &PlanInput<'_>,
    history: &RevisionHistory,
    current: &ControllerRevision,
) -> Vec<Action> {
    let mut acts = Vec::new();
    if current.revision() < history.number() {
        acts.push(Action::UpdateRevision(current.clone().with_revision(history.number())));
    }
    let hash = hash_of(current);
    let [doubles @ .., _] = &*history.current else { return acts };
    if !doubles.is_empty() {
        let other = |pod: &&Pod| {
            let label = pod.metadata().labels().get(history::HASH);
            doubles.iter().any(|double| label == Some(hash_of(double)))
        };
        let moved = scene.pods.iter().filter(other);
        acts.extend(moved.map(|pod| Action::Relabel(pod.clone(), hash.into())));
        acts.extend(doubles.iter().cloned().map(Action::DeleteRevision));
    }
    acts
}

/// The inputs of the steps, computed once.
struct Planner<'a> {
    scene: &'a PlanInput<'a>,
    placing: DaemonPlacement<'a>,
    nodes: ByNode<'a>,
    hash: &'a str,
}

impl Planner<'_> {
    /// Ensures one pod on every node that the set fits, and none elsewhere.
    fn manage(&self) -> Vec<Action> {
        let (mut acts, mut known) = (Vec::new(), HashSet::new());
        for node in &self.scene.nodes {
            let name = node.metadata().name();
            known.insert(name);
            let (fit, pods) = (self.placing.fit(node), self.nodes.get(name));
            match pods {
                None if fit.should_run => acts.push(self.create(name)),
                None => {}
                Some(pods) if fit.should_continue_running => {
                    acts.extend(self.plan_node(name, pods, fit.should_run));
                }
                Some(pods) => acts.extend(delete(pods.iter().copied())),
            }
        }
        // Unscheduled pods pinned to a node that does not exist: they can never be scheduled.
        let lost = self.nodes.iter().filter(|(node, _)| !known.contains(*node));
        let lost =
            lost.flat_map(|(_, pods)| pods.iter().copied()).filter(|pod| !pod.is_scheduled());
        acts.extend(delete(lost));
        limit(acts)
    }

    /// Plans the pods of a node that the set fits.
    fn plan_node(&self, node: &str, pods: &[&Pod], starts: bool) -> Vec<Action> {
        let alive = pods.iter().copied().filter(|pod| !pod.is_terminating());
        let (ended, running): (Vec<&Pod>, Vec<&Pod>) = alive.partition(|pod| pod.is_finished());
        let rests = |pod: &&&Pod| {
            pod.status().phase() == "Failed" && self.scene.nodes_in_backoff.contains(node)
        };
        let replaced = ended.iter().filter(|pod| !rests(pod));
        let mut acts: Vec<Action> = replaced
            .map(|pod| Action::Replace { pod: (*pod).clone(), node: node.into() })
            .collect();
        if !RolloutLimits::surges(self.scene.set) {
            acts.extend(delete(running.into_iter().skip(1)));
            return acts;
        }
        if running.is_empty() && starts {
            acts.push(self.create(node));
        } else if running.len() > 1 {
            acts.extend(self.plan_surge_node(&running));
        }
        acts
    }

    /// Plans a node with an old and a new pod (`maxSurge`): the old pod stays while it is ready and
    /// the new one is not available.
    fn plan_surge_node(&self, running: &[&Pod]) -> Vec<Action> {
        let is_new = |pod: &&&Pod| pod.metadata().labels().get(history::HASH) == Some(self.hash);
        let (new, old): (Vec<&Pod>, Vec<&Pod>) = running.iter().partition(|pod| is_new(pod));
        let extra = new.iter().skip(1).chain(old.iter().skip(1)).copied();
        let mut acts: Vec<Action> = delete(extra).collect();
        if let (Some(new), Some(old)) = (new.first(), old.first())
            && (!old.is_ready() || rollout::is_available(new, self.scene))
        {
            acts.push(Action::Delete((*old).clone()));
        }
        acts
    }

    fn roll(&self) -> Vec<Action> {
        let rolled = rollout::roll(self.scene, &self.placing, &self.nodes, self.hash);
        let created = rolled.nodes.into_iter().map(|node| self.create(node));
        let deleted = rolled.pods.into_iter().map(|pod| Action::Delete(pod.clone()));
        limit(created.chain(deleted).collect())
    }

    fn create(&self, node: &str) -> Action {
        Action::Create(self.placing.pod(node, self.hash))
    }

    fn forget(&self, history: &RevisionHistory) -> Vec<Action> {
        let used = self.scene.pods.iter();
        let used = used.filter_map(|pod| pod.metadata().labels().get(history::HASH)).collect();
        let limit = self.scene.set.spec().revision_history_limit();
        let gone = history.outdated(limit, &used, hash_of);
        gone.into_iter().cloned().map(Action::DeleteRevision).collect()
    }
}

fn delete<'a>(pods: impl Iterator<Item = &'a Pod>) -> impl Iterator<Item = Action> {
    pods.filter(|pod| !pod.is_terminating()).map(|pod| Action::Delete(pod.clone()))
}

fn limit(mut acts: Vec<Action>) -> Vec<Action> {
    let (mut creates, mut deletes) = (0, 0);
    acts.retain(|act| {
        let counted = if matches!(act, Action::Create(_)) { &mut creates } else { &mut deletes };
        *counted += 1;
        *counted <= BURST
    });
    acts
}

#[cfg(test)]
mod tests;
