//! The MutatingAdmissionPolicy admission plugin.

use std::{sync::Arc, time::Instant};

use cel::policy::{MutatingPolicy, Mutation};
use object::{Status, StatusCause, StatusDetails, Text, Value};
use schema::{
    apply::merge_apply_configuration,
    patch::{self, PatchError},
};
use server::{AdmissionAttributes, AdmissionFuture, AdmissionPlugin, ServedResource};

use super::{
    CelTypeCache, CompiledPolicies, PolicyEvaluator, PolicyTally, matches, named,
    params::{self, Param},
    policies, shown,
};
use crate::admission::{AuthorizerChain, manifests::ManifestDir};

/// The policy kind, and the resources of policies and bindings.
const KINDS: (&str, &str, &str) =
    ("MutatingAdmissionPolicy", "mutatingadmissionpolicies", "mutatingadmissionpolicybindings");

#[derive(Debug)]
pub(crate) struct Mutating {
    compiled: CompiledPolicies<MutatingPolicy>,
    evaluation: PolicyEvaluator,
    files: Option<Arc<ManifestDir>>,
}

impl Mutating {
    pub(crate) fn new(
        rights: AuthorizerChain,
        tally: Arc<PolicyTally>,
        files: Option<Arc<ManifestDir>>,
    ) -> Self {
        let evaluation = PolicyEvaluator { rights, nodes: CelTypeCache::default(), tally };
        Self { compiled: CompiledPolicies::new(MutatingPolicy::new), evaluation, files }
    }
}

impl AdmissionPlugin for Mutating {
    fn name(&self) -> &'static str {
        "MutatingAdmissionPolicy"
    }

    fn mutate<'a>(&'a self, admission: &'a mut AdmissionAttributes<'_>) -> AdmissionFuture<'a> {
        Box::pin(self.run(admission))
    }
}

/// The outcome of running a policy.
#[derive(Default)]
struct MutationOutcome {
    /// Whether its match conditions held.
    invoked: bool,
    /// Whether a patch was applied, even if it changed nothing.
    patched: bool,
    errors: Vec<String>,
}

impl Mutating {
    async fn run(&self, admission: &mut AdmissionAttributes<'_>) -> Result<(), Status> {
        let all = policies(admission, KINDS, self.files.as_deref())?;
        let policies: Vec<_> = all.iter().map(|(policy, _)| policy.clone()).collect();
        self.compiled.keep(&policies);
        if all.is_empty() {
            return Ok(());
        }
        let again = admission.reinvocation.should_reinvoke(self.name(), &admission.object);
        let (mut errors, mut patched) = (Vec::new(), false);
        for (policy, bindings) in &all {
            let spec = policy.object.get("spec");
            let Some(served) = matches(spec.get("matchConstraints"), admission)? else { continue };
            let compiled = self.compiled.get(policy);
            let mut failed = |reason: &'static str, said: String| {
                if compiled.fails_closed() {
                    errors.push((reason, said));
                }
            };
            let kind = match params::kind(&policy.object, admission) {
                Ok(kind) => kind,
                Err(why) => {
                    let name = object::quote::quote(named(policy));
                    let why =
                        format!("policy {name} denied request: failed to configure policy: {why}");
                    failed("Forbidden", why);
                    continue;
                }
            };
            for binding in bindings {
                let resources = binding.object.get("spec").get("matchResources");
                if resources.is_object() && matches(resources, admission)?.is_none() {
                    continue;
                }
                let (name, bound) = (named(policy), named(binding));
                let says = |why: &str| {
                    format!("policy '{name}' with binding '{bound}' denied request: {why}")
                };
                let params = match params::collect(kind.as_ref(), &binding.object, admission) {
                    Ok(params) => params,
                    Err(why) => {
                        failed("Forbidden", says(&format!("failed to configure binding: {why}")));
                        continue;
                    }
                };
                let id = Text::from(format!("policy {name}/{bound}"));
                if again && !admission.reinvocation.to_reinvoke.contains(&id) {
                    continue;
                }
                let before = admission.object.clone();
                let mut invoked = false;
                for param in &params {
                    let began = Instant::now();
                    let done = self.invoke(&compiled, admission, &served, param).await?;
                    let tally = &self.evaluation.tally;
                    tally.changed((name, bound), !done.errors.is_empty(), began.elapsed());
                    done.errors.iter().for_each(|why| failed("Invalid", says(why)));
                    invoked |= done.invoked;
                    patched |= done.patched;
                }
                if before != admission.object {
                    admission.reinvocation.mark_changed();
                }
                if invoked && spec.get("reinvocationPolicy").as_str() == Some("IfNeeded") {
                    admission.reinvocation.invoked.push(id);
                }
            }
        }
        if patched {
            // A policy that has run is reinvoked even if it was the only one, as upstream does.
            admission.reinvocation.mark_changed();
        }
        let left = admission.object.clone();
        admission.reinvocation.last.insert(self.name(), left);
        if errors.is_empty() { Ok(()) } else { Err(refusal(admission, &errors)) }
    }

    /// Runs one policy with one param.
    async fn invoke(
        &self,
        policy: &MutatingPolicy,
        admission: &mut AdmissionAttributes<'_>,
        served: &ServedResource,
        param: &Param,
    ) -> Result<MutationOutcome, Status> {
        let matches = |inputs: &cel::policy::PolicyInputs<'_>| policy.matches(inputs);
        let matched = self.evaluation.with(admission, served, param, matches).await?;
        match matched {
            Ok(true) => {}
            Ok(false) => return Ok(MutationOutcome::default()),
            Err(why) => {
                return Ok(MutationOutcome { errors: vec![why], ..MutationOutcome::default() });
            }
        }
        let mut done = MutationOutcome { invoked: true, ..MutationOutcome::default() };
        for at in 0..policy.mutation_count() {
            if admission.object.is_null() {
                continue;
            }
            let made = self
                .evaluation
                .with(admission, served, param, |inputs| policy.mutation(at, inputs))
                .await?;
            let applied = match made {
                Ok(mutation) => apply(admission, served, &mutation)?,
                Err(why) => Err(why),
            };
            done.patched |= applied.is_ok();
            done.errors.extend(applied.err());
        }
        Ok(done)
    }
}

