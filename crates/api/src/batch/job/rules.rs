//! The rules for jobs.

use std::collections::BTreeSet;

use object::{Lens, List, Map, Value, names, selector::Selector};
use schema::{ErrorList, FieldPath, WarningList};

use super::{
    Job, JobSpec, PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyRule, SuccessPolicyRule,
};
use crate::{
    apps::workload::{report_selector_mismatch, validate_selector_immutable},
    core::{Affinity, Container},
    rules::{ValidateField, format_selector},
    shown::{format_go, format_go_option},
};

const MAX_PARALLEL: i32 = 100_000;
/// With more completions than this, failures of single indexes are limited.
const MANY: i32 = 100_000;
const MAX_MANAGER: usize = 63;
const INDEXED_ONLY: &str = "requires indexed completion mode";

pub(super) fn check_new(job: &Job, errs: &mut ErrorList) {
    check_generated(job, errs);
    check_spec(job, errs);
    check_name(job, errs);
}

pub(super) fn check_changed(job: &Job, old: &Job, errs: &mut ErrorList) {
    check_spec(job, errs);
    let (new, before) = (job.spec(), old.spec());
    validate_selector_immutable(new.selector(), before.selector(), errs);
    let indexed = new.completion_mode() == Some("Indexed");
    let same = new.completions() == before.completions();
    let at = FieldPath::SPEC.field("completions");
    if !indexed {
        errs.immutable(&at, new.tree().get("completions"), before.tree().get("completions"));
    } else if let (false, Some(n)) = (same, new.completions())
        && Some(n) != new.parallelism()
    {
        errs.invalid(&at, n, "can only be modified in tandem with spec.parallelism");
    }
    validate_template_update(job, old, errs);
    for name in ["completionMode", "backoffLimitPerIndex", "managedBy"] {
        errs.immutable(&FieldPath::SPEC.field(name), new.tree().get(name), before.tree().get(name));
    }
    let policies = (new.pod_failure_policy(), before.pod_failure_policy());
    errs.immutable_formatted(
        &FieldPath::SPEC.field("podFailurePolicy"),
        policies,
        format_go_option,
    );
    let policies = (new.success_policy(), before.success_policy());
    errs.immutable_formatted(&FieldPath::SPEC.field("successPolicy"), policies, format_go_option);
    check_name(job, errs);
}

/// While a job is suspended and has no pods, its scheduling directives may be changed.
fn validate_template_update(job: &Job, old: &Job, errs: &mut ErrorList) {
    let mut before = old.spec().template().clone();
    let new = job.spec().template();
    let idle = old.status().start_time().is_none() || old.has_condition("Suspended");
    let open = old.spec().suspend() == Some(true) && idle && old.status().active() == 0;
    if open {
        let spec = before.spec_mut();
        if let Some(resized) = resized(spec.containers(), new.spec().containers()) {
            spec.set_containers(resized);
        }
        if let Some(resized) = resized(spec.init_containers(), new.spec().init_containers()) {
            spec.set_init_containers(resized);
        }
        spec.set_node_selector(new.spec().node_selector().clone());
        spec.set_tolerations(new.spec().tolerations().clone());
        spec.set_scheduling_gates(new.spec().scheduling_gates().clone());
        let mut affinity = spec.affinity().cloned().unwrap_or_default();
        match new.spec().affinity().and_then(Affinity::node_affinity) {
            Some(nodes) => affinity.set_node_affinity(nodes.clone()),
            None => affinity.clear_node_affinity(),
        }
        if affinity == Affinity::new() && new.spec().affinity().is_none() {
            spec.clear_affinity();
        } else {
            spec.set_affinity(affinity);
        }
        before.metadata_mut().set_labels(new.metadata().labels().clone());
        before.metadata_mut().set_annotations(new.metadata().annotations().clone());
    }
    let at = FieldPath::SPEC.field("template");
    match open {
        true => errs.immutable_formatted(&at.field("spec"), (new.spec(), before.spec()), format_go),
        false => errs.immutable_formatted(&at, (new, &before), format_go),
    }
}

