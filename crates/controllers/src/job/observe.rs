//! Computes the observed state of a Job from its pods: counts, completion indexes, and whether the
//! Job has an outcome.

use std::collections::{HashMap, HashSet};

use api::{
    batch::{Job, JobCondition},
    core::{ContainerStatus, Pod},
};
use object::{Time, saturating_i32, seconds_left};

use super::{
    backoff::{Backoff, finished_at},
    indexes::Indexes,
    pod::{failures_before, has_failed, index, is_tracked},
    policy::{self, FailureAction, failure},
};

/// The inputs: the Job, its pods and its back-off.
#[derive(Clone, Copy, Debug)]
pub(super) struct JobInput<'a> {
    pub(super) job: &'a Job,
    pub(super) pods: &'a [Pod],
    /// The back-off after earlier failures.
    pub(super) backoff: Backoff,
    pub(super) now: i64,
}

/// The outcome of a Job.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct JobOutcome {
    pub(super) success: bool,
    /// Whether the status has it already, from an earlier reconcile.
    pub(super) known: bool,
    pub(super) reason: String,
    pub(super) message: String,
}

/// The observed state of a Job.
#[derive(Debug)]
pub(super) struct JobObservation<'a> {
    pub(super) scene: JobInput<'a>,
    pub(super) active: Vec<&'a Pod>,
    pub(super) terminating: i32,
    pub(super) succeeded: i32,
    pub(super) failed: i32,
    /// The completed indexes in the status.
    pub(super) completed: Indexes,
    /// The completed indexes, including those of pods that succeeded since.
    pub(super) succeeded_indexes: Indexes,
    /// The failed indexes, if the Job has `backoffLimitPerIndex`.
    pub(super) failed_indexes: Option<Indexes>,
    /// By index, the failed pod whose finalizer stays until its replacement exists: the replacement
    /// takes over its failure counts.
    pub(super) last_failed_by_index: HashMap<i32, &'a Pod>,
    pub(super) backoff: Backoff,
    pub(super) outcome: Option<JobOutcome>,
}

impl JobOutcome {
    pub(super) fn new(success: bool, reason: &str, message: &str) -> Self {
        Self { success, known: false, reason: reason.into(), message: message.into() }
    }

    fn known(success: bool, condition: &JobCondition) -> Self {
        Self { known: true, ..Self::new(success, condition.reason(), condition.message()) }
    }
}

