//! The rules that all makers of pods share.

use object::{IntOrString, LabelSelector, Lens, Map, Value, names, selector::Selector};
use schema::{ErrorList, FieldPath};

use crate::{
    core::PodTemplateSpec,
    rules::{ValidateField, format_go_fields, format_selector},
};

/// Selects pods, and makes them so that they are selected.
pub(crate) struct Workload<'a> {
    pub(crate) selector: Option<&'a LabelSelector>,
    pub(crate) template: &'a PodTemplateSpec,
    /// As messages call it: in lower case, and as a kind.
    pub(crate) names: (&'static str, &'static str),
}

impl Workload<'_> {
    pub(crate) fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        self.check_selector(at, errs);
        let at = at.field("template");
        if let Ok(selector) =
            Selector::from_label_selector(self.selector.map_or(&Value::Null, Lens::tree))
        {
            check_labels(&selector, self.template.metadata().labels(), &at, errs);
            self.check_template(&at, errs);
        } else {
            let shown = self.selector.map(format_selector).unwrap_or_default();
            errs.invalid_formatted(
                &FieldPath::SPEC.field("selector"),
                shown,
                "invalid label selector",
            );
        }
    }

    /// The template alone.
    pub(crate) fn check_template(&self, at: &FieldPath, errs: &mut ErrorList) {
        self.template.check(at, errs);
        validate_always_restarting(self.template, self.names.1, at, errs);
    }

    pub(crate) fn check_selector(&self, at: &FieldPath, errs: &mut ErrorList) {
        let at = at.field("selector");
        let Some(selector) = self.selector else { return errs.required(&at, "") };
        errs.selector(&at, Some(selector));
        if selector.match_labels().is_empty() && selector.match_expressions().is_empty() {
            let why = format!("empty selector is invalid for {}", self.names.0);
            errs.invalid_formatted(&at, format_selector(selector), why);
        }
    }
}

/// What is selected does not change.
pub(crate) fn validate_selector_immutable(
    new: Option<&LabelSelector>,
    old: Option<&LabelSelector>,
    errs: &mut ErrorList,
) {
    let shown = |new: Option<&LabelSelector>| new.map_or("null".to_owned(), format_selector);
    errs.immutable_formatted(&FieldPath::SPEC.field("selector"), (new, old), shown);
}

/// The pods made are among those selected.
pub(crate) fn check_labels(
    selector: &Selector,
    labels: &Map<String>,
    template: &FieldPath,
    errs: &mut ErrorList,
) {
    if !selector.is_empty() && !selector.matches(labels) {
        report_selector_mismatch(labels, template, errs);
    }
}

pub(crate) fn report_selector_mismatch(
    labels: &Map<String>,
    template: &FieldPath,
    errs: &mut ErrorList,
) {
    let shown = Value::from(labels.clone());
    let at = template.field("metadata");
    errs.invalid(&at.field("labels"), shown, "`selector` does not match template `labels`");
}

/// Pods that are to run for ever are always restarted.
pub(crate) fn validate_always_restarting(
    template: &PodTemplateSpec,
    kind: &str,
    at: &FieldPath,
    errs: &mut ErrorList,
) {
    let (spec, at) = (template.spec(), at.field("spec"));
    errs.one_of(&at.field("restartPolicy"), spec.restart_policy(), &["Always"]);
    if spec.active_deadline_seconds().is_some() {
        let why = format!("activeDeadlineSeconds in {kind} is not Supported");
        errs.forbidden(&at.field("activeDeadlineSeconds"), why);
    }
}

/// A number that is not negative, or a percentage.
pub(crate) fn validate_int_or_percent(share: &IntOrString, at: &FieldPath, errs: &mut ErrorList) {
    match share {
        IntOrString::Int(n) => errs.non_negative(at, i64::from(*n)),
        IntOrString::Text(text) => errs.invalid_each(at, text, names::percent(text)),
    }
}

/// A percentage is not more than everything.
pub(crate) fn validate_percent_max(share: &IntOrString, at: &FieldPath, errs: &mut ErrorList) {
    if let IntOrString::Text(text) = share
        && names::percent(text).is_empty()
        && int_or_percent_value(share) > 100
    {
        errs.invalid(at, text.as_str(), "must not be greater than 100%");
    }
}

/// The number, of things or of percents.
pub(crate) fn int_or_percent_value(share: &IntOrString) -> i64 {
    match share {
        IntOrString::Int(n) => (*n).into(),
        IntOrString::Text(text) if names::percent(text).is_empty() => {
            text.trim_end_matches('%').parse().unwrap_or_default()
        }
        IntOrString::Text(text) => text.parse().unwrap_or_default(),
    }
}

/// As Go prints a strategy of updates.
pub(crate) fn format_strategy(
    name: &str,
    rolling: Option<(Option<IntOrString>, Option<IntOrString>)>,
) -> String {
    let share = |share: Option<IntOrString>| share.unwrap_or(IntOrString::Int(0)).into();
    let rolling = rolling.map(|(unavailable, surge)| {
        format_go_fields(&[("MaxUnavailable", share(unavailable)), ("MaxSurge", share(surge))])
    });
    let rolling = rolling.unwrap_or_else(|| "null".into());
    format!("{{\"Type\":{name:?},\"RollingUpdate\":{rolling}}}")
}

/// A count of collisions only grows.
pub(crate) fn check_collisions(new: Option<i32>, old: Option<i32>, errs: &mut ErrorList) {
    let at = FieldPath::STATUS.field("collisionCount");
    if let Some(new) = new {
        errs.non_negative(&at, new.into());
    }
    if old.is_some_and(|old| new.unwrap_or_default() < old) {
        errs.invalid(&at, new.unwrap_or_default(), "cannot be decremented");
    }
}

/// Counts of pods: none is negative, none is more than the whole, and what is available is
/// `ready`, as it is called.
pub(crate) fn validate_status_replicas(
    all: i32,
    parts: &[(&str, i32)],
    ready: &str,
    errs: &mut ErrorList,
) {
    errs.non_negative(&FieldPath::STATUS.field("replicas"), all.into());
    for (name, n) in parts {
        let at = FieldPath::STATUS.field(name);
        errs.non_negative(&at, i64::from(*n));
        if *n > all {
            errs.invalid(&at, *n, "cannot be greater than status.replicas");
        }
    }
    let count = |name: &str| parts.iter().find(|part| part.0 == name).map_or(0, |part| part.1);
    let available = count("availableReplicas");
    if available > count("readyReplicas") {
        let why = format!("cannot be greater than {ready}");
        errs.invalid(&FieldPath::STATUS.field("availableReplicas"), available, why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_in_a_text_is_an_amount() {
        for (text, n) in [("50%", 50), ("1", 1), ("http", 0), ("", 0)] {
            assert_eq!(int_or_percent_value(&IntOrString::Text(text.into())), n, "{text}");
        }
        assert_eq!(int_or_percent_value(&IntOrString::Int(3)), 3);
    }
}
