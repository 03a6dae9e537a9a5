//! Deployment controller: replaces a Deployment's pods by pods of its newest template, a few at a
//! time. Each template has a ReplicaSet, which is scaled up or down.
//!
//! ```text
//!  mod.rs       start, reconcile: carries out the plan
//!  plan.rs      plan: paused, scaled, Recreate, RollingUpdate
//!  rollout.rs   how far each ReplicaSet may be scaled now
//!  revision.rs  the ReplicaSet of a template; revisions and their history
//!  status.rs    counts and conditions
//! ```

mod plan;
mod revision;
mod rollout;
mod status;

use std::{sync::Arc, time::Duration};

use api::{
    apps::{Deployment, ReplicaSet},
    core::Pod,
};
use client::Error;
use object::{Clock, NamespacedName, WriteCause, wait_seconds};
use runtime::{CachedApi, Context, Controller, EventRecorder, Reconcile, Requeue, Step};
use schema::Kind;

use self::plan::{Action, PlanInput, plan};
use crate::{
    Config,
    claim::{claim_owned, index_orphans, potential_owners},
};

pub(crate) fn start(cx: &Context, config: &Config) {
    let deployments = Deployments {
        deployments: cx.cached_api(),
        sets: cx.cached_api(),
        pods: cx.cached_api(),
        events: EventRecorder::start(cx, "deployment-controller", ""),
        clock: config.clock.clone(),
    };
    index_orphans(&deployments.sets);
    let (known, sets) = (deployments.deployments.clone(), deployments.sets.clone());
    Controller::new("deployment", cx, deployments)
        .owns::<ReplicaSet>()
        .watches::<ReplicaSet>(move |set| potential_owners(set, &known))
        .watches::<Pod>(move |pod| recreate_deployments_of(pod, &sets))
        .start();
}

/// Reconciler of Deployments.
#[derive(Debug)]
struct Deployments {
    deployments: CachedApi<Deployment>,
    sets: CachedApi<ReplicaSet>,
    pods: CachedApi<Pod>,
    events: EventRecorder,
    clock: Arc<dyn Clock>,
}

impl Reconcile for Deployments {
    type Kind = Deployment;

    async fn reconcile(
        &self,
        _: &NamespacedName,
        deployment: Option<Deployment>,
    ) -> Result<Requeue, Error> {
        let Some(deployment) = deployment else { return Ok(Requeue::OnChange) };
        let sets = claim_owned(&deployment, &self.deployments, &self.sets).await?;
        let pods = sets.iter().flat_map(|set| self.pods.owned_by(set)).collect();
        let now = self.clock.now();
        let steps = plan(&PlanInput { deployment: &deployment, sets, pods, now });
        let mut latest = deployment;
        for Step { action: act, cause: because } in steps {
            latest = self.act(latest, act, &because).await?;
        }
        Ok(status::deadline(&latest, now).map_or(Requeue::OnChange, Requeue::After))
    }
}

impl Deployments {
    /// Carries out one step; returns the updated Deployment.
    async fn act(
        &self,
        old: Deployment,
        act: Action,
        because: &WriteCause,
    ) -> Result<Deployment, Error> {
        let sets = self.sets.with_cause(because);
        let deployments = self.deployments.with_cause(because);
        match act {
            Action::Create(set) => return self.create(old, set, because).await,
            Action::Update(set) => drop(sets.update(set).await?),
            Action::Scale { set, from, to } => {
                let way = if from < to { "up" } else { "down" };
                let name = set.metadata().name().to_owned();
                sets.update(set).await?;
                let message = format!("Scaled {way} replica set {name} from {from} to {to}");
                self.events.normal(&old, "ScalingReplicaSet", message);
            }
            Action::Delete(set) => sets.delete(&set).await?,
            Action::Annotate(annotations) => {
                let mut new = old;
                new.metadata_mut().set_annotations(annotations);
                // through the status subresource, which does not increment the generation
                return deployments.update_status(new).await;
            }
            Action::UpdateStatus(status) => {
                return deployments.update_status(old.with_status(status)).await;
            }
        }
        Ok(old)
    }

    async fn create(
        &self,
        mut old: Deployment,
        set: ReplicaSet,
        because: &WriteCause,
    ) -> Result<Deployment, Error> {
        let (name, replicas) = (set.metadata().name().to_owned(), set.spec().replicas());
        let wanted = set.clone();
        match self.sets.with_cause(because).create(set).await {
            Ok(_) if replicas > 0 => {
                let message = format!("Scaled up replica set {name} from 0 to {replicas}");
                self.events.normal(&old, "ScalingReplicaSet", message);
            }
            Ok(_) => {}
            Err(error) if error.is_namespace_terminating() => {}
            Err(error) if error.is_already_exists() => {
                let key = NamespacedName::from_meta(wanted.metadata());
                let other = self.sets.api().get(&key).await?;
                let is_ours = other
                    .metadata()
                    .controller_ref()
                    .is_some_and(|o| o.uid() == old.metadata().uid());
                if is_ours && revision::same_template(&other, &old) {
                    self.sets.cache().observe_write(&other); // created by us, not yet in the cache
                    return Ok(old);
                }
                let collisions =
                    old.status().collision_count().unwrap_or_default().saturating_add(1);
                old.status_mut().set_collision_count(collisions);
                return self.deployments.with_cause(because).update_status(old).await;
            }
            Err(error) => {
                let message = format!("Failed to create new replica set {name:?}: {error}");
                self.events.warning(&old, "ReplicaSetCreateError", message);
                return Err(error);
            }
        }
        let now = self.clock.now();
        let why = format!("Created new replica set {name:?}");
        status::progress(old.status_mut(), "True", "NewReplicaSetCreated", why, now);
        self.deployments.with_cause(because).update_status(old).await
    }
}

/// The Deployment to reconcile because a pod finished or is terminating: with the Recreate strategy
/// it waits for its old pods.
fn recreate_deployments_of(pod: &Pod, sets: &CachedApi<ReplicaSet>) -> Vec<NamespacedName> {
    let Some(owner) = pod.metadata().controller_ref().filter(|owner| owner.kind() == "ReplicaSet")
    else {
        return Vec::new();
    };
    if !(pod.is_terminating() || pod.is_finished()) {
        return Vec::new();
    }
    let set = sets.get(&NamespacedName::new(pod.metadata().namespace(), owner.name()));
    let above = set.as_ref().and_then(|set| set.meta().controller_ref());
    above
        .map(|above| NamespacedName::new(pod.metadata().namespace(), above.name()))
        .into_iter()
        .collect()
}

/// Converts seconds to a duration.
fn seconds(n: i64) -> Duration {
    wait_seconds(n)
}
