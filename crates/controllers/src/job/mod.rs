//! Job controller: runs pods until enough of them have succeeded.
//!
//! ```text
//!  mod.rs           start, reconcile: pods, then status, then finalizers, then status
//!  observe.rs       counts, completion indexes and the outcome, from the pods
//!  plan.rs          which pods to create and delete
//!  pod_tracking.rs  counts each finished pod exactly once
//!  pod.rs           labels and annotations     policy.rs   podFailurePolicy and successPolicy
//!  backoff.rs       back-off after failures    indexes.rs  sets of completion indexes
//!  metrics.rs       what is counted
//! ```

mod backoff;
mod indexes;
mod metrics;
mod observe;
mod orphans;
mod plan;
mod pod;
mod pod_tracking;
mod policy;
#[cfg(test)]
mod tests;

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicI32, Ordering::Relaxed},
    },
};

use api::{batch::Job, core::Pod};
use client::Error;
use futures_util::future::join_all;
use object::{Clock, NamespacedName, Text, WriteCause, wait_seconds};
use runtime::{CachedApi, Context, Controller, Reconcile, Requeue, Step};
use schema::Kind;
use tokio::time::Instant;

use self::{
    backoff::Backoff,
    metrics::{JobMetrics, SyncAction},
    observe::{JobInput, JobObservation},
    plan::{Action, Plan, plan},
    pod_tracking::{ActionCounts, count_released, finish, is_managed_elsewhere, track},
};
use crate::{
    Config,
    claim::{claim_owned, index_orphans, potential_owners},
    pods::{PodControl, slow_start_batch},
};

pub(crate) fn start(cx: &Context, config: &Config) {
    let jobs = Jobs {
        jobs: cx.cached_api(),
        pods: PodControl::new(cx, "job-controller"),
        backoffs: Mutex::default(),
        metrics: JobMetrics::start(cx),
        clock: config.clock.clone(),
    };
    index_orphans(&jobs.pods.objects);
    let known = jobs.jobs.clone();
    Controller::new("job", cx, jobs)
        .owns::<Pod>()
        .watches::<Pod>(move |pod| potential_owners(pod, &known))
        .start();
    orphans::start(cx);
}

/// Reconciler of Jobs.
#[derive(Debug)]
struct Jobs {
    jobs: CachedApi<Job>,
    pods: PodControl,
    /// Back-off of each Job, by uid.
    backoffs: Mutex<HashMap<Text, Backoff>>,
    metrics: JobMetrics,
    clock: Arc<dyn Clock>,
}

impl Reconcile for Jobs {
    type Kind = Job;

    async fn reconcile(&self, _: &NamespacedName, job: Option<Job>) -> Result<Requeue, Error> {
        let Some(job) = job.filter(|job| !is_managed_elsewhere(job)) else {
            return Ok(Requeue::OnChange);
        };
        if job.is_finished() {
            self.backoffs
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .remove(job.metadata().uid());
            return Ok(Requeue::OnChange);
        }
        let (began, mut action) = (Instant::now(), SyncAction::Reconciling);
        let done = self.sync(&job, &mut action).await;
        self.metrics.synced(&job, action, began.elapsed(), done.is_ok());
        done
    }
}

impl Jobs {
    /// Syncs a Job that has not finished. Sets what it does with the pods.
    async fn sync(&self, job: &Job, action: &mut SyncAction) -> Result<Requeue, Error> {
        let pods = claim_owned(job, &self.jobs, &self.pods.objects).await?;
        let now = self.clock.now();
        let scene = JobInput { job, pods: &pods, backoff: self.backoff(job), now };
        let sight = JobObservation::of(scene);
        let plan = plan(&sight);
        *action = SyncAction::of(&sight, &plan);
        let Plan { steps, requeue_after: wake } = plan;
        let (done, failed) = self.act(&sight, steps).await;
        self.track(&sight, done).await?;
        failed?;
        Ok(wake.map_or(Requeue::OnChange, |left| Requeue::After(wait_seconds(left))))
    }

    fn backoff(&self, job: &Job) -> Backoff {
        let known = self.backoffs.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(job.metadata().uid()).copied().unwrap_or_default()
    }

