//! Computes the steps for a CronJob. Pure, so its tests need no cluster.

use api::{
    batch::{CronJob, CronJobStatus, Job},
    core::ObjectReference,
};
use object::{List, ObjectMeta, Time};
use runtime::{EventType, Step};
use schema::Kind;

use super::schedule::{ZonedSchedule, format_rfc1123};

const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// The observed state that the plan is computed from.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlanInput<'a> {
    pub(super) cron: &'a CronJob,
    /// The Jobs that the CronJob controls.
    pub(super) jobs: &'a [Job],
    pub(super) now: i64,
}

/// A step of the plan.
#[derive(Debug, PartialEq)]
pub(super) enum Action {
    Delete(Job),
    /// Create this Job, whose scheduled time is given.
    Start(Job, i64),
    RecordEvent(EventType, &'static str, String),
}

/// The steps, the new status and the time of the next reconcile.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) steps: Vec<Step<Action>>,
    /// The status before the steps are carried out.
    pub(super) status: CronJobStatus,
    /// Time of the next reconcile, in seconds since 1970.
    pub(super) wake: Option<i64>,
}

/// Computes the steps for a CronJob.
pub(super) fn plan(scene: PlanInput<'_>) -> Plan {
    let cron = scene.cron;
    let mut planner =
        Planner { scene, status: cron.status().clone(), acts: Vec::new(), gone: Vec::new() };
    planner.clean_up_finished_jobs();
    planner.update_active();
    let wake = if cron.is_terminating() { None } else { planner.schedule() };
    let step = |(act, rule): (Action, &str)| Step { action: act, cause: cron.write_cause(rule) };
    let steps = planner.acts.into_iter().map(step).collect();
    Plan { steps, status: planner.status, wake }
}

/// The reference to an active Job in the status.
pub(super) fn reference(job: &Job) -> ObjectReference {
    let meta = job.metadata();
    ObjectReference::new()
        .with_kind("Job")
        .with_api_version("batch/v1")
        .with_namespace(meta.namespace())
        .with_name(meta.name())
        .with_uid(meta.uid())
        .with_resource_version(meta.resource_version())
}

/// Removes the Job with this uid from `status.active`.
pub(super) fn drop_active(status: &mut CronJobStatus, uid: &str) {
    if status.active().iter().any(|one| one.uid() == uid) {
        let left: List<ObjectReference> =
            status.active().iter().filter(|one| one.uid() != uid).cloned().collect();
        status.set_active(left);
    }
}

/// Collects the steps while the plan is computed.
struct Planner<'a> {
    scene: PlanInput<'a>,
    status: CronJobStatus,
    acts: Vec<(Action, &'static str)>,
    /// Uids of Jobs that the plan deletes.
    gone: Vec<&'a str>,
}

