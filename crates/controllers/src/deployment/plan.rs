//! Computes the steps for a Deployment. Pure, so its tests need no cluster.

use std::cmp::Reverse;

use api::{
    apps::{Deployment, DeploymentStatus, ReplicaSet},
    core::Pod,
};
use object::{Map, OwnerReference};
use runtime::Step;
use schema::Kind;

use super::{
    revision::{self, same_template},
    rollout::{self, RolloutBounds, proportional},
    status,
};
use crate::conditions::Conditions;

/// The observed state that the plan is computed from.
#[derive(Debug)]
pub(super) struct PlanInput<'a> {
    pub(super) deployment: &'a Deployment,
    pub(super) sets: Vec<ReplicaSet>,
    /// The pods of all these ReplicaSets.
    pub(super) pods: Vec<Pod>,
    pub(super) now: i64,
}

/// A step of the plan.
#[derive(Debug, PartialEq)]
pub(super) enum Action {
    Create(ReplicaSet),
    Update(ReplicaSet),
    /// Update the ReplicaSet, which already has its new size.
    Scale {
        set: ReplicaSet,
        from: i32,
        to: i32,
    },
    Delete(ReplicaSet),
    Annotate(Map<String>),
    UpdateStatus(DeploymentStatus),
}

/// Computes the steps for a Deployment.
pub(super) fn plan(scene: &PlanInput<'_>) -> Vec<Step<Action>> {
    let deployment = scene.deployment;
    let mut sets: Vec<&ReplicaSet> = scene.sets.iter().collect();
    sets.sort_by_key(|set| (set.metadata().creation_timestamp(), set.metadata().name()));
    let new = sets.iter().copied().find(|set| same_template(set, deployment));
    let old: Vec<_> =
        sets.iter().copied().filter(|set| new.is_none_or(|new| set != &new)).collect();
    let rollout = Rollout { scene, new, old, bounds: RolloutBounds::of(deployment) };
    let mut steps = if deployment.is_terminating() { Vec::new() } else { rollout.steps() };
    merge_updates(&mut steps);
    let acts =
        steps.iter().any(|step| !matches!(step.action, Action::Annotate(_) | Action::Update(_)));
    if !acts && !deployment.is_terminating() {
        steps.extend(rollout.clean_up_old_sets());
    }
    if !steps.iter().any(|step| matches!(step.action, Action::Create(_))) {
        steps.extend(rollout.report());
    }
    steps
}

/// Merges updates of one ReplicaSet into the last one, which includes the others: two updates would
/// conflict.
fn merge_updates(steps: &mut Vec<Step<Action>>) {
    let name = |step: &Step<Action>| match &step.action {
        Action::Update(set) | Action::Scale { set, .. } => Some(set.metadata().name().to_owned()),
        _ => None,
    };
    let names: Vec<_> = steps.iter().map(name).collect();
    let mut at = 0;
    steps.retain(|_| {
        at += 1;
        names[at - 1].is_none() || !names[at..].contains(&names[at - 1])
    });
}

/// The ReplicaSets of a Deployment during a rollout.
struct Rollout<'a> {
    scene: &'a PlanInput<'a>,
    /// The ReplicaSet of the current template.
    new: Option<&'a ReplicaSet>,
    /// All other ReplicaSets, the oldest first.
    old: Vec<&'a ReplicaSet>,
    bounds: RolloutBounds,
}