impl<'a> JobObservation<'a> {
    /// Computes the observed state.
    pub(super) fn of(scene: JobInput<'a>) -> Self {
        let JobInput { job, pods, .. } = scene;
        let new = |counted: &HashSet<&str>, is: &dyn Fn(&Pod) -> bool| -> Vec<&'a Pod> {
            let valid = |pod: &&Pod| !is_indexed(job) || index(pod, job).is_some();
            let open = |pod: &&Pod| is_tracked(pod) && !counted.contains(pod.metadata().uid());
            pods.iter().filter(open).filter(valid).filter(|pod| is(pod)).collect()
        };
        let (uncounted_succeeded, uncounted_failed) = uncounted(job);
        let succeeded = new(&uncounted_succeeded, &|pod| pod.status().phase() == "Succeeded");
        let failed = new(&uncounted_failed, &|pod| has_failed(pod, job));
        let counted =
            failed.iter().filter(|pod| failure(job, pod) != FailureAction::Ignored).count();
        let status = job.status();
        let going = |pod: &&Pod| pod.metadata().is_terminating() && !pod.is_finished();
        let mut sight = Self {
            scene,
            active: pods.iter().filter(|pod| pod.is_active()).collect(),
            terminating: saturating_i32(pods.iter().filter(going).count()),
            succeeded: status
                .succeeded()
                .saturating_add(saturating_i32(succeeded.len() + uncounted_succeeded.len())),
            failed: status
                .failed()
                .saturating_add(saturating_i32(counted + uncounted_failed.len())),
            completed: Indexes::default(),
            succeeded_indexes: Indexes::default(),
            failed_indexes: None,
            last_failed_by_index: HashMap::new(),
            backoff: scene.backoff.with(&succeeded, &failed),
            outcome: None,
        };
        if is_indexed(job) {
            sight.count_indexes();
        }
        sight.outcome = sight.determine_outcome();
        sight
    }

    fn count_indexes(&mut self) {
        let JobInput { job, pods, .. } = self.scene;
        let end = job.spec().completions().unwrap_or_default();
        self.completed = Indexes::parse(job.status().completed_indexes(), end);
        self.succeeded_indexes = self.completed.clone();
        let tracked = || {
            let tracked = pods.iter().filter(|pod| is_tracked(pod));
            tracked.filter_map(|pod| Some((index(pod, job)?, pod)))
        };
        for (at, _) in tracked().filter(|(_, pod)| pod.status().phase() == "Succeeded") {
            self.succeeded_indexes.insert(at);
        }
        self.succeeded = self.succeeded_indexes.total();
        let Some(limit) = job.spec().backoff_limit_per_index() else { return };
        let mut lost = Indexes::parse(job.status().failed_indexes().unwrap_or_default(), end);
        for (at, pod) in tracked().filter(|(_, pod)| has_failed(pod, job)) {
            let gives_up = match failure(job, pod) {
                FailureAction::FailsIndex => true,
                FailureAction::Ignored => false,
                FailureAction::Counts | FailureAction::FailsJob(_) => {
                    failures_before(pod).1 >= limit
                }
            };
            if gives_up {
                lost.insert(at);
            }
        }
        let active: HashSet<i32> = self.active.iter().filter_map(|pod| index(pod, job)).collect();
        for (at, pod) in tracked().filter(|(_, pod)| has_failed(pod, job)) {
            if self.succeeded_indexes.has(at) || lost.has(at) || active.contains(&at) {
                continue;
            }
            let worth = |pod: &Pod| (failures_before(pod).0, finished_at(pod));
            let (new, last) =
                (worth(pod), self.last_failed_by_index.get(&at).map(|last| worth(last)));
            if last.is_none_or(|last| last.0 <= new.0 && last.1 <= new.1) {
                self.last_failed_by_index.insert(at, pod);
            }
        }
        self.failed_indexes = Some(lost);
    }

    fn determine_outcome(&self) -> Option<JobOutcome> {
        let JobInput { job, pods, now, .. } = self.scene;
        let known = |name: &str| {
            job.status().conditions().find(|one| one.type_() == name && one.status() == "True")
        };
        if let Some(condition) = known("SuccessCriteriaMet") {
            return Some(JobOutcome::known(true, condition));
        }
        if let Some(condition) = known("FailureTarget") {
            return Some(JobOutcome::known(false, condition));
        }
        let failed = |reason: &str, message: &str| Some(JobOutcome::new(false, reason, message));
        let fatal = pods.iter().filter(|pod| has_failed(pod, job)).find_map(|pod| {
            if let FailureAction::FailsJob(why) = failure(job, pod) { Some(why) } else { None }
        });
        if let Some(why) = fatal {
            return failed("PodFailurePolicy", &why);
        }
        if self.failed > job.spec().backoff_limit().unwrap_or(i32::MAX) || self.restarts_too_often()
        {
            return failed("BackoffLimitExceeded", "Job has reached the specified backoff limit");
        }
        if deadline(job, now).is_some_and(|left| left <= 0) {
            return failed("DeadlineExceeded", "Job was active longer than specified deadline");
        }
        self.judge_indexes()
    }

    fn judge_indexes(&self) -> Option<JobOutcome> {
        let spec = self.scene.job.spec();
        let completions = spec.completions().filter(|_| is_indexed(self.scene.job))?;
        if let Some(lost) = self.failed_indexes.as_ref().map(Indexes::total) {
            if spec.max_failed_indexes().is_some_and(|most| lost > most) {
                let why = "Job has exceeded the specified maximal number of failed indexes";
                return Some(JobOutcome::new(false, "MaxFailedIndexesExceeded", why));
            }
            if lost > 0 && lost.saturating_add(self.succeeded_indexes.total()) >= completions {
                return Some(JobOutcome::new(false, "FailedIndexes", "Job has failed indexes"));
            }
        }
        let met = policy::success(spec.success_policy()?, &self.succeeded_indexes, completions)?;
        Some(JobOutcome::new(true, "SuccessPolicy", &met))
    }

    /// Whether container restarts reach the backoff limit (restartPolicy OnFailure).
    fn restarts_too_often(&self) -> bool {
        let spec = self.scene.job.spec();
        if spec.template().spec().restart_policy() != "OnFailure" {
            return false;
        }
        let running = |pod: &&Pod| matches!(pod.status().phase(), "Running" | "Pending");
        let restarts = self.scene.pods.iter().filter(running).flat_map(|pod| {
            let status = pod.status();
            status.init_container_statuses().iter().chain(status.container_statuses().iter())
        });
        let restarts = restarts.map(ContainerStatus::restart_count).fold(0, i32::saturating_add);
        let limit = spec.backoff_limit().unwrap_or(i32::MAX);
        restarts > 0 && restarts >= limit
    }
}

pub(super) fn is_indexed(job: &Job) -> bool {
    job.spec().completion_mode() == Some("Indexed")
}

pub(super) fn is_suspended(job: &Job) -> bool {
    job.spec().suspend() == Some(true)
}

/// The seconds left until `activeDeadlineSeconds`.
pub(super) fn deadline(job: &Job, now: i64) -> Option<i64> {
    let start = job.status().start_time().and_then(Time::parse_seconds);
    let seconds = job.spec().active_deadline_seconds().filter(|_| !is_suspended(job))?;
    Some(seconds_left(start.unwrap_or(now), seconds, now))
}

/// The uids of finished pods that are recorded as uncounted: succeeded and failed.
pub(super) fn uncounted(job: &Job) -> (HashSet<&str>, HashSet<&str>) {
    job.status().uncounted_terminated_pods().map_or_else(Default::default, |uncounted| {
        (uncounted.succeeded().iter().collect(), uncounted.failed().iter().collect())
    })
}
