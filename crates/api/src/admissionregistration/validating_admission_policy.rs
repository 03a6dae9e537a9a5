//! admissionregistration/v1: ValidatingAdmissionPolicy.

use macros::api;
use object::{Condition, LabelSelector, List, ObjectMeta};
use schema::{Kind, METADATA, Names, Scope, Storage, Subresource};

#[api]
pub struct ValidatingAdmissionPolicy {
    #[api(tag = 1)]
    metadata: ObjectMeta,
    #[api(tag = 2)]
    spec: ValidatingAdmissionPolicySpec,
    #[api(tag = 3)]
    status: ValidatingAdmissionPolicyStatus,
}

#[api]
pub struct ValidatingAdmissionPolicyStatus {
    #[api(tag = 1)]
    observed_generation: i64,
    #[api(tag = 2)]
    type_checking: Option<TypeChecking>,
    #[api(tag = 3, keys("type"))]
    conditions: List<Condition>,
}

#[api]
pub struct TypeChecking {
    #[api(tag = 1)]
    expression_warnings: List<ExpressionWarning>,
}

#[api]
pub struct ExpressionWarning {
    #[api(tag = 2, required, always)]
    field_ref: String,
    #[api(tag = 3, required, always)]
    warning: String,
}

#[api]
pub struct ValidatingAdmissionPolicySpec {
    #[api(tag = 1)]
    param_kind: Option<ParamKind>,
    #[api(tag = 2)]
    match_constraints: Option<MatchResources>,
    #[api(tag = 3)]
    validations: List<Validation>,
    #[api(tag = 4, go = "v1.FailurePolicyType")]
    failure_policy: Option<String>,
    #[api(tag = 5)]
    audit_annotations: List<AuditAnnotation>,
    #[api(tag = 6, keys("name"), merge, merge_key = "name")]
    match_conditions: List<MatchCondition>,
    #[api(tag = 7, keys("name"), merge, merge_key = "name")]
    variables: List<Variable>,
}

#[api(atomic)]
pub struct ParamKind {
    #[api(tag = 1)]
    api_version: String,
    #[api(tag = 2)]
    kind: String,
}

#[api]
pub struct Validation {
    #[api(tag = 1, required, always)]
    expression: String,
    #[api(tag = 2)]
    message: String,
    #[api(tag = 3, go = "v1.StatusReason")]
    reason: Option<String>,
    #[api(tag = 4)]
    message_expression: String,
}

#[api(atomic)]
pub struct Variable {
    #[api(tag = 1, required, always)]
    name: String,
    #[api(tag = 2, required, always)]
    expression: String,
}

#[api]
pub struct AuditAnnotation {
    #[api(tag = 1, required, always)]
    key: String,
    #[api(tag = 2, required, always)]
    value_expression: String,
}

#[api(atomic)]
pub struct MatchResources {
    #[api(tag = 1)]
    namespace_selector: Option<LabelSelector>,
    #[api(tag = 2)]
    object_selector: Option<LabelSelector>,
    #[api(tag = 3)]
    resource_rules: List<NamedRuleWithOperations>,
    #[api(tag = 4)]
    exclude_resource_rules: List<NamedRuleWithOperations>,
    #[api(tag = 7, go = "v1.MatchPolicyType")]
    match_policy: Option<String>,
}

#[api(atomic)]
pub struct NamedRuleWithOperations {
    #[api(tag = 1)]
    resource_names: List<String>,
    #[api(tag = 2, inline)]
    rule_with_operations: RuleWithOperations,
}

#[api]
pub struct RuleWithOperations {
    #[api(tag = 1, go = "[]v1.OperationType")]
    operations: List<String>,
    #[api(tag = 2, inline)]
    rule: Rule,
}

#[api]
pub struct Rule {
    #[api(tag = 1)]
    api_groups: List<String>,
    #[api(tag = 2)]
    api_versions: List<String>,
    #[api(tag = 3)]
    resources: List<String>,
    #[api(tag = 4, go = "v1.ScopeType")]
    scope: Option<String>,
}

#[api]
pub struct MatchCondition {
    #[api(tag = 1, required, always)]
    name: String,
    #[api(tag = 2, required, always)]
    expression: String,
}

impl Kind for ValidatingAdmissionPolicy {
    const NAMES: Names = Names {
        group: "admissionregistration.k8s.io",
        version: "v1",
        kind: "ValidatingAdmissionPolicy",
        plural: "validatingadmissionpolicies",
        singular: "validatingadmissionpolicy",
        short: &[],
        categories: &["api-extensions"],
    };
    const SCOPE: Scope = Scope::Cluster;
    const STORAGE: Storage = Storage::new("validatingadmissionpolicies", "v1");
    const STATUS_KEEPS: &'static [&'static str] = METADATA;
    const BLIND_UPDATES: bool = false;
    const ANY_FINALIZER: bool = true;
    const GENERATION: bool = true;
    const SUBRESOURCES: &'static [Subresource] =
        &[Subresource::new("status", "ValidatingAdmissionPolicy", &["get", "patch", "update"])];

    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }
}
