//! MutatingAdmissionPolicy.

use std::{sync::Arc, time::Instant};

use cel::policy::{MutatingPolicy, Mutation};
use object::{Status, StatusCause, StatusDetails, Text, Value};
use schema::{apply::overlay, patch};
use server::{Admission, Admit, Admitting, Served};

use super::{
    Compiled, Evaluation, Nodes, PolicyTally, matches, named,
    params::{self, Param},
    policies, shown,
};
use crate::admission::{Rights, manifests::Manifests};

/// The kind, and the resources of policies and bindings.
const KINDS: (&str, &str, &str) =
    ("MutatingAdmissionPolicy", "mutatingadmissionpolicies", "mutatingadmissionpolicybindings");

#[derive(Debug)]
pub(crate) struct Mutating {
    compiled: Compiled<MutatingPolicy>,
    evaluation: Evaluation,
    files: Option<Arc<Manifests>>,
}

impl Mutating {
    pub(crate) fn new(
        rights: Rights,
        tally: Arc<PolicyTally>,
        files: Option<Arc<Manifests>>,
    ) -> Self {
        let evaluation = Evaluation { rights, nodes: Nodes::default(), tally };
        Self { compiled: Compiled::new(MutatingPolicy::new), evaluation, files }
    }
}

impl Admit for Mutating {
    fn name(&self) -> &'static str {
        "MutatingAdmissionPolicy"
    }

    fn mutate<'a>(&'a self, admission: &'a mut Admission<'_>) -> Admitting<'a> {
        Box::pin(self.run(admission))
    }
}

/// What came of a policy.
#[derive(Default)]
struct Invoked {
    /// Whether its conditions held.
    invoked: bool,
    /// Whether a patch was applied, if only an empty one.
    patched: bool,
    errors: Vec<String>,
}

impl Mutating {
    async fn run(&self, admission: &mut Admission<'_>) -> Result<(), Status> {
        let all = policies(admission, KINDS, self.files.as_deref())?;
        let policies: Vec<_> = all.iter().map(|(policy, _)| policy.clone()).collect();
        self.compiled.keep(&policies);
        if all.is_empty() {
            return Ok(());
        }
        let again = admission.reinvocation.resumes(self.name(), &admission.object);
        let (mut errors, mut patched) = (Vec::new(), false);
        for (policy, bindings) in &all {
            let spec = policy.object.get("spec");
            let Some(served) = matches(spec.get("matchConstraints"), admission)? else { continue };
            let compiled = self.compiled.get(policy);
            let mut failed = |reason: &'static str, said: String| {
                if compiled.fails() {
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
                if again && !admission.reinvocation.again.contains(&id) {
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
                    admission.reinvocation.changed();
                }
                if invoked && spec.get("reinvocationPolicy").as_str() == Some("IfNeeded") {
                    admission.reinvocation.invoked.push(id);
                }
            }
        }
        if patched {
            // Who was asked is asked again even if it was alone, as upstream has it.
            admission.reinvocation.changed();
        }
        let left = admission.object.clone();
        admission.reinvocation.last.insert(self.name(), left);
        if errors.is_empty() { Ok(()) } else { Err(refusal(admission, &errors)) }
    }

    /// Runs a policy.
    async fn invoke(
        &self,
        policy: &MutatingPolicy,
        admission: &mut Admission<'_>,
        served: &Served,
        param: &Param,
    ) -> Result<Invoked, Status> {
        let matches = |inputs: &cel::policy::Inputs<'_>| policy.matches(inputs);
        let matched = self.evaluation.with(admission, served, param, matches).await?;
        match matched {
            Ok(true) => {}
            Ok(false) => return Ok(Invoked::default()),
            Err(why) => return Ok(Invoked { errors: vec![why], ..Invoked::default() }),
        }
        let mut done = Invoked { invoked: true, ..Invoked::default() };
        for at in 0..policy.count() {
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

/// Changes the object in the version that the policy sees. What comes out must still be
/// an object of its kind; otherwise nothing can be done with it.
fn apply(
    admission: &mut Admission<'_>,
    served: &Served,
    mutation: &Mutation,
) -> Result<Result<(), String>, Status> {
    let object = shown(served, &admission.object);
    let shape = &served.definition.shape;
    let mut object = match mutation {
        Mutation::JsonPatch(operations) => match patch::json(&object, operations) {
            Ok(object) => object,
            // A test that fails is no error: the patch is not for this object.
            Err(error) if error.to_string().ends_with("test failed") => return Ok(Ok(())),
            Err(error) => return Ok(Err(format!("JSON Patch: {error}"))),
        },
        Mutation::Apply(configuration) => match overlay(shape, &object, configuration) {
            Ok(object) => object,
            Err(error) => return Ok(Err(format!("error applying patch: {error}"))),
        },
    };
    let mut unknown = Vec::new();
    served.definition.conform(&mut object, &mut unknown).map_err(Status::internal)?;
    if served.definition.custom.is_none() && matches!(mutation, Mutation::JsonPatch(_)) {
        strict(served, &object, &unknown)?;
    }
    served.definition.hooks.default_fields(&mut object);
    served.definition.normalize(&mut object);
    served.stored(&mut object);
    admission.object = object;
    Ok(Ok(()))
}

/// A patched object is read again, and nothing of it may be unknown.
fn strict(served: &Served, object: &Value, unknown: &[String]) -> Result<(), Status> {
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

fn refusal(admission: &Admission<'_>, errors: &[(&str, String)]) -> Status {
    let mut status = admission.forbid("admission request denied by policy");
    let (reason, message) = &errors[0];
    status.set_message(message.as_str());
    status.set_reason(*reason);
    let details: StatusDetails = status.details().cloned().unwrap_or_default();
    let causes = errors.iter().map(|(_, error)| StatusCause::new().with_message(error.as_str()));
    status.set_details(details.with_causes(causes.collect::<object::List<_>>()));
    status
}
