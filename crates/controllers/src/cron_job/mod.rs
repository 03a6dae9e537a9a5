//! CronJob controller: creates Jobs on a schedule.
//!
//! ```text
//!  mod.rs       start, reconcile: carries out the plan
//!  plan.rs      plan: due runs, concurrency policy, history limits
//!  schedule.rs  cron schedules in a time zone
//! ```

mod plan;
mod schedule;

use std::{sync::Arc, time::Duration};

use api::batch::{CronJob, CronJobStatus, Job};
use client::{DeleteParams, Error, Propagation};
use object::{Clock, NamespacedName, Time, WriteCause};
use runtime::{
    CachedApi, Context, Controller, EventRecorder, InvolvedObject, Reconcile, Requeue,
    metrics::{Family, Histogram, exponential},
};
use schema::Kind;

use self::plan::{Action, PlanInput, drop_active, plan, reference};
use crate::Config;

/// Delay after the scheduled time before the next reconcile, so that clock skew does not make it
/// early.
const NEXT_SCHEDULE_DELTA_MICROS: i64 = 100_000;

static SKEW_SECONDS: [f64; 10] = exponential(1.0, 2.0);
const CREATION_SKEW: Family = Family::histogram(
    "cronjob_controller_job_creation_skew_duration_seconds",
    "[STABLE] Time between when a cronjob is scheduled to be run, and when the corresponding job is created",
    &[],
    &SKEW_SECONDS,
);

pub(crate) fn start(cx: &Context, config: &Config) {
    let crons = CronJobs {
        crons: cx.cached_api(),
        jobs: cx.cached_api(),
        events: EventRecorder::start(cx, "cronjob-controller", ""),
        creation_skew: cx.metrics().histogram(&CREATION_SKEW, &[]),
        clock: config.clock.clone(),
    };
    Controller::new("cronjob", cx, crons).owns::<Job>().start();
}

/// Reconciler of CronJobs.
#[derive(Debug)]
struct CronJobs {
    crons: CachedApi<CronJob>,
    jobs: CachedApi<Job>,
    events: EventRecorder,
    creation_skew: Arc<Histogram>,
    clock: Arc<dyn Clock>,
}

impl Reconcile for CronJobs {
    type Kind = CronJob;

    async fn reconcile(&self, _: &NamespacedName, cron: Option<CronJob>) -> Result<Requeue, Error> {
        let Some(cron) = cron else { return Ok(Requeue::OnChange) };
        let micros = self.clock.now_micros();
        let jobs = self.jobs.owned_by(&cron);
        let now = micros.div_euclid(1_000_000);
        let plan = plan(PlanInput { cron: &cron, jobs: &jobs, now });
        let (mut status, mut failed) = (plan.status, Ok(()));
        for step in plan.steps {
            failed = self.act(&cron, step.action, &step.cause, &mut status).await;
            if failed.is_err() {
                break;
            }
        }
        if status != *cron.status() {
            let because = cron.write_cause("status has changed");
            self.crons.with_cause(&because).update_status(cron.with_status(status)).await?;
        }
        failed?;
        let left = plan.wake.map(|at| {
            at.saturating_mul(1_000_000)
                .saturating_add(NEXT_SCHEDULE_DELTA_MICROS)
                .saturating_sub(micros)
                .max(0)
                .unsigned_abs()
        });
        Ok(left.map_or(Requeue::OnChange, |left| Requeue::After(Duration::from_micros(left))))
    }
}

impl CronJobs {
    async fn act(
        &self,
        cron: &CronJob,
        act: Action,
        because: &WriteCause,
        status: &mut CronJobStatus,
    ) -> Result<(), Error> {
        match act {
            Action::RecordEvent(severity, reason, message) => {
                self.events.record(InvolvedObject::of(cron), severity, reason, message);
                Ok(())
            }
            Action::Delete(job) => {
                let with_pods = DeleteParams {
                    propagation: Some(Propagation::Background),
                    ..DeleteParams::default()
                };
                let deleted = self.jobs.with_cause(because).delete_with(&job, with_pods).await;
                if let Err(error) = deleted {
                    self.events.warning(cron, "FailedDelete", format!("Deleted job: {error}"));
                    return Err(error);
                }
                drop_active(status, job.metadata().uid());
                let message = format!("Deleted job {}", job.metadata().name());
                self.events.normal(cron, "SuccessfulDelete", message);
                Ok(())
            }
            Action::Start(job, at) => {
                if let Some(made) = self.create_job(cron, (job, at), because).await? {
                    drop_active(status, made.metadata().uid());
                    status.active_mut().push(reference(&made));
                    status.set_last_schedule_time(Time::format(at));
                }
                Ok(())
            }
        }
    }

    /// Creates a Job that was scheduled for `at`; `None` if another object has its name.
    async fn create_job(
        &self,
        cron: &CronJob,
        (job, at): (Job, i64),
        because: &WriteCause,
    ) -> Result<Option<Job>, Error> {
        let key = NamespacedName::from_meta(job.metadata());
        match self.jobs.with_cause(because).create(job).await {
            Ok(made) => {
                let created = Time::parse_seconds(made.metadata().creation_timestamp());
                self.creation_skew.observe_seconds(created.map_or(0, |created| created - at));
                let message = format!("Created job {}", made.metadata().name());
                self.events.normal(cron, "SuccessfulCreate", message);
                Ok(Some(made))
            }
            Err(error) if error.is_already_exists() => {
                let other = self.jobs.api().get(&key).await?;
                let owner = other.metadata().controller_ref();
                let ours = owner.is_some_and(|owner| owner.uid() == cron.meta().uid());
                Ok(Some(other).filter(|_| ours)) // created by an earlier reconcile that failed to update the status
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
