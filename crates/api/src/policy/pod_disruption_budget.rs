//! policy/v1: PodDisruptionBudget.

use macros::api;
use object::{Condition, IntOrString, LabelSelector, List, Map, ObjectMeta, Time, Value};
use schema::{
    ErrorList, FieldPath, Kind, ResourceNames, Subresource, TableColumn, ValidateName,
    name_validation,
};

use crate::{
    apps::workload::{validate_int_or_percent, validate_percent_max},
    rules::ValidateField,
    shown::format_go,
};

/// Limits how many pods of a set may be down at the same time because of voluntary disruptions, such as a drain.
#[api]
pub struct PodDisruptionBudget {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// Desired behaviour of the budget.
    spec: PodDisruptionBudgetSpec,
    /// Observed status of the budget.
    status: PodDisruptionBudgetStatus,
}

#[api]
pub struct PodDisruptionBudgetSpec {
    /// Number or percentage of pods that must stay available during an eviction.
    min_available: Option<IntOrString>,
    /// Label selector of the pods that the budget protects.
    selector: Option<LabelSelector>,
    /// Number or percentage of pods that may be unavailable after an eviction.
    max_unavailable: Option<IntOrString>,
    /// When pods that are not ready may be evicted: IfHealthyBudget (default) or AlwaysAllow.
    #[api(
        go_type = "v1.UnhealthyPodEvictionPolicyType",
        enum_values("AlwaysAllow", "IfHealthyBudget")
    )]
    unhealthy_pod_eviction_policy: Option<String>,
}

#[api]
pub struct PodDisruptionBudgetStatus {
    /// Generation of the object that this status was computed from.
    observed_generation: i64,
    /// Pods whose eviction was accepted and that are not deleted yet, with the time.
    #[api(go_type = "map[string]v1.Time")]
    disrupted_pods: Map<Time>,
    /// Number of evictions that are allowed now.
    #[api(no_omitempty)]
    disruptions_allowed: i32,
    /// Number of healthy pods.
    #[api(no_omitempty)]
    current_healthy: i32,
    /// Smallest number of pods that must be healthy.
    #[api(no_omitempty)]
    desired_healthy: i32,
    /// Total number of pods that the budget protects.
    #[api(no_omitempty)]
    expected_pods: i32,
    /// Current conditions of the object.
    #[api(keys("type"), merge, merge_key = "type")]
    conditions: List<Condition>,
}

impl Kind for PodDisruptionBudget {
    const NAMES: ResourceNames =
        ResourceNames::new("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")
            .short(&["pdb"]);
    const FORMER_API_VERSIONS: &'static [&'static str] = &["policy/v1beta1"];
    const BLIND_UPDATES: bool = false;
    const ANY_FINALIZER: bool = true;
    const GENERATION: bool = true;
    const SUBRESOURCES: &'static [Subresource] =
        &[Subresource::status("PodDisruptionBudget").writes_metadata()];
    const NAME: ValidateName = name_validation::path_segment;
    const COLUMNS: &'static [TableColumn<Self>] = &[
        TableColumn::NAME,
        TableColumn::text("Min Available", |budget, _| cell(budget.spec().min_available())),
        TableColumn::text("Max Unavailable", |budget, _| cell(budget.spec().max_unavailable())),
        TableColumn::new("Allowed Disruptions", "integer", |budget, _| {
            budget.status().disruptions_allowed().into()
        }),
        TableColumn::AGE,
    ];

    fn validate(&self, errs: &mut ErrorList) {
        let others = std::mem::take(errs);
        self.check(errs);
        // Upstream looks at the metadata of a new one only if all else is right.
        if errs.is_empty() {
            *errs = others;
        }
    }

    fn validate_update(&self, _old: &Self, errs: &mut ErrorList) {
        self.check(errs);
    }

    fn validate_status(&self, _old: &Self, errs: &mut ErrorList) {
        let (status, at) = (self.status(), FieldPath::STATUS);
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
    fn check(&self, errs: &mut ErrorList) {
        let (spec, at) = (self.spec(), FieldPath::SPEC);
        if spec.min_available().is_some() && spec.max_unavailable().is_some() {
            let why = "minAvailable and maxUnavailable cannot be both set";
            errs.invalid_formatted(&at, format_go(spec), why);
        }
        for (name, share) in
            [("minAvailable", spec.min_available()), ("maxUnavailable", spec.max_unavailable())]
        {
            if let Some(share) = share {
                validate_int_or_percent(&share, &at.field(name), errs);
                validate_percent_max(&share, &at.field(name), errs);
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
        let mut errs = ErrorList::default();
        schema::ResourceDefinition::from_kind::<PodDisruptionBudget>().strategy.validate(
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
