//! Runs pods until enough of them have succeeded.
//!
//! ```text
//!  mod.rs      start, reconcile: pods, then status, then finalizers, then status
//!  sight.rs    what follows from the pods: counts, indexes, the end
//!  plan.rs     which pods shall be made and removed
//!  track.rs    each pod that ends is counted once
//!  pod.rs      what marks a Job's pods      policy.rs   a Job's own rules of failure and success
//!  backoff.rs  the wait after failures      indexes.rs  sets of completion indexes
//! ```

mod backoff;
mod indexes;
mod orphans;
mod plan;
mod pod;
mod policy;
mod sight;
#[cfg(test)]
mod tests;
mod track;

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
};

use api::{batch::Job, core::Pod};
use client::Error;
use futures_util::future::join_all;
use object::{Cause, Clock, Key, Text, wait_seconds};
use runtime::{Context, Controller, Next, Objects, Reconcile, Step};
use schema::Kind;

use self::{
    backoff::Backoff,
    plan::{Act, Plan, plan},
    sight::{Scene, Sight},
    track::{Done, finish, is_foreign, settle, track},
};
use crate::{
    Config,
    claim::{claimed, index_orphans, wanted_by},
    pods::{Pods, slow_start},
};

pub(crate) fn start(cx: &Context, config: &Config) {
    let jobs = Running {
        jobs: cx.objects(),
        pods: Pods::new(cx, "job-controller"),
        backoffs: Mutex::default(),
        clock: config.clock.clone(),
    };
    index_orphans(&jobs.pods.objects);
    let known = jobs.jobs.clone();
    Controller::new("job", cx, jobs)
        .owns::<Pod>()
        .watches::<Pod>(move |pod| wanted_by(pod, &known))
        .start();
    orphans::start(cx);
}

#[derive(Debug)]
struct Running {
    jobs: Objects<Job>,
    pods: Pods,
    /// By uid.
    backoffs: Mutex<HashMap<Text, Backoff>>,
    clock: Arc<dyn Clock>,
}

impl Reconcile for Running {
    type Kind = Job;

    async fn reconcile(&self, _: &Key, job: Option<Job>) -> Result<Next, Error> {
        let Some(job) = job.filter(|job| !is_foreign(job)) else { return Ok(Next::OnChange) };
        if job.is_finished() {
            self.backoffs
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .remove(job.metadata().uid());
            return Ok(Next::OnChange);
        }
        let pods = claimed(&job, &self.jobs, &self.pods.objects).await?;
        let now = self.clock.now();
        let scene = Scene { job: &job, pods: &pods, backoff: self.backoff(&job), now };
        let sight = Sight::of(scene);
        let Plan { steps, wake } = plan(&sight);
        let (done, failed) = self.act(&job, steps).await;
        self.track(&sight, done).await?;
        failed?;
        Ok(wake.map_or(Next::OnChange, |left| Next::After(wait_seconds(left))))
    }
}

impl Running {
    fn backoff(&self, job: &Job) -> Backoff {
        let known = self.backoffs.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(job.metadata().uid()).copied().unwrap_or_default()
    }

    /// Makes and removes pods; tells how many, and the first failure.
    async fn act(&self, job: &Job, steps: Vec<Step<Act>>) -> (Done, Result<(), Error>) {
        let (mut creates, mut ends) = (Vec::new(), Vec::new());
        for Step { act, because } in steps {
            match act {
                Act::Create(pod) => creates.push((pod, because)),
                Act::Delete(pod) => ends.push((pod, because, false)),
                Act::Remove(pod) => ends.push((pod, because, true)),
            }
        }
        let created = Mutex::new(0);
        let create = async |(pod, because)| {
            let made = self.pods.create(job, pod, &because).await?;
            *created.lock().unwrap_or_else(PoisonError::into_inner) += i32::from(made.is_some());
            Ok(())
        };
        let made = slow_start(creates, create).await;
        let ended = ends.iter().map(|(pod, because, let_go)| self.end(job, pod, because, *let_go));
        let ended = join_all(ended).await;
        let mut done = Done {
            created: *created.lock().unwrap_or_else(PoisonError::into_inner),
            ..Done::default()
        };
        for ((pod, ..), ended) in ends.iter().zip(&ended) {
            done.deleted += i32::from(ended.is_ok());
            done.ready += i32::from(ended.is_ok() && pod.is_ready());
            done.failed |= ended.is_err();
        }
        (done, made.and(ended.into_iter().collect()))
    }

    async fn end(&self, job: &Job, pod: &Pod, because: &Cause, let_go: bool) -> Result<(), Error> {
        if let_go {
            self.release(pod, because).await?;
        }
        self.pods.delete(job, pod, because).await
    }

    /// Writes down what has ended, lets it go, and counts it.
    async fn track(&self, sight: &Sight<'_>, done: Done) -> Result<(), Error> {
        let (job, now) = (sight.scene.job, sight.scene.now);
        let tracked = track(sight, done);
        let because = job.causes("pods have ended or changed");
        let mut latest = job.clone();
        if tracked.status != *job.status() {
            latest.set_status(tracked.status);
            latest = self.jobs.because(&because).update_status(latest).await?;
            let uid = job.metadata().uid().into();
            self.backoffs.lock().unwrap_or_else(PoisonError::into_inner).insert(uid, sight.backoff);
        }
        if let Some((reason, message)) = tracked.told {
            self.pods.events.normal(job, reason, message);
        }
        let released = tracked.release.iter().map(|pod| self.release(pod, &because));
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
        settle(&mut status, &held);
        let ended = tracked.end.filter(|end| finish(&mut status, end, now));
        if status != *latest.status() {
            let because = job.causes("pods have been counted");
            latest.set_status(status);
            latest = self.jobs.because(&because).update_status(latest).await?;
        }
        if let Some(end) = ended {
            self.tell(&latest, &end);
        }
        released.into_iter().collect()
    }

    async fn release(&self, pod: &Pod, because: &Cause) -> Result<(), Error> {
        let pods = self.pods.objects.because(because);
        if !pod::is_tracked(pod) {
            return Ok(());
        }
        match pods.patch(&Key::of(pod.metadata()), &pod::release()).await {
            Err(error) if error.is_not_found() => Ok(()),
            done => done.map(drop),
        }
    }

    fn tell(&self, job: &Job, end: &sight::Verdict) {
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