impl Planner<'_> {
    /// Deletes finished Jobs beyond the history limits.
    fn clean_up_finished_jobs(&mut self) {
        let spec = self.scene.cron.spec();
        let limits = [
            ("Complete", spec.successful_jobs_history_limit()),
            ("Failed", spec.failed_jobs_history_limit()),
        ];
        for (how, limit) in limits {
            let ended = self.scene.jobs.iter().filter(|job| job.has_condition(how));
            let mut ended: Vec<&Job> = ended.collect();
            ended.sort_by_key(|job| {
                (job.status().start_time().unwrap_or("~"), job.metadata().name())
            });
            let limit = usize::try_from(limit).unwrap_or_default();
            let many = ended.len().saturating_sub(limit);
            for job in ended.into_iter().take(many).filter(|job| !job.is_terminating()) {
                self.gone.push(job.metadata().uid());
                self.acts.push((Action::Delete(job.clone()), "the history is too long"));
            }
        }
    }

    /// Removes finished and missing Jobs from `status.active`, and updates `lastSuccessfulTime`.
    fn update_active(&mut self) {
        for job in self.scene.jobs {
            let (name, uid) = (job.metadata().name(), job.metadata().uid());
            let listed = self.status.active().iter().any(|one| one.uid() == uid);
            if !job.is_finished() {
                if !listed {
                    let why = "Saw a job that the controller did not create or forgot";
                    self.tell(EventType::Warning, "UnexpectedJob", format!("{why}: {name}"));
                }
                continue;
            }
            let how = if job.has_condition("Complete") { "Complete" } else { "Failed" };
            if listed {
                drop_active(&mut self.status, uid);
                let why = format!("Saw completed job: {name}, condition: {how}");
                self.tell(EventType::Normal, "SawCompletedJob", why);
            }
            let end = job.status().completion_time().filter(|_| how == "Complete");
            let last = self.status.last_successful_time();
            if let Some(end) = end.filter(|end| last.is_none_or(|last| *end > last)) {
                self.status.set_last_successful_time(end);
            }
        }
        let known = |uid: &str| self.scene.jobs.iter().any(|job| job.metadata().uid() == uid);
        let active = self.status.active().clone();
        for lost in active.iter().filter(|one| !known(one.uid())) {
            drop_active(&mut self.status, lost.uid());
            let why = format!("Active job went missing: {}", lost.name());
            self.tell(EventType::Normal, "MissingJob", why);
        }
    }

    /// Starts the Job that is due. Returns the time of the next reconcile.
    fn schedule(&mut self) -> Option<i64> {
        let PlanInput { cron, now, .. } = self.scene;
        let warn = |this: &mut Self, (reason, why)| this.tell(EventType::Warning, reason, why);
        if cron.spec().suspend() {
            return None;
        }
        let clock = match ZonedSchedule::of(cron) {
            Ok(clock) => clock,
            Err(wrong) => {
                warn(self, wrong);
                return None;
            }
        };
        let due = match clock.due(cron, now) {
            Ok(due) => due,
            Err((reason, why)) => {
                let text = cron.spec().schedule();
                warn(self, (reason, format!("invalid schedule: {text} : {why}")));
                return None;
            }
        };
        let Some(due) = due else { return clock.next_wakeup(cron, now) };
        if due.too_many_missed {
            let why = "too many missed start times. Set or decrease \
                       .spec.startingDeadlineSeconds or check clock skew";
            warn(self, ("TooManyMissedTimes", why.to_owned()));
        }
        let late = cron.spec().starting_deadline_seconds();
        if late.is_some_and(|seconds| due.at.saturating_add(seconds) < now) {
            let why = format!("Missed scheduled time to start a job: {}", format_rfc1123(due.at));
            warn(self, ("MissSchedule", why));
        } else {
            self.start(due.at);
        }
        clock.next_wakeup(cron, now)
    }

    fn start(&mut self, at: i64) {
        let cron = self.scene.cron;
        let job = new_job(cron, at);
        let name = job.metadata().name();
        let active = self.status.active().clone();
        let done = cron.status().last_schedule_time().and_then(Time::parse_seconds) == Some(at);
        if done || active.iter().any(|one| one.name() == name) {
            return;
        }
        match cron.spec().concurrency_policy() {
            "Forbid" if !active.is_empty() => {
                let why = "Not starting job because prior execution is running and concurrency \
                           policy is Forbid";
                return self.tell(EventType::Normal, "JobAlreadyActive", why.to_owned());
            }
            "Replace" => {
                let running = |job: &&Job| active.iter().any(|one| one.uid() == job.meta().uid());
                let old = self.scene.jobs.iter().filter(running).filter(|job| {
                    !self.gone.contains(&job.metadata().uid()) && !job.is_terminating()
                });
                let rule = "the next job replaces it";
                self.acts.extend(old.map(|job| (Action::Delete(job.clone()), rule)));
            }
            _ => {}
        }
        self.acts.push((Action::Start(job, at), "the schedule is due"));
    }

    fn tell(&mut self, severity: EventType, reason: &'static str, message: String) {
        self.acts.push((Action::RecordEvent(severity, reason, message), "status has changed"));
    }
}

fn new_job(cron: &CronJob, at: i64) -> Job {
    let template = cron.spec().job_template();
    let mut annotations = template.metadata().annotations().clone();
    annotations.insert(SCHEDULED, ZonedSchedule::format_time(cron, at));
    let metadata = ObjectMeta::new()
        .with_name(format!("{}-{}", cron.metadata().name(), at / 60))
        .with_namespace(cron.metadata().namespace())
        .with_labels(template.metadata().labels().clone())
        .with_annotations(annotations)
        .with_owner_references([cron.controller_ref()]);
    Job::new().with_metadata(metadata).with_spec(template.spec().clone())
}

