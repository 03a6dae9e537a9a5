//! Deletes finished Jobs after their `ttlSecondsAfterFinished`.

use std::{sync::Arc, time::Duration};

use api::batch::Job;
use client::{DeleteParams, Error, Propagation};
use object::{Clock, NamespacedName, Time, seconds_left, wait_seconds};
use runtime::{
    CachedApi, Context, Controller, Reconcile, Requeue,
    metrics::{Family, Histogram, exponential},
};
use schema::Kind;

use crate::Config;

/// From 100 ms to 27 minutes.
static DELETION_SECONDS: [f64; 14] = exponential(0.1, 2.0);
const DELETION_DURATION: Family = Family::histogram(
    "ttl_after_finished_controller_job_deletion_duration_seconds",
    "[ALPHA] The time it took to delete the job since it became eligible for deletion",
    &[],
    &DELETION_SECONDS,
);

pub(crate) fn start(cx: &Context, config: &Config) {
    let ended = EndedJobs {
        jobs: cx.cached_api(),
        deletions: cx.metrics().histogram(&DELETION_DURATION, &[]),
        clock: config.clock.clone(),
    };
    Controller::new("ttl-after-finished", cx, ended).queue_named("ttl_jobs_to_delete").start();
}

/// Reconciler of finished Jobs.
#[derive(Debug)]
struct EndedJobs {
    jobs: CachedApi<Job>,
    deletions: Arc<Histogram>,
    clock: Arc<dyn Clock>,
}

impl Reconcile for EndedJobs {
    type Kind = Job;

    async fn reconcile(&self, key: &NamespacedName, job: Option<Job>) -> Result<Requeue, Error> {
        let Some(left) = job.and_then(|job| time_left(&job, self.clock.now())) else {
            return Ok(Requeue::OnChange);
        };
        if left > 0 {
            return Ok(Requeue::After(wait_seconds(left)));
        }
        let fresh = match self.jobs.api().get(key).await {
            Err(error) if error.is_not_found() => return Ok(Requeue::OnChange),
            fresh => fresh?,
        };
        let now = self.clock.now();
        if let Some(left) = time_left(&fresh, now).filter(|left| *left <= 0) {
            let all = DeleteParams {
                propagation: Some(Propagation::Foreground),
                ..DeleteParams::default()
            };
            let because = fresh.write_cause("its time after the end is over");
            self.jobs.with_cause(&because).delete_with(&fresh, all).await?;
            let late = self.clock.now_micros() - (now + left).saturating_mul(1_000_000);
            self.deletions.observe_duration(Duration::from_micros(late.max(0).unsigned_abs()));
        }
        Ok(Requeue::OnChange)
    }
}

/// The seconds until a finished Job is deleted; `None`: it is kept.
fn time_left(job: &Job, now: i64) -> Option<i64> {
    let ttl = job.spec().ttl_seconds_after_finished().filter(|_| !job.is_terminating())?;
    let ended = job.status().conditions().find(|condition| {
        matches!(condition.type_(), "Complete" | "Failed") && condition.status() == "True"
    })?;
    let ended = Time::parse_seconds(ended.last_transition_time())?;
    Some(seconds_left(ended, ttl.into(), now))
}

#[test]
fn only_ended_jobs_have_a_time_to_live() {
    let text = |ttl: &str, state: &str| {
        format!(
            r#"{{"spec":{{{ttl}}},"status":{{"conditions":[{{"type":"{state}","status":"True",
            "lastTransitionTime":"1970-01-01T00:00:10Z"}}]}}}}"#
        )
    };
    let left = |ttl: &str, state: &str| {
        time_left(&Job::from(object::from_json(text(ttl, state).as_bytes()).unwrap()), 12)
    };
    let ttl = r#""ttlSecondsAfterFinished":5"#;
    assert_eq!((left(ttl, "Failed"), left(ttl, "Suspended")), (Some(3), None));
    assert_eq!(left("", "Complete"), None);
}