impl Rollout<'_> {
    fn steps(&self) -> Vec<Step<Action>> {
        let deployment = self.scene.deployment;
        if deployment.spec().paused() || self.was_scaled() {
            let mut steps = self.plan_revision_annotations();
            steps.extend(self.scale_proportionally());
            return steps;
        }
        if deployment.spec().strategy().type_() == "Recreate" {
            self.recreate()
        } else {
            self.roll()
        }
    }

    /// RollingUpdate strategy: scales the new ReplicaSet up and old ones down, within the bounds.
    fn roll(&self) -> Vec<Step<Action>> {
        let all = rollout::sum(self.all().map(|set| set.spec().replicas()));
        let Some(new) = self.new else {
            return vec![self.create(self.bounds.new_set_size(0, all))];
        };
        let mut steps = self.plan_revision_annotations();
        let size = self.bounds.new_set_size(new.spec().replicas(), all);
        let grown = self.scale(new, size, "the new template has too few pods");
        if grown.is_some() {
            steps.extend(grown);
            return steps;
        }
        for (set, size) in self.old.iter().zip(self.bounds.old_set_sizes(new, &self.old)) {
            steps.extend(self.scale(set, size, "an old template has too many pods"));
        }
        steps
    }

    /// Recreate strategy: all old pods must terminate before new ones are created.
    fn recreate(&self) -> Vec<Step<Action>> {
        let down = self.old.iter().filter_map(|set| self.scale(set, 0, "old pods must go first"));
        let down: Vec<_> = down.collect();
        let mut steps = self.plan_revision_annotations();
        if !down.is_empty() || self.old_pods_run() {
            steps.extend(down);
            return steps;
        }
        match self.new {
            None => steps.push(self.create(self.bounds.replicas)),
            Some(new) => {
                steps.extend(self.scale(new, self.bounds.replicas, "the new pods may start"));
            }
        }
        steps
    }

    fn old_pods_run(&self) -> bool {
        let is_new = |pod: &Pod| {
            let owner = pod.metadata().controller_ref().map(OwnerReference::uid);
            self.new.is_some_and(|new| owner == Some(new.metadata().uid()))
        };
        self.scene.pods.iter().any(|pod| !pod.is_finished() && !is_new(pod))
    }

    /// Whether the Deployment was scaled since its ReplicaSets were last updated.
    fn was_scaled(&self) -> bool {
        let active = self.all().filter(|set| set.spec().replicas() > 0);
        active.filter_map(revision::desired).any(|desired| desired != self.bounds.replicas)
    }

    /// Distributes the Deployment's replicas over its ReplicaSets proportionally, without a
    /// rollout.
    fn scale_proportionally(&self) -> Vec<Step<Action>> {
        const WHY: &str = "the deployment was scaled";
        let active: Vec<_> = self.all().filter(|set| set.spec().replicas() > 0).collect();
        let replicas = self.bounds.replicas;
        let latest = self.new.or_else(|| self.old.last().copied());
        let only = match *active {
            [] => latest,
            [only] => Some(only),
            _ => None,
        };
        if let Some(only) = only {
            return self.scale(only, replicas, WHY).into_iter().collect();
        }
        let is_full = |new: &ReplicaSet| {
            new.spec().replicas() == replicas
                && revision::desired(new) == Some(replicas)
                && new.status().available_replicas() == replicas
        };
        let sizes = match self.new {
            Some(new) if is_full(new) => {
                active.iter().map(|set| if *set == new { replicas } else { 0 }).collect()
            }
            _ if self.scene.deployment.spec().strategy().type_() == "Recreate" => return vec![],
            _ => proportional(self.bounds, &active),
        };
        let scaled = active.iter().zip(sizes).filter_map(|(set, size)| self.scale(set, size, WHY));
        scaled.collect()
    }

    /// Updates the revision annotations of the current ReplicaSet and of the Deployment.
    fn plan_revision_annotations(&self) -> Vec<Step<Action>> {
        let Some(new) = self.new else { return Vec::new() };
        let number = self.next_number();
        let renewed = revision::with_current_annotations(new, self.scene.deployment, number);
        let current = renewed.as_ref().unwrap_or(new).metadata().annotations();
        let notes = revision::numbered(self.scene.deployment, current.get(revision::REVISION));
        let update = renewed.map(|set| self.step(Action::Update(set), "the revision is current"));
        let note =
            notes.map(|notes| self.step(Action::Annotate(notes), "the revision has changed"));
        update.into_iter().chain(note).collect()
    }

    fn next_number(&self) -> i64 {
        let last = self.old.iter().map(|set| revision::revision(set.metadata())).max();
        last.unwrap_or_default().saturating_add(1)
    }

    fn create(&self, size: i32) -> Step<Action> {
        let deployment = self.scene.deployment;
        let set = revision::new_set(deployment, size, self.bounds.max_total(), self.next_number());
        self.step(Action::Create(set), "no replica set has this template")
    }

    /// Scales a ReplicaSet, or only updates its annotations if it has the size already.
    fn scale(&self, set: &ReplicaSet, to: i32, why: &str) -> Option<Step<Action>> {
        let from = set.spec().replicas();
        let mut set = match self.pending_annotations(set) {
            Some(renewed) => renewed,
            None => set.clone(),
        };
        let noted = revision::set_replicas_annotations(
            &mut set,
            self.bounds.replicas,
            self.bounds.max_total(),
        );
        if from == to {
            let worth = noted && to > 0;
            return worth.then(|| self.step(Action::Update(set), "the deployment was scaled"));
        }
        set.spec_mut().set_replicas(to);
        Some(self.step(Action::Scale { set, from, to }, why))
    }

    /// The current ReplicaSet with the annotations that `plan_revision_annotations` writes.
    fn pending_annotations(&self, set: &ReplicaSet) -> Option<ReplicaSet> {
        let new = self.new.filter(|new| *new == set)?;
        revision::with_current_annotations(new, self.scene.deployment, self.next_number())
    }

    /// Deletes old ReplicaSets beyond `revisionHistoryLimit`.
    fn clean_up_old_sets(&self) -> Vec<Step<Action>> {
        let deployment = self.scene.deployment;
        let complete = status::is_complete(deployment, deployment.status());
        let limit = usize::try_from(deployment.spec().revision_history_limit()).unwrap_or_default();
        if !complete && !deployment.spec().paused() || limit == i32::MAX as usize {
            return Vec::new();
        }
        let is_empty = |set: &&&ReplicaSet| {
            set.status().replicas() == 0
                && set.spec().replicas() == 0
                && set.metadata().generation() <= set.status().observed_generation()
                && !set.is_terminating()
        };
        let mut past: Vec<_> = self.old.iter().filter(is_empty).copied().collect();
        past.sort_by_key(|set| Reverse(revision::revision(set.metadata())));
        let gone = past.into_iter().skip(limit);
        gone.map(|set| self.step(Action::Delete(set.clone()), "the history is too long")).collect()
    }

    fn report(&self) -> Option<Step<Action>> {
        let PlanInput { deployment, now, .. } = *self.scene;
        let all: Vec<_> = self.all().collect();
        let mut status = status::status(deployment, self.new, &all, now);
        let paused = deployment.spec().paused();
        let current = status.conditions().condition("Progressing").map(|c| c.reason().to_owned());
        let deadline = status::has_deadline(deployment);
        let was_paused = current.as_deref() == Some("DeploymentPaused");
        if deployment.is_terminating() {
        } else if paused && deadline && !was_paused {
            let why = "Deployment is paused".to_owned();
            status::progress(&mut status, "Unknown", "DeploymentPaused", why, now);
        } else if !paused && was_paused {
            let why = "Deployment is resumed".to_owned();
            status::progress(&mut status, "Unknown", "DeploymentResumed", why, now);
        } else if !paused {
            status::update_progress(&mut status, deployment, self.new, now);
        }
        let changed = status != *deployment.status();
        changed.then(|| self.step(Action::UpdateStatus(status), "status has changed"))
    }

    fn all(&self) -> impl Iterator<Item = &ReplicaSet> {
        self.old.iter().copied().chain(self.new)
    }

    fn step(&self, act: Action, rule: &str) -> Step<Action> {
        Step { action: act, cause: self.scene.deployment.write_cause(rule) }
    }
}