/// The containers with the resources that those of the same names ask for now.
fn resized(old: &List<Container>, new: &List<Container>) -> Option<List<Container>> {
    let sized = |(old, new): (&Container, &Container)| match old.name() == new.name() {
        true => old.clone().with_resources(new.resources().clone()),
        false => old.clone(),
    };
    let same = old.len() != new.len()
        || old.iter().zip(new.iter()).all(|(old, new)| old.resources() == new.resources());
    (!same).then(|| old.iter().zip(new.iter()).map(sized).collect())
}

/// The pods of an indexed job are named by it.
fn check_name(job: &Job, errs: &mut ErrorList) {
    let spec = job.spec();
    let (Some("Indexed"), Some(n @ 1..)) = (spec.completion_mode(), spec.completions()) else {
        return;
    };
    let name = job.metadata().name();
    let longest = format!("{name}-{}", n - 1);
    if !names::dns1123_label(&longest).is_empty() {
        let why = format!("will not able to create pod with invalid DNS label: {longest}");
        errs.invalid(&FieldPath::METADATA.field("name"), name, why);
    }
}

/// A selector that was not given by hand selects the pods of this job and no others.
fn check_generated(job: &Job, errs: &mut ErrorList) {
    let (spec, meta) = (job.spec(), job.metadata());
    if spec.manual_selector() == Some(true) || spec.selector().is_none() {
        return;
    }
    let (uid, name) = (meta.uid(), meta.name());
    let expected = [
        ("controller-uid", uid),
        ("job-name", name),
        ("batch.kubernetes.io/controller-uid", uid),
        ("batch.kubernetes.io/job-name", name),
    ];
    let at = FieldPath::SPEC.field("template");
    let at = at.field("metadata");
    let at = at.field("labels");
    let labels = spec.template().metadata().labels();
    for (label, value) in expected {
        match labels.get(label) {
            None => errs.required(&at.key(label), format!("must be '{value}'")),
            Some(found) if found != value => {
                let all = labels.clone();
                errs.invalid(&at.key(label), Value::from(all), format!("must be '{value}'"));
            }
            Some(_) => {}
        }
    }
    let expected: Map<String> = expected.into();
    let selector = Selector::from_label_selector(spec.tree().get("selector"));
    if selector.is_ok_and(|selector| !selector.matches(&expected)) {
        let shown = spec.selector().map(format_selector).unwrap_or_default();
        let why = "`selector` not auto-generated";
        errs.invalid_formatted(&FieldPath::SPEC.field("selector"), shown, why);
    }
}

fn check_spec(job: &Job, errs: &mut ErrorList) {
    let spec = job.spec();
    spec.check(&FieldPath::SPEC, errs);
    match spec.selector() {
        None => errs.required(&FieldPath::SPEC.field("selector"), ""),
        Some(_) => errs.selector(&FieldPath::SPEC.field("selector"), spec.selector()),
    }
    let labels = spec.template().metadata().labels();
    if Selector::from_label_selector(spec.tree().get("selector"))
        .is_ok_and(|all| !all.matches(labels))
    {
        report_selector_mismatch(labels, &FieldPath::SPEC.field("template"), errs);
    }
}

