//! admissionregistration/v1: ValidatingAdmissionPolicy.

use std::collections::BTreeSet;

use macros::api;
use object::{Condition, LabelSelector, Lens, List, ObjectMeta, saturating_i32};
use schema::{
    CLIENT_METADATA_FIELDS, ErrorList, FieldPath, Kind, ResourceNames, Scope, Subresource,
    TableColumn,
};

use super::rules::{FAILURE_POLICIES, check_conditions, check_variables, param_kind_cell, same};
use crate::{
    expression::{CelEnvironment, ExpectedResult, Session},
    rules::ValidateField,
    shown::format_go_list,
};

/// A rule that refuses objects, in the expression language.
#[api]
pub struct ValidatingAdmissionPolicy {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// What is checked, and when.
    spec: ValidatingAdmissionPolicySpec,
    /// What the server makes of it.
    status: ValidatingAdmissionPolicyStatus,
}

#[api]
pub struct ValidatingAdmissionPolicyStatus {
    /// The generation that was looked at.
    observed_generation: i64,
    /// What type checks have found.
    type_checking: Option<TypeChecking>,
    /// What holds of the policy.
    #[api(keys("type"))]
    conditions: List<Condition>,
}

#[api]
pub struct TypeChecking {
    /// What may be wrong with expressions.
    expression_warnings: List<ExpressionWarning>,
}

#[api]
pub struct ExpressionWarning {
    /// The path of the expression.
    #[api(tag = 2)]
    field_ref: Must<String>,
    /// What may be wrong with it.
    warning: Must<String>,
}

#[api]
pub struct ValidatingAdmissionPolicySpec {
    /// The kind of the parameters, if there are any.
    param_kind: Option<ParamKind>,
    /// The requests that the policy is for.
    match_constraints: Option<MatchResources>,
    /// What must hold.
    validations: List<Validation>,
    /// What follows from errors: Fail, Ignore.
    #[api(
        default = "Fail",
        unpublished_default,
        go_type = "$.FailurePolicyType",
        enum_values("Fail", "Ignore")
    )]
    failure_policy: Option<String>,
    /// What is written into the audit log.
    audit_annotations: List<AuditAnnotation>,
    /// What else must hold for the policy to apply.
    #[api(keys("name"), merge, merge_key = "name")]
    match_conditions: List<MatchCondition>,
    /// Values that expressions can name.
    #[api(keys("name"), merge, merge_key = "name")]
    variables: List<Variable>,
}

#[api(atomic)]
pub struct ParamKind {
    /// The group and version of the parameters.
    api_version: String,
    /// The kind of the parameters.
    kind: String,
}

#[api]
pub struct Validation {
    /// What must be true.
    expression: Must<String>,
    /// What is said when it is not.
    message: String,
    /// The reason that the answer gives.
    #[api(go_type = "v1.StatusReason")]
    reason: Option<String>,
    /// An expression that makes the message.
    message_expression: String,
}

#[api(atomic)]
pub struct Variable {
    /// What the value is called: `variables.name`.
    name: Must<String>,
    /// How the value is computed.
    expression: Must<String>,
}

#[api]
pub struct AuditAnnotation {
    /// The annotation's name, after that of the policy.
    key: Must<String>,
    /// How its value is computed.
    value_expression: Must<String>,
}

#[api(atomic)]
pub struct MatchResources {
    /// The namespaces whose objects match.
    namespace_selector: Option<LabelSelector>,
    /// The objects that match, by their labels.
    object_selector: Option<LabelSelector>,
    /// The operations and resources that match.
    resource_rules: List<NamedRuleWithOperations>,
    /// Those that do not match nevertheless.
    exclude_resource_rules: List<NamedRuleWithOperations>,
    /// Whether other versions of a resource match as well: Exact, Equivalent.
    #[api(tag = 7, default = "Equivalent", unpublished_default, go_type = "$.MatchPolicyType")]
    #[api(enum_values("Equivalent", "Exact"))]
    match_policy: Option<String>,
}

#[api(atomic)]
pub struct NamedRuleWithOperations {
    /// The names that match; none: all.
    resource_names: List<String>,
    /// The operations and resources.
    #[api(inline)]
    rule_with_operations: RuleWithOperations,
}

#[api]
pub struct RuleWithOperations {
    /// The operations: CREATE, UPDATE, DELETE, CONNECT, or *.
    #[api(
        go_type = "[]v1.OperationType",
        enum_values("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
    )]
    operations: List<String>,
    /// The resources.
    #[api(inline)]
    rule: Rule,
}

