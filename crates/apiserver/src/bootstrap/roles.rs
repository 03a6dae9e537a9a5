//! Upstream's bootstrap roles and bindings, read from the table `roles.txt`.

use api::rbac::{ClusterRole, PolicyRule};
use object::{List, Object, Status, Value, View};
use server::Registry;

use super::{create_if_missing, internal_context};
use crate::authz::uncovered_rules;

const TABLE: &str = include_str!("roles.txt");
const GROUP: &str = "rbac.authorization.k8s.io";

/// All roles and bindings, in the order of the table.
pub(super) fn objects() -> Vec<Value> {
    let mut objects: Vec<Value> = Vec::new();
    for line in TABLE.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
        if let Some(role) = line.strip_prefix("role ") {
            objects.push(role_of(role));
        } else if let Some(binding) = line.strip_prefix("bind ") {
            objects.push(binding_of(binding));
        } else if let Some(role) = objects.last_mut() {
            add_rule(role, line.trim());
        }
    }
    objects
}

/// Creates the object if it is missing, or adds the missing rules to an existing bootstrap
/// ClusterRole.
pub(super) async fn reconcile(registry: &Registry, object: Value) -> Result<(), Status> {
    let named = Object::view(&object);
    let name = named.metadata().name().to_owned();
    let clusters = named.kind() == "ClusterRole" && object.get("aggregationRule").is_null();
    let served = registry.kind(GROUP, "clusterroles")?;
    let Some(found) = clusters.then(|| registry.get(&served, "", &name).ok()).flatten() else {
        return create_if_missing(registry, object).await;
    };
    let found = ClusterRole::view(&found.object);
    let updates = found.metadata().annotations().get("rbac.authorization.kubernetes.io/autoupdate");
    let held: Vec<PolicyRule> = found.rules().iter().cloned().collect();
    let wanted = ClusterRole::view(&object).rules();
    let lacks: Vec<PolicyRule> = wanted
        .iter()
        .filter(|rule| {
            uncovered_rules(&held, std::slice::from_ref(*rule))
                .map_or(true, |lacking| !lacking.is_empty())
        })
        .cloned()
        .collect();
    if updates == Some("false") || lacks.is_empty() {
        return Ok(());
    }
    let change = |old: &store::Version<Value>| {
        let mut role = ClusterRole::from(old.object.clone());
        let all: List<PolicyRule> = held.iter().chain(&lacks).cloned().collect();
        role.set_rules(all);
        Ok(role.into())
    };
    registry
        .guaranteed_update(&mut internal_context(), &served, ("", &name), "", change)
        .await
        .map(drop)
}

/// Parses the head of a role: `NAME [in NAMESPACE] [label=value …]`.
fn role_of(head: &str) -> Value {
    let (mut object, namespace) = named(head, "Role");
    if namespace.is_empty() {
        object["rules"] = Value::List([].into());
    }
    object
}

fn named(head: &str, kind: &str) -> (Value, String) {
    let mut words = head.split_whitespace().peekable();
    let mut object = Value::object();
    object["apiVersion"] = format!("{GROUP}/v1").into();
    let meta = &mut object["metadata"];
    meta["name"] = words.next().unwrap_or_default().into();
    meta["annotations"]["rbac.authorization.kubernetes.io/autoupdate"] = "true".into();
    meta["labels"]["kubernetes.io/bootstrapping"] = "rbac-defaults".into();
    let mut namespace = String::new();
    while let Some(word) = words.next() {
        if word == "in" {
            words.next().unwrap_or_default().clone_into(&mut namespace);
            meta["namespace"] = namespace.as_str().into();
        } else if let Some((label, value)) = word.split_once('=') {
            meta["labels"][label] = value.into();
        }
    }
    let cluster = if namespace.is_empty() { "Cluster" } else { "" };
    object["kind"] = format!("{cluster}{kind}").into();
    (object, namespace)
}

