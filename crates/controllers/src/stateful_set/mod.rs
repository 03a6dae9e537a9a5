//! StatefulSet controller: runs pods with stable names and claims, created and deleted in order.
//!
//! ```text
//!  mod.rs        start, reconcile: carries out the plan
//!  plan.rs       plan: create, scale, rolling update, in order or in parallel
//!  pod.rs        a pod by its ordinal, and its claims
//!  retention.rs  owner references of the claims
//!  metrics.rs    unavailable replicas
//! ```

mod metrics;
mod plan;
mod pod;
mod retention;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use api::{
    apps::{ControllerRevision, StatefulSet},
    core::{PersistentVolumeClaim, Pod},
};
use client::Error;
use object::{Clock, NamespacedName, WriteCause, wait_seconds};
use runtime::{
    CachedApi, Context, Controller, EventRecorder, Reconcile, Requeue, Step, metrics::Metrics,
};

use self::plan::{Action, PlanInput, plan};
use crate::{
    Config,
    claim::{claim_owned, claim_owned_if, index_orphans, potential_owners},
    history,
};

pub(crate) fn start(cx: &Context, config: &Config) {
    let sets = StatefulSets {
        sets: cx.cached_api(),
        pods: cx.cached_api(),
        claims: cx.cached_api(),
        revisions: cx.cached_api(),
        events: EventRecorder::start(cx, "statefulset-controller", ""),
        metrics: cx.metrics().clone(),
        clock: config.clock.clone(),
    };
    index_orphans(&sets.pods);
    index_orphans(&sets.revisions);
    let (by_pod, by_claim) = (sets.sets.clone(), sets.sets.clone());
    Controller::new("statefulset", cx, sets)
        .owns::<Pod>()
        .watches::<Pod>(move |pod| potential_owners(pod, &by_pod))
        .watches::<PersistentVolumeClaim>(move |claim| waiting_for(claim, &by_claim))
        .start();
}

/// Reconciler of StatefulSets.
#[derive(Debug)]
struct StatefulSets {
    sets: CachedApi<StatefulSet>,
    pods: CachedApi<Pod>,
    claims: CachedApi<PersistentVolumeClaim>,
    revisions: CachedApi<ControllerRevision>,
    events: EventRecorder,
    metrics: Metrics,
    clock: Arc<dyn Clock>,
}

impl Reconcile for StatefulSets {
    type Kind = StatefulSet;

    async fn reconcile(
        &self,
        key: &NamespacedName,
        set: Option<StatefulSet>,
    ) -> Result<Requeue, Error> {
        let Some(set) = set else {
            metrics::forget(key, &self.metrics);
            return Ok(Requeue::OnChange);
        };
        let member = |pod: &Pod| pod::ordinal(&set, pod).is_some();
        let pods = claim_owned_if(&set, &self.sets, &self.pods, member).await?;
        let claims = if set.spec().volume_claim_templates().is_empty() {
            Vec::new()
        } else {
            self.claims.in_namespace(&key.namespace)
        };
        let named = |claim: PersistentVolumeClaim| (claim.metadata().name().to_owned(), claim);
        let scene = PlanInput {
            set: &set,
            revisions: claim_owned(&set, &self.sets, &self.revisions).await?,
            claims: claims.into_iter().map(named).collect(),
            pods,
            now: self.clock.now(),
        };
        metrics::report(&scene, &self.metrics);
        let steps = plan(&scene);
        let recorded = steps.iter().any(|step| matches!(step.action, Action::CreateRevision(_)));
        let mut failed = Ok(());
        for Step { action: act, cause: because } in steps {
            // The status is written even if an earlier step failed.
            if failed.is_ok() || matches!(act, Action::UpdateStatus(_)) {
                failed = failed.and(self.act(&set, act, &because).await);
            }
        }
        failed?;
        if recorded {
            return Ok(Requeue::After(Duration::ZERO)); // the controller does not watch revisions
        }
        let wait = set.spec().min_ready_seconds();
        let ripens =
            scene.pods.iter().any(|pod| pod.is_ready() && !pod.is_available(wait, scene.now));
        Ok(if ripens { Requeue::After(wait_seconds(wait.into())) } else { Requeue::OnChange })
    }
}