    /// Creates and deletes pods. Returns how many, and the first error.
    async fn act(
        &self,
        sight: &JobObservation<'_>,
        steps: Vec<Step<Action>>,
    ) -> (ActionCounts, Result<(), Error>) {
        let job = sight.scene.job;
        let (mut creates, mut ends) = (Vec::new(), Vec::new());
        for Step { action: act, cause: because } in steps {
            match act {
                Action::Create(pod) => creates.push((pod, because)),
                Action::Delete(pod) => ends.push((pod, because, false)),
                Action::ReleaseAndDelete(pod) => ends.push((pod, because, true)),
            }
        }
        let (created, lost) = (AtomicI32::new(0), AtomicI32::new(0));
        let create = async |(pod, because)| {
            let made = self.pods.create(job, pod, &because).await;
            created.fetch_add(i32::from(matches!(made, Ok(Some(_)))), Relaxed);
            lost.fetch_add(i32::from(made.is_err()), Relaxed);
            made
        };
        let made = slow_start_batch(creates, create).await;
        let created = created.into_inner();
        self.metrics.created_pods(sight, created, lost.into_inner());
        let ended =
            ends.iter().map(|(pod, because, let_go)| self.delete_pod(job, pod, because, *let_go));
        let ended = join_all(ended).await;
        let mut done = ActionCounts { created, ..ActionCounts::default() };
        for ((pod, ..), ended) in ends.iter().zip(&ended) {
            done.deleted += i32::from(ended.is_ok());
            done.ready += i32::from(ended.is_ok() && pod.is_ready());
            done.failed |= ended.is_err();
        }
        (done, made.and(ended.into_iter().collect()))
    }

    async fn delete_pod(
        &self,
        job: &Job,
        pod: &Pod,
        because: &WriteCause,
        let_go: bool,
    ) -> Result<(), Error> {
        if let_go {
            self.remove_finalizer(pod, because).await?;
        }
        self.pods.delete(job, pod, because).await
    }

    /// Records finished pods in the status, removes their finalizers, and then counts them.
    async fn track(&self, sight: &JobObservation<'_>, done: ActionCounts) -> Result<(), Error> {
        let (job, now) = (sight.scene.job, sight.scene.now);
        let tracked = track(sight, done);
        let because = job.write_cause("pods have ended or changed");
        let mut latest = job.clone();
        if tracked.status != *job.status() {
            latest.set_status(tracked.status);
            latest = self.jobs.with_cause(&because).update_status(latest).await?;
            self.metrics.counted(job, job.status(), latest.status());
            let uid = job.metadata().uid().into();
            self.backoffs.lock().unwrap_or_else(PoisonError::into_inner).insert(uid, sight.backoff);
        }
        if let Some((reason, message)) = tracked.event {
            self.pods.events.normal(job, reason, message);
        }
        self.metrics.handled_by_policy(&tracked.policy_actions);
        let released = tracked.release.iter().map(|pod| self.remove_finalizer(pod, &because));
        let released = join_all(released).await;
        let mut held: HashSet<&str> = sight
            .scene
            .pods
            .iter()
            .filter(|pod| pod::is_tracked(pod))
            .map(|pod| pod.metadata().uid())
            .collect();
        for (pod, released) in tracked.release.iter().zip(&released) {
            if released.is_ok() {
                held.remove(pod.metadata().uid());
            }
        }
        let mut status = latest.status().clone();
        count_released(&mut status, &held);
        let ended = tracked.end.filter(|end| finish(&mut status, end, now));
        if status != *latest.status() {
            let because = job.write_cause("pods have been counted");
            let before = latest.status().clone();
            latest.set_status(status);
            latest = self.jobs.with_cause(&because).update_status(latest).await?;
            self.metrics.counted(job, &before, latest.status());
        }
        if let Some(end) = ended {
            self.metrics.finished(&latest, &end);
            self.tell(&latest, &end);
        }
        released.into_iter().collect()
    }

    async fn remove_finalizer(&self, pod: &Pod, because: &WriteCause) -> Result<(), Error> {
        let pods = self.pods.objects.with_cause(because);
        if !pod::is_tracked(pod) {
            return Ok(());
        }
        match pods.patch(&NamespacedName::from_meta(pod.metadata()), &pod::release()).await {
            Err(error) if error.is_not_found() => Ok(()),
            done => done.map(drop),
        }
    }

    fn tell(&self, job: &Job, end: &observe::JobOutcome) {
        let events = &self.pods.events;
        if !end.success {
            return events.warning(job, &end.reason, end.message.clone());
        }
        if job.spec().completions().is_some_and(|wanted| job.status().succeeded() > wanted) {
            let why = "Too many succeeded pods running after completion count reached";
            events.warning(job, "TooManySucceededPods", why);
        }
        events.normal(job, "Completed", "Job completed");
    }
}
