//! Checks of the Pod Security labels of a namespace. When the enforced level becomes stricter,
//! warnings list the existing pods that violate it.

use std::collections::{BTreeMap, HashSet};

use object::{Map, Object, ObjectMeta, Status, Value, View};
use schema::ErrorList;
use server::{AdmissionAttributes, ListOptions, Selection};

use super::{Configuration, Level, LevelVersion, PodSecurity, Policy, violation, violations};

/// Maximum number of existing pods that are checked when a namespace becomes stricter.
const MOST_PODS: usize = 3000;

impl PodSecurity {
    /// Validates the labels of a namespace, and warns about existing pods when its level becomes
    /// stricter.
    pub(super) fn namespace(&self, admission: &AdmissionAttributes) -> Result<(), Status> {
        let (mut errs, mut before) = (ErrorList::default(), ErrorList::default());
        let defaults = self.config.defaults;
        let labels = admission.meta().labels();
        let policy = Policy::of(labels, defaults, &mut errs);
        let old = admission
            .old
            .map(|old| Policy::of(Object::view(old).metadata().labels(), defaults, &mut before));
        if !errs.is_empty() && errs != before {
            return Err(errs.into_status("", "Namespace", &admission.name));
        }
        let new = policy.enforce;
        let eased = |old: LevelVersion| {
            new.level == Level::Privileged || (new.minor == old.minor && new.level <= old.level)
        };
        let exempt = self.config.namespaces.iter().any(|own| *own == *admission.name);
        let warnings = match old {
            Some(old) if eased(old.enforce) => Vec::new(),
            _ if exempt => exempt_namespace_warning(&admission.name, policy, defaults, labels)
                .into_iter()
                .collect(),
            Some(_) => existing_pod_warnings(&self.config, admission, new)?,
            None => Vec::new(),
        };
        warnings.into_iter().for_each(|warning| admission.warn(warning));
        Ok(())
    }
}

/// The warning for setting labels on an exempt namespace, where they have no effect.
fn exempt_namespace_warning(
    name: &str,
    policy: Policy,
    defaults: Policy,
    labels: &Map<String>,
) -> Option<String> {
    let free = |rules: LevelVersion| rules.level == Level::Privileged;
    let same =
        |(own, other): (LevelVersion, LevelVersion)| own == other || (free(own) && free(other));
    if policy.modes().map(|(_, rules)| rules).into_iter().all(free)
        || policy.modes().into_iter().zip(defaults.modes()).all(|(own, by)| same((own.1, by.1)))
    {
        return None;
    }
    let says = |mode: &str| {
        let label = format!("pod-security.kubernetes.io/{mode}");
        labels.get(&label).is_some() || labels.get(&format!("{label}-version")).is_some()
    };
    let said = policy.modes().into_iter().filter(|(mode, rules)| !free(*rules) && says(mode));
    let said: Vec<String> = said.map(|(mode, rules)| format!("{mode}={rules}")).collect();
    Some(format!(
        "namespace {} is exempt from Pod Security, and the policy ({}) will be ignored",
        object::quote::quote(name),
        said.join(", ")
    ))
}

/// The warnings about existing pods that violate the new level. One pod of each controller is
/// checked before any controller's further pods.
fn existing_pod_warnings(
    config: &Configuration,
    admission: &AdmissionAttributes,
    rules: LevelVersion,
) -> Result<Vec<String>, Status> {
    let kind = admission.registry.kind("", "pods")?;
    let name = &*admission.name;
    let pods =
        admission.registry.list(&kind, &Selection::namespace(name), &ListOptions::default())?;
    let mut controllers = HashSet::new();
    let mut all: Vec<(&ObjectMeta, &Value)> = Vec::new();
    let mut alike = Vec::new();
    for version in pods.items.iter().filter(|pod| !config.exempts_class(&pod.object)) {
        let meta = Object::view(&version.object).metadata();
        let first = meta.controller_ref().is_none_or(|owner| controllers.insert(owner.uid()));
        if first { &mut all } else { &mut alike }.push((meta, version.object.get("spec")));
    }
    all.append(&mut alike);
    let mut found: BTreeMap<String, (&str, usize)> = BTreeMap::new();
    for (meta, spec) in all.iter().take(MOST_PODS) {
        let broken = violations(rules, meta, spec);
        if !broken.is_empty() {
            let entry = found.entry(violation::plain(&broken)).or_insert((meta.name(), 0));
            entry.0 = entry.0.min(meta.name());
            entry.1 += 1;
        }
    }
    let mut warnings = Vec::new();
    if all.len() > MOST_PODS {
        warnings.push(format!(
            "new PodSecurity enforce level only checked against the first {MOST_PODS} of {} \
             existing pods",
            all.len()
        ));
    }
    if !found.is_empty() {
        warnings.push(format!(
            "existing pods in namespace {} violate the new PodSecurity enforce level \
             \"{rules}\"",
            object::quote::quote(name)
        ));
    }
    let mut each: Vec<String> = found
        .into_iter()
        .map(|(broken, (pod, count))| match count {
            1 => format!("{pod}: {broken}"),
            2 => format!("{pod} (and 1 other pod): {broken}"),
            more => format!("{pod} (and {} other pods): {broken}", more - 1),
        })
        .collect();
    each.sort();
    warnings.append(&mut each);
    Ok(warnings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_in_vain_are_told() {
        let defaults = Policy::default();
        let told = |labels: Map<String>| {
            let policy = Policy::of(&labels, defaults, &mut ErrorList::default());
            exempt_namespace_warning("n", policy, defaults, &labels)
        };
        assert_eq!(told(Map::from([("app", "a")])), None);
        assert_eq!(told(Map::from([("pod-security.kubernetes.io/enforce", "privileged")])), None);
        let labels = Map::from([
            ("pod-security.kubernetes.io/enforce", "baseline"),
            ("pod-security.kubernetes.io/audit", "restricted"),
            ("pod-security.kubernetes.io/audit-version", "v1.30"),
        ]);
        assert_eq!(
            told(labels).unwrap(),
            "namespace \"n\" is exempt from Pod Security, and the policy (enforce=baseline:latest, \
             audit=restricted:v1.30) will be ignored"
        );
    }
}
