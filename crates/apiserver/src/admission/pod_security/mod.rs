//! PodSecurity: pods keep the rules that the labels of their namespace name.

mod checks;
mod config;
mod policy;
mod words;

use std::collections::{BTreeMap, HashSet};

use anyhow::Result as Configured;
use api::core::Namespace;
use object::{Object, ObjectMeta, Status, Value, View};
use schema::Errors;
use server::{Admission, Admit, Admitting, Operation, Page, Selection};

use self::{
    checks::violations,
    config::Configuration,
    policy::{Level, Policy, Rules},
};

/// So many pods are looked at when a namespace becomes stricter.
const MOST_PODS: usize = 3000;
/// Parts of a pod that bring nothing new to run.
const HARMLESS: [&str; 8] =
    ["exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status"];

#[derive(Debug)]
pub(super) struct PodSecurity {
    config: Configuration,
}

impl PodSecurity {
    /// From a `PodSecurityConfiguration`; without one, namespaces that say nothing are free.
    pub(super) fn new(config: &Value) -> Configured<Self> {
        Ok(Self { config: Configuration::read(config)? })
    }
}

impl Admit for PodSecurity {
    fn name(&self) -> &'static str {
        "PodSecurity"
    }

    fn validate<'a>(&'a self, admission: &'a Admission<'_>) -> Admitting<'a> {
        let decided = self.decide(admission);
        Box::pin(async move { decided })
    }
}

impl PodSecurity {
    fn decide(&self, admission: &Admission) -> Result<(), Status> {
        if !matches!(admission.operation, Operation::Create | Operation::Update) {
            return Ok(());
        }
        let names = &admission.served.definition.names;
        match (names.group, names.plural, admission.subresource) {
            ("", "namespaces", "") => self.namespace(admission),
            ("", "pods", part) if !HARMLESS.contains(&part) => {
                let changed = admission.old.is_none_or(|old| runs_other(&admission.object, old));
                if changed { self.pod(admission, &admission.object, true) } else { Ok(()) }
            }
            (group, plural, "") => match template(group, plural, &admission.object) {
                Some(template) if template.get("spec").is_object() => {
                    self.pod(admission, template, false)
                }
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn pod(&self, admission: &Admission, pod: &Value, enforce: bool) -> Result<(), Status> {
        if let Some(because) = self.config.exempts(admission, pod) {
            admission.annotate("pod-security.kubernetes.io/exempt", because.to_owned());
            return Ok(());
        }
        let kind = admission.registry.kind("", "namespaces")?;
        let found = admission.registry.get(&kind, "", &admission.namespace).map_err(|_| {
            let name = &admission.namespace;
            Status::internal(format!("failed to lookup namespace {name:?}"))
        })?;
        let labels = Namespace::view(&found.object).metadata().labels();
        let policy = Policy::of(labels, self.config.defaults, &mut Errors::default());
        if policy.is_privileged() {
            return Ok(());
        }
        let meta = Object::view(pod).metadata();
        if enforce {
            let key = "pod-security.kubernetes.io/enforce-policy";
            admission.annotate(key, policy.enforce.to_string());
            let broken = violations(policy.enforce, meta, pod.get("spec"));
            if !broken.is_empty() {
                let (rules, broken) = (policy.enforce, words::detailed(&broken));
                return Err(
                    admission.forbid(&format!("violates PodSecurity \"{rules}\": {broken}"))
                );
            }
        }
        let broken = violations(policy.audit, meta, pod.get("spec"));
        if !broken.is_empty() {
            let (rules, broken) = (policy.audit, words::detailed(&broken));
            let text = format!("would violate PodSecurity \"{rules}\": {broken}");
            admission.annotate("pod-security.kubernetes.io/audit-violations", text);
        }
        let broken = violations(policy.warn, meta, pod.get("spec"));
        if !broken.is_empty() {
            let (rules, broken) = (policy.warn, words::detailed(&broken));
            admission.warn(format!("would violate PodSecurity \"{rules}\": {broken}"));
        }
        Ok(())
    }

    fn namespace(&self, admission: &Admission) -> Result<(), Status> {
        let (mut errs, mut before) = (Errors::default(), Errors::default());
        let defaults = self.config.defaults;
        let policy = Policy::of(admission.meta().labels(), defaults, &mut errs);
        let old = admission
            .old
            .map(|old| Policy::of(Object::view(old).metadata().labels(), defaults, &mut before));
        if !errs.is_empty() && errs != before {
            return Err(errs.status("", "Namespace", &admission.name));
        }
        let Some(old) = old else { return Ok(()) };
        let (new, old) = (policy.enforce, old.enforce);
        let laxer = new.minor == old.minor && new.level <= old.level;
        let exempt = self.config.namespaces.iter().any(|own| *own == *admission.name);
        if new.level == Level::Privileged || laxer || exempt {
            return Ok(());
        }
        for warning in broken_by(admission, new)? {
            admission.warn(warning);
        }
        Ok(())
    }
}

/// Where objects of other kinds keep the pods that will come of them.
fn template<'a>(group: &str, plural: &str, object: &'a Value) -> Option<&'a Value> {
    match (group, plural) {
        ("", "podtemplates") => Some(object.get("template")),
        ("", "replicationcontrollers")
        | ("apps", "replicasets" | "deployments" | "statefulsets" | "daemonsets")
        | ("batch", "jobs") => Some(object.get("spec").get("template")),
        ("batch", "cronjobs") => {
            Some(object.get("spec").get("jobTemplate").get("spec").get("template"))
        }
        _ => None,
    }
}

/// Whether other images run than before.
fn runs_other(new: &Value, old: &Value) -> bool {
    let image = |container: &Value| container.get("image").clone();
    let list = |pod: &Value, list: &str| -> Vec<Value> {
        pod.get("spec").get(list).items().iter().map(image).collect()
    };
    let before = old.get("spec").get("ephemeralContainers").items();
    let same = |container: &Value| {
        before
            .iter()
            .any(|old| old.get("name") == container.get("name") && image(old) == image(container))
    };
    ["containers", "initContainers"].iter().any(|name| list(new, name) != list(old, name))
        || !new.get("spec").get("ephemeralContainers").items().iter().all(same)
}

/// What to say of the pods that are there already. Of those that one controller made,
/// the first comes first.
fn broken_by(admission: &Admission, rules: Rules) -> Result<Vec<String>, Status> {
    let kind = admission.registry.kind("", "pods")?;
    let name = &*admission.name;
    let pods = admission.registry.list(&kind, &Selection::namespace(name), &Page::default())?;
    let mut controllers = HashSet::new();
    let mut all: Vec<(&ObjectMeta, &Value)> = Vec::new();
    let mut alike = Vec::new();
    for version in &pods.items {
        let meta = Object::view(&version.object).metadata();
        let first = meta.controller().is_none_or(|owner| controllers.insert(owner.uid()));
        if first { &mut all } else { &mut alike }.push((meta, version.object.get("spec")));
    }
    all.append(&mut alike);
    let mut found: BTreeMap<String, (&str, usize)> = BTreeMap::new();
    for (meta, spec) in all.iter().take(MOST_PODS) {
        let broken = violations(rules, meta, spec);
        if !broken.is_empty() {
            let entry = found.entry(words::plain(&broken)).or_insert((meta.name(), 0));
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
            "existing pods in namespace {name:?} violate the new PodSecurity enforce level \
             \"{rules}\""
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
