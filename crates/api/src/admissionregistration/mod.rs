//! admissionregistration/v1, v1beta1 and v1alpha1.

mod mutating_admission_policy;
mod mutating_admission_policy_binding;
mod mutating_webhook_configuration;
mod rules;
pub mod v1alpha1;
mod validating_admission_policy;
mod validating_admission_policy_binding;
mod validating_webhook_configuration;
pub(crate) mod webhooks;

use schema::ResourceNames;

pub use self::{
    mutating_admission_policy::{
        ApplyConfiguration, JSONPatch, MutatingAdmissionPolicy, MutatingAdmissionPolicySpec,
        Mutation,
    },
    mutating_admission_policy_binding::{
        MutatingAdmissionPolicyBinding, MutatingAdmissionPolicyBindingSpec,
    },
    mutating_webhook_configuration::{MutatingWebhook, MutatingWebhookConfiguration},
    validating_admission_policy::{
        AuditAnnotation, ExpressionWarning, MatchCondition, MatchResources,
        NamedRuleWithOperations, ParamKind, Rule, RuleWithOperations, TypeChecking,
        ValidatingAdmissionPolicy, ValidatingAdmissionPolicySpec, ValidatingAdmissionPolicyStatus,
        Validation, Variable,
    },
    validating_admission_policy_binding::{
        ParamRef, ValidatingAdmissionPolicyBinding, ValidatingAdmissionPolicyBindingSpec,
    },
    validating_webhook_configuration::{
        ServiceReference, ValidatingWebhook, ValidatingWebhookConfiguration, WebhookClientConfig,
    },
};

const fn names(kind: &'static str, plural: &'static str) -> ResourceNames {
    ResourceNames::new("admissionregistration.k8s.io", "v1", kind, plural)
        .categories(&["api-extensions"])
}
