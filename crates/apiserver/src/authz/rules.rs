//! Matching of RBAC policy rules: whether a rule allows a request, and whether rules cover others.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fmt,
};

use api::rbac::PolicyRule;
use object::{List, quote::quote};
use server::Attributes;

/// Whether the rule allows the request.
pub(crate) fn allows(rule: &PolicyRule, wanted: &Attributes) -> bool {
    if !names(rule.verbs(), &wanted.verb) {
        return false;
    }
    if !wanted.is_resource {
        return rule.non_resource_urls().iter().any(|url| covers_path(url, &wanted.path));
    }
    names(rule.api_groups(), &wanted.group) && allows_resource(rule, wanted)
}

/// Whether the rule matches the resource and the object's name.
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

/// Maximum number of permissions in the rules of one role. A rule stands for each combination of
/// its groups, resources, names and verbs, so that a few kilobytes can mean billions.
const MOST_RIGHTS: usize = 100_000;
/// Maximum number of comparisons of a permission with a rule that the user has.
const MOST_COMPARISONS: usize = 10_000_000;
/// Maximum number of missing permissions that a message lists.
const MOST_MISSING: usize = 1_000;

/// The rules stand for more permissions than can be compared one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooManyRights;

impl fmt::Display for TooManyRights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the rules stand for too many combinations of groups, resources, names and verbs; use \
             several roles",
        )
    }
}

/// The permissions of `rules` that `held` does not cover, formatted for the message: one resource
/// or path each, with its verbs.
pub(crate) fn uncovered_rules(
    held: &[PolicyRule],
    rules: &[PolicyRule],
) -> Result<Vec<String>, TooManyRights> {
    if covers_all(held) {
        return Ok(Vec::new());
    }
    let rights = rules.iter().fold(0_usize, |sum, rule| sum.saturating_add(count(rule)));
    let comparisons = rights.saturating_mul(held.len());
    if rights > MOST_RIGHTS || comparisons > MOST_COMPARISONS {
        return Err(TooManyRights);
    }
    let held: Vec<Held<'_>> = held.iter().map(Held::new).collect();
    let mut lacking = BTreeMap::<RuleTarget<'_>, Vec<&str>>::new();
    let mut lines = BTreeSet::new();
    for (right, verb) in rules.iter().flat_map(broken_down) {
        if held.iter().any(|own| own.allows(&right, verb)) {
            continue;
        }
        match right {
            RuleTarget::Path(_) => drop(lines.insert(right.told(&[verb]))),
            RuleTarget::Resource { .. } => lacking.entry(right).or_default().push(verb),
        }
    }
    lines.extend(lacking.into_iter().map(|(right, verbs)| right.told(&verbs)));
    let more = lines.len().saturating_sub(MOST_MISSING);
    let mut missing: Vec<String> = lines.into_iter().take(MOST_MISSING).collect();
    if more > 0 {
        missing.push(format!("and {more} more"));
    }
    Ok(missing)
}

/// Whether the rules allow everything, for resources and for paths.
fn covers_all(held: &[PolicyRule]) -> bool {
    let all = |list: &List<String>| list.iter().any(|own| own == "*");
    held.iter().any(|own| {
        all(own.verbs())
            && all(own.api_groups())
            && all(own.resources())
            && own.resource_names().is_empty()
    }) && held.iter().any(|own| all(own.verbs()) && all(own.non_resource_urls()))
}

/// How many permissions a rule stands for.
fn count(rule: &PolicyRule) -> usize {
    let [groups, resources, names] = [rule.api_groups(), rule.resources(), rule.resource_names()]
        .map(|list| list.iter().count());
    let resources = groups.saturating_mul(resources).saturating_mul(names.max(1));
    let all = resources.saturating_add(rule.non_resource_urls().iter().count());
    all.saturating_mul(rule.verbs().iter().count())
}

/// The resource or path of a permission.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum RuleTarget<'a> {
    Path(&'a str),
    Resource { group: &'a str, resource: &'a str, name: Option<&'a str> },
}

/// Splits a rule into single permissions, each with one verb.
fn broken_down(rule: &PolicyRule) -> impl Iterator<Item = (RuleTarget<'_>, &str)> {
    let names: Vec<_> = match rule.resource_names().is_empty() {
        true => vec![None],
        false => rule.resource_names().iter().map(Some).collect(),
    };
    let groups = rule.api_groups().iter();
    let resources = groups
        .flat_map(|group| rule.resources().iter().map(move |resource| (group, resource)))
        .flat_map(move |(group, resource)| {
            let rights = names.clone().into_iter();
            rights.map(move |name| RuleTarget::Resource { group, resource, name })
        });
    let paths = rule.non_resource_urls().iter().map(RuleTarget::Path);
    let rights = resources.chain(paths);
    rights.flat_map(|right| rule.verbs().iter().map(move |verb| (right, verb)))
}

/// A rule that the user has, prepared for many comparisons.
struct Held<'a> {
    verbs: HashSet<&'a str>,
    groups: HashSet<&'a str>,
    resources: HashSet<&'a str>,
    names: HashSet<&'a str>,
    urls: Vec<&'a str>,
}