impl StatefulSets {
    async fn act(&self, set: &StatefulSet, act: Action, because: &WriteCause) -> Result<(), Error> {
        let (pods, claims) = (self.pods.with_cause(because), self.claims.with_cause(because));
        let revisions = self.revisions.with_cause(because);
        let of = set.metadata().name();
        match act {
            Action::CreateRevision(revision) => self.record(set, revision, because).await,
            Action::Renumber(revision) => revisions.update(revision).await.map(drop),
            Action::Forget(revision) => revisions.delete(&revision).await,
            Action::UpdateStatus(status) => {
                let new = set.clone().with_status(status);
                self.sets.with_cause(because).update_status(new).await.map(drop)
            }
            Action::UpdateClaimOwners(claim) => claims.update(claim).await.map(drop),
            Action::Conflict(name) => {
                let message = format!(
                    "PersistentVolumeClaim {name} has a conflicting OwnerReference that acts as a \
                     manging controller, the retention policy is ignored for this claim"
                );
                self.events.warning(set, "ConflictingController", message);
                Ok(())
            }
            Action::CreateClaim(claim, pod) => {
                let (name, pod) = (claim.metadata().name().to_owned(), pod.metadata().name());
                let made = claims.create(claim).await.map(drop);
                if made.as_ref().is_err_and(Error::is_already_exists) {
                    return made; // not in the cache yet
                }
                let done = format!("Claim {name} Pod {pod} in StatefulSet {of} success");
                let not = format!("Claim {name} for Pod {pod} in StatefulSet {of} failed error");
                self.tell(set, "Create", made, (&done, &not))
            }
            Action::Create(pod) => {
                let told = told(&pod, of);
                let made = pods.create(pod).await.map(drop);
                if made.as_ref().is_err_and(Error::is_already_exists) {
                    return made;
                }
                self.tell(set, "Create", made, (&told.0, &told.1))
            }
            Action::Update(pod) => {
                let told = told(&pod, of);
                let done = pods.update(pod).await.map(drop);
                self.tell(set, "Update", done, (&told.0, &told.1))
            }
            Action::Delete(pod) => {
                let told = told(&pod, of);
                let done = pods.delete(&pod).await;
                self.tell(set, "Delete", done, (&told.0, &told.1))
            }
        }
    }

    /// Records the event of a step, and returns its result.
    fn tell(
        &self,
        set: &StatefulSet,
        verb: &str,
        done: Result<(), Error>,
        (good, bad): (&str, &str),
    ) -> Result<(), Error> {
        match &done {
            Ok(()) => {
                self.events.normal(set, &format!("Successful{verb}"), format!("{verb} {good}"));
            }
            Err(error) => {
                let message = format!("{verb} {bad}: {error}");
                self.events.warning(set, &format!("Failed{verb}"), message);
            }
        }
        done
    }

    async fn record(
        &self,
        set: &StatefulSet,
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
}

/// The event texts about a pod, for success and failure.
fn told(pod: &Pod, set: &str) -> (String, String) {
    let name = pod.metadata().name();
    (
        format!("Pod {name} in StatefulSet {set} successful"),
        format!("Pod {name} in StatefulSet {set} failed error"),
    )
}

/// The sets that a claim may belong to, by its name.
fn waiting_for(
    claim: &PersistentVolumeClaim,
    sets: &CachedApi<StatefulSet>,
) -> Vec<NamespacedName> {
    let meta = claim.metadata();
    let all = sets.in_namespace(meta.namespace()).into_iter().filter(|set| {
        set.spec().volume_claim_templates().iter().any(|template| {
            let prefix = format!("{}-{}-", template.metadata().name(), set.metadata().name());
            meta.name().strip_prefix(&*prefix).is_some_and(|rest| rest.parse::<u32>().is_ok())
        })
    });
    all.map(|set| NamespacedName::from_meta(set.metadata())).collect()
}
