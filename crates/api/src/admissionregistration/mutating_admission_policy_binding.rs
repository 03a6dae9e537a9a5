//! admissionregistration/v1: MutatingAdmissionPolicyBinding.

use macros::api;
use object::ObjectMeta;
use schema::{Kind, Names, Scope, Storage};

use super::{MatchResources, ParamRef};

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

impl Kind for MutatingAdmissionPolicyBinding {
    const NAMES: Names = Names {
        group: "admissionregistration.k8s.io",
        version: "v1",
        kind: "MutatingAdmissionPolicyBinding",
        plural: "mutatingadmissionpolicybindings",
        singular: "mutatingadmissionpolicybinding",
        short: &[],
        categories: &["api-extensions"],
    };
    const SCOPE: Scope = Scope::Cluster;
    const STORAGE: Storage = Storage::new("mutatingadmissionpolicybindings", "v1");
    const BLIND_UPDATES: bool = false;
    const ANY_FINALIZER: bool = true;

    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }
}