#[cfg(test)]
mod tests {
    use api::{
        apps::{DeploymentSpec, DeploymentStrategy, ReplicaSetStatus, RollingUpdateDeployment},
        core::PodTemplateSpec,
    };
    use object::ObjectMeta;

    use super::*;

    fn deployment(replicas: i32, image: &str) -> Deployment {
        let mut template = PodTemplateSpec::new();
        template.spec_mut().set_node_name(image);
        let rolling = RollingUpdateDeployment::new().with_max_surge("25%").with_max_unavailable(1);
        let strategy = DeploymentStrategy::new().with_rolling_update(rolling);
        let spec = DeploymentSpec::new().with_replicas(replicas).with_template(template);
        Deployment::new()
            .with_metadata(ObjectMeta::new().with_name("web").with_namespace("default"))
            .with_spec(spec.with_strategy(strategy))
    }

    fn set(of: &Deployment, revision: i64, size: i32, available: i32) -> ReplicaSet {
        let bounds = RolloutBounds::of(of);
        let mut set = revision::new_set(of, size, bounds.max_total(), revision);
        set.metadata_mut().set_creation_timestamp(format!("2030-01-01T00:00:0{revision}Z"));
        let status = ReplicaSetStatus::new().with_replicas(size);
        set.with_status(status.with_available_replicas(available))
    }

