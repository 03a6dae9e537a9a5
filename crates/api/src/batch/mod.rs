//! batch/v1.

mod cron_job;
mod job;
mod schedule;

pub use self::{
    cron_job::{CronJob, CronJobSpec, CronJobStatus, JobTemplateSpec},
    job::{
        Job, JobCondition, JobSchedulingConfiguration, JobSpec, JobStatus, PodFailurePolicy,
        PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyOnPodConditionsPattern,
        PodFailurePolicyRule, SuccessPolicy, SuccessPolicyRule, UncountedTerminatedPods,
    },
    schedule::{CalendarMinute, CronSchedule},
};