/// Applies a mutation to the object in the version that the policy sees. If the result is not a
/// valid object of its kind, the request fails whatever the failurePolicy.
fn apply(
    admission: &mut AdmissionAttributes<'_>,
    served: &ServedResource,
    mutation: &Mutation,
) -> Result<Result<(), String>, Status> {
    let object = shown(served, &admission.object);
    let shape = &served.definition.schema;
    let mut object = match mutation {
        Mutation::JsonPatch(operations) => match patch::apply_json_patch(&object, operations) {
            Ok(object) => object,
            // A failed `test` operation is not an error: the patch does not apply to this object.
            Err(PatchError::TestFailed(_)) => return Ok(Ok(())),
            Err(error) => return Ok(Err(format!("JSON Patch: {error}"))),
        },
        Mutation::Apply(configuration) => {
            match merge_apply_configuration(shape, &object, configuration) {
                Ok(object) => object,
                Err(error) => return Ok(Err(format!("error applying patch: {error}"))),
            }
        }
    };
    let mut unknown = Vec::new();
    served.definition.coerce(&mut object, &mut unknown).map_err(Status::internal)?;
    if served.definition.is_built_in() && matches!(mutation, Mutation::JsonPatch(_)) {
        strict(served, &object, &unknown)?;
    }
    served.definition.strategy.default_fields(&mut object);
    served.definition.normalize(&mut object);
    served.to_internal_version(&mut object);
    admission.object = object;
    Ok(Ok(()))
}

/// Rejects a patched object that has another kind or unknown fields.
fn strict(served: &ServedResource, object: &Value, unknown: &[String]) -> Result<(), Status> {
    let (version, kind) = (object.get("apiVersion").as_str(), object.get("kind").as_str());
    let (version, kind) = (version.unwrap_or_default(), kind.unwrap_or_default());
    let names = &served.definition.names;
    if kind != names.kind || version != names.api_version() {
        return Err(Status::internal(format!(
            "no kind {kind:?} is registered for version {version:?} in scheme \"pkg/runtime/scheme.go:111\""
        )));
    }
    if unknown.is_empty() {
        return Ok(());
    }
    let unknown: Vec<_> = unknown.iter().map(|path| format!("unknown field {path:?}")).collect();
    Err(Status::internal(format!("strict decoding error: {}", unknown.join(", "))))
}

fn refusal(admission: &AdmissionAttributes<'_>, errors: &[(&str, String)]) -> Status {
    let mut status = admission.forbidden("admission request denied by policy");
    let (reason, message) = &errors[0];
    status.set_message(message.as_str());
    status.set_reason(*reason);
    let details: StatusDetails = status.details().cloned().unwrap_or_default();
    let causes = errors.iter().map(|(_, error)| StatusCause::new().with_message(error.as_str()));
    status.set_details(details.with_causes(causes.collect::<object::List<_>>()));
    status
}
