//! The rules for autoscalers.

use object::{Lens, names};
use schema::{ErrorList, FieldPath};

use super::{
    CrossVersionObjectReference, HPAScalingPolicy, HPAScalingRules, HorizontalPodAutoscalerSpec,
    MetricIdentifier, MetricSpec, MetricTarget,
};
use crate::{core::resources::rules::check_container_name, rules::ValidateField};

const MAX_PERIOD: i32 = 1800;
const MAX_WINDOW: i32 = 3600;
/// The sources in the order in which they are looked at, and their types.
const SOURCES: [(&str, &str); 5] = [
    ("object", "Object"),
    ("external", "External"),
    ("pods", "Pods"),
    ("resource", "Resource"),
    ("containerResource", "ContainerResource"),
];
const TYPES: [&str; 5] = ["ContainerResource", "External", "Object", "Pods", "Resource"];

pub(super) fn check(spec: &HorizontalPodAutoscalerSpec, errs: &mut ErrorList) {
    let (min, max) = (spec.min_replicas(), spec.max_replicas());
    errs.non_negative(&FieldPath::SPEC.field("minReplicas"), min.into());
    let at = FieldPath::SPEC.field("maxReplicas");
    if max < 0 {
        errs.invalid(&at, max, "must be greater than or equal to 1");
    }
    if max < min {
        errs.invalid(&at, max, "must be greater than or equal to `minReplicas`");
    }
    spec.scale_target_ref().check(false, &FieldPath::SPEC.field("scaleTargetRef"), errs);
    let metrics = FieldPath::SPEC.field("metrics");
    metrics.for_each_item(spec.metrics().iter(), |metric, at| metric.check(at, errs));
    let outside = |metric: &MetricSpec| matches!(metric.type_(), "Object" | "External");
    if min == 0 && spec.metrics().find(outside).is_none() {
        let why = "must specify at least one Object or External metric to support scaling to zero \
                   replicas";
        errs.forbidden(&metrics, why);
    }
    if let Some(behavior) = spec.behavior() {
        let at = FieldPath::SPEC.field("behavior");
        let both = [("scaleUp", behavior.scale_up()), ("scaleDown", behavior.scale_down())];
        for (name, rules) in both {
            at.if_present(name, rules, |rules, at| rules.check(at, errs));
        }
    }
    if max == 0 {
        errs.required(&at, "");
    }
}

impl CrossVersionObjectReference {
    /// `core`: an object without an API group will do.
    fn check(&self, core: bool, at: &FieldPath, errs: &mut ErrorList) {
        for (name, text) in [("kind", self.kind()), ("name", self.name())] {
            errs.required_field(at, name, text);
            errs.invalid_each(&at.field(name), text, names::path_segment_name(text));
        }
        let (version, at) = (self.api_version(), at.field("apiVersion"));
        match version.matches('/').count() {
            0 | 1 if !core && !version.trim_start_matches('/').contains('/') => {
                errs.invalid(&at, version, "apiVersion must specify API group");
            }
            0 | 1 => {}
            _ => {
                let why = format!("unexpected GroupVersion string: {version}");
                errs.invalid(&at, version, why);
            }
        }
    }
}