fn add_rule(role: &mut Value, line: &str) {
    let (what, rest) = line.split_once(": ").unwrap_or((line, ""));
    let parts: Vec<Value> = rest.split('|').map(list).collect();
    let mut rule = Value::object();
    match (what, &*parts) {
        ("from", _) => {
            let (label, value) = rest.split_once('=').unwrap_or((rest, ""));
            let mut selector = Value::object();
            selector["matchLabels"][label] = value.into();
            push(&mut role["aggregationRule"]["clusterRoleSelectors"], selector);
            return;
        }
        ("url", [urls, verbs]) => {
            rule["nonResourceURLs"] = urls.clone();
            rule["verbs"] = verbs.clone();
        }
        ("rule", [groups, resources, verbs, names @ ..]) => {
            rule["apiGroups"] = groups.clone();
            rule["resources"] = resources.clone();
            rule["verbs"] = verbs.clone();
            if let [names] = names {
                rule["resourceNames"] = names.clone();
            }
        }
        _ => unreachable!("a test reads the whole table"),
    }
    push(&mut role["rules"], rule);
}

fn push(slot: &mut Value, item: Value) {
    let mut items: Vec<Value> = slot.items().to_vec();
    items.push(item);
    *slot = items.into_iter().collect();
}

fn list(part: &str) -> Value {
    part.trim().split(',').map(|word| if word == "core" { "" } else { word }).collect()
}

/// Parses a binding: `NAME [in NAMESPACE] -> KIND ROLE : subjects`.
fn binding_of(line: &str) -> Value {
    let (head, rest) = line.split_once(" -> ").unwrap_or((line, ""));
    let (role, subjects) = rest.split_once(" : ").unwrap_or((rest.trim_end_matches(" :"), ""));
    let (kind, name) = role.trim().split_once(' ').unwrap_or((role, ""));
    let (mut object, _) = named(head, "RoleBinding");
    let reference = &mut object["roleRef"];
    reference["apiGroup"] = GROUP.into();
    reference["kind"] = kind.into();
    reference["name"] = name.into();
    object["subjects"] = subjects.split_whitespace().map(subject).collect();
    object
}

fn subject(text: &str) -> Value {
    let (kind, name) = text.split_once(':').unwrap_or(("u", text));
    let mut subject = Value::object();
    if kind == "s" {
        let (namespace, name) = name.split_once('/').unwrap_or(("", name));
        subject["kind"] = "ServiceAccount".into();
        subject["namespace"] = namespace.into();
        subject["name"] = name.into();
        return subject;
    }
    subject["kind"] = if kind == "u" { "User" } else { "Group" }.into();
    subject["apiGroup"] = GROUP.into();
    subject["name"] = name.into();
    subject
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_reads_as_roles_and_bindings() {
        let objects = objects();
        let find = |kind: &str, name: &str| {
            let is = |object: &&Value| {
                Object::view(object).kind() == kind
                    && Object::view(object).metadata().name() == name
            };
            objects.iter().find(is).cloned().unwrap_or_else(|| panic!("{kind} {name}"))
        };
        let admin = find("ClusterRole", "cluster-admin");
        assert_eq!(admin["rules"].items().len(), 2);
        let binding = find("ClusterRoleBinding", "cluster-admin");
        assert_eq!(binding["subjects"].items()[0]["name"].as_str(), Some("system:masters"));
        let controller = find("ClusterRoleBinding", "system:controller:replicaset-controller");
        assert_eq!(controller["subjects"].items()[0]["kind"].as_str(), Some("ServiceAccount"));
        let role = find("Role", "extension-apiserver-authentication-reader");
        assert_eq!(role["metadata"]["namespace"].as_str(), Some("kube-system"));
        assert_eq!(
            find("ClusterRole", "edit")["aggregationRule"]["clusterRoleSelectors"].items().len(),
            1
        );
    }
}
