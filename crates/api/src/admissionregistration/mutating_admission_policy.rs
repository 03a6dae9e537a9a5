//! admissionregistration/v1, v1beta1 and v1alpha1: MutatingAdmissionPolicy.

use macros::api;
use object::{Lens, List, ObjectMeta, saturating_i32};
use schema::{ErrorList, FieldPath, Kind, ResourceNames, Scope, TableColumn};

use super::{
    MatchCondition, MatchResources, ParamKind, Variable,
    rules::{
        FAILURE_POLICIES, REINVOCATION_POLICIES, check_conditions, check_variables,
        param_kind_cell, same,
    },
};
use crate::expression::{CelEnvironment, ExpectedResult, Session};

/// A rule that changes objects on their way in.
#[api]
pub struct MutatingAdmissionPolicy {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// What is changed, and when.
    spec: MutatingAdmissionPolicySpec,
}

#[api]
pub struct MutatingAdmissionPolicySpec {
    /// The kind of the parameters, if there are any.
    param_kind: Option<ParamKind>,
    /// The requests that the policy is for.
    match_constraints: Option<MatchResources>,
    /// Values that expressions can name.
    variables: List<Variable>,
    /// The changes, one after the other.
    mutations: List<Mutation>,
    /// What follows from errors: Fail, Ignore.
    #[api(
        default = "Fail",
        unpublished_default,
        go_type = "$.FailurePolicyType",
        enum_values("Fail", "Ignore")
    )]
    failure_policy: Option<String>,
    /// What else must hold for the policy to apply.
    #[api(keys("name"), merge, merge_key = "name")]
    match_conditions: List<MatchCondition>,
    /// Whether it runs again after later changes: Never, IfNeeded.
    #[api(go_type = "v1.ReinvocationPolicyType", enum_values("IfNeeded", "Never"))]
    reinvocation_policy: String,
}

#[api]
pub struct Mutation {
    /// How the change is said: ApplyConfiguration, JSONPatch.
    #[api(tag = 2, go_type = "$.PatchType", enum_values("ApplyConfiguration", "JSONPatch"))]
    patch_type: Must<String>,
    /// An object that is applied.
    apply_configuration: Option<ApplyConfiguration>,
    /// A list of single changes.
    json_patch: Option<JSONPatch>,
}

#[api]
pub struct ApplyConfiguration {
    /// An expression that gives the object.
    expression: String,
}

#[api]
pub struct JSONPatch {
    /// An expression that gives the list.
    expression: String,
}

impl Kind for MutatingAdmissionPolicy {
    const COMPILES: bool = true;
    const NAMES: ResourceNames =
        super::names("MutatingAdmissionPolicy", "mutatingadmissionpolicies")
            .singular("mutatingadmissionpolicy");
    const UPDATE_CHECKS_GENERATE_NAME: bool = true;
    const FORMER_API_VERSIONS: &'static [&'static str] =
        &["admissionregistration.k8s.io/v1alpha1", "admissionregistration.k8s.io/v1beta1"];
    const SCOPE: Scope = Scope::Cluster;
    const GENERATION: bool = true;
    const BLIND_UPDATES: bool = false;
    const ANY_FINALIZER: bool = true;

    const COLUMNS: &'static [TableColumn<Self>] = &[
        TableColumn::NAME,
        TableColumn::new("Mutations", "integer", |this, _| {
            saturating_i32(this.spec().mutations().len()).into()
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
        self.spec().check(None, &FieldPath::SPEC, errs);
    }

    fn validate_update(&self, old: &Self, errs: &mut ErrorList) {
        self.spec().check(Some(old.spec()), &FieldPath::SPEC, errs);
    }
}

const OPERATIONS: [&str; 4] = ["*", "CONNECT", "CREATE", "UPDATE"];

/// Nothing can be changed by a deletion.
pub(super) fn check_operations(
    matching: Option<&MatchResources>,
    at: &FieldPath,
    errs: &mut ErrorList,
) {
    for rule in matching.iter().flat_map(|matching| matching.resource_rules().iter()) {
        for operation in rule.rule_with_operations().operations().iter() {
            errs.one_of(&at.field("resourceRules").field("operations"), operation, &OPERATIONS);
        }
    }
}

impl MutatingAdmissionPolicySpec {
    fn check(&self, old: Option<&Self>, at: &FieldPath, errs: &mut ErrorList) {
        errs.one_of(&at.field("failurePolicy"), self.failure_policy(), &FAILURE_POLICIES);
        at.if_present("paramKind", self.param_kind(), |kind, at| kind.check(at, errs));
        let here = at.field("matchConstraints");
        MatchResources::check_constraints(self.match_constraints(), &here, errs);
        check_operations(self.match_constraints(), &here, errs);
        let params = self.param_kind().is_some();
        if !old.is_some_and(|old| same(self, old, &["paramKind", "matchConditions"])) {
            let before: Vec<_> = old.iter().flat_map(|old| old.match_conditions().iter()).collect();
            let at = at.field("matchConditions");
            check_conditions(self.match_conditions(), &before, params, &at, errs);
        }
        let mut session = check_variables(self.variables(), params, &at.field("variables"), errs);
        if self.mutations().is_empty() {
            errs.required(&at.field("mutations"), "mutations must contain at least one item");
        }
        let before = old.map(|old| old.mutations().by_key(|it| it.tree())).unwrap_or_default();
        for (i, mutation) in self.mutations().iter().enumerate() {
            let stored = before.contains_key(mutation.tree());
            let environment = |gives| CelEnvironment {
                result_type: gives,
                params,
                authorizer: true,
                variables: true,
                is_stored: stored,
            };
            mutation.check(&mut session, &environment, &at.field("mutations").index(i), errs);
        }
        match self.reinvocation_policy() {
            "" => errs.required(&at.field("reinvocationPolicy"), ""),
            policy => errs.one_of(&at.field("reinvocationPolicy"), policy, &REINVOCATION_POLICIES),
        }
    }
}

impl Mutation {
    fn check(
        &self,
        session: &mut Session,
        environment: &dyn Fn(ExpectedResult) -> CelEnvironment,
        at: &FieldPath,
        errs: &mut ErrorList,
    ) {
        let apply = self.apply_configuration().map(ApplyConfiguration::expression);
        let json = self.json_patch().map(JSONPatch::expression);
        let (is, other) = match self.patch_type() {
            "JSONPatch" => {
                (("jsonPatch", json, ExpectedResult::JsonPatch), ("applyConfiguration", apply))
            }
            "ApplyConfiguration" => {
                let gives = ExpectedResult::ApplyConfiguration;
                (("applyConfiguration", apply, gives), ("jsonPatch", json))
            }
            "" => return errs.required(&at.field("patchType"), ""),
            patch => {
                let known = ["ApplyConfiguration", "JSONPatch"];
                return errs.not_supported(&at.field("patchType"), patch, &known);
            }
        };
        let ty = self.patch_type();
        let (name, text, gives) = is;
        let here = at.field(name);
        match text.map(str::trim) {
            None => errs.required(&here, format!("must be specified when patchType is {ty}")),
            Some("") => errs.required(&here.field("expression"), ""),
            Some(text) => {
                session.check(text, &environment(gives), &here.field("expression"), errs);
            }
        }
        if let (name, Some(_)) = other {
            let why = format!("must not be specified when patchType is {ty}");
            errs.invalid(&at.field(name), format!("{{{name}}}"), why);
        }
    }
}
