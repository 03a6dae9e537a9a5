//! rbac/v1: ClusterRole.

use macros::api;
use object::{LabelSelector, Lens, List, ObjectMeta, Value, selector::Selector};
use schema::{ErrorList, FieldPath, Kind, ResourceNames, Scope, ValidateName, name_validation};

use crate::rules::ValidateField;

use super::PolicyRule;

/// A set of permissions for the whole cluster, or for namespaces by a RoleBinding.
#[api]
pub struct ClusterRole {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// Permissions of the role.
    #[api(no_omitempty)]
    rules: List<PolicyRule>,
    /// Selects ClusterRoles whose rules are combined here by the controller.
    aggregation_rule: Option<AggregationRule>,
}

#[api]
pub struct AggregationRule {
    /// Label selectors; a ClusterRole that matches any of them is included.
    cluster_role_selectors: List<LabelSelector>,
}

impl Kind for ClusterRole {
    const NAMES: ResourceNames =
        ResourceNames::new("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles");
    const FORMER_API_VERSIONS: &'static [&'static str] =
        &["rbac.authorization.k8s.io/v1alpha1", "rbac.authorization.k8s.io/v1beta1"];
    const SCOPE: Scope = Scope::Cluster;
    const CREATED_BY_UPDATE: bool = true;
    const NAME: ValidateName = name_validation::path_segment;

    fn validate(&self, errs: &mut ErrorList) {
        FieldPath::Root
            .field("rules")
            .for_each_item(self.rules().iter(), |rule, at| rule.check(false, at, errs));
        let Some(aggregation) = self.aggregation_rule() else { return };
        let at = FieldPath::Root.field("aggregationRule");
        let at = at.field("clusterRoleSelectors");
        if aggregation.cluster_role_selectors().is_empty() {
            let why = "at least one clusterRoleSelector required if aggregationRule is non-nil";
            errs.required(&at, why);
        }
        for (i, selector) in aggregation.cluster_role_selectors().iter().enumerate() {
            errs.selector(&at.index(i), Some(selector));
            if Selector::from_label_selector(selector.tree()).is_err() {
                errs.invalid(&at.index(i), Value::Null, "invalid label selector.");
            }
        }
    }
}
