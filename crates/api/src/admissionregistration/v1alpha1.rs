//! admissionregistration/v1alpha1, where it differs from v1: a missing parameter denies.

use macros::api;
use object::ObjectMeta;
use schema::{Kind, ResourceNames, Scope, StorageConfig, TableColumn};

use super::{MutatingAdmissionPolicyBindingSpec, ParamRef};

/// Where a mutating policy applies, and with which parameters.
#[api]
pub struct MutatingAdmissionPolicyBinding {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// What is bound.
    spec: MutatingAdmissionPolicyBindingSpec,
}

impl Kind for MutatingAdmissionPolicyBinding {
    const NAMES: ResourceNames =
        ResourceNames { version: "v1alpha1", ..super::MutatingAdmissionPolicyBinding::NAMES };
    const UPDATE_CHECKS_GENERATE_NAME: bool = true;
    const FORMER_API_VERSIONS: &'static [&'static str] =
        super::MutatingAdmissionPolicyBinding::FORMER_API_VERSIONS;
    const SCOPE: Scope = Scope::Cluster;
    const STORAGE: StorageConfig = super::MutatingAdmissionPolicyBinding::STORAGE;
    const BLIND_UPDATES: bool = false;
    const DEFAULT_ON: bool = false;
    const DEPRECATED: &str = crate::UNTIL_38;
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
        let param = self.spec().param_ref();
        if param.is_some_and(|param| param.parameter_not_found_action().is_none()) {
            self.spec_mut().param_ref_mut().set_parameter_not_found_action("Deny");
        }
    }
}
