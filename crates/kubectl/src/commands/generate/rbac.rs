//! `create` for RBAC kinds: roles and role bindings.

use object::Value;

use super::{texts, values};
use crate::{
    commands::{
        Command,
        create::{WRITES, begin, make},
    },
    error::{CommandError, Result},
    flags::{Flag, FlagType},
    invocation::Invocation,
};

const RULES: &[Flag] = &[
    Flag::new("verb", FlagType::StringSlice),
    Flag::new("resource", FlagType::StringSlice),
    Flag::new("resource-name", FlagType::StringArray),
];
const SUBJECTS: &[Flag] = &[
    Flag::text("clusterrole"),
    Flag::new("user", FlagType::StringArray),
    Flag::new("group", FlagType::StringArray),
    Flag::new("serviceaccount", FlagType::StringArray),
];

pub(super) const ROLE: Command = Command::new("role", &[WRITES, RULES], role);
pub(super) const CLUSTER_ROLE: Command = Command::new(
    "clusterrole",
    &[
        WRITES,
        RULES,
        &[Flag::new("non-resource-url", FlagType::StringSlice), Flag::text("aggregation-rule")],
    ],
    cluster_role,
);
pub(super) const ROLE_BINDING: Command =
    Command::new("rolebinding", &[SUBJECTS, WRITES, &[Flag::text("role")]], role_binding);
pub(super) const CLUSTER_ROLE_BINDING: Command = Command::new(
    "clusterrolebinding",
    &[&[Flag::text("clusterrole").required()], SUBJECTS, WRITES],
    cluster_role_binding,
);

const GROUP: &str = "rbac.authorization.k8s.io";
const API: &str = "rbac.authorization.k8s.io/v1";
const VERBS: &[&str] = &[
    "get",
    "delete",
    "list",
    "create",
    "update",
    "patch",
    "watch",
    "proxy",
    "deletecollection",
    "use",
    "bind",
    "escalate",
    "impersonate",
    "*",
];

fn role(call: &Invocation<'_>) -> Result {
    let mut object = begin(call, API, "Role", true)?;
    object["rules"] = values(rules(call)?);
    make(call, object, "roles.rbac.authorization.k8s.io", "")
}

fn cluster_role(call: &Invocation<'_>) -> Result {
    let mut object = begin(call, API, "ClusterRole", false)?;
    let urls = call.flags.all("non-resource-url");
    let aggregation = call.flags.text("aggregation-rule");
    if !aggregation.is_empty() {
        let others = ["verb", "resource", "resource-name", "non-resource-url"];
        if others.iter().any(|flag| !call.flags.all(flag).is_empty()) {
            return Err(CommandError::error(
                "aggregation rule must be specified without nonResourceURLs, verbs, resources or resourceNames",
            ));
        }
        let mut selector = Value::object();
        for pair in aggregation.split(',') {
            let Some((key, value)) = pair.split_once('=') else {
                return Err(CommandError::Usage {
                    says: format!(
                        "invalid argument {} for \"--aggregation-rule\" flag: malformed pair, expect string=string",
                        object::quote::quote(aggregation)
                    ),
                    command: call.command.clone(),
                    help: "--help' for usage.",
                });
            };
            selector["matchLabels"][key] = value.into();
        }
        object["aggregationRule"]["clusterRoleSelectors"] = values(vec![selector]);
        *object.get_mut("rules") = Value::Null;
        return make(call, object, "clusterroles.rbac.authorization.k8s.io", "");
    }
    let verbs = call.flags.all("verb");
    if verbs.is_empty() {
        return Err(CommandError::error("at least one verb must be specified"));
    }
    let mut all = Vec::new();
    if !call.flags.all("resource").is_empty() {
        all = rules(call)?;
    } else if urls.is_empty() {
        return Err(CommandError::error("one of resource or nonResourceURL must be specified"));
    }
    if !urls.is_empty() {
        check_urls(urls, verbs)?;
        let mut rule = Value::object();
        rule["nonResourceURLs"] = texts(urls);
        rule["verbs"] = texts(verbs);
        all.push(rule);
    }
    object["rules"] = values(all);
    make(call, object, "clusterroles.rbac.authorization.k8s.io", "")
}

/// Rejects non-resource URLs and verbs that no request can have.
fn check_urls(urls: &[String], verbs: &[String]) -> Result {
    let known = ["get", "post", "put", "delete", "patch", "head", "options", "*"];
    if let Some(verb) = verbs.iter().find(|verb| !known.contains(&verb.as_str())) {
        return Err(CommandError::error(format!("invalid verb: '{verb}' for nonResourceURL")));
    }
    for url in urls.iter().filter(|url| *url != "*") {
        if !url.starts_with('/') {
            return Err(CommandError::error("nonResourceURL should start with /"));
        }
        if url.strip_suffix('*').unwrap_or(url).contains('*') {
            return Err(CommandError::error(
                "nonResourceURL only supports wildcard matches when '*' is at the end",
            ));
        }
    }
    Ok(())
}