#[cfg(test)]
mod tests {
    use object::{View, from_json};

    use super::*;

    fn cron(spec: &str, status: &str) -> CronJob {
        let text = format!(
            r#"{{"metadata":{{"name":"c","namespace":"n","uid":"c",
            "creationTimestamp":"2026-01-01T00:00:00Z"}},
            "spec":{{"schedule":"*/10 * * * *"{spec}}},"status":{{{status}}}}}"#
        );
        CronJob::view(&from_json(text.as_bytes()).unwrap()).clone()
    }

    fn job(name: &str, state: &str) -> Job {
        let text = format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"n","uid":"{name}"}},"status":{{
            "startTime":"2026-01-01T00:00:0{}Z","completionTime":"2026-01-01T00:01:00Z",
            "conditions":[{{"type":"{state}","status":"True"}}]}}}}"#,
            name.len()
        );
        Job::view(&from_json(text.as_bytes()).unwrap()).clone()
    }

    fn acts(cron: &CronJob, jobs: &[Job], at: &str) -> (Vec<String>, String) {
        let now = Time::parse_seconds(&format!("2026-01-01T{at}Z")).unwrap();
        let plan = plan(PlanInput { cron, jobs, now });
        let said = plan.steps.into_iter().map(|step| match step.action {
            Action::Delete(job) => format!("delete {}", job.metadata().name()),
            Action::Start(job, at) => format!("start {} {}", job.metadata().name(), at % 3600 / 60),
            Action::RecordEvent(_, reason, _) => reason.to_owned(),
        });
        let wake = plan.wake.map_or_else(String::new, |at| Time::format(at)[11..16].to_owned());
        (said.collect(), wake)
    }

    const RUNNING: &str = r#""active":[{"name":"a","uid":"a"}]"#;

    #[test]
    fn a_job_starts_when_it_is_due() {
        let plain = cron("", "");
        assert_eq!(acts(&plain, &[], "00:05:00"), (vec![], "00:10".into()));
        let expected = vec!["start c-29453770 10".to_owned()];
        assert_eq!(acts(&plain, &[], "00:11:00"), (expected, "00:20".into()));
        assert_eq!(acts(&cron(r#","suspend":true"#, ""), &[], "00:11:00"), (vec![], String::new()));
        let late = cron(r#","startingDeadlineSeconds":600"#, "");
        assert_eq!(acts(&late, &[], "00:11:00").0.len(), 1);
    }

    #[test]
    fn policies_decide_about_what_runs() {
        let running = [job("a", "Other")];
        for (policy, expected) in [
            ("Allow", vec!["start c-29453770 10"]),
            ("Forbid", vec!["JobAlreadyActive"]),
            ("Replace", vec!["delete a", "start c-29453770 10"]),
        ] {
            let cron = cron(&format!(r#","concurrencyPolicy":"{policy}""#), RUNNING);
            assert_eq!(acts(&cron, &running, "00:11:00").0, expected, "{policy}");
        }
    }

    #[test]
    fn what_has_ended_is_noted_and_forgotten() {
        let cron = cron(r#","successfulJobsHistoryLimit":1"#, RUNNING);
        let jobs = [job("aa", "Complete"), job("a", "Complete"), job("f", "Failed")];
        let (said, _) = acts(&cron, &jobs, "00:05:00");
        assert_eq!(said, ["delete a", "SawCompletedJob"]);
        let plan = plan(PlanInput { cron: &cron, jobs: &jobs, now: 0 });
        assert!(plan.status.active().is_empty());
        assert_eq!(plan.status.last_successful_time(), Some("2026-01-01T00:01:00Z"));
        assert_eq!(acts(&cron, &[], "00:05:00").0, ["MissingJob"]);
        assert_eq!(
            acts(&cron, &[job("x", "Other")], "00:05:00").0,
            ["UnexpectedJob", "MissingJob"]
        );
    }
}
