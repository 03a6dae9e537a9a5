//! The Priority admission plugin: resolves the PriorityClass of a pod or pod group to its priority
//! value and preemption policy.

use api::{core::Pod, scheduling::PriorityClass};
use object::{Status, View};
use ref_cast::RefCast;
use schema::FeatureGates;
use server::{
    AdmissionAttributes, AdmissionFuture, AdmissionPlugin, ListOptions, Operation, Selection,
};

const PREEMPTS: &str = "PreemptLowerPriority";

#[derive(Debug)]
pub(super) struct Priority {
    pub(super) gates: FeatureGates,
}

impl AdmissionPlugin for Priority {
    fn name(&self) -> &'static str {
        "Priority"
    }

    fn mutate<'a>(&'a self, admission: &'a mut AdmissionAttributes<'_>) -> AdmissionFuture<'a> {
        let done = self.mutate_any(admission);
        Box::pin(async move { done })
    }

    fn validate<'a>(&'a self, admission: &'a AdmissionAttributes<'_>) -> AdmissionFuture<'a> {
        let done = one_default(admission);
        Box::pin(async move { done })
    }
}

impl Priority {
    fn mutate_any(&self, admission: &mut AdmissionAttributes) -> Result<(), Status> {
        if admission.operation == Operation::Update && admission.is_resource("", "pods") {
            keep_priority(admission);
            return Ok(());
        } else if admission.operation != Operation::Create {
            return Ok(());
        } else if admission.is_resource("", "pods") {
            return mutate_pod(admission);
        }
        let policies = self.gates.is_enabled("PodGroupPreemptionPolicy");
        if admission.is_resource("scheduling.k8s.io", "podgroups") {
            return mutate_group(admission, "pod group", policies);
        } else if admission.is_resource("scheduling.k8s.io", "compositepodgroups") {
            return mutate_group(admission, "composite pod group", policies);
        }
        Ok(())
    }
}

/// Sets the priority of a pod group; `what` is its kind, for messages.
fn mutate_group(
    admission: &mut AdmissionAttributes,
    what: &str,
    policies: bool,
) -> Result<(), Status> {
    let spec = admission.object.get("spec");
    let name = spec.get("priorityClassName").as_str().unwrap_or_default();
    let (name, given, policy) = class_of(admission, name)?;
    let asked = spec.get("priority").as_i64();
    if let Some(asked) = asked.filter(|asked| *asked != i64::from(given)) {
        return Err(admission.forbidden(&format!(
            "priority set in the {what} ({asked}) must match the priority computed ({given}) \
             based on the priority class set in the spec"
        )));
    }
    let asked = spec.get("preemptionPolicy").as_str();
    if let Some(asked) = asked.filter(|asked| policies && *asked != policy) {
        return Err(admission.forbidden(&other_policy(asked, &format!("{what} spec"), &policy)));
    }
    let spec = &mut admission.object["spec"];
    spec["priority"] = given.into();
    if !name.is_empty() {
        spec["priorityClassName"] = name.into();
    }
    if policies {
        spec["preemptionPolicy"] = policy.into();
    }
    Ok(())
}

fn other_policy(asked: &str, place: &str, policy: &str) -> String {
    format!(
        "the string value of PreemptionPolicy ({asked}) must not be provided in {place}; priority \
         admission controller computed {policy} from the given PriorityClass name"
    )
}

/// The PriorityClass of this name, or the default one: name, value and preemption policy.
fn class_of(admission: &AdmissionAttributes, name: &str) -> Result<(String, i32, String), Status> {
    if name.is_empty() {
        return Ok(default_class(admission));
    }
    let kind = admission.registry.kind("scheduling.k8s.io", "priorityclasses")?;
    let found = admission.registry.get(&kind, "", name).map_err(|_| {
        admission.forbidden(&format!("no PriorityClass with name {name} was found"))
    })?;
    let class = PriorityClass::view(&found.object);
    Ok((name.to_owned(), class.value(), policy_of(class)))
}

/// Keeps the old priority and preemption policy if an update leaves them out.
fn keep_priority(admission: &mut AdmissionAttributes) {
    let Some(old) = admission.old.map(|old| Pod::view(old).spec()) else { return };
    let spec = Pod::view(&admission.object).spec();
    let (number, policy) = (spec.priority().is_none(), spec.preemption_policy().is_none());
    if let Some(old) = old.priority().filter(|_| number) {
        Pod::ref_cast_mut(&mut admission.object).spec_mut().set_priority(old);
    }
    if let Some(old) = old.preemption_policy().filter(|_| policy) {
        Pod::ref_cast_mut(&mut admission.object).spec_mut().set_preemption_policy(old);
    }
}

fn mutate_pod(admission: &mut AdmissionAttributes) -> Result<(), Status> {
    let spec = Pod::view(&admission.object).spec();
    let (name, given, policy) = class_of(admission, spec.priority_class_name())?;
    if let Some(asked) = spec.priority().filter(|asked| *asked != given) {
        return Err(admission.forbidden(&format!(
            "the integer value of priority ({asked}) must not be provided in pod spec; priority \
             admission controller computed {given} from the given PriorityClass name"
        )));
    }
    if let Some(asked) = spec.preemption_policy().filter(|asked| *asked != policy) {
        return Err(admission.forbidden(&other_policy(asked, "pod spec", &policy)));
    }
    let spec = Pod::ref_cast_mut(&mut admission.object).spec_mut();
    if !name.is_empty() {
        spec.set_priority_class_name(name.as_str());
    }
    spec.set_priority(given);
    spec.set_preemption_policy(policy);
    Ok(())
}

/// The global default PriorityClass, of several the one with the lowest value; without any,
/// priority 0.
fn default_class(admission: &AdmissionAttributes) -> (String, i32, String) {
    let none = (String::new(), 0, PREEMPTS.to_owned());
    let Ok(kind) = admission.registry.kind("scheduling.k8s.io", "priorityclasses") else {
        return none;
    };
    let Ok(all) = admission.registry.list(&kind, &Selection::default(), &ListOptions::default())
    else {
        return none;
    };
    let classes = all.items.iter().map(|version| PriorityClass::view(&version.object));
    let lowest = classes.filter(|class| class.global_default()).min_by_key(|class| class.value());
    lowest
        .map_or(none, |class| (class.metadata().name().to_owned(), class.value(), policy_of(class)))
}

fn policy_of(class: &PriorityClass) -> String {
    match class.preemption_policy() {
        "" => PREEMPTS.to_owned(),
        policy => policy.to_owned(),
    }
}

fn one_default(admission: &AdmissionAttributes) -> Result<(), Status> {
    if !admission.is_resource("scheduling.k8s.io", "priorityclasses")
        || admission.operation == Operation::Delete
        || !PriorityClass::view(&admission.object).global_default()
    {
        return Ok(());
    }
    let all = admission.registry.list(
        admission.served,
        &Selection::default(),
        &ListOptions::default(),
    )?;
    let other = all
        .items
        .iter()
        .map(|version| PriorityClass::view(&version.object))
        .filter(|class| class.global_default())
        .min_by_key(|class| class.value())
        .filter(|class| {
            admission.operation == Operation::Create || class.metadata().name() != admission.name
        });
    match other {
        None => Ok(()),
        Some(class) => Err(admission.forbidden(&format!(
            "PriorityClass {} is already marked as default. Only one default can exist",
            class.metadata().name()
        ))),
    }
}
