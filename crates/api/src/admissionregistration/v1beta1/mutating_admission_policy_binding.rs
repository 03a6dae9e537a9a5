//! admissionregistration/v1beta1: MutatingAdmissionPolicyBinding.

use macros::api;
use object::{LabelSelector, ObjectMeta};
use schema::{Kind, Names, Scope, Storage};

use super::MatchResources;

#[api]
pub struct MutatingAdmissionPolicyBinding {
    #[api(tag = 1)]
    metadata: ObjectMeta,
    #[api(tag = 2)]
    spec: MutatingAdmissionPolicyBindingSpec,
}

#[api]
pub struct MutatingAdmissionPolicyBindingSpec {
    #[api(tag = 1)]
    policy_name: String,
    #[api(tag = 2)]
    param_ref: Option<ParamRef>,
    #[api(tag = 3)]
    match_resources: Option<MatchResources>,
}

#[api(atomic)]
pub struct ParamRef {
    #[api(tag = 1)]
    name: String,
    #[api(tag = 2)]
    namespace: String,
    #[api(tag = 3)]
    selector: Option<LabelSelector>,
    #[api(tag = 4, go = "v1beta1.ParameterNotFoundActionType")]
    parameter_not_found_action: Option<String>,
}

impl Kind for MutatingAdmissionPolicyBinding {
    const NAMES: Names = Names {
        group: "admissionregistration.k8s.io",
        version: "v1beta1",
        kind: "MutatingAdmissionPolicyBinding",
        plural: "mutatingadmissionpolicybindings",
        singular: "mutatingadmissionpolicybinding",
        short: &[],
        categories: &["api-extensions"],
    };
    const SCOPE: Scope = Scope::Cluster;
    const STORAGE: Storage = Storage::new("mutatingadmissionpolicybindings", "v1");
    const BLIND_UPDATES: bool = false;
    const DEFAULT_ON: bool = false;

    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }
}
