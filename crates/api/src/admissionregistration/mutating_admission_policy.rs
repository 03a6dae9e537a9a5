//! admissionregistration/v1: MutatingAdmissionPolicy.

use macros::api;
use object::{List, ObjectMeta};
use schema::{Kind, Names, Scope, Storage};

use super::{MatchCondition, MatchResources, ParamKind, Variable};

#[api]
pub struct MutatingAdmissionPolicy {
    #[api(tag = 1)]
    metadata: ObjectMeta,
    #[api(tag = 2)]
    spec: MutatingAdmissionPolicySpec,
}

#[api]
pub struct MutatingAdmissionPolicySpec {
    #[api(tag = 1)]
    param_kind: Option<ParamKind>,
    #[api(tag = 2)]
    match_constraints: Option<MatchResources>,
    #[api(tag = 3)]
    variables: List<Variable>,
    #[api(tag = 4)]
    mutations: List<Mutation>,
    #[api(tag = 5, go = "v1.FailurePolicyType")]
    failure_policy: Option<String>,
    #[api(tag = 6, keys("name"), merge, merge_key = "name")]
    match_conditions: List<MatchCondition>,
    #[api(tag = 7, go = "v1.ReinvocationPolicyType")]
    reinvocation_policy: String,
}

#[api]
pub struct Mutation {
    #[api(tag = 2, required, always, go = "v1.PatchType")]
    patch_type: String,
    #[api(tag = 3)]
    apply_configuration: Option<ApplyConfiguration>,
    #[api(tag = 4)]
    json_patch: Option<JSONPatch>,
}

#[api]
pub struct ApplyConfiguration {
    #[api(tag = 1)]
    expression: String,
}

#[api]
pub struct JSONPatch {
    #[api(tag = 1)]
    expression: String,
}

impl Kind for MutatingAdmissionPolicy {
    const NAMES: Names = Names {
        group: "admissionregistration.k8s.io",
        version: "v1",
        kind: "MutatingAdmissionPolicy",
        plural: "mutatingadmissionpolicies",
        singular: "mutatingadmissionpolicy",
        short: &[],
        categories: &["api-extensions"],
    };
    const SCOPE: Scope = Scope::Cluster;
    const STORAGE: Storage = Storage::new("mutatingadmissionpolicies", "v1");
    const BLIND_UPDATES: bool = false;
    const ANY_FINALIZER: bool = true;

    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }
}