impl<'a> Held<'a> {
    fn new(rule: &'a PolicyRule) -> Self {
        Self {
            verbs: rule.verbs().iter().collect(),
            groups: rule.api_groups().iter().collect(),
            resources: rule.resources().iter().collect(),
            names: rule.resource_names().iter().collect(),
            urls: rule.non_resource_urls().iter().collect(),
        }
    }

    fn allows(&self, right: &RuleTarget<'_>, verb: &str) -> bool {
        let any = |set: &HashSet<&str>, wanted: &str| set.contains("*") || set.contains(wanted);
        if !any(&self.verbs, verb) {
            return false;
        }
        let (group, resource, name) = match *right {
            RuleTarget::Path(path) => return self.urls.iter().any(|have| covers_path(have, path)),
            RuleTarget::Resource { group, resource, name } => (group, resource, name),
        };
        let any_of = || resource.split_once('/').map(|(_, sub)| format!("*/{sub}"));
        any(&self.groups, group)
            && (any(&self.resources, resource)
                || any_of().is_some_and(|any_of| self.resources.contains(&*any_of)))
            && (self.names.is_empty() || name.is_some_and(|name| self.names.contains(name)))
    }
}

impl RuleTarget<'_> {
    fn told(&self, verbs: &[&str]) -> String {
        let verbs = go_quoted_list(verbs);
        match *self {
            Self::Path(path) => {
                format!("{{NonResourceURLs:{}, Verbs:{verbs}}}", go_quoted_list(&[path]))
            }
            Self::Resource { group, resource, name } => {
                let name = name.map(|name| format!(", ResourceNames:{}", go_quoted_list(&[name])));
                format!(
                    "{{APIGroups:{}, Resources:{}{}, Verbs:{verbs}}}",
                    go_quoted_list(&[group]),
                    go_quoted_list(&[resource]),
                    name.unwrap_or_default()
                )
            }
        }
    }
}

/// Formats a list of strings like Go's `%q`.
pub(crate) fn go_quoted_list<T: AsRef<str>>(texts: &[T]) -> String {
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
        assert!(
            uncovered_rules(&held, &[rule([""], ["pods"], ["get", "list"])]).unwrap().is_empty()
        );
        assert_eq!(
            uncovered_rules(&held, &[rule([""], ["pods"], ["get", "delete"])]).unwrap(),
            [r#"{APIGroups:[""], Resources:["pods"], Verbs:["delete"]}"#]
        );
        let all = [rule(["*"], ["pods"], ["get", "*"]).with_resource_names(["b", "a"])];
        assert_eq!(
            uncovered_rules(&held, &all).unwrap(),
            [
                r#"{APIGroups:["*"], Resources:["pods"], ResourceNames:["a"], Verbs:["get" "*"]}"#,
                r#"{APIGroups:["*"], Resources:["pods"], ResourceNames:["b"], Verbs:["get" "*"]}"#,
            ]
        );
        let paths = PolicyRule::new().with_non_resource_urls(["/a", "/b"]).with_verbs(["get"]);
        let held = [PolicyRule::new().with_non_resource_urls(["/a*"]).with_verbs(["*"])];
        assert_eq!(
            uncovered_rules(&held, &[paths]).unwrap(),
            [r#"{NonResourceURLs:["/b"], Verbs:["get"]}"#]
        );
    }
    #[test]
    fn rights_are_counted_before_they_are_compared() {
        let texts = |count: usize| (0..count).map(|at| format!("x{at}")).collect::<Vec<_>>();
        let list = |count: usize| texts(count).iter().map(String::as_str).collect::<List<String>>();
        let rule = |count: usize| {
            PolicyRule::new()
                .with_api_groups(list(count))
                .with_resources(list(count))
                .with_verbs(list(count))
                .with_resource_names(list(count))
        };
        let held = [PolicyRule::new().with_verbs(["get"])];
        assert_eq!(uncovered_rules(&held, &[rule(60)]), Err(TooManyRights), "13 million");
        assert_eq!(uncovered_rules(&held, &[rule(60_000)]), Err(TooManyRights), "beyond 64 bits");
        assert_eq!(
            uncovered_rules(&held, &[rule(10)]).unwrap().len(),
            1_000,
            "verbs are listed together"
        );
        let many: Vec<PolicyRule> = (0..10_000).map(|_| held[0].clone()).collect();
        assert_eq!(
            uncovered_rules(&many, &[rule(6)]),
            Err(TooManyRights),
            "with each rule that is held"
        );
        let all = [
            PolicyRule::new().with_verbs(["*"]).with_api_groups(["*"]).with_resources(["*"]),
            PolicyRule::new().with_verbs(["*"]).with_non_resource_urls(["*"]),
        ];
        assert_eq!(uncovered_rules(&all, &[rule(60)]), Ok(vec![]));
    }
}
