//! admissionregistration/v1alpha1.

mod mutating_admission_policy;
mod mutating_admission_policy_binding;

pub use self::{
    mutating_admission_policy::{
        ApplyConfiguration, JSONPatch, MatchResources, MutatingAdmissionPolicy,
        MutatingAdmissionPolicySpec, Mutation, NamedRuleWithOperations, ParamKind, Variable,
    },
    mutating_admission_policy_binding::{
        MutatingAdmissionPolicyBinding, MutatingAdmissionPolicyBindingSpec, ParamRef,
    },
};