impl JobSpec {
    /// What holds in a job and in what a job is made from.
    pub(crate) fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        for (name, n) in [
            ("parallelism", self.parallelism().map(i64::from)),
            ("completions", self.completions().map(i64::from)),
            ("activeDeadlineSeconds", self.active_deadline_seconds()),
            ("backoffLimit", self.backoff_limit().map(i64::from)),
            ("ttlSecondsAfterFinished", self.ttl_seconds_after_finished().map(i64::from)),
            ("backoffLimitPerIndex", self.backoff_limit_per_index().map(i64::from)),
            ("maxFailedIndexes", self.max_failed_indexes().map(i64::from)),
        ] {
            errs.non_negative(&at.field(name), n.unwrap_or_default());
        }
        if self.max_failed_indexes().is_some() && self.backoff_limit_per_index().is_none() {
            let why = "when maxFailedIndexes is specified";
            errs.required(&at.field("backoffLimitPerIndex"), why);
        }
        if let Some(manager) = self.managed_by() {
            let at = at.field("managedBy");
            errs.domain_path(&at, manager);
            errs.max_bytes(&at, manager, MAX_MANAGER);
        }
        if let Some(mode) = self.completion_mode() {
            errs.one_of(&at.field("completionMode"), mode, &["NonIndexed", "Indexed"]);
        }
        self.check_indexes(at, errs);
        self.check_failure_policy(&at.field("podFailurePolicy"), errs);
        self.check_success_policy(&at.field("successPolicy"), errs);
        if let Some(policy) = self.pod_replacement_policy() {
            let known: &[&str] = match self.pod_failure_policy() {
                Some(_) => &["Failed"],
                None => &["Failed", "TerminatingOrFailed"],
            };
            errs.one_of(&at.field("podReplacementPolicy"), policy, known);
        }
        self.template().check(&at.field("template"), errs);
        self.check_restart(at, errs);
    }

    pub(crate) fn warn(&self, at: &FieldPath, warnings: &mut WarningList) {
        let many = self.completions().is_some_and(|n| n > 100_000)
            && self.parallelism().is_some_and(|n| n > 10_000);
        if many && self.completion_mode() == Some("Indexed") {
            let why = "In Indexed Jobs with a number of completions higher than 10^5 and a \
                       parallelism higher than 10^4, Kubernetes might not be able to track \
                       completedIndexes when a big number of indexes fail";
            warnings.push_at(at, why);
        }
        self.template().warn(&at.field("template"), warnings);
    }

    fn check_restart(&self, at: &FieldPath, errs: &mut ErrorList) {
        let at = at.field("template");
        let at = at.field("spec");
        let at = at.field("restartPolicy");
        match (self.template().spec().restart_policy(), self.pod_failure_policy()) {
            ("Always", _) => errs.required(&at, "valid values: \"OnFailure\", \"Never\""),
            ("OnFailure", Some(_)) => {
                let why = "only \"Never\" is supported when podFailurePolicy is specified";
                errs.invalid(&at, "OnFailure", why);
            }
            (policy, _) => errs.one_of(&at, policy, &["OnFailure", "Never"]),
        }
    }

    fn check_indexes(&self, at: &FieldPath, errs: &mut ErrorList) {
        let failed = at.field("maxFailedIndexes");
        match self.completion_mode() {
            Some("Indexed") => {
                if self.completions().is_none() {
                    let why = "when completion mode is Indexed";
                    errs.required(&at.field("completions"), why);
                }
                if let Some(n) = self.parallelism().filter(|n| *n > MAX_PARALLEL) {
                    let why = format!(
                        "must be less than or equal to {MAX_PARALLEL} when completion mode is \
                         Indexed"
                    );
                    errs.invalid(&at.field("parallelism"), n, why);
                }
                if let (Some(max), Some(all)) = (self.max_failed_indexes(), self.completions())
                    && max > all
                {
                    errs.invalid(&failed, max, "must be less than or equal to completions");
                }
                if let Some(max) = self.max_failed_indexes().filter(|n| *n > MAX_PARALLEL) {
                    let why = format!("must be less than or equal to {MAX_PARALLEL}");
                    errs.invalid(&failed, max, why);
                }
                self.check_many(at, errs);
            }
            None | Some("NonIndexed") => {
                if let Some(n) = self.backoff_limit_per_index() {
                    errs.invalid(&at.field("backoffLimitPerIndex"), n, INDEXED_ONLY);
                }
                if let Some(n) = self.max_failed_indexes() {
                    errs.invalid(&failed, n, INDEXED_ONLY);
                }
            }
            Some(_) => {}
        }
    }

    /// What holds for failures of single indexes out of very many.
    fn check_many(&self, at: &FieldPath, errs: &mut ErrorList) {
        let many = self.completions().is_some_and(|n| n > MANY);
        if !many || self.backoff_limit_per_index().is_none() {
            return;
        }
        if self.max_failed_indexes().is_none() {
            let why = format!("must be specified when completions is above {MANY}");
            errs.required(&at.field("maxFailedIndexes"), why);
        }
        for (name, n) in
            [("parallelism", self.parallelism()), ("maxFailedIndexes", self.max_failed_indexes())]
        {
            if let Some(n) = n.filter(|n| *n > 10_000) {
                let why = format!(
                    "must be less than or equal to 10000 when completions are above {MANY} and \
                     used with backoff limit per index"
                );
                errs.invalid(&at.field(name), n, why);
            }
        }
    }

    fn check_failure_policy(&self, at: &FieldPath, errs: &mut ErrorList) {
        let Some(policy) = self.pod_failure_policy() else { return };
        let at = at.field("rules");
        errs.max_items(&at, policy.rules().len(), 20);
        let names: BTreeSet<_> =
            self.template().spec().all_containers().map(Container::name).collect();
        let by_index = self.backoff_limit_per_index().is_some();
        at.for_each_item(policy.rules().iter(), |rule, at| rule.check(by_index, &names, at, errs));
    }

    fn check_success_policy(&self, at: &FieldPath, errs: &mut ErrorList) {
        let Some(policy) = self.success_policy() else { return };
        if self.completion_mode() != Some("Indexed") {
            return errs.invalid_formatted(at, format_go(policy), INDEXED_ONLY);
        }
        let at = at.field("rules");
        match policy.rules().len() {
            0 => errs.required(
                &at,
                "at least one rules must be specified when the successPolicy is specified",
            ),
            n if n > 20 => errs.too_many_with_count(&at, n, 20),
            _ => {}
        }
        for (i, rule) in policy.rules().iter().enumerate() {
            rule.check(self.completions().unwrap_or_default(), &at.index(i), errs);
        }
    }
}