    fn acts(deployment: &Deployment, sets: Vec<ReplicaSet>) -> Vec<String> {
        let steps = plan(&PlanInput { deployment, sets, pods: vec![], now: 0 });
        let named = |set: &ReplicaSet| {
            format!("{} {}", revision::revision(set.metadata()), set.spec().replicas())
        };
        let said = steps.iter().filter_map(|step| match &step.action {
            Action::Create(set) => Some(format!("create {}", named(set))),
            Action::Update(set) => Some(format!("update {}", named(set))),
            Action::Scale { set, .. } => Some(format!("scale {}", named(set))),
            Action::Delete(set) => Some(format!("delete {}", named(set))),
            Action::Annotate(notes) => notes.get(revision::REVISION).map(|n| format!("number {n}")),
            Action::UpdateStatus(_) => None,
        });
        said.collect()
    }

    #[test]
    fn a_rollout_goes_step_by_step() {
        let (a, b) = (deployment(4, "a"), deployment(4, "b"));
        assert_eq!(acts(&a, vec![]), ["create 1 4"]);
        assert_eq!(acts(&a, vec![set(&a, 1, 4, 4)]), ["number 1"]);
        assert_eq!(acts(&b, vec![set(&a, 1, 4, 4)]), ["create 2 1"]);
        assert_eq!(acts(&b, vec![set(&a, 1, 4, 4), set(&b, 2, 1, 0)]), ["number 2", "scale 1 3"]);
        let last = vec![set(&a, 1, 0, 0), set(&b, 2, 4, 4)];
        assert_eq!(acts(&b, last), ["number 2"]);
    }

    #[test]
    fn an_old_template_becomes_the_newest_revision() {
        let (a, b) = (deployment(1, "a"), deployment(1, "b"));
        let sets = vec![set(&a, 1, 0, 0), set(&b, 2, 1, 1)];
        assert_eq!(acts(&a, sets), ["number 3", "scale 3 1"]);
    }

    #[test]
    fn recreating_waits_for_the_old() {
        let mut b = deployment(2, "b");
        b.spec_mut().strategy_mut().set_type("Recreate");
        let a = deployment(2, "a");
        assert_eq!(acts(&b, vec![set(&a, 1, 2, 2)]), ["scale 1 0"]);
        assert_eq!(acts(&b, vec![set(&a, 1, 0, 0)]), ["create 2 2"]);
    }

    #[test]
    fn scaling_and_pausing_do_not_roll() {
        let (a, mut b) = (deployment(4, "a"), deployment(8, "b"));
        b.spec_mut().set_paused(true);
        assert_eq!(acts(&b, vec![set(&a, 1, 4, 4)]), ["scale 1 8"]);
        let more = deployment(8, "a");
        assert_eq!(acts(&more, vec![set(&a, 1, 4, 4)]), ["number 1", "scale 1 8"]);
    }

    #[test]
    fn history_is_limited() {
        let mut now = deployment(1, "x");
        now.spec_mut().set_revision_history_limit(1);
        let sets: Vec<_> = (1..=3).map(|n| set(&deployment(1, &n.to_string()), n, 0, 0)).collect();
        let current = set(&now, 4, 1, 1);
        let status = plan(&PlanInput {
            deployment: &now,
            sets: [sets.clone(), vec![current.clone()]].concat(),
            pods: vec![],
            now: 0,
        });
        let Some(Step { action: Action::UpdateStatus(status), .. }) = status.into_iter().last()
        else {
            panic!("no report")
        };
        let now = now.with_status(status);
        let said = acts(&now, [sets, vec![current]].concat());
        assert_eq!(said, ["number 4", "delete 2 0", "delete 1 0"]);
    }
}
