//! Computes the steps for a StatefulSet. Pure, so its tests need no cluster.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap, HashSet},
};

use api::{
    apps::{ControllerRevision, RollingUpdateStatefulSetStrategy, StatefulSet, StatefulSetStatus},
    core::{PersistentVolumeClaim, Pod, PodTemplateSpec},
};
use object::{IntOrString, Map};
use runtime::Step;
use schema::Kind;

use super::{
    pod::{claims, new_pod, ordinal, range, revision, with_identity_and_storage},
    retention,
};
use crate::history::{self, RevisionHistory};

/// Label of a revision with its hash; the other labels are the template's.
const HASH: &str = "controller.kubernetes.io/hash";
/// Maximum number of pods that one reconcile creates.
const BURST: usize = 500;

/// The observed state that the plan is computed from.
#[derive(Debug)]
pub(super) struct PlanInput<'a> {
    pub(super) set: &'a StatefulSet,
    pub(super) pods: Vec<Pod>,
    pub(super) revisions: Vec<ControllerRevision>,
    /// Claims by name.
    pub(super) claims: HashMap<String, PersistentVolumeClaim>,
    pub(super) now: i64,
}

/// A step of the plan.
#[derive(Debug, PartialEq)]
pub(super) enum Action {
    CreateRevision(ControllerRevision),
    Renumber(ControllerRevision),
    Forget(ControllerRevision),
    /// Create a claim for a pod.
    CreateClaim(PersistentVolumeClaim, Pod),
    /// Update a claim, which has its new owner references.
    UpdateClaimOwners(PersistentVolumeClaim),
    /// Warn that another object controls this claim, so the retention policy is ignored.
    Conflict(String),
    Create(Pod),
    Update(Pod),
    Delete(Pod),
    UpdateStatus(StatefulSetStatus),
}

/// Computes the steps for a StatefulSet.
pub(super) fn plan(scene: &PlanInput<'_>) -> Vec<Step<Action>> {
    let set = scene.set;
    let patch = history::patch(set.spec().template());
    let history = RevisionHistory::new(scene.revisions.clone(), &patch);
    let Some(update) = history.current.last() else {
        let hash = history::hash(&patch, Some(set.status().collision_count().unwrap_or_default()));
        let mut labels: Map<String> = set.spec().template().metadata().labels().clone();
        labels.insert(HASH, hash.clone());
        let new = history::revision(set, &labels, (&hash, patch), history.number());
        let cause = set.write_cause("the template has no revision");
        return vec![Step { action: Action::CreateRevision(new), cause }];
    };
    let named = |revision: &&ControllerRevision| {
        revision.metadata().name() == set.status().current_revision()
    };
    let current = scene.revisions.iter().find(named).unwrap_or(update);
    let mut planner = Planner { scene, current, update, steps: Vec::new() };
    if update.revision() < history.number() {
        let renumbered = update.clone().with_revision(history.number());
        planner.step(Action::Renumber(renumbered), "the revision is current");
    }
    if !set.is_terminating() {
        planner.manage();
    }
    planner.forget(&history);
    planner.report();
    planner.steps
}

/// Collects the steps while the plan is computed.
struct Planner<'a> {
    scene: &'a PlanInput<'a>,
    current: &'a ControllerRevision,
    update: &'a ControllerRevision,
    steps: Vec<Step<Action>>,
}

