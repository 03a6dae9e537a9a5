//! The rules for the status of a job. What is wrong already does not stand in the way
//! of other changes.

use std::collections::BTreeSet;

use object::Time;
use schema::{ErrorList, FieldPath};

use super::{Job, JobStatus, rules::count_completion_indexes, rules::interval};

pub(super) fn check(job: &Job, old: &Job, errs: &mut ErrorList) {
    let at = FieldPath::STATUS;
    let check = StatusUpdate { job, old, new: job.status(), before: old.status(), at: &at };
    check.counts(errs);
    check.uncounted(errs);
    check.ends(errs);
    check.indexes(errs);
    check.transitions(errs);
}

struct StatusUpdate<'a> {
    job: &'a Job,
    old: &'a Job,
    new: &'a JobStatus,
    before: &'a JobStatus,
    at: &'a FieldPath<'a>,
}

impl StatusUpdate<'_> {
    /// Whether a condition holds now, and whether it did not before, or the other way round.
    fn has(&self, name: &str) -> (bool, bool) {
        let now = self.job.has_condition(name);
        (now, now != self.old.has_condition(name))
    }

    fn condition(&self, why: &str, errs: &mut ErrorList) {
        errs.invalid_without_value(&self.at.field("conditions"), why);
    }

    fn counts(&self, errs: &mut ErrorList) {
        let new = self.new;
        for (name, n) in [
            ("active", new.active()),
            ("succeeded", new.succeeded()),
            ("failed", new.failed()),
            ("ready", new.ready().unwrap_or_default()),
            ("terminating", new.terminating().unwrap_or_default()),
        ] {
            errs.non_negative(&self.at.field(name), n.into());
        }
        let changed = new.ready() != self.before.ready() || new.active() != self.before.active();
        if let Some(ready) = new.ready().filter(|ready| changed && *ready > new.active()) {
            let why = "cannot set more ready pods than active";
            errs.invalid(&self.at.field("ready"), ready, why);
        }
    }

    fn uncounted(&self, errs: &mut ErrorList) {
        let Some(pods) = self.new.uncounted_terminated_pods() else { return };
        let at = self.at.field("uncountedTerminatedPods");
        let mut seen = BTreeSet::new();
        for (name, uids) in [("succeeded", pods.succeeded()), ("failed", pods.failed())] {
            at.field(name).for_each_item(uids.iter(), |uid, at| {
                if uid.is_empty() {
                    errs.invalid(at, uid, "must not be empty");
                } else if seen.contains(uid) {
                    errs.duplicate(at, uid);
                }
                seen.insert(uid);
            });
        }
    }

    /// How a job ends: what goes with it, and what does not.
    fn ends(&self, errs: &mut ErrorList) {
        let (complete, complete_changed) = self.has("Complete");
        let (failed, failed_changed) = self.has("Failed");
        let (target, target_changed) = self.has("FailureTarget");
        let (met, met_changed) = self.has("SuccessCriteriaMet");
        let failed_indexes = self.new.failed_indexes() != self.before.failed_indexes();
        if (complete_changed || failed_changed) && complete && failed {
            self.condition("cannot set Complete=True and Failed=true conditions", errs);
        }
        if (complete_changed || target_changed) && complete && target {
            self.condition("cannot set Complete=True and FailureTarget=true conditions", errs);
        }
        self.times(complete, complete_changed, errs);
        if (failed_changed || failed_indexes) && failed && !target {
            let why = "cannot set Failed=True condition without the FailureTarget=true condition";
            self.condition(why, errs);
        }
        if (complete_changed || met_changed) && complete && !met {
            let why = "cannot set Complete=True condition without the SuccessCriteriaMet=true \
                       condition";
            self.condition(why, errs);
        }
        self.finished(errs);
        if met && failed {
            self.condition("cannot set SuccessCriteriaMet=True and Failed=true conditions", errs);
        }
        if met && target {
            let why = "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions";
            self.condition(why, errs);
        }
        if self.job.spec().success_policy().is_some() && !met && complete {
            let why = "cannot set Complete=True for Job with SuccessPolicy unless \
                       SuccessCriteriaMet=True";
            self.condition(why, errs);
        }
    }

    fn times(&self, complete: bool, complete_changed: bool, errs: &mut ErrorList) {
        let (start, end) = (self.new.start_time(), self.new.completion_time());
        let start_changed = start != self.before.start_time();
        let end_changed = end != self.before.completion_time();
        let at = self.at.field("completionTime");
        match end {
            Some(end) if (complete_changed || end_changed) && !complete => {
                let why = "cannot set completionTime when there is no Complete=True condition";
                errs.invalid(&at, end, why);
            }
            None if (complete_changed || end_changed) && complete => {
                errs.required(&at, "completionTime is required for Complete jobs");
            }
            _ => {}
        }
        if let (Some(start), Some(end)) = (start, end)
            && (start_changed || end_changed)
            && Time::parse_seconds(end) < Time::parse_seconds(start)
        {
            errs.invalid(&at, end, "must be equal to or after `startTime`");
        }
    }

    /// A job that has ended has no pods left.
    fn finished(&self, errs: &mut ErrorList) {
        let (new, before) = (self.new, self.before);
        let changed = self.job.is_finished() != self.old.is_finished();
        if !self.job.is_finished() {
            return;
        }
        if (changed || new.active() != before.active()) && new.active() > 0 {
            let why = "active>0 is invalid for finished job";
            errs.invalid(&self.at.field("active"), new.active(), why);
        }
        let spec = self.job.spec();
        let idle = spec.suspend() == Some(true) && spec.completions() == Some(0);
        let start_changed = new.start_time() != before.start_time();
        if (changed || start_changed) && !idle && new.start_time().is_none() {
            let at = self.at.field("startTime");
            errs.required(&at, "startTime is required for finished job");
        }
        let pods = new.uncounted_terminated_pods();
        let pods_changed = pods != before.uncounted_terminated_pods();
        if let Some(pods) = pods.filter(|_| changed || pods_changed)
            && !(pods.succeeded().is_empty() && pods.failed().is_empty())
        {
            let at = self.at.field("uncountedTerminatedPods");
            errs.invalid_formatted(
                &at,
                crate::shown::format_go(pods),
                "must be empty for finished job",
            );
        }
        let ending_changed = new.terminating() != before.terminating();
        if let Some(n @ 1..) = new.terminating().filter(|_| changed || ending_changed) {
            let why = "terminating>0 is invalid for finished job";
            errs.invalid(&self.at.field("terminating"), n, why);
        }
    }

    fn indexes(&self, errs: &mut ErrorList) {
        let (new, before, spec) = (self.new, self.before, self.job.spec());
        let (completed, failed) = (new.completed_indexes(), new.failed_indexes());
        let completed_changed = completed != before.completed_indexes();
        let failed_changed = failed != before.failed_indexes();
        let (done, lost) = (self.at.field("completedIndexes"), self.at.field("failedIndexes"));
        let wrong =
            |text: &str| spec.completions().and_then(|n| count_completion_indexes(text, n).err());
        if let Some(why) = wrong(completed).filter(|_| completed_changed) {
            errs.invalid(&done, completed, format!("error parsing completedIndexes: {why}"));
        }
        let per_index = spec.backoff_limit_per_index().is_some();
        if let Some(failed) = failed.filter(|_| failed_changed && per_index)
            && let Some(why) = wrong(failed)
        {
            errs.invalid(&lost, failed, format!("error parsing failedIndexes: {why}"));
        }
        let indexed = spec.completion_mode() == Some("Indexed");
        if completed_changed && !completed.is_empty() && !indexed {
            let why = "cannot set non-empty completedIndexes when non-indexed completion mode";
            errs.invalid(&done, completed, why);
        }
        if let Some(failed) = failed.filter(|_| failed_changed && !per_index) {
            let why = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
            errs.invalid(&lost, failed, why);
        }
        if let (Some(failed), Some(all)) = (failed, spec.completions())
            && (failed_changed || completed_changed)
            && let Some(index) = overlap(completed, failed, all)
        {
            let why = format!("failedIndexes and completedIndexes overlap at index: {index}");
            errs.invalid(&lost, failed, why);
        }
    }

    fn transitions(&self, errs: &mut ErrorList) {
        let (new, before, spec) = (self.new, self.before, self.job.spec());
        for name in ["Failed", "Complete", "FailureTarget"] {
            if self.has(name) == (false, true) {
                let why = format!("cannot disable the terminal {name}=True condition");
                self.condition(&why, errs);
            }
        }
        if new.failed() < before.failed() {
            let why = "cannot decrease the failed counter";
            errs.invalid(&self.at.field("failed"), new.failed(), why);
        }
        let scales =
            spec.completion_mode() == Some("Indexed") && spec.completions() == spec.parallelism();
        if !scales && new.succeeded() < before.succeeded() {
            let why = "cannot decrease the succeeded counter";
            errs.invalid(&self.at.field("succeeded"), new.succeeded(), why);
        }
        if let (Some(end), Some(old)) = (new.completion_time(), before.completion_time())
            && end != old
        {
            errs.invalid(&self.at.field("completionTime"), end, "field is immutable");
        }
        let is_false = |condition: &super::JobCondition| {
            condition.type_() == "Suspended" && condition.status() == "False"
        };
        let resumes =
            self.old.has_condition("Suspended") && new.conditions().find(is_false).is_some();
        let moved = before.start_time().is_some() && new.start_time() != before.start_time();
        if moved && !resumes && spec.suspend() != Some(true) {
            let why = "field is immutable for unsuspended job once set";
            let start = crate::rules::or_null(new.start_time());
            errs.invalid(&self.at.field("startTime"), start, why);
        }
        let (met, met_changed) = self.has("SuccessCriteriaMet");
        if met_changed && !met {
            self.condition("cannot disable the SuccessCriteriaMet=True condition", errs);
        }
        if self.old.has_condition("Complete") && met_changed && met {
            let why = "cannot set SuccessCriteriaMet=True for Job already has Complete=true \
                       conditions";
            self.condition(why, errs);
        }
    }
}