/// PolicyRules, one for each API group of the resources.
fn rules(call: &Invocation<'_>) -> Result<Vec<Value>> {
    let verbs = call.flags.all("verb");
    if verbs.is_empty() {
        return Err(CommandError::error("at least one verb must be specified"));
    }
    let verbs =
        if verbs.iter().any(|verb| verb == "*") { vec!["*".to_owned()] } else { dedup(verbs) };
    for verb in verbs.iter().filter(|verb| !VERBS.contains(&verb.as_str())) {
        call.print_err(&format!("Warning: '{verb}' is not a standard resource verb"));
    }
    if call.flags.all("resource").is_empty() {
        return Err(CommandError::error("at least one resource must be specified"));
    }
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    let mut message = call.flags.all("resource");
    let every = ["*".to_owned()];
    if message.contains(&every[0]) {
        message = &every;
    }
    for word in message {
        let (name, sub) = word.split_once('/').unwrap_or((word, ""));
        let (group, plural) = if name == "*" {
            (String::new(), "*".to_owned())
        } else {
            resource(call, name, &verbs)?
        };
        let full = if sub.is_empty() { plural } else { format!("{plural}/{sub}") };
        match groups.iter_mut().find(|(other, _)| *other == group) {
            Some((_, all)) if !all.contains(&full) => all.push(full),
            Some(_) => {}
            None => groups.push((group, vec![full])),
        }
    }
    groups.sort_by(|a, b| a.0.cmp(&b.0));
    let rule = |(group, resources): (String, Vec<String>)| {
        let mut rule = Value::object();
        rule["apiGroups"] = texts(&[group]);
        rule["resources"] = texts(&resources);
        rule["verbs"] = texts(&verbs);
        let names = call.flags.all("resource-name");
        if !names.is_empty() {
            rule["resourceNames"] = texts(names);
        }
        rule
    };
    Ok(groups.into_iter().map(rule).collect())
}

/// Verbs that only some resources have: verb, group, resource.
const SPECIAL_VERBS: &[(&str, &str, &str)] = &[
    ("use", "policy", "podsecuritypolicies"),
    ("use", "extensions", "podsecuritypolicies"),
    ("bind", GROUP, "roles"),
    ("bind", GROUP, "clusterroles"),
    ("escalate", GROUP, "roles"),
    ("escalate", GROUP, "clusterroles"),
    ("impersonate", "", "users"),
    ("impersonate", "", "serviceaccounts"),
    ("impersonate", "", "groups"),
    ("impersonate", "authentication.k8s.io", "userextras"),
];

/// The group and plural of the resource that `name` means, such as `deploy` or `pods.metrics.k8s.io`. Resources of
/// special verbs need not be served.
fn resource(call: &Invocation<'_>, name: &str, verbs: &[String]) -> Result<(String, String)> {
    let (plural, group) = name.split_once('.').unwrap_or((name, ""));
    if plural.is_empty() {
        return Err(CommandError::error(
            "resource must be specified if apiGroup/subresource specified",
        ));
    }
    let found = call.resources()?.find(name);
    let (group, plural) = found
        .as_ref()
        .map_or((group, plural), |found| (found.group.as_str(), found.plural.as_str()));
    let mut special = false;
    for verb in verbs {
        let places = SPECIAL_VERBS.iter().filter(|(special, _, _)| special == verb);
        let mut places = places.peekable();
        if places.peek().is_none() {
            continue;
        }
        special = true;
        if !places.any(|(_, of, resource)| *of == group && *resource == plural) {
            return Err(CommandError::error(format!(
                "can not perform '{verb}' on '{plural}' in group '{group}'"
            )));
        }
    }
    match found {
        Err(fail) if !special => Err(CommandError::Raw(fail.message())),
        _ => Ok((group.to_owned(), plural.to_owned())),
    }
}

fn dedup(texts: &[String]) -> Vec<String> {
    let mut all = Vec::new();
    for text in texts {
        if !all.contains(text) {
            all.push(text.clone());
        }
    }
    all
}

fn role_binding(call: &Invocation<'_>) -> Result {
    let mut object = begin(call, API, "RoleBinding", true)?;
    let (role, cluster_role) = (call.flags.text("role"), call.flags.text("clusterrole"));
    let (kind, name) = match (role, cluster_role) {
        (role, "") if !role.is_empty() => ("Role", role),
        ("", role) if !role.is_empty() => ("ClusterRole", role),
        _ => {
            return Err(CommandError::error(
                "exactly one of clusterrole or role must be specified",
            ));
        }
    };
    bind(call, &mut object, kind, name)?;
    make(call, object, "rolebindings.rbac.authorization.k8s.io", "failed to create rolebinding: ")
}

fn cluster_role_binding(call: &Invocation<'_>) -> Result {
    let mut object = begin(call, API, "ClusterRoleBinding", false)?;
    bind(call, &mut object, "ClusterRole", call.flags.text("clusterrole"))?;
    make(
        call,
        object,
        "clusterrolebindings.rbac.authorization.k8s.io",
        "failed to create clusterrolebinding: ",
    )
}

fn bind(call: &Invocation<'_>, object: &mut Value, kind: &str, name: &str) -> Result {
    let reference = |kind: &str, name: &str| {
        let mut reference = Value::object();
        reference["apiGroup"] = GROUP.into();
        reference["kind"] = kind.into();
        reference["name"] = name.into();
        reference
    };
    object["roleRef"] = reference(kind, name);
    let mut subjects: Vec<Value> = Vec::new();
    subjects.extend(call.flags.all("user").iter().map(|user| reference("User", user)));
    subjects.extend(call.flags.all("group").iter().map(|group| reference("Group", group)));
    for account in call.flags.all("serviceaccount") {
        match account.split_once(':') {
            Some((namespace, name))
                if !namespace.is_empty() && !name.is_empty() && !name.contains(':') =>
            {
                let mut subject = Value::object();
                subject["kind"] = "ServiceAccount".into();
                subject["name"] = name.into();
                subject["namespace"] = namespace.into();
                subjects.push(subject);
            }
            _ => return Err(CommandError::error("serviceaccount must be <namespace>:<name>")),
        }
    }
    if !subjects.is_empty() {
        object["subjects"] = values(subjects);
    }
    Ok(())
}
