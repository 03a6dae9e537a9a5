//! Replaces the pods of a Deployment, a few at a time, by those of its newest
//! template: one ReplicaSet per template, scaled up and down.
//!
//! ```text
//!  mod.rs       start, reconcile: does what the plan says
//!  plan.rs      plan: pause, scale, recreate, roll
//!  rollout.rs   how far which set may be scaled now
//!  revision.rs  the set of the template; revisions and their history
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
use object::{Cause, Clock, Key, wait_seconds};
use runtime::{Context, Controller, Next, Objects, Reconcile, Recorder, Step};
use schema::Kind;

use self::plan::{Act, Scene, plan};
use crate::{
    Config,
    claim::{claimed, index_orphans, wanted_by},
};

pub(crate) fn start(cx: &Context, config: &Config) {
    let deployments = Rollouts {
        deployments: cx.objects(),
        sets: cx.objects(),
        pods: cx.objects(),
        events: Recorder::start(cx, "deployment-controller", ""),
        clock: config.clock.clone(),
    };
    index_orphans(&deployments.sets);
    let (known, sets) = (deployments.deployments.clone(), deployments.sets.clone());
    Controller::new("deployment", cx, deployments)
        .owns::<ReplicaSet>()
        .watches::<ReplicaSet>(move |set| wanted_by(set, &known))
        .watches::<Pod>(move |pod| waiting_for(pod, &sets))
        .start();
}

#[derive(Debug)]
struct Rollouts {
    deployments: Objects<Deployment>,
    sets: Objects<ReplicaSet>,
    pods: Objects<Pod>,
    events: Recorder,
    clock: Arc<dyn Clock>,
}

impl Reconcile for Rollouts {
    type Kind = Deployment;

    async fn reconcile(&self, _: &Key, deployment: Option<Deployment>) -> Result<Next, Error> {
        let Some(deployment) = deployment else { return Ok(Next::OnChange) };
        let sets = claimed(&deployment, &self.deployments, &self.sets).await?;
        let pods = sets.iter().flat_map(|set| self.pods.owned_by(set)).collect();
        let now = self.clock.now();
        let steps = plan(&Scene { deployment: &deployment, sets, pods, now });
        let mut latest = deployment;
        for Step { act, because } in steps {
            latest = self.act(latest, act, &because).await?;
        }
        Ok(status::deadline(&latest, now).map_or(Next::OnChange, Next::After))
    }
}

impl Rollouts {
    /// Does one step; gives back the Deployment as it is then.
    async fn act(&self, old: Deployment, act: Act, because: &Cause) -> Result<Deployment, Error> {
        let sets = self.sets.because(because);
        let deployments = self.deployments.because(because);
        match act {
            Act::Create(set) => return self.create(old, set, because).await,
            Act::Update(set) => drop(sets.update(set).await?),
            Act::Scale { set, from, to } => {
                let way = if from < to { "up" } else { "down" };
                let name = set.metadata().name().to_owned();
                sets.update(set).await?;
                let message = format!("Scaled {way} replica set {name} from {from} to {to}");
                self.events.normal(&old, "ScalingReplicaSet", message);
            }
            Act::Delete(set) => sets.delete(&set).await?,
            Act::Annotate(annotations) => {
                let mut new = old;
                new.metadata_mut().set_annotations(annotations);
                // beside the status, where it does not count as a change of what is wanted
                return deployments.update_status(new).await;
            }
            Act::Report(status) => return deployments.update_status(old.with_status(status)).await,
        }
        Ok(old)
    }

    async fn create(
        &self,
        mut old: Deployment,
        set: ReplicaSet,
        because: &Cause,
    ) -> Result<Deployment, Error> {
        let (name, replicas) = (set.metadata().name().to_owned(), set.spec().replicas());
        let wanted = set.clone();
        match self.sets.because(because).create(set).await {
            Ok(_) if replicas > 0 => {
                let message = format!("Scaled up replica set {name} from 0 to {replicas}");
                self.events.normal(&old, "ScalingReplicaSet", message);
            }
            Ok(_) => {}
            Err(error) if error.is_namespace_terminating() => {}
            Err(error) if error.is_already_exists() => {
                let key = Key::of(wanted.metadata());
                let other = self.sets.api().get(&key).await?;
                let is_ours =
                    other.metadata().controller().is_some_and(|o| o.uid() == old.metadata().uid());
                if is_ours && revision::same_template(&other, &old) {
                    self.sets.cache().wrote(&other); // we made it, and have not seen it yet
                    return Ok(old);
                }
                let collisions =
                    old.status().collision_count().unwrap_or_default().saturating_add(1);
                old.status_mut().set_collision_count(collisions);
                return self.deployments.because(because).update_status(old).await;
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
        self.deployments.because(because).update_status(old).await
    }
}

/// A Deployment that recreates its pods waits for the old ones to end.
fn waiting_for(pod: &Pod, sets: &Objects<ReplicaSet>) -> Vec<Key> {
    let Some(owner) = pod.metadata().controller().filter(|owner| owner.kind() == "ReplicaSet")
    else {
        return Vec::new();
    };
    if !(pod.is_terminating() || pod.is_finished()) {
        return Vec::new();
    }
    let set = sets.get(&Key::new(pod.metadata().namespace(), owner.name()));
    let above = set.as_ref().and_then(|set| set.meta().controller());
    above.map(|above| Key::new(pod.metadata().namespace(), above.name())).into_iter().collect()
}

/// Seconds, as time to wait.
fn seconds(n: i64) -> Duration {
    wait_seconds(n)
}
