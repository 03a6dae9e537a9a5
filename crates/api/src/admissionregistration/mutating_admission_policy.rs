//! admissionregistration/v1, v1beta1 and v1alpha1: MutatingAdmissionPolicy.

use macros::api;
use object::{Lens, List, ObjectMeta, count};
use schema::{Column, Errors, Kind, Names, Path, Scope};

use super::{
    MatchCondition, MatchResources, ParamKind, Variable,
    rules::{FAILURE, REINVOCATION, check_conditions, check_variables, param_kind_cell, same},
};
use crate::expression::{Environment, Gives, Session};

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
    #[api(default = "Fail", implied, go = "$.FailurePolicyType", values("Fail", "Ignore"))]
    failure_policy: Option<String>,
    /// What else must hold for the policy to apply.
    #[api(keys("name"), merge, merge_key = "name")]
    match_conditions: List<MatchCondition>,
    /// Whether it runs again after later changes: Never, IfNeeded.
    #[api(go = "v1.ReinvocationPolicyType", values("IfNeeded", "Never"))]
    reinvocation_policy: String,
}

#[api]
pub struct Mutation {
    /// How the change is said: ApplyConfiguration, JSONPatch.
    #[api(tag = 2, go = "$.PatchType", values("ApplyConfiguration", "JSONPatch"))]
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
    const NAMES: Names = super::names("MutatingAdmissionPolicy", "mutatingadmissionpolicies")
        .singular("mutatingadmissionpolicy");
    const SCOPE: Scope = Scope::Cluster;
    const GENERATION: bool = true;
    const BLIND_UPDATES: bool = false;
    const ANY_FINALIZER: bool = true;

    const COLUMNS: &'static [Column<Self>] = &[
        Column::NAME,
        Column::new("Mutations", "integer", |this, _| count(this.spec().mutations().len()).into()),
        Column::text("ParamKind", |this, _| param_kind_cell(this.spec().param_kind()).into()),
        Column::AGE,
    ];

    fn default_fields(&mut self) {
        if self.spec().match_constraints().is_some() {
            self.spec_mut().match_constraints_mut().default_fields();
        }
    }

    fn validate(&self, errs: &mut Errors) {
        self.spec().check(None, &Path::SPEC, errs);
    }

    fn validate_update(&self, old: &Self, errs: &mut Errors) {
        self.spec().check(Some(old.spec()), &Path::SPEC, errs);
    }
}

const OPERATIONS: [&str; 4] = ["*", "CONNECT", "CREATE", "UPDATE"];

/// Nothing can be changed by a deletion.
pub(super) fn check_operations(matching: Option<&MatchResources>, at: &Path, errs: &mut Errors) {
    for rule in matching.iter().flat_map(|matching| matching.resource_rules().iter()) {
        for operation in rule.rule_with_operations().operations().iter() {
            errs.one_of(&at.field("resourceRules").field("operations"), operation, &OPERATIONS);
        }
    }
}

impl MutatingAdmissionPolicySpec {
    fn check(&self, old: Option<&Self>, at: &Path, errs: &mut Errors) {
        errs.one_of(&at.field("failurePolicy"), self.failure_policy(), &FAILURE);
        at.given("paramKind", self.param_kind(), |kind, at| kind.check(at, errs));
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
            let environment =
                |gives| Environment { gives, params, authorizer: true, variables: true, stored };
            mutation.check(&mut session, &environment, &at.field("mutations").index(i), errs);
        }
        match self.reinvocation_policy() {
            "" => errs.required(&at.field("reinvocationPolicy"), ""),
            policy => errs.one_of(&at.field("reinvocationPolicy"), policy, &REINVOCATION),
        }
    }
}

impl Mutation {
    fn check(
        &self,
        session: &mut Session,
        environment: &dyn Fn(Gives) -> Environment,
        at: &Path,
        errs: &mut Errors,
    ) {
        let apply = self.apply_configuration().map(ApplyConfiguration::expression);
        let json = self.json_patch().map(JSONPatch::expression);
        let (is, other) = match self.patch_type() {
            "JSONPatch" => (("jsonPatch", json, Gives::JsonPatch), ("applyConfiguration", apply)),
            "ApplyConfiguration" => {
                let gives = Gives::ApplyConfiguration;
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