impl PodFailurePolicyRule {
    fn check(&self, by_index: bool, names: &BTreeSet<&str>, at: &FieldPath, errs: &mut ErrorList) {
        let action = at.field("action");
        match self.action() {
            "" => errs.required(
                &action,
                "valid values: [\"Count\" \"FailIndex\" \"FailJob\" \"Ignore\"]",
            ),
            "FailIndex" if !by_index => {
                let why = "requires the backoffLimitPerIndex to be set";
                errs.invalid(&action, "FailIndex", why);
            }
            name => errs.one_of(&action, name, &["Count", "FailIndex", "FailJob", "Ignore"]),
        }
        at.if_present("onExitCodes", self.on_exit_codes(), |codes, at| {
            codes.check(names, at, errs);
        });
        let conditions = at.field("onPodConditions");
        errs.max_items(&conditions, self.on_pod_conditions().len(), 20);
        conditions.for_each_item(self.on_pod_conditions().iter(), |pattern, at| {
            errs.qualified(&at.field("type"), pattern.type_());
            errs.one_of(&at.field("status"), pattern.status(), &["False", "True", "Unknown"]);
        });
        match (self.on_exit_codes().is_some(), !self.on_pod_conditions().is_empty()) {
            (true, true) => errs.invalid_without_value(
                at,
                "specifying both OnExitCodes and OnPodConditions is not supported",
            ),
            (false, false) => errs.invalid_without_value(
                at,
                "specifying one of OnExitCodes and OnPodConditions is required",
            ),
            _ => {}
        }
    }
}

impl PodFailurePolicyOnExitCodesRequirement {
    fn check(&self, names: &BTreeSet<&str>, at: &FieldPath, errs: &mut ErrorList) {
        match self.operator() {
            "" => errs.required(&at.field("operator"), "valid values: [\"In\" \"NotIn\"]"),
            operator => errs.one_of(&at.field("operator"), operator, &["In", "NotIn"]),
        }
        if let Some(name) = self.container_name().filter(|name| !names.contains(name)) {
            let why = "must be one of the container or initContainer names in the pod template";
            errs.invalid(&at.field("containerName"), name, why);
        }
        let (at, values) = (at.field("values"), self.values());
        let shown = || Value::from(values.clone());
        match values.len() {
            0 => errs.invalid(&at, shown(), "at least one value is required"),
            n if n > 255 => errs.too_many_with_count(&at, n, 255),
            _ => {}
        }
        let codes: Vec<i32> = values.iter().collect();
        let mut seen = BTreeSet::new();
        for (i, code) in codes.iter().enumerate() {
            if self.operator() == "In" && *code == 0 {
                errs.invalid(&at.index(i), 0, "must not be 0 for the In operator");
            }
            if !seen.insert(*code) {
                errs.duplicate(&at.index(i), *code);
            }
        }
        if !codes.is_sorted() {
            errs.invalid(&at, shown(), "must be ordered");
        }
    }
}