#[api]
pub struct Rule {
    /// The groups, or *.
    api_groups: List<String>,
    /// The versions, or *.
    api_versions: List<String>,
    /// The resources, perhaps with subresources: pods, pods/log, */scale.
    resources: List<String>,
    /// Cluster, Namespaced, or *.
    #[api(
        default = "*",
        unpublished_default,
        go_type = "v1.ScopeType",
        enum_values("*", "Cluster", "Namespaced")
    )]
    scope: Option<String>,
}

#[api]
pub struct MatchCondition {
    /// What the condition is called.
    name: Must<String>,
    /// What must be true for a request to match.
    expression: Must<String>,
}

impl Kind for ValidatingAdmissionPolicy {
    const COMPILES: bool = true;
    const NAMES: ResourceNames =
        super::names("ValidatingAdmissionPolicy", "validatingadmissionpolicies")
            .singular("validatingadmissionpolicy");
    const UPDATE_CHECKS_GENERATE_NAME: bool = true;
    const FORMER_API_VERSIONS: &'static [&'static str] =
        &["admissionregistration.k8s.io/v1alpha1", "admissionregistration.k8s.io/v1beta1"];
    const SCOPE: Scope = Scope::Cluster;
    const BLIND_UPDATES: bool = false;
    const ANY_FINALIZER: bool = true;
    const STATUS_KEEPS: &'static [&'static str] = CLIENT_METADATA_FIELDS;
    const GENERATION: bool = true;
    const SUBRESOURCES: &'static [Subresource] =
        &[Subresource::status("ValidatingAdmissionPolicy")];

    const COLUMNS: &'static [TableColumn<Self>] = &[
        TableColumn::NAME,
        TableColumn::new("Validations", "integer", |it, _| {
            saturating_i32(it.spec().validations().len()).into()
        }),
        TableColumn::text("ParamKind", |this, _| param_kind_cell(this.spec().param_kind()).into()),
        TableColumn::AGE,
    ];

    fn default_fields(&mut self) {
        if self.spec().match_constraints().is_some() {
            self.spec_mut().match_constraints_mut().default_fields();
        }
    }

    fn validate(&self, errs: &mut ErrorList) {
        self.check(None, errs);
    }

    fn validate_update(&self, old: &Self, errs: &mut ErrorList) {
        self.check(Some(old.spec()), errs);
    }

    fn validate_status(&self, _: &Self, errs: &mut ErrorList) {
        let at = FieldPath::STATUS;
        let checking = self.status().type_checking();
        for (i, it) in checking.iter().flat_map(|it| it.expression_warnings().iter()).enumerate() {
            let at = at.field("typeChecking");
            let at = at.field("expressionWarnings");
            errs.required_field(&at.index(i), "warning", it.warning());
            let path = it.field_ref().trim();
            errs.required_field(&at.index(i), "fieldRef", path);
            if let Err(why) = jsonpath::Template::parse(&format!("{{{path}}}")) {
                let why = format!("invalid JSONPath: {why}");
                errs.invalid(&at.index(i).field("fieldRef"), path, why);
            }
        }
        errs.conditions(&at.field("conditions"), self.status().conditions());
    }
}

const MAX_ANNOTATIONS: usize = 20;
const MAX_VALUE: usize = 5 * 1024;
const REASONS: [&str; 3] = ["Forbidden", "Invalid", "RequestEntityTooLarge"];

