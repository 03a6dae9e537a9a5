//! The PodSecurity admission plugin: pods must meet the Pod Security Standard that the labels of
//! their namespace select.

mod checks;
mod config;
mod metrics;
mod namespace;
mod policy;
#[cfg(test)]
mod upstream;
mod violation;

use std::sync::Arc;

use anyhow::Result as Configured;
use api::core::Namespace;
use object::{Object, Status, Value, View};
use schema::ErrorList;
use server::{AdmissionAttributes, AdmissionFuture, AdmissionPlugin, Operation};

pub(crate) use self::metrics::PodSecurityMetrics;
use self::{
    checks::violations,
    config::Configuration,
    policy::{Level, LevelVersion, Policy},
};
use crate::structured::aggregate;

/// Subresources of pods that cannot change what runs.
const IGNORED_SUBRESOURCES: [&str; 8] =
    ["exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status"];

#[derive(Debug)]
pub(super) struct PodSecurity {
    config: Configuration,
    tally: Arc<PodSecurityMetrics>,
}

impl PodSecurity {
    /// Reads a `PodSecurityConfiguration`; without one, namespaces without labels are privileged.
    pub(super) fn new(config: &Value, tally: Arc<PodSecurityMetrics>) -> Configured<Self> {
        Ok(Self { config: Configuration::read(config)?, tally })
    }
}

impl AdmissionPlugin for PodSecurity {
    fn name(&self) -> &'static str {
        "PodSecurity"
    }

    fn validate<'a>(&'a self, admission: &'a AdmissionAttributes<'_>) -> AdmissionFuture<'a> {
        let decided = self.decide(admission);
        Box::pin(async move { decided })
    }
}

impl PodSecurity {
    fn decide(&self, admission: &AdmissionAttributes) -> Result<(), Status> {
        if !matches!(admission.operation, Operation::Create | Operation::Update) {
            return Ok(());
        }
        let names = &admission.served.definition.names;
        match (names.group, names.plural, admission.subresource) {
            ("", "namespaces", "") => self.namespace(admission),
            ("", "pods", part) if !IGNORED_SUBRESOURCES.contains(&part) => {
                self.pod(admission, Some(&admission.object), true)
            }
            (group, plural, "") => match template(group, plural, &admission.object) {
                Some(template) => {
                    let pod = Some(template).filter(|own| own.get("spec").is_object());
                    self.pod(admission, pod, false)
                }
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// Checks a pod, or the pod template of a controller. For a template (`enforce` is false) there
    /// are only warnings and audit annotations.
    fn pod(
        &self,
        admission: &AdmissionAttributes,
        pod: Option<&Value>,
        enforce: bool,
    ) -> Result<(), Status> {
        if let Some(because) = self.config.exempts(admission) {
            self.exempt(admission, because);
            return Ok(());
        }
        let kind = admission.registry.kind("", "namespaces")?;
        let Ok(found) = admission.registry.get(&kind, "", &admission.namespace) else {
            return self.missing_namespace(admission, enforce);
        };
        let labels = Namespace::view(&found.object).metadata().labels();
        let mut errs = ErrorList::default();
        let policy = Policy::of(labels, self.config.defaults, &mut errs);
        if errs.is_empty() && policy.is_fully_privileged(enforce) {
            if enforce {
                let free = LevelVersion::default();
                self.tally.evaluated(admission, ("enforce", free), true);
                note(admission, "enforce-policy", free.to_string());
            }
            return Ok(());
        }
        let significant =
            !enforce || admission.old.is_none_or(|old| images_changed(&admission.object, old));
        let Some(pod) = pod.filter(|_| significant) else { return Ok(()) };
        if self.config.exempts_class(pod) {
            self.exempt(admission, "runtimeClass");
            return Ok(());
        }
        if !errs.is_empty() {
            let why = aggregate(&errs);
            note(admission, "error", format!("Failed to parse policy: {why}"));
            self.tally.failed(admission, false);
        }
        self.evaluate(admission, policy, pod, enforce)
    }

    /// Evaluates the pod against the policy of each mode: warns, annotates the audit event, and
    /// rejects the pod if it violates the enforced level.
    fn evaluate(
        &self,
        admission: &AdmissionAttributes,
        policy: Policy,
        pod: &Value,
        enforce: bool,
    ) -> Result<(), Status> {
        let meta = Object::view(pod).metadata();
        let breaks = |rules: LevelVersion| {
            let broken = violations(rules, meta, pod.get("spec"));
            let told =
                || format!("violate PodSecurity \"{rules}\": {}", violation::detailed(&broken));
            (!broken.is_empty()).then(told)
        };
        let mut decided = Ok(());
        if enforce {
            note(admission, "enforce-policy", policy.enforce.to_string());
            let broken = breaks(policy.enforce);
            self.tally.evaluated(admission, ("enforce", policy.enforce), broken.is_none());
            if let Some(broken) = broken {
                let broken = broken.replacen("violate", "violates", 1);
                decided = Err(admission.forbidden(&broken));
            }
        }
        if let Some(broken) = breaks(policy.audit) {
            note(admission, "audit-violations", format!("would {broken}"));
            self.tally.evaluated(admission, ("audit", policy.audit), false);
        }
        if decided.is_ok()
            && let Some(broken) = breaks(policy.warn)
        {
            admission.warn(format!("would {broken}"));
            self.tally.evaluated(admission, ("warn", policy.warn), false);
        }
        decided
    }

    fn exempt(&self, admission: &AdmissionAttributes, because: &str) {
        note(admission, "exempt", because.to_owned());
        self.tally.exempted(admission);
    }

    /// Handles a missing namespace: rejects a pod, but only records an audit annotation for a
    /// controller.
    fn missing_namespace(
        &self,
        admission: &AdmissionAttributes,
        enforce: bool,
    ) -> Result<(), Status> {
        self.tally.failed(admission, true);
        let name = object::quote::quote(&admission.namespace);
        let (failed, why) =
            (format!("failed to lookup namespace {name}"), format!("namespaces {name} not found"));
        if !enforce {
            note(admission, "error", format!("{failed}: {why}"));
            return Ok(());
        }
        let status = Status::internal(failed);
        note(admission, "error", format!("{}: {why}", status.message()));
        Err(status)
    }
}

/// Adds an annotation to the audit event.
fn note(admission: &AdmissionAttributes, key: &str, value: String) {
    admission.annotate(&format!("pod-security.kubernetes.io/{key}"), value);
}

/// The pod template of a controller's object.
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

/// Whether an update changes the images that run.
fn images_changed(new: &Value, old: &Value) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_other_images_are_looked_at() {
        let pod = |image: &str, late: &str| {
            let json = format!(
                r#"{{"spec":{{"containers":[{{"name":"a","image":"{image}"}}],"ephemeralContainers":[{late}]}}}}"#
            );
            object::from_json(json.as_bytes()).unwrap()
        };
        let late = r#"{"name":"e","image":"i"}"#;
        assert!(!images_changed(&pod("x", ""), &pod("x", late)), "one that goes brings nothing");
        assert!(images_changed(&pod("x", late), &pod("x", "")));
        assert!(images_changed(&pod("y", ""), &pod("x", "")));
    }
}
