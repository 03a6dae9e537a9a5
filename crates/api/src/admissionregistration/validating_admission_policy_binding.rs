//! admissionregistration/v1: ValidatingAdmissionPolicyBinding.

use macros::api;
use object::{LabelSelector, List, ObjectMeta};
use schema::{Kind, Names, Scope, Storage};

use super::MatchResources;

#[api]
pub struct ValidatingAdmissionPolicyBinding {
    #[api(tag = 1)]
    metadata: ObjectMeta,
    #[api(tag = 2)]
    spec: ValidatingAdmissionPolicyBindingSpec,
}

#[api]
pub struct ValidatingAdmissionPolicyBindingSpec {
    #[api(tag = 1)]
    policy_name: String,
    #[api(tag = 2)]
    param_ref: Option<ParamRef>,
    #[api(tag = 3)]
    match_resources: Option<MatchResources>,
    #[api(tag = 4, set, go = "[]v1.ValidationAction")]
    validation_actions: List<String>,
}

#[api(atomic)]
pub struct ParamRef {
    #[api(tag = 1)]
    name: String,
    #[api(tag = 2)]
    namespace: String,
    #[api(tag = 3)]
    selector: Option<LabelSelector>,
    #[api(tag = 4, go = "v1.ParameterNotFoundActionType")]
    parameter_not_found_action: Option<String>,
}

impl Kind for ValidatingAdmissionPolicyBinding {
    const NAMES: Names = Names {
        group: "admissionregistration.k8s.io",
        version: "v1",
        kind: "ValidatingAdmissionPolicyBinding",
        plural: "validatingadmissionpolicybindings",
        singular: "validatingadmissionpolicybinding",
        short: &[],
        categories: &["api-extensions"],
    };
    const SCOPE: Scope = Scope::Cluster;
    const STORAGE: Storage = Storage::new("validatingadmissionpolicybindings", "v1");
    const BLIND_UPDATES: bool = false;
    const ANY_FINALIZER: bool = true;

    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }
}
