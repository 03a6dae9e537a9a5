//! admissionregistration/v1: ValidatingAdmissionPolicyBinding.

use std::collections::BTreeSet;

use macros::api;
use object::{LabelSelector, List, ObjectMeta, Value};
use schema::{ErrorList, FieldPath, Kind, ResourceNames, Scope, TableColumn};

use super::{MatchResources, rules::check_policy_name};

/// Where a validating policy applies, with which parameters, and what follows.
#[api]
pub struct ValidatingAdmissionPolicyBinding {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// What is bound.
    #[api(required)]
    spec: ValidatingAdmissionPolicyBindingSpec,
}

#[api]
pub struct ValidatingAdmissionPolicyBindingSpec {
    /// The policy.
    #[api(required, validations(Required))]
    policy_name: String,
    /// Its parameters.
    param_ref: Option<ParamRef>,
    /// What further limits the requests that it is for.
    match_resources: Option<MatchResources>,
    /// What follows from a refusal: Deny, Warn, Audit.
    #[api(required, set, go_type = "[]$.ValidationAction", enum_values("Audit", "Deny", "Warn"))]
    #[api(validations(Required))]
    validation_actions: List<String>,
}

#[api(atomic)]
pub struct ParamRef {
    /// The parameters' name.
    name: String,
    /// The parameters' namespace; absent: that of the object.
    namespace: String,
    /// The parameters by their labels.
    selector: Option<LabelSelector>,
    /// What follows if there are none: Allow, Deny.
    #[api(go_type = "$.ParameterNotFoundActionType")]
    parameter_not_found_action: Option<String>,
}

impl Kind for ValidatingAdmissionPolicyBinding {
    const NAMES: ResourceNames =
        super::names("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings");
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
        check_policy_name(spec.policy_name(), &at, errs);
        at.if_present("paramRef", spec.param_ref(), |param, at| param.check(at, errs));
        at.if_present("matchResources", spec.match_resources(), |matching, at| {
            matching.check(at, errs);
        });
        check_actions(spec.validation_actions(), &at.field("validationActions"), errs);
    }
}

fn check_actions(actions: &List<String>, at: &FieldPath, errs: &mut ErrorList) {
    let mut seen = BTreeSet::new();
    for (i, action) in actions.iter().enumerate() {
        errs.one_of(&at.index(i), action, &["Audit", "Deny", "Warn"]);
        errs.unique(&mut seen, &at.index(i), action);
    }
    if seen.contains("Deny") && seen.contains("Warn") {
        let why = "must not contain both Deny and Warn (repeating the same validation failure \
                   information in the API response and headers serves no purpose)";
        errs.invalid(at, Value::from(actions.clone()), why);
    }
}
