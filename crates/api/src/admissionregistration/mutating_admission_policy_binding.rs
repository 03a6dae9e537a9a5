//! admissionregistration/v1, v1beta1 and v1alpha1: MutatingAdmissionPolicyBinding.

use macros::api;
use object::ObjectMeta;
use schema::{ErrorList, FieldPath, Kind, ResourceNames, Scope, TableColumn};

use super::{
    MatchResources, ParamRef, mutating_admission_policy::check_operations, rules::check_policy_name,
};
use crate::rules::ValidateField;

/// Where a mutating policy applies, and with which parameters.
#[api]
pub struct MutatingAdmissionPolicyBinding {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// What is bound.
    spec: MutatingAdmissionPolicyBindingSpec,
}

#[api]
pub struct MutatingAdmissionPolicyBindingSpec {
    /// The policy.
    policy_name: String,
    /// Its parameters.
    param_ref: Option<ParamRef>,
    /// What further limits the requests that it is for.
    match_resources: Option<MatchResources>,
}

impl Kind for MutatingAdmissionPolicyBinding {
    const NAMES: ResourceNames =
        super::names("MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings");
    const UPDATE_CHECKS_GENERATE_NAME: bool = true;
    const FORMER_API_VERSIONS: &'static [&'static str] =
        &["admissionregistration.k8s.io/v1alpha1", "admissionregistration.k8s.io/v1beta1"];
    const SCOPE: Scope = Scope::Cluster;
    const GENERATION: bool = true;
    const BLIND_UPDATES: bool = false;
    const ANY_FINALIZER: bool = true;

    const COLUMNS: &'static [TableColumn<Self>] = &[
        TableColumn::NAME,
        TableColumn::text("PolicyName", |this, _| this.spec().policy_name().into()),
        TableColumn::text("ParamRef", |this, _| ParamRef::cell(this.spec().param_ref()).into()),
        TableColumn::AGE,
    ];

    fn default_fields(&mut self) {
        if self.spec().match_resources().is_some() {
            self.spec_mut().match_resources_mut().default_fields();
        }
    }

    fn validate(&self, errs: &mut ErrorList) {
        let (spec, at) = (self.spec(), FieldPath::SPEC);
        errs.required_field(&at, "policyName", spec.policy_name());
        check_policy_name(spec.policy_name(), &at, errs);
        at.if_present("paramRef", spec.param_ref(), |param, at| param.check(at, errs));
        at.if_present("matchResources", spec.match_resources(), |matching, at| {
            matching.check(at, errs);
        });
        check_operations(spec.match_resources(), &at.field("matchResources"), errs);
    }
}