impl SuccessPolicyRule {
    fn check(&self, completions: i32, at: &FieldPath, errs: &mut ErrorList) {
        if self.succeeded_count().is_none() && self.succeeded_indexes().is_none() {
            let why = "at least one of succeededCount or succeededIndexes must be specified";
            errs.required(at, why);
        }
        let indexes =
            self.succeeded_indexes().map(|text| count_completion_indexes(text, completions));
        if let (Some(Err(wrong)), Some(text)) = (&indexes, self.succeeded_indexes()) {
            let why = format!("error parsing succeededIndexes: {wrong}");
            errs.invalid(&at.field("succeededIndexes"), text, why);
        }
        let Some(count) = self.succeeded_count() else { return };
        let at = at.field("succeededCount");
        errs.non_negative(&at, count.into());
        if count > completions {
            let why = format!(
                "must be less than or equal to {completions} (the number of specified completions)"
            );
            errs.invalid(&at, count, why);
        }
        if let Some(listed) = indexes.map(Result::unwrap_or_default).filter(|n| count > *n) {
            let why = format!(
                "must be less than or equal to {listed} (the number of indexes in the specified \
                 succeededIndexes field)"
            );
            errs.invalid(&at, count, why);
        }
    }
}

/// How many indexes `1,3-5` names, of those below `completions`.
pub(crate) fn count_completion_indexes(text: &str, completions: i32) -> Result<i32, String> {
    let (mut last, mut count) = (None, 0);
    for text in text.split(',').filter(|_| !text.is_empty()) {
        let (first, end) = interval(text, completions)?;
        if let Some(last) = last.filter(|last| *last >= first) {
            return Err(unordered(last, first));
        }
        (last, count) = (Some(end), count + end - first + 1);
    }
    Ok(count)
}

/// The first and the last index of `3-5`.
pub(super) fn interval(text: &str, completions: i32) -> Result<(i32, i32), String> {
    let number = |text: &str| {
        let n: i32 = text
            .parse()
            .map_err(|_| format!("cannot convert string to integer for index: {text:?}"))?;
        if n >= completions { Err(format!("too large index: {text:?}")) } else { Ok(n) }
    };
    match text.split('-').collect::<Vec<_>>()[..] {
        [one] => number(one).map(|n| (n, n)),
        [first, end] => {
            let (first, end) = (number(first)?, number(end)?);
            if first >= end { Err(unordered(first, end)) } else { Ok((first, end)) }
        }
        _ => Err(format!(
            "the fragment {text:?} violates the requirement that an index interval can have at \
             most two parts separated by '-'"
        )),
    }
}

fn unordered(last: i32, next: i32) -> String {
    format!("non-increasing order, previous: {last}, current: {next}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suspended_job_may_be_given_other_resources() {
        let job = |container: &str| {
            let text = format!(
                r#"{{"spec":{{"suspend":true,"template":{{"spec":{{"containers":[{container}]}}}}}}}}"#
            );
            Job::from(object::from_json(text.as_bytes()).expect("JSON"))
        };
        let kept = |new: &str| {
            let mut errs = ErrorList::default();
            validate_template_update(&job(new), &job(r#"{"name":"c","image":"i"}"#), &mut errs);
            errs.0.iter().map(|error| error.path.clone()).collect::<Vec<_>>()
        };
        let sized = r#"{"name":"c","image":"i","resources":{"requests":{"cpu":"1"}}}"#;
        assert!(kept(sized).is_empty());
        assert_eq!(kept(r#"{"name":"c","image":"j"}"#), ["spec.template.spec"]);
    }

    #[test]
    fn indexes_are_counted_and_in_order() {
        assert_eq!(count_completion_indexes("", 5), Ok(0));
        assert_eq!(count_completion_indexes("0,2-4", 5), Ok(4));
        assert_eq!(count_completion_indexes("5", 5).unwrap_err(), "too large index: \"5\"");
        let wrong = count_completion_indexes("2,1", 5).unwrap_err();
        assert_eq!(wrong, "non-increasing order, previous: 2, current: 1");
    }
}
