//! The ValidatingAdmissionPolicy admission plugin.

use std::{sync::Arc, time::Instant};

use cel::policy::{ValidatingPolicy, ValidationDecision};
use object::{Status, StatusCause, StatusDetails, Value, to_json};
use server::{AdmissionAttributes, AdmissionFuture, AdmissionPlugin};
use store::Version;

use super::{
    CelTypeCache, CompiledPolicies, PolicyEvaluator, PolicyTally, matches, named, params, policies,
};
use crate::admission::{AuthorizerChain, manifests::ManifestDir};

/// The policy kind, and the resources of policies and bindings.
const KINDS: (&str, &str, &str) = (
    "ValidatingAdmissionPolicy",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
);

/// Maximum length of an audit annotation value, in characters.
const LONGEST: usize = 10 * 1024;

#[derive(Debug)]
pub(crate) struct Validating {
    compiled: CompiledPolicies<ValidatingPolicy>,
    evaluation: PolicyEvaluator,
    files: Option<Arc<ManifestDir>>,
}

impl Validating {
    pub(crate) fn new(
        rights: AuthorizerChain,
        tally: Arc<PolicyTally>,
        files: Option<Arc<ManifestDir>>,
    ) -> Self {
        let evaluation = PolicyEvaluator { rights, nodes: CelTypeCache::default(), tally };
        Self { compiled: CompiledPolicies::new(ValidatingPolicy::new), evaluation, files }
    }
}

impl AdmissionPlugin for Validating {
    fn name(&self) -> &'static str {
        "ValidatingAdmissionPolicy"
    }

    fn validate<'a>(&'a self, admission: &'a AdmissionAttributes<'_>) -> AdmissionFuture<'a> {
        Box::pin(self.run(admission))
    }
}

/// The first denial: the message, which names the policy and the binding, and the reason.
struct PolicyDenial {
    message: String,
    reason: Option<String>,
}

impl Validating {
    async fn run(&self, admission: &AdmissionAttributes<'_>) -> Result<(), Status> {
        let all = policies(admission, KINDS, self.files.as_deref())?;
        let (mut denied, mut failures) = (None, Vec::new());
        let policies: Vec<_> = all.iter().map(|(policy, _)| policy.clone()).collect();
        self.compiled.keep(&policies);
        for (policy, bindings) in &all {
            let spec = policy.object.get("spec");
            let Some(served) = matches(spec.get("matchConstraints"), admission)? else { continue };
            let fails = spec.get("failurePolicy").as_str() != Some("Ignore");
            let name = named(policy);
            let kind = match params::kind(&policy.object, admission) {
                Ok(kind) => kind,
                Err(why) if fails => {
                    let why = format!("failed to configure policy: {why}");
                    let message =
                        format!("ValidatingAdmissionPolicy '{name}' denied request: {why}");
                    denied.get_or_insert(PolicyDenial { message, reason: None });
                    continue;
                }
                Err(_) => continue,
            };
            let compiled = self.compiled.get(policy);
            for binding in bindings {
                let resources = binding.object.get("spec").get("matchResources");
                if resources.is_object() && matches(resources, admission)?.is_none() {
                    continue;
                }
                let deny = |message: &str, reason: Option<String>| PolicyDenial {
                    message: format!(
                        "ValidatingAdmissionPolicy '{name}' with binding '{}' denied request: {message}",
                        named(binding)
                    ),
                    reason,
                };
                let params = match params::collect(kind.as_ref(), &binding.object, admission) {
                    Ok(params) => params,
                    Err(why) if fails => {
                        let why = format!("failed to configure binding: {why}");
                        denied.get_or_insert_with(|| deny(&why, None));
                        continue;
                    }
                    Err(_) => continue,
                };
                for param in params {
                    let began = Instant::now();
                    let said = self
                        .evaluation
                        .with(admission, &served, &param, |inputs| compiled.evaluate(inputs))
                        .await?;
                    let (took, tally) = (began.elapsed(), &self.evaluation.tally);
                    let enforced = |action: &str| {
                        tally.enforced((name, named(binding)), action, took);
                    };
                    let told = enforce_actions(
                        admission,
                        (name, binding, &enforced),
                        &said.decisions,
                        &mut failures,
                    );
                    if let Some((message, reason)) = told {
                        denied.get_or_insert_with(|| deny(message, reason));
                    }
                    for failure in &said.failures {
                        tally.failed((name, named(binding)), took);
                        denied.get_or_insert_with(|| deny(failure, None));
                    }
                    for (key, value) in &said.annotations {
                        let value = value.chars().take(LONGEST).collect();
                        admission.annotate(&format!("{name}/{key}"), value);
                    }
                }
            }
        }
        if !failures.is_empty() {
            let text = to_json(&failures.into_iter().collect());
            let text = String::from_utf8_lossy(&text).into_owned();
            admission.annotate("validation.policy.admission.k8s.io/validation_failure", text);
        }
        denied.map_or(Ok(()), |denied| Err(refusal(admission, &denied)))
    }
}

/// A policy's name, one of its bindings, and a callback that counts each enforcement action.
type Bound<'a> = (&'a str, &'a Version<Value>, &'a dyn Fn(&str));

/// Carries out the binding's `validationActions` for each failed validation; returns the first that
/// denies.
fn enforce_actions<'a>(
    admission: &AdmissionAttributes<'_>,
    (policy, binding, enforced): Bound<'_>,
    decisions: &'a [ValidationDecision],
    failures: &mut Vec<Value>,
) -> Option<(&'a str, Option<String>)> {
    let (bound, actions) = (named(binding), binding.object.get("spec").get("validationActions"));
    let acts = |action: &str| actions.items().iter().any(|own| own.as_str() == Some(action));
    let mut first = None;
    for (at, decision) in decisions.iter().enumerate() {
        let Some(message) = &decision.denied else { continue };
        for (action, label) in [("Deny", "deny"), ("Audit", "audit"), ("Warn", "warn")] {
            if acts(action) {
                enforced(label);
            }
        }
        if acts("Deny") {
            first.get_or_insert_with(|| (message.as_str(), decision.reason.clone()));
        }
        if acts("Audit") {
            failures.push(failure((policy, bound), at, message, actions));
        }
        if acts("Warn") {
            admission.warn(format!(
                "Validation failed for ValidatingAdmissionPolicy '{policy}' with binding '{bound}': {message}"
            ));
        }
    }
    first
}

/// The Status of a request that a policy denied.
fn refusal(admission: &AdmissionAttributes<'_>, denied: &PolicyDenial) -> Status {
    let reason = denied.reason.as_deref().unwrap_or("Invalid");
    let code = match reason {
        "Forbidden" => 403,
        "Unauthorized" => 401,
        "RequestEntityTooLarge" => 413,
        _ => 422,
    };
    let mut status = admission.forbidden(&denied.message);
    status.set_reason(reason);
    status.set_code(code);
    let details: StatusDetails = status.details().cloned().unwrap_or_default();
    let cause = StatusCause::new().with_message(denied.message.as_str());
    status.set_details(details.with_causes([cause]));
    status
}

/// A validation failure, as the audit annotation describes it.
fn failure((policy, binding): (&str, &str), at: usize, message: &str, actions: &Value) -> Value {
    let mut failure = Value::object();
    failure["message"] = message.into();
    failure["policy"] = policy.into();
    failure["binding"] = binding.into();
    failure["expressionIndex"] = i64::try_from(at).unwrap_or(i64::MAX).into();
    failure["validationActions"] = actions.clone();
    failure
}