impl Planner<'_> {
    fn manage(&mut self) {
        let set = self.scene.set;
        let numbers = range(set);
        let numbered = || self.scene.pods.iter().filter_map(|pod| Some((ordinal(set, pod)?, pod)));
        let mut replicas = BTreeMap::new();
        for (number, pod) in numbered().filter(|(number, _)| numbers.contains(number)) {
            replicas.entry(number).or_insert(pod);
        }
        let mut condemned: Vec<(i32, &Pod)> =
            numbered().filter(|(number, _)| !numbers.contains(number)).collect();
        condemned.sort_by_key(|(number, _)| Reverse(*number));
        let ordered = set.spec().pod_management_policy() != "Parallel";
        let mut missing = 0;
        for number in numbers.clone() {
            let pod = replicas.get(&number).copied();
            missing += usize::from(pod.is_none());
            if missing > BURST {
                break; // the API permits two billion replicas
            }
            if !self.replica(number, pod, ordered) && ordered {
                return;
            }
        }
        for (number, pod) in &condemned {
            self.own_claims(*number, pod);
        }
        let sick = replicas.values().copied().find(|pod| !self.is_serving(pod));
        let sick = sick.or_else(|| {
            condemned.iter().rev().map(|(_, pod)| *pod).find(|pod| !self.is_serving(pod))
        });
        for (_, pod) in &condemned {
            let waits = pod.is_terminating()
                || ordered && !self.is_available(pod) && sick.is_none_or(|sick| sick != *pod);
            if !waits {
                self.step(Action::Delete((*pod).clone()), "the set was scaled");
            }
            if ordered {
                return;
            }
        }
        if set.spec().update_strategy().type_() == "RollingUpdate" {
            let pods: Vec<&Pod> = replicas.into_values().collect();
            if pods.len() == numbers.len() {
                self.roll(&pods, ordered);
            }
        }
    }

    /// Plans one replica; returns whether the next one may be planned (OrderedReady).
    fn replica(&mut self, number: i32, pod: Option<&Pod>, ordered: bool) -> bool {
        let Some(pod) = pod else {
            self.create(number);
            return false;
        };
        if pod.is_finished() {
            if !pod.is_terminating() {
                self.step(Action::Delete(pod.clone()), "the pod has ended");
            }
            return false;
        }
        if pod.status().phase() == "Pending" {
            self.make_claims(number, pod);
        }
        if ordered && (pod.is_terminating() || !self.is_available(pod)) {
            return false;
        }
        if !pod.is_terminating() {
            self.own_claims(number, pod);
            if let Some(corrected) = with_identity_and_storage(self.scene.set, pod, number) {
                self.step(Action::Update(corrected), "the pod has lost its identity");
            }
        }
        true
    }

    fn create(&mut self, number: i32) {
        let (set, scene) = (self.scene.set, self.scene);
        let (template, name) = self.template(number);
        let pod = new_pod(set, &template, &name, number);
        let known = |claim: &PersistentVolumeClaim| scene.claims.get(claim.metadata().name());
        let wanted = claims(set, number);
        let found = || wanted.iter().filter_map(known);
        let stale = retention::deletes_scaled(set)
            && found().any(|claim| {
                let owners = claim.metadata().owner_references();
                owners.iter().any(|one| one.kind() == "Pod" && one.name() == pod.metadata().name())
            });
        if stale || found().any(Kind::is_terminating) {
            return; // they must be deleted first
        }
        self.make_claims(number, &pod);
        self.step(Action::Create(pod), "too few pods");
    }

    /// The template for the pod of this ordinal, and the name of its revision.
    fn template(&self, number: i32) -> (PodTemplateSpec, String) {
        let set = self.scene.set;
        let strategy = set.spec().update_strategy();
        let kept = match strategy.rolling_update() {
            Some(rolling) => rolling.partition().unwrap_or_default(),
            None if strategy.type_() == "RollingUpdate" => set.status().current_replicas(),
            None => 0,
        };
        let of =
            if number < range(set).start.saturating_add(kept) { self.current } else { self.update };
        (template_of(of), of.metadata().name().to_owned())
    }

    fn make_claims(&mut self, number: i32, pod: &Pod) {
        for claim in claims(self.scene.set, number) {
            if !self.scene.claims.contains_key(claim.metadata().name()) {
                self.step(Action::CreateClaim(claim, pod.clone()), "the pod has no such claim");
            }
        }
    }

    fn own_claims(&mut self, number: i32, pod: &Pod) {
        let (set, scene) = (self.scene.set, self.scene);
        let away = !range(set).contains(&number);
        for wanted in claims(set, number) {
            let Some(claim) = scene.claims.get(wanted.metadata().name()) else { continue };
            let Some(owned) = retention::with_retention_owners(claim, set, pod, away) else {
                continue;
            };
            if retention::is_controlled_elsewhere(claim, set, pod) {
                let name = claim.metadata().name();
                self.step(Action::Conflict(name.into()), "the claim is another's");
            }
            self.step(Action::UpdateClaimOwners(owned), "the policy decides whose a claim is");
        }
    }

    /// Deletes pods of old revisions, the highest ordinal first.
    fn roll(&mut self, pods: &[&Pod], ordered: bool) {
        let set = self.scene.set;
        let rolling = set.spec().update_strategy().rolling_update();
        let most = max_unavailable(set);
        let partition =
            rolling.and_then(RollingUpdateStatefulSetStrategy::partition).unwrap_or_default();
        let partition = usize::try_from(partition).unwrap_or_default().min(pods.len());
        let is_old =
            |pod: &&&Pod| revision(pod) != self.update.metadata().name() && !pod.is_terminating();
        let missing = pods.iter().filter(|pod| !self.is_serving(pod)).count();
        let spare = most.saturating_sub(missing);
        let old = || pods[partition..].iter().rev().filter(is_old).copied();
        let gone: Vec<&Pod> = if ordered {
            old().take(spare).collect()
        } else {
            let (serving, sick): (Vec<_>, Vec<_>) = old().partition(|pod| self.is_serving(pod));
            sick.into_iter().chain(serving.into_iter().take(spare)).collect()
        };
        for pod in gone {
            self.step(Action::Delete(pod.clone()), "the template has changed");
        }
    }

    fn forget(&mut self, history: &RevisionHistory) {
        let mut used: HashSet<&str> = self.scene.pods.iter().map(revision).collect();
        used.insert(self.current.metadata().name());
        used.insert(self.update.metadata().name());
        let idle = history.old.iter().filter(|one| !used.contains(one.metadata().name()));
        let limit = self.scene.set.spec().revision_history_limit();
        let many = idle.clone().count().saturating_sub(usize::try_from(limit).unwrap_or_default());
        for old in idle.take(many) {
            self.step(Action::Forget(old.clone()), "the history is too long");
        }
    }

    fn report(&mut self) {
        let set = self.scene.set;
        let (current, update) = (self.current.metadata().name(), self.update.metadata().name());
        let how_many = |is: &dyn Fn(&Pod) -> bool| {
            object::saturating_i32(self.scene.pods.iter().filter(|pod| is(pod)).count())
        };
        let of = |name: &str| how_many(&|pod| revision(pod) == name && !pod.is_terminating());
        let mut status = set
            .status()
            .clone()
            .with_observed_generation(set.metadata().generation())
            .with_replicas(how_many(&|_| true))
            .with_ready_replicas(how_many(&runs))
            .with_available_replicas(how_many(&|pod| runs(pod) && self.is_available(pod)))
            .with_current_replicas(of(current))
            .with_updated_replicas(of(update))
            .with_current_revision(current)
            .with_update_revision(update)
            .with_collision_count(set.status().collision_count().unwrap_or_default());
        let all = set.spec().replicas();
        if [status.updated_replicas(), status.ready_replicas(), status.replicas()] == [all; 3] {
            status.set_current_replicas(all);
            status.set_current_revision(update);
        }
        if status != *set.status() {
            self.step(Action::UpdateStatus(status), "status has changed");
        }
    }

    fn is_available(&self, pod: &Pod) -> bool {
        pod.is_available(self.scene.set.spec().min_ready_seconds(), self.scene.now)
    }

    fn is_serving(&self, pod: &Pod) -> bool {
        self.is_available(pod) && !pod.is_terminating()
    }

    fn step(&mut self, act: Action, rule: &str) {
        self.steps.push(Step { action: act, cause: self.scene.set.write_cause(rule) });
    }
}

/// How many pods may be unavailable during a rolling update.
pub(super) fn max_unavailable(set: &StatefulSet) -> usize {
    let rolling = set.spec().update_strategy().rolling_update();
    let most = rolling.and_then(|rolling| rolling.max_unavailable());
    let most = most.unwrap_or(IntOrString::Int(1)).scaled_value(set.spec().replicas(), false);
    usize::try_from(most.unwrap_or(1).max(1)).unwrap_or(1)
}

fn runs(pod: &Pod) -> bool {
    pod.status().phase() == "Running" && pod.is_ready()
}

fn template_of(revision: &ControllerRevision) -> PodTemplateSpec {
    let mut template = revision.data().with_raw_expanded().get("spec").get("template").clone();
    template.remove("$patch");
    template.into()
}