/// The first index that is in both.
fn overlap(completed: &str, failed: &str, completions: i32) -> Option<i32> {
    let intervals = |text: &str| -> Vec<(i32, i32)> {
        text.split(',').filter_map(|text| interval(text, completions).ok()).collect()
    };
    let failed = intervals(failed);
    intervals(completed).into_iter().find_map(|(first, last)| {
        let hit = failed.iter().find(|other| first <= other.1 && other.0 <= last)?;
        Some(first.max(hit.0))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{JobCondition, JobSpec};

    #[test]
    fn overlaps_are_found() {
        assert_eq!(overlap("0-3,7", "4-6,7-9", 10), Some(7));
        assert_eq!(overlap("0-3", "", 10), None);
    }

    #[test]
    fn an_end_needs_its_reasons_and_stays() {
        let condition = |name: &str| JobCondition::new().with_type(name).with_status("True");
        let job = |names: &[&str]| {
            let conditions = names.iter().map(|name| condition(name)).collect::<object::List<_>>();
            Job::new()
                .with_spec(JobSpec::new().with_completions(1))
                .with_status(JobStatus::new().with_conditions(conditions))
        };
        let mut errs = ErrorList::default();
        check(&job(&["Failed"]), &job(&[]), &mut errs);
        let found: Vec<_> = errs.0.iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "status.conditions: Invalid value: cannot set Failed=True condition without the \
                 FailureTarget=true condition",
                "status.startTime: Required value: startTime is required for finished job",
            ]
        );
        let mut errs = ErrorList::default();
        check(&job(&[]), &job(&["Complete"]), &mut errs);
        assert_eq!(errs.0.len(), 1);
    }
}
