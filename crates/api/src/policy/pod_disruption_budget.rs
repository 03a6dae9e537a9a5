//! policy/v1: PodDisruptionBudget.

use macros::api;
use object::{Condition, IntOrString, LabelSelector, List, Map, ObjectMeta, Time, Value};
use schema::{Column, Errors, Kind, NameRule, Names, Path, Subresource, names};

use crate::{
    apps::workload::{check_not_more, check_share},
    rules::Rules,
    shown::shown,
};

/// How many pods of a set may be missing when something can wait.
#[api]
pub struct PodDisruptionBudget {
    /// Name, labels and the like.
    metadata: ObjectMeta,
    /// How many pods must stay.
    spec: PodDisruptionBudgetSpec,
    /// How many can go now.
    status: PodDisruptionBudgetStatus,
}

#[api]
pub struct PodDisruptionBudgetSpec {
    /// How many pods must stay.
    min_available: Option<IntOrString>,
    /// The pods that it is about.
    selector: Option<LabelSelector>,
    /// How many pods may be missing.
    max_unavailable: Option<IntOrString>,
    /// Whether pods that are not ready can always go.
    #[api(go = "v1.UnhealthyPodEvictionPolicyType", values("AlwaysAllow", "IfHealthyBudget"))]
    unhealthy_pod_eviction_policy: Option<String>,
}

#[api]
pub struct PodDisruptionBudgetStatus {
    /// The generation of the object that the status is about.
    observed_generation: i64,
    /// The pods that are about to go, with the time of their eviction.
    #[api(go = "map[string]v1.Time")]
    disrupted_pods: Map<Time>,
    /// How many pods may be disrupted now.
    #[api(always)]
    disruptions_allowed: i32,
    /// How many pods are healthy.
    #[api(always)]
    current_healthy: i32,
    /// How many pods should at least be healthy.
    #[api(always)]
    desired_healthy: i32,
    /// How many pods there are in all.
    #[api(always)]
    expected_pods: i32,
    /// What holds of the object at present.
    #[api(keys("type"), merge, merge_key = "type")]
    conditions: List<Condition>,
}

impl Kind for PodDisruptionBudget {
    const NAMES: Names =
        Names::new("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets").short(&["pdb"]);
    const BLIND_UPDATES: bool = false;
    const ANY_FINALIZER: bool = true;
    const GENERATION: bool = true;
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::status("PodDisruptionBudget")];
    const NAME: NameRule = names::path_segment;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::NAME,
        Column::text("Min Available", |budget, _| cell(budget.spec().min_available())),
        Column::text("Max Unavailable", |budget, _| cell(budget.spec().max_unavailable())),
        Column::new("Allowed Disruptions", "integer", |budget, _| {
            budget.status().disruptions_allowed().into()
        }),
        Column::AGE,
    ];

    fn validate(&self, errs: &mut Errors) {
        let others = std::mem::take(errs);
        self.check(errs);
        // Upstream looks at the metadata of a new one only if all else is right.
        if errs.is_empty() {
            *errs = others;
        }
    }

    fn validate_update(&self, _old: &Self, errs: &mut Errors) {
        self.check(errs);
    }

    fn validate_status(&self, _old: &Self, errs: &mut Errors) {
        let (status, at) = (self.status(), Path::STATUS);
        errs.conditions(&at.field("conditions"), status.conditions());
        for (name, n) in [
            ("disruptionsAllowed", status.disruptions_allowed()),
            ("currentHealthy", status.current_healthy()),
            ("desiredHealthy", status.desired_healthy()),
            ("expectedPods", status.expected_pods()),
        ] {
            errs.non_negative(&at.field(name), n.into());
        }
    }
}

impl PodDisruptionBudget {
    fn check(&self, errs: &mut Errors) {
        let (spec, at) = (self.spec(), Path::SPEC);
        if spec.min_available().is_some() && spec.max_unavailable().is_some() {
            let why = "minAvailable and maxUnavailable cannot be both set";
            errs.invalid_shown(&at, shown(spec), why);
        }
        for (name, share) in
            [("minAvailable", spec.min_available()), ("maxUnavailable", spec.max_unavailable())]
        {
            if let Some(share) = share {
                check_share(&share, &at.field(name), errs);
                check_not_more(&share, &at.field(name), errs);
            }
        }
        errs.selector(&at.field("selector"), spec.selector());
        if let Some(policy) = spec.unhealthy_pod_eviction_policy() {
            let known = ["AlwaysAllow", "IfHealthyBudget"];
            errs.one_of(&at.field("unhealthyPodEvictionPolicy"), policy, &known);
        }
    }
}

fn cell(amount: Option<IntOrString>) -> Value {
    amount.map_or("N/A".into(), |amount| amount.to_string().into())
}

#[cfg(test)]
mod tests {
    use object::from_json;

    use super::*;

    #[test]
    fn a_budget_is_told_in_the_order_of_its_fields() {
        let budget = r#"{"spec":{"minAvailable":1,"maxUnavailable":2,"selector":{
            "matchExpressions":[{"key":"k","operator":"Exists"}],"matchLabels":{"a":"b"}}}}"#;
        let budget = from_json(budget.as_bytes()).expect("well formed");
        let mut errs = Errors::default();
        schema::Definition::of::<PodDisruptionBudget>().hooks.validate(
            &budget,
            Some(&budget),
            &mut errs,
        );
        let told = errs.0[0].to_string();
        assert!(
            told.contains(r#""Selector":{"matchLabels":{"a":"b"},"matchExpressions""#),
            "{told}"
        );
    }
}
