//! Whether one rule of a role allows something.

use std::collections::{BTreeMap, BTreeSet};

use api::rbac::PolicyRule;
use object::{List, quote::quote};
use server::Attributes;

pub(crate) fn allows(rule: &PolicyRule, wanted: &Attributes) -> bool {
    if !names(rule.verbs(), &wanted.verb) {
        return false;
    }
    if !wanted.is_resource {
        return rule.non_resource_urls().iter().any(|url| covers_path(url, &wanted.path));
    }
    names(rule.api_groups(), &wanted.group) && allows_resource(rule, wanted)
}

/// Whether the rule is about that resource, and that object of it.
fn allows_resource(rule: &PolicyRule, wanted: &Attributes) -> bool {
    let full = match &*wanted.subresource {
        "" => wanted.resource.to_string(),
        sub => format!("{}/{sub}", wanted.resource),
    };
    let any_of = format!("*/{}", wanted.subresource);
    let resource = rule
        .resources()
        .iter()
        .any(|own| own == "*" || own == full || (!wanted.subresource.is_empty() && own == any_of));
    let named = rule.resource_names().is_empty()
        || rule.resource_names().iter().any(|own| own == wanted.name);
    resource && named
}

/// The rights of `rules` that are not among those of `held`, as they are told of: one resource
/// or path each, with its verbs.
pub(crate) fn missing(held: &[PolicyRule], rules: &[PolicyRule]) -> Vec<String> {
    let mut lacking = BTreeMap::<Right<'_>, Vec<&str>>::new();
    let mut lines = BTreeSet::new();
    for (right, verb) in rules.iter().flat_map(broken_down) {
        if held.iter().any(|own| names(own.verbs(), verb) && right.is_in(own)) {
            continue;
        }
        match right {
            Right::Path(_) => drop(lines.insert(right.told(&[verb]))),
            Right::Resource { .. } => lacking.entry(right).or_default().push(verb),
        }
    }
    lines.extend(lacking.into_iter().map(|(right, verbs)| right.told(&verbs)));
    lines.into_iter().collect()
}

/// What somebody may do something to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Right<'a> {
    Path(&'a str),
    Resource { group: &'a str, resource: &'a str, name: Option<&'a str> },
}

/// A rule in its smallest parts, each with one verb.
fn broken_down(rule: &PolicyRule) -> Vec<(Right<'_>, &str)> {
    let names: Vec<_> = match rule.resource_names().is_empty() {
        true => vec![None],
        false => rule.resource_names().iter().map(Some).collect(),
    };
    let mut parts = Vec::new();
    for group in rule.api_groups().iter() {
        for resource in rule.resources().iter() {
            for verb in rule.verbs().iter() {
                let rights =
                    names.iter().map(|name| Right::Resource { group, resource, name: *name });
                parts.extend(rights.map(|right| (right, verb)));
            }
        }
    }
    for url in rule.non_resource_urls().iter() {
        parts.extend(rule.verbs().iter().map(|verb| (Right::Path(url), verb)));
    }
    parts
}

impl Right<'_> {
    fn is_in(&self, own: &PolicyRule) -> bool {
        let (group, resource, name) = match *self {
            Self::Path(path) => {
                return own.non_resource_urls().iter().any(|have| covers_path(have, path));
            }
            Self::Resource { group, resource, name } => (group, resource, name),
        };
        let any_of = resource.split_once('/').map(|(_, sub)| format!("*/{sub}"));
        let is = |have: &str| have == "*" || have == resource || any_of.as_deref() == Some(have);
        let named = |name: &str| own.resource_names().iter().any(|have| have == name);
        names(own.api_groups(), group)
            && own.resources().iter().any(is)
            && (own.resource_names().is_empty() || name.is_some_and(named))
    }

    fn told(&self, verbs: &[&str]) -> String {
        let verbs = told(verbs);
        match *self {
            Self::Path(path) => format!("{{NonResourceURLs:{}, Verbs:{verbs}}}", told(&[path])),
            Self::Resource { group, resource, name } => {
                let name = name.map(|name| format!(", ResourceNames:{}", told(&[name])));
                format!(
                    "{{APIGroups:{}, Resources:{}{}, Verbs:{verbs}}}",
                    told(&[group]),
                    told(&[resource]),
                    name.unwrap_or_default()
                )
            }
        }
    }
}

/// A list of texts, as Go quotes it.
pub(crate) fn told<T: AsRef<str>>(texts: &[T]) -> String {
    let quoted: Vec<_> = texts.iter().map(|text| quote(text.as_ref())).collect();
    format!("[{}]", quoted.join(" "))
}

fn names(list: &List<String>, wanted: &str) -> bool {
    list.iter().any(|own| own == "*" || own == wanted)
}

fn covers_path(pattern: &str, path: &str) -> bool {
    match pattern.ends_with('*') {
        true => path.starts_with(pattern.trim_end_matches('*')),
        false => path == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(groups: [&str; 1], resources: [&str; 1], verbs: [&str; 2]) -> PolicyRule {
        PolicyRule::new().with_api_groups(groups).with_resources(resources).with_verbs(verbs)
    }

    fn wants(verb: &str, resource: &str, subresource: &str) -> Attributes {
        Attributes {
            verb: verb.into(),
            resource: resource.into(),
            subresource: subresource.into(),
            is_resource: true,
            ..Attributes::default()
        }
    }

    #[test]
    fn a_resource_does_not_include_its_parts() {
        let pods = rule([""], ["pods"], ["get", "list"]);
        assert!(allows(&pods, &wants("get", "pods", "")));
        assert!(!allows(&pods, &wants("get", "pods", "log")));
        assert!(!allows(&pods, &wants("delete", "pods", "")));
        let logs = rule([""], ["*/log"], ["get", "list"]);
        assert!(allows(&logs, &wants("get", "pods", "log")));
    }

    #[test]
    fn nobody_can_give_what_they_do_not_have() {
        let held = [rule([""], ["pods"], ["get", "list"])];
        assert!(missing(&held, &[rule([""], ["pods"], ["get", "list"])]).is_empty());
        assert_eq!(
            missing(&held, &[rule([""], ["pods"], ["get", "delete"])]),
            [r#"{APIGroups:[""], Resources:["pods"], Verbs:["delete"]}"#]
        );
        let all = [rule(["*"], ["pods"], ["get", "*"]).with_resource_names(["b", "a"])];
        assert_eq!(
            missing(&held, &all),
            [
                r#"{APIGroups:["*"], Resources:["pods"], ResourceNames:["a"], Verbs:["get" "*"]}"#,
                r#"{APIGroups:["*"], Resources:["pods"], ResourceNames:["b"], Verbs:["get" "*"]}"#,
            ]
        );
        let paths = PolicyRule::new().with_non_resource_urls(["/a", "/b"]).with_verbs(["get"]);
        let held = [PolicyRule::new().with_non_resource_urls(["/a*"]).with_verbs(["*"])];
        assert_eq!(missing(&held, &[paths]), [r#"{NonResourceURLs:["/b"], Verbs:["get"]}"#]);
    }
}