impl ValidatingAdmissionPolicy {
    fn check(&self, old: Option<&ValidatingAdmissionPolicySpec>, errs: &mut ErrorList) {
        let (spec, at) = (self.spec(), FieldPath::SPEC);
        errs.one_of(&at.field("failurePolicy"), spec.failure_policy(), &FAILURE_POLICIES);
        at.if_present("paramKind", spec.param_kind(), |kind, at| kind.check(at, errs));
        let constraints = at.field("matchConstraints");
        MatchResources::check_constraints(spec.match_constraints(), &constraints, errs);
        let params = spec.param_kind().is_some();
        if !old.is_some_and(|old| same(spec, old, &["paramKind", "matchConditions"])) {
            let before: Vec<_> = old.iter().flat_map(|old| old.match_conditions().iter()).collect();
            let at = at.field("matchConditions");
            check_conditions(spec.match_conditions(), &before, params, &at, errs);
        }
        let mut session = check_variables(spec.variables(), params, &at.field("variables"), errs);
        if spec.validations().is_empty() && spec.audit_annotations().is_empty() {
            let why = "validations or auditAnnotations must contain at least one item";
            errs.required(&at.field("validations"), why);
            return errs.required(&at.field("auditAnnotations"), why);
        }
        let environment = |gives, authorizer, stored| CelEnvironment {
            result_type: gives,
            params,
            authorizer,
            variables: !spec.variables().is_empty(),
            is_stored: stored,
        };
        let before = old.map(|old| old.validations().by_key(|it| it.tree())).unwrap_or_default();
        for (i, validation) in spec.validations().iter().enumerate() {
            let stored = before.contains_key(validation.tree());
            let environment = |gives, authorizer| environment(gives, authorizer, stored);
            let at = at.field("validations");
            validation.check(&mut session, &environment, &at.index(i), errs);
        }
        let environment = |stored| environment(ExpectedResult::Annotation, true, stored);
        let before: BTreeSet<_> = old
            .iter()
            .flat_map(|old| old.audit_annotations().iter())
            .map(AuditAnnotation::value_expression)
            .collect();
        let mut check = |annotation: &AuditAnnotation, at: &FieldPath, errs: &mut ErrorList| {
            let environment = environment(before.contains(annotation.value_expression()));
            session.check(annotation.value_expression().trim(), &environment, at, errs);
        };
        self.check_annotations(&mut check, &at.field("auditAnnotations"), errs);
    }

    fn check_annotations(
        &self,
        check: &mut dyn FnMut(&AuditAnnotation, &FieldPath, &mut ErrorList),
        at: &FieldPath,
        errs: &mut ErrorList,
    ) {
        let (all, policy) = (self.spec().audit_annotations(), self.metadata().name());
        if all.len() > MAX_ANNOTATIONS {
            let shown = format_go_list(all);
            let why = format!("must not have more than {MAX_ANNOTATIONS} auditAnnotations");
            errs.invalid_formatted(at, shown, why);
        }
        let mut keys = BTreeSet::new();
        for (i, annotation) in all.iter().enumerate() {
            let (at, key) = (at.index(i), annotation.key());
            match policy {
                "" => {
                    let why = "requires metadata.name be non-empty";
                    errs.invalid(&at.field("key"), key, why);
                }
                policy => errs.qualified(&at.field("key"), &format!("{policy}/{key}")),
            }
            let (text, here) = (annotation.value_expression().trim(), at.field("valueExpression"));
            if text.is_empty() {
                errs.required(&here, "valueExpression is not specified");
            } else if text.len() > MAX_VALUE {
                errs.required(&here, format!("must not exceed {MAX_VALUE} bytes in length"));
            } else {
                check(annotation, &here, errs);
            }
            errs.unique(&mut keys, &at.field("key"), key);
        }
    }
}

impl Validation {
    fn check(
        &self,
        session: &mut Session,
        environment: &dyn Fn(ExpectedResult, bool) -> CelEnvironment,
        at: &FieldPath,
        errs: &mut ErrorList,
    ) {
        let here = at.field("expression");
        if self.expression().trim().is_empty() {
            errs.required(&here, "expression is not specified");
        } else {
            let environment = environment(ExpectedResult::Bool, true);
            session.check(self.expression(), &environment, &here, errs);
        }
        let (text, here) = (self.message_expression(), at.field("messageExpression"));
        if !text.is_empty() && text.trim().is_empty() {
            errs.invalid(&here, text, "must be non-empty if specified");
        } else if !text.is_empty() {
            let environment = environment(ExpectedResult::Message, false);
            session.check(text, &environment, &here, errs);
        }
        let (text, here) = (self.message(), at.field("message"));
        if !text.is_empty() && text.trim().is_empty() {
            errs.invalid(&here, text, "must be non-empty if specified");
        } else if text.trim().contains(['\n', '\r']) {
            errs.invalid(&here, text, "must not contain line breaks");
        }
        at.if_present("reason", self.reason(), |reason, at| errs.one_of(at, reason, &REASONS));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{create_errors, created_from_json};

    #[test]
    fn a_policy_says_what_it_applies_to() {
        let policy: ValidatingAdmissionPolicy = created_from_json(
            r#"{"metadata":{"name":"p"},"spec":{"matchConstraints":{},
                "validations":[{"expression":" "}]}}"#,
        );
        assert_eq!(policy.spec().failure_policy(), "Fail");
        assert_eq!(
            create_errors(&policy),
            [
                "spec.matchConstraints.resourceRules: Required value",
                "spec.validations[0].expression: Required value: expression is not specified"
            ]
        );
    }
}
