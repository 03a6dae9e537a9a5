//! `PodSecurityConfiguration`: the default policy of namespaces without labels, and the exemptions.

use anyhow::{Result, ensure};
use object::{Value, names};
use schema::{ErrorList, FieldPath};
use server::AdmissionAttributes;

use super::policy::{LEVELS, Level, Policy, minor};
use crate::structured::{aggregate, strict, text, texts};

const GROUP: &str = "pod-security.admission.config.k8s.io";

/// The default policy and the exemptions.
#[derive(Clone, Debug, Default)]
pub(super) struct Configuration {
    pub(super) defaults: Policy,
    pub(super) namespaces: Vec<String>,
    users: Vec<String>,
    runtime_classes: Vec<String>,
}

impl Configuration {
    /// Decodes and validates a `PodSecurityConfiguration`; null means the defaults.
    pub(super) fn read(tree: &Value) -> Result<Self> {
        if tree.is_null() {
            return Ok(Self::default());
        }
        let version = text(tree, "apiVersion").strip_prefix(GROUP).unwrap_or_default();
        ensure!(
            text(tree, "kind") == "PodSecurityConfiguration"
                && ["/v1", "/v1beta1", "/v1alpha1"].contains(&version),
            "no PodSecurityConfiguration of {GROUP}"
        );
        let mut errors = ErrorList::default();
        strict(
            tree,
            &FieldPath::Root,
            &["apiVersion", "kind", "defaults", "exemptions"],
            &mut errors,
        );
        let mut this =
            Self { defaults: defaults(tree.get("defaults"), &mut errors), ..Self::default() };
        let (exemptions, path) = (tree.get("exemptions"), FieldPath::Root.field("exemptions"));
        strict(exemptions, &path, &["namespaces", "usernames", "runtimeClasses"], &mut errors);
        let mut list = |name: &str, wrong: fn(&str) -> Vec<String>| {
            let (path, all) = (path.field(name), texts(exemptions.get(name)));
            for (at, one) in all.iter().enumerate() {
                errors.invalid_each(&path.index(at), one, wrong(one));
                if all[..at].contains(one) {
                    errors.duplicate(&path.index(at), one.as_str());
                }
            }
            all
        };
        this.namespaces = list("namespaces", names::dns1123_label);
        this.runtime_classes = list("runtimeClasses", names::dns1123_subdomain);
        this.users = list("usernames", |name| match name {
            "" => vec!["username must not be empty".to_owned()],
            _ => Vec::new(),
        });
        ensure!(errors.is_empty(), aggregate(&errors));
        Ok(this)
    }

    /// Whether the request is exempt, and by what: its namespace or its user.
    pub(super) fn exempts(&self, admission: &AdmissionAttributes<'_>) -> Option<&'static str> {
        if self.namespaces.iter().any(|own| *own == *admission.namespace) {
            Some("namespace")
        } else if self.users.iter().any(|own| *own == *admission.user.name) {
            Some("user")
        } else {
            None
        }
    }

    /// Whether the pod is exempt by its RuntimeClass.
    pub(super) fn exempts_class(&self, pod: &Value) -> bool {
        let class = pod.get("spec").get("runtimeClassName").as_str();
        class.is_some_and(|class| self.runtime_classes.iter().any(|own| own == class))
    }
}

fn defaults(tree: &Value, errors: &mut ErrorList) -> Policy {
    let path = FieldPath::Root.field("defaults");
    let fields = ["enforce", "enforce-version", "audit", "audit-version", "warn", "warn-version"];
    strict(tree, &path, &fields, errors);
    let mut policy = Policy::default();
    for (mode, rules) in
        [("enforce", &mut policy.enforce), ("audit", &mut policy.audit), ("warn", &mut policy.warn)]
    {
        let (level, version) = (text(tree, mode), format!("{mode}-version"));
        match Level::parse(level) {
            _ if level.is_empty() => {}
            Some(level) => rules.level = level,
            None => errors.invalid(&path.field(mode), level, LEVELS),
        }
        match text(tree, &version) {
            "" => {}
            given => match minor(given) {
                Ok(minor) => rules.minor = minor,
                Err(why) => errors.invalid(&path.field(&version), given, why),
            },
        }
    }
    policy
}

#[cfg(test)]
mod tests {
    use object::yaml::from_yaml;

    use super::*;

    #[test]
    fn what_makes_no_sense_is_refused() {
        let head = format!("apiVersion: {GROUP}/v1\nkind: PodSecurityConfiguration\n");
        let read = |text: &str| Configuration::read(&from_yaml(&format!("{head}{text}")).unwrap());
        let good = read("defaults: {enforce: baseline, enforce-version: v1.30}\n").unwrap();
        assert_eq!(good.defaults.enforce.to_string(), "baseline:v1.30");
        assert_eq!(good.defaults.audit.level, Level::Privileged);
        for (bad, why) in [
            ("defaults: {enforce: none}\n", "must be one of privileged, baseline, restricted"),
            ("defaults: {warn-version: \"1.30\"}\n", "defaults.warn-version"),
            ("exemptions: {namespaces: [A]}\n", "exemptions.namespaces[0]"),
            ("exemptions: {usernames: [a, a]}\n", "exemptions.usernames[1]: Duplicate value"),
            ("exemptions: {nobody: [a]}\n", "exemptions.nobody"),
        ] {
            let said = read(bad).map(drop).unwrap_err().to_string();
            assert!(said.contains(why), "{bad}: {said}");
        }
    }
}
