//! Starts jobs on schedule.
//!
//! ```text
//!  mod.rs        start, reconcile: does what the plan says
//!  plan.rs       plan: what is due, what may run beside what, what is forgotten
//!  clockwork.rs  moments, in a time zone
//! ```

mod clockwork;
mod plan;

use std::{sync::Arc, time::Duration};

use api::batch::{CronJob, CronJobStatus, Job};
use client::{Delete, Error, Propagation};
use object::{Cause, Clock, Key, Time};
use runtime::{Context, Controller, Next, Objects, Reconcile, Recorder, Reference};
use schema::Kind;

use self::plan::{Act, Scene, drop_active, plan, reference};
use crate::Config;

/// Clocks are not so exact.
const LATER: i64 = 100_000;

pub(crate) fn start(cx: &Context, config: &Config) {
    let crons = CronJobs {
        crons: cx.objects(),
        jobs: cx.objects(),
        events: Recorder::start(cx, "cronjob-controller", ""),
        clock: config.clock.clone(),
    };
    Controller::new("cronjob", cx, crons).owns::<Job>().start();
}

#[derive(Debug)]
struct CronJobs {
    crons: Objects<CronJob>,
    jobs: Objects<Job>,
    events: Recorder,
    clock: Arc<dyn Clock>,
}

impl Reconcile for CronJobs {
    type Kind = CronJob;

    async fn reconcile(&self, _: &Key, cron: Option<CronJob>) -> Result<Next, Error> {
        let Some(cron) = cron else { return Ok(Next::OnChange) };
        let micros = self.clock.micros();
        let jobs = self.jobs.owned_by(&cron);
        let now = micros.div_euclid(1_000_000);
        let plan = plan(Scene { cron: &cron, jobs: &jobs, now });
        let (mut status, mut failed) = (plan.status, Ok(()));
        for step in plan.steps {
            failed = self.act(&cron, step.act, &step.because, &mut status).await;
            if failed.is_err() {
                break;
            }
        }
        if status != *cron.status() {
            let because = cron.causes("status has changed");
            self.crons.because(&because).update_status(cron.with_status(status)).await?;
        }
        failed?;
        let left = plan.wake.map(|at| {
            at.saturating_mul(1_000_000)
                .saturating_add(LATER)
                .saturating_sub(micros)
                .max(0)
                .unsigned_abs()
        });
        Ok(left.map_or(Next::OnChange, |left| Next::After(Duration::from_micros(left))))
    }
}

impl CronJobs {
    async fn act(
        &self,
        cron: &CronJob,
        act: Act,
        because: &Cause,
        status: &mut CronJobStatus,
    ) -> Result<(), Error> {
        match act {
            Act::Tell(severity, reason, message) => {
                self.events.tell(Reference::to(cron), severity, reason, message);
                Ok(())
            }
            Act::Delete(job) => {
                let with_pods =
                    Delete { propagation: Some(Propagation::Background), ..Delete::default() };
                let deleted = self.jobs.because(because).delete_with(&job, with_pods).await;
                if let Err(error) = deleted {
                    self.events.warning(cron, "FailedDelete", format!("Deleted job: {error}"));
                    return Err(error);
                }
                drop_active(status, job.metadata().uid());
                let message = format!("Deleted job {}", job.metadata().name());
                self.events.normal(cron, "SuccessfulDelete", message);
                Ok(())
            }
            Act::Start(job, at) => {
                if let Some(made) = self.begin(cron, job, because).await? {
                    drop_active(status, made.metadata().uid());
                    status.active_mut().push(reference(&made));
                    status.set_last_schedule_time(Time::text(at));
                }
                Ok(())
            }
        }
    }

    /// Makes a job, unless another has its name.
    async fn begin(&self, cron: &CronJob, job: Job, because: &Cause) -> Result<Option<Job>, Error> {
        let key = Key::of(job.metadata());
        match self.jobs.because(because).create(job).await {
            Ok(made) => {
                let message = format!("Created job {}", made.metadata().name());
                self.events.normal(cron, "SuccessfulCreate", message);
                Ok(Some(made))
            }
            Err(error) if error.is_already_exists() => {
                let other = self.jobs.api().get(&key).await?;
                let owner = other.metadata().controller();
                let ours = owner.is_some_and(|owner| owner.uid() == cron.meta().uid());
                Ok(Some(other).filter(|_| ours)) // made before, and not noted
            }
            Err(error) => {
                if !error.is_namespace_terminating() {
                    let message = format!("Error creating job: {error}");
                    self.events.warning(cron, "FailedCreate", message);
                }
                Err(error)
            }
        }
    }
}
