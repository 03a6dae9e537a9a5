//! ValidatingAdmissionPolicy and MutatingAdmissionPolicy: CEL expressions that reject or change
//! writes. A policy has the expressions; a binding says where it applies.

mod authorizer;
mod conditions;
mod metrics;
mod mutating;
mod params;
mod validating;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use cel::policy::PolicyInputs;
use object::{Object, Status, Text, Value, View};
use schema::{ResourceDefinition, normalize};
use server::{AdmissionAttributes, ListOptions, Selection, ServedResource};
use store::Version;

use self::{authorizer::CelAuthorizer, params::Param};
pub(crate) use self::{conditions::WebhookMatchConditions, metrics::PolicyMetrics as PolicyTally};
pub(super) use self::{mutating::Mutating, validating::Validating};
use super::{AuthorizerChain, is_own_write, manifests::ManifestDir, matching, review};

const GROUP: &str = "admissionregistration.k8s.io";

/// Resources to which no policy applies: access reviews, without which nobody could do anything.
pub(super) const EXCLUDED: &[&str] = &[
    "selfsubjectreviews",
    "tokenreviews",
    "localsubjectaccessreviews",
    "selfsubjectaccessreviews",
    "selfsubjectrulesreviews",
    "subjectaccessreviews",
];

/// A cache of compiled policies, by name; a new revision is compiled again.
#[derive(Debug)]
struct CompiledPolicies<P> {
    make: fn(&Value) -> P,
    made: Mutex<HashMap<Text, (u64, Arc<P>)>>,
}

impl<P> CompiledPolicies<P> {
    fn new(make: fn(&Value) -> P) -> Self {
        Self { make, made: Mutex::default() }
    }

    fn get(&self, policy: &Version<Value>) -> Arc<P> {
        let name = Text::from(Object::view(&policy.object).metadata().name());
        let known = self.made().get(&name).cloned();
        match known {
            Some((revision, compiled)) if revision == policy.revision => compiled,
            _ => {
                let make = || Arc::new((self.make)(policy.object.get("spec")));
                let compiled = server::expensive::aside(make);
                self.made().insert(name, (policy.revision, compiled.clone()));
                compiled
            }
        }
    }

    fn made(&self) -> MutexGuard<'_, HashMap<Text, (u64, Arc<P>)>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops policies that have been deleted.
    fn keep(&self, policies: &[Arc<Version<Value>>]) {
        let mut made = self.made();
        if made.len() > policies.len() {
            let exists = |name: &str| policies.iter().any(|policy| named(policy) == name);
            made.retain(|name, _| exists(name));
        }
    }
}

/// Group, version and kind.
type Kind = (Text, Text, Text);

/// A cache of the CEL types of built-in kinds.
#[derive(Debug, Default)]
struct CelTypeCache {
    made: Mutex<HashMap<Kind, Option<Arc<cel::DeclType>>>>,
}

impl CelTypeCache {
    fn get(&self, definition: &ResourceDefinition) -> Option<Arc<cel::DeclType>> {
        if definition.is_custom() {
            return None;
        }
        let names = &definition.names;
        let key = (names.group.into(), names.version.into(), names.kind.into());
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        made.entry(key)
            .or_insert_with(|| cel::DeclType::from_struct_schema(&definition.schema))
            .clone()
    }
}

/// A policy or binding with its revision.
type Stored = Arc<Version<Value>>;
/// A policy and its bindings.
type PolicyWithBindings = (Stored, Vec<Stored>);

/// All policies of a kind with their bindings: the static ones, then those in the API. No policy
/// applies to access reviews, and only static ones to policies.
fn policies(
    admission: &AdmissionAttributes<'_>,
    (kind, policies, bindings): (&str, &str, &str),
    files: Option<&ManifestDir>,
) -> Result<Vec<PolicyWithBindings>, Status> {
    let names = &admission.served.definition.names;
    if EXCLUDED.contains(&names.plural) || is_own_write(admission) {
        return Ok(Vec::new());
    }
    let mut bound = files.map_or_else(Vec::new, |files| {
        with_bindings(files.objects(kind), &files.objects(&format!("{kind}Binding")))
    });
    let is_policy = names.group == GROUP && names.plural.contains("admissionpolic");
    if !is_policy {
        let policies = all(admission, GROUP, policies)?;
        if !policies.is_empty() {
            bound.extend(with_bindings(policies, &all(admission, GROUP, bindings)?));
        }
    }
    Ok(bound)
}

