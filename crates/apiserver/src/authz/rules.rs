//! Whether one rule of a role allows something.

use api::rbac::PolicyRule;
use object::List;
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

/// Whether rights of `rule` are among those of `held`, each by itself.
pub(crate) fn covers(held: &[PolicyRule], rule: &PolicyRule) -> bool {
    let urls = rule.non_resource_urls();
    let verbs: Vec<&str> = rule.verbs().iter().collect();
    if !urls.is_empty() {
        return urls.iter().all(|url| {
            verbs.iter().all(|verb| {
                held.iter().any(|own| {
                    names(own.verbs(), verb)
                        && own.non_resource_urls().iter().any(|have| covers_path(have, url))
                })
            })
        });
    }
    let mut objects: Vec<&str> = rule.resource_names().iter().collect();
    if objects.is_empty() {
        objects.push("");
    }
    verbs.iter().all(|verb| {
        rule.api_groups().iter().all(|group| {
            rule.resources().iter().all(|resource| {
                objects
                    .iter()
                    .all(|name| held.iter().any(|own| holds(own, verb, group, resource, name)))
            })
        })
    })
}

fn holds(own: &PolicyRule, verb: &str, group: &str, resource: &str, name: &str) -> bool {
    let any_of = resource.split_once('/').map(|(_, sub)| format!("*/{sub}"));
    names(own.verbs(), verb)
        && names(own.api_groups(), group)
        && own
            .resources()
            .iter()
            .any(|have| have == "*" || have == resource || any_of.as_deref() == Some(have))
        && (own.resource_names().is_empty()
            || (!name.is_empty() && own.resource_names().iter().any(|have| have == name)))
}

fn names(list: &List<String>, wanted: &str) -> bool {
    list.iter().any(|own| own == "*" || own == wanted)
}

fn covers_path(pattern: &str, path: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => path.starts_with(prefix),
        None => path == pattern,
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
        assert!(covers(&held, &rule([""], ["pods"], ["get", "list"])));
        assert!(!covers(&held, &rule([""], ["pods"], ["get", "delete"])));
        assert!(!covers(&held, &rule(["*"], ["pods"], ["get", "list"])));
    }
}
