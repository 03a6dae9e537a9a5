//! Aggregates ClusterRoles: fills the rules of roles with an aggregationRule, such as `admin`,
//! `edit` and `view`, from the roles that they select.

use api::rbac::{ClusterRole, PolicyRule};
use client::{Error, Patch};
use object::{Lens, List, NamespacedName, Value, selector::Selector};
use runtime::{CachedApi, Context, Controller, Reconcile, Requeue};
use schema::Kind;

use crate::Config;

pub(crate) fn start(cx: &Context, _: &Config) {
    let roles: CachedApi<ClusterRole> = cx.cached_api();
    let known = roles.clone();
    Controller::new("clusterrole-aggregation", cx, Aggregation { roles })
        .queue_named("ClusterRoleAggregator")
        .watches::<ClusterRole>(move |_| {
            let sums = known.all().into_iter().filter(|role| role.aggregation_rule().is_some());
            sums.map(|role| NamespacedName::from_meta(role.metadata())).collect()
        })
        .workers(1)
        .start();
}

/// Reconciler of aggregated ClusterRoles.
#[derive(Debug)]
struct Aggregation {
    roles: CachedApi<ClusterRole>,
}

impl Reconcile for Aggregation {
    type Kind = ClusterRole;

    async fn reconcile(
        &self,
        key: &NamespacedName,
        role: Option<ClusterRole>,
    ) -> Result<Requeue, Error> {
        let Some(role) = role else { return Ok(Requeue::OnChange) };
        let Some(rules) = plan(&role, &self.roles.all()) else { return Ok(Requeue::OnChange) };
        let mut patch = Value::object();
        patch["rules"] = rules.into();
        let because = role.write_cause("the roles that it sums up have changed");
        self.roles.with_cause(&because).patch(key, &Patch::Merge(patch)).await?;
        Ok(Requeue::OnChange)
    }
}

/// The rules that the role should have; `None` if it has them.
fn plan(role: &ClusterRole, all: &[ClusterRole]) -> Option<List<PolicyRule>> {
    let selectors = role.aggregation_rule()?.cluster_role_selectors();
    let selectors: Vec<Selector> =
        selectors.iter().filter_map(|own| Selector::from_label_selector(own.tree()).ok()).collect();
    let mut parts: Vec<&ClusterRole> = all
        .iter()
        .filter(|other| other.metadata().name() != role.metadata().name())
        .filter(|other| selectors.iter().any(|own| own.matches(other.metadata().labels())))
        .collect();
    parts.sort_by_key(|part| part.metadata().name());
    let mut rules: Vec<PolicyRule> = Vec::new();
    for rule in parts.iter().flat_map(|part| part.rules().iter()) {
        if !rules.contains(rule) {
            rules.push(rule.clone());
        }
    }
    let rules: List<PolicyRule> = rules.into_iter().collect();
    let same = rules.iter().eq(role.rules().iter());
    (!same).then_some(rules)
}

#[cfg(test)]
mod tests {
    use api::rbac::AggregationRule;
    use object::{LabelSelector, ObjectMeta};

    use super::*;

    #[test]
    fn sums_up_what_is_labelled() {
        let rule = PolicyRule::new().with_verbs(["get"]).with_resources(["pods"]);
        let meta = ObjectMeta::new().with_name("part").with_labels([("to", "admin")]);
        let part = ClusterRole::new().with_metadata(meta).with_rules([rule.clone()]);
        let selector = LabelSelector::new().with_match_labels([("to", "admin")]);
        let sum = ClusterRole::new()
            .with_metadata(ObjectMeta::new().with_name("admin"))
            .with_aggregation_rule(AggregationRule::new().with_cluster_role_selectors([selector]));
        let rules = plan(&sum, &[part.clone(), sum.clone()]).expect("it lacks the rule");
        assert_eq!(rules.iter().collect::<Vec<_>>(), [&rule]);
        let sum = sum.with_rules(rules);
        assert!(plan(&sum, &[part, sum.clone()]).is_none());
    }
}
