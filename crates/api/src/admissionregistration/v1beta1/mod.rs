//! admissionregistration/v1beta1.

mod mutating_admission_policy;
mod mutating_admission_policy_binding;

pub use self::{
    mutating_admission_policy::{
        ApplyConfiguration, JSONPatch, MatchCondition, MatchResources, MutatingAdmissionPolicy,
        MutatingAdmissionPolicySpec, Mutation, NamedRuleWithOperations, ParamKind, Variable,
    },
    mutating_admission_policy_binding::{
        MutatingAdmissionPolicyBinding, MutatingAdmissionPolicyBindingSpec, ParamRef,
    },
};