impl MetricSpec {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        let kind = self.type_();
        if kind.is_empty() {
            errs.required(&at.field("type"), "must specify a metric source type");
        }
        errs.one_of(&at.field("type"), kind, &TYPES);
        let set: Vec<_> =
            SOURCES.iter().filter(|(name, _)| !self.tree().get(name).is_null()).collect();
        if let Some((first, _)) = set.first() {
            self.check_source(first, &at.field(first), errs);
        }
        let expected = SOURCES.iter().find(|(_, of)| *of == kind);
        if let Some((name, _)) = expected.filter(|(name, _)| self.tree().get(name).is_null()) {
            let why = "must populate information for the given metric source";
            errs.required(&at.field(name), why);
        }
        if set.len() != 1 {
            for (name, _) in set.iter().filter(|(_, of)| *of != kind) {
                errs.forbidden(&at.field(name), "must populate the given metric source only");
            }
        }
    }

    fn check_source(&self, name: &str, at: &FieldPath, errs: &mut ErrorList) {
        let target = at.field("target");
        if let (Some(source), "object") = (self.object(), name) {
            source.described_object().check(true, &at.field("describedObject"), errs);
            source.metric().check(&at.field("metric"), errs);
            source.target().check(&target, errs);
            if source.target().value().is_none() && source.target().average_value().is_none() {
                let why = "must set either a target value or averageValue";
                errs.required(&target.field("averageValue"), why);
            }
        }
        if let (Some(source), "external") = (self.external(), name) {
            source.metric().check(&at.field("metric"), errs);
            source.target().check(&target, errs);
            match (source.target().value(), source.target().average_value()) {
                (None, None) => {
                    let why = "must set either a target value for metric or a per-pod target";
                    errs.required(&target.field("averageValue"), why);
                }
                (Some(_), Some(_)) => {
                    let why = "may not set both a target value for metric and a per-pod target";
                    errs.forbidden(&target.field("value"), why);
                }
                _ => {}
            }
        }
        if let (Some(source), "pods") = (self.pods(), name) {
            source.metric().check(&at.field("metric"), errs);
            source.target().check(&target, errs);
            if source.target().average_value().is_none() {
                let why = "must specify a positive target averageValue";
                errs.required(&target.field("averageValue"), why);
            }
        }
        if let (Some(source), "resource") = (self.resource(), name) {
            if source.name().is_empty() {
                errs.required(&at.field("name"), "must specify a resource name");
            }
            source.target().check_share(&target, errs);
        }
        if let (Some(source), "containerResource") = (self.container_resource(), name) {
            match source.name() {
                "" => errs.required(&at.field("name"), "must specify a resource name"),
                name => check_container_name(name, &at.field("name"), errs),
            }
            match source.container() {
                "" => errs.required(&at.field("container"), "must specify a container"),
                container => errs.label(&at.field("container"), container),
            }
            source.target().check_share(&target, errs);
        }
    }
}

impl MetricIdentifier {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        match self.name() {
            "" => errs.required(&at.field("name"), "must specify a metric name"),
            name => errs.invalid_each(&at.field("name"), name, names::path_segment_name(name)),
        }
    }
}

impl MetricTarget {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        if self.type_().is_empty() {
            errs.required(&at.field("type"), "must specify a metric target type");
        }
        if !matches!(self.type_(), "Utilization" | "Value" | "AverageValue") {
            let why = "must be either Utilization, Value, or AverageValue";
            errs.invalid(&at.field("type"), self.type_(), why);
        }
        for (name, amount) in [("value", self.value()), ("averageValue", self.average_value())] {
            if let Some(amount) = amount.filter(|amount| amount.sign() != 1) {
                errs.invalid(&at.field(name), amount.to_string(), "must be positive");
            }
        }
        if let Some(n) = self.average_utilization().filter(|n| *n < 1) {
            errs.invalid(&at.field("averageUtilization"), n, "must be greater than 0");
        }
    }

    /// An amount, or a share of what was asked for.
    fn check_share(&self, at: &FieldPath, errs: &mut ErrorList) {
        self.check(at, errs);
        match (self.average_utilization(), self.average_value()) {
            (None, None) => {
                let why = "must set either a target raw value or a target utilization";
                errs.required(&at.field("averageUtilization"), why);
            }
            (Some(_), Some(_)) => {
                let why = "may not set both a target raw value and a target utilization";
                errs.forbidden(&at.field("averageValue"), why);
            }
            _ => {}
        }
    }
}

impl HPAScalingRules {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        let window = at.field("stabilizationWindowSeconds");
        match self.stabilization_window_seconds() {
            Some(n @ ..0) => errs.invalid(&window, n, "must be greater than or equal to zero"),
            Some(n) if n > MAX_WINDOW => {
                errs.invalid(&window, n, format!("must be less than or equal to {MAX_WINDOW}"));
            }
            _ => {}
        }
        if let Some(policy) = self.select_policy() {
            errs.one_of(&at.field("selectPolicy"), policy, &["Disabled", "Max", "Min"]);
        }
        let policies = at.field("policies");
        if self.policies().is_empty() {
            errs.required(&policies, "must specify at least one Policy");
        }
        policies.for_each_item(self.policies().iter(), |policy, at| policy.check(at, errs));
        if let Some(tolerance) = self.tolerance().filter(|tolerance| tolerance.sign() < 0) {
            let why = "must be greater than or equal to 0";
            errs.invalid(&at.field("tolerance"), tolerance.to_string(), why);
        }
    }
}

impl HPAScalingPolicy {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        errs.one_of(&at.field("type"), self.type_(), &["Percent", "Pods"]);
        errs.positive(&at.field("value"), self.value().into());
        let period = at.field("periodSeconds");
        errs.positive(&period, self.period_seconds().into());
        if self.period_seconds() > MAX_PERIOD {
            let why = format!("must be less than or equal to {MAX_PERIOD}");
            errs.invalid(&period, self.period_seconds(), why);
        }
    }
}