fn with_bindings(policies: Vec<Stored>, bindings: &[Stored]) -> Vec<PolicyWithBindings> {
    let bound = policies.into_iter().map(|policy| {
        let of = |binding: &&Stored| {
            binding.object.get("spec").get("policyName").as_str() == Some(named(&policy))
        };
        let bindings = bindings.iter().filter(of).cloned().collect();
        (policy, bindings)
    });
    bound.collect()
}

/// Lists the objects of a cluster-scoped resource; empty if the resource is not served.
fn all(
    admission: &AdmissionAttributes<'_>,
    group: &str,
    plural: &str,
) -> Result<Vec<Stored>, Status> {
    let Ok(kind) = admission.registry.kind(group, plural) else { return Ok(Vec::new()) };
    let list = admission.registry.list(&kind, &Selection::default(), &ListOptions::default())?;
    Ok(list.items)
}

fn named(object: &Version<Value>) -> &str {
    Object::view(&object.object).metadata().name()
}

/// The version of the resource in which the policy sees the request; `None` if it does not match.
fn matches(
    resources: &Value,
    admission: &AdmissionAttributes<'_>,
) -> Result<Option<ServedResource>, Status> {
    if !matching::matches_selectors(resources, admission)? {
        return Ok(None);
    }
    let equivalent = resources.get("matchPolicy").as_str() != Some("Exact");
    let excluded = resources.get("excludeResourceRules").items();
    if matching::matching_version(excluded, equivalent, admission).is_some() {
        return Ok(None);
    }
    match resources.get("resourceRules").items() {
        [] => Ok(Some(admission.served.clone())),
        rules => Ok(matching::matching_version(rules, equivalent, admission)),
    }
}

/// The object in the version that the policy sees, without empty fields.
fn shown(served: &ServedResource, object: &Value) -> Value {
    let mut object = object.clone();
    // The body of a subresource is not an object of the resource.
    if Object::view(&object).kind() == served.internal.names.kind {
        served.to_request_version(&mut object);
        if served.definition.is_built_in() {
            normalize(&served.definition.schema, &mut object);
        }
    }
    object
}

/// The namespace that expressions see; none for a cluster-scoped object and for a Namespace.
fn namespace(admission: &AdmissionAttributes<'_>) -> Result<Option<Arc<Version<Value>>>, Status> {
    let names = &admission.served.definition.names;
    let is_namespace = names.group.is_empty() && names.kind == "Namespace";
    if admission.namespace.is_empty() || is_namespace {
        return Ok(None);
    }
    let kind = admission.registry.kind("", "namespaces")?;
    admission.registry.get(&kind, "", &admission.namespace).map(Some)
}

/// What validating and mutating policies share: authorizer, CEL types and metrics.
#[derive(Debug)]
struct PolicyEvaluator {
    rights: AuthorizerChain,
    nodes: CelTypeCache,
    tally: Arc<PolicyTally>,
}

impl PolicyEvaluator {
    /// Calls `work` with the current request in the version that the policy sees. Repeats it when
    /// an authorization check had to be decided by a webhook first.
    async fn with<T>(
        &self,
        admission: &AdmissionAttributes<'_>,
        served: &ServedResource,
        param: &Param,
        work: impl Fn(&PolicyInputs<'_>) -> T,
    ) -> Result<T, Status> {
        let request =
            review::request(admission, served, |object| shown(served, object).with_raw_expanded());
        let space = namespace(admission)?;
        let namespaces = admission.registry.kind("", "namespaces")?;
        let node = self.nodes.get(&served.definition);
        let namespace_node = self.nodes.get(&namespaces.definition);
        let params_node = param.as_ref().and_then(|(kind, _)| self.nodes.get(&kind.definition));
        let asked = CelAuthorizer::new(&self.rights, admission.user);
        loop {
            let done = work(&PolicyInputs {
                old_object: request.get("oldObject"),
                node: node.as_deref(),
                namespace: space.as_ref().map_or(&object::NULL, |space| &space.object),
                namespace_node: namespace_node.as_deref(),
                params: param.as_ref().map_or(&object::NULL, |(_, param)| &param.object),
                params_node: params_node.as_deref(),
                authorizer: Some((&asked, request_resource_attributes(admission))),
                ..PolicyInputs::new(request.get("object"), &request)
            });
            if !asked.answer().await {
                return Ok(done);
            }
        }
    }
}

/// The request's own attributes, for `authorizer.requestResource`.
fn request_resource_attributes(admission: &AdmissionAttributes<'_>) -> cel::ResourceAttributes {
    let names = &admission.served.definition.names;
    cel::ResourceAttributes {
        group: names.group.to_owned(),
        resource: names.plural.to_owned(),
        subresource: admission.subresource.to_owned(),
        namespace: admission.namespace.to_string(),
        name: admission.name.to_string(),
        ..cel::ResourceAttributes::default()
    }
}
