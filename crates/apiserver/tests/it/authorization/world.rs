//! Random roles and bindings, as objects to be created in any cluster.

use object::Value;

use super::random::Random;
use crate::tree;

pub(super) const USERS: [&str; 5] = ["alice", "bob", "carol", "*", "system:anonymous"];
pub(super) const GROUPS: [&str; 4] = ["developers", "auditors", "system:unauthenticated", "*"];
pub(super) const NAMES: [&str; 4] = ["x", "y", "z", "w"];
pub(super) const NODES: [&str; 3] = ["n0", "n1", "n2"];
pub(super) const PATHS: [&str; 14] = [
    "/",
    "/healthz",
    "/healthz/",
    "/healthz/etcd",
    "/livez",
    "/version",
    "/version/",
    "/metrics",
    "/metricsx",
    "/apis",
    "/apis/apps",
    "/logs/a/b",
    "*",
    "",
];

const RULE_PATHS: [&str; 9] =
    ["/healthz", "/healthz/*", "/healthz*", "/apis/*", "/metrics", "/logs/**", "*", "/", "/ver*"];
const RULE_VERBS: [&str; 9] =
    ["get", "list", "watch", "create", "update", "delete", "deletecollection", "use", "*"];
const RULE_GROUPS: [&str; 4] = ["", "apps", "example.com", "*"];
const RULE_RESOURCES: [&str; 14] = [
    "pods",
    "pods/log",
    "pods/*",
    "*/scale",
    "*/*",
    "*/",
    "deployments",
    "deployments/scale",
    "deployments/status",
    "secrets",
    "configmaps",
    "widgets",
    "services/proxy",
    "*",
];
const ROLE_NAMES: [&str; 6] = ["r0", "r1", "r2", "r3", "r4", "missing"];
const RBAC: &str = "rbac.authorization.k8s.io";

/// An object, and the path at which it is created.
pub(super) struct Made {
    pub(super) path: String,
    pub(super) object: Value,
}

impl Made {
    pub(super) fn new(path: &str, object: Value) -> Self {
        Self { path: path.to_owned(), object }
    }

    /// The path of the object once it has been created.
    pub(super) fn own_path(&self) -> String {
        let name = self.object["metadata"]["name"].as_str().expect("a name");
        format!("{}/{name}", self.path)
    }
}

pub(super) fn namespaces(round: usize) -> Vec<String> {
    vec![format!("r{round}-a"), format!("r{round}-b")]
}

/// Roles, ClusterRoles and bindings; some bindings refer to a role that does not exist.
pub(super) fn roles_and_bindings(random: &mut Random, round: usize) -> Vec<Made> {
    let cluster = format!("/apis/{RBAC}/v1/clusterroles");
    let mut all = Vec::new();
    for name in &ROLE_NAMES[..5] {
        let role = format!("c{round}-{name}");
        all.push(Made::new(&cluster, role_object("ClusterRole", &role, random, true)));
    }
    for namespace in namespaces(round) {
        let path = format!("/apis/{RBAC}/v1/namespaces/{namespace}/roles");
        for name in &ROLE_NAMES[..5] {
            all.push(Made::new(&path, role_object("Role", name, random, false)));
        }
    }
    let cluster = format!("/apis/{RBAC}/v1/clusterrolebindings");
    for at in 0..7 {
        let name = format!("c{round}-b{at}");
        all.push(Made::new(&cluster, binding(&name, "", random, round)));
    }
    for namespace in namespaces(round) {
        let path = format!("/apis/{RBAC}/v1/namespaces/{namespace}/rolebindings");
        for at in 0..7 {
            all.push(Made::new(&path, binding(&format!("b{at}"), &namespace, random, round)));
        }
    }
    all
}

fn role_object(kind: &str, name: &str, random: &mut Random, paths: bool) -> Value {
    let mut role = tree(&format!(
        r#"{{"apiVersion":"{RBAC}/v1","kind":"{kind}","metadata":{{"name":"{name}"}},"rules":[]}}"#
    ));
    role["rules"] = (0..=random.below(3)).map(|_| rule(random, paths)).collect();
    role
}

fn rule(random: &mut Random, paths: bool) -> Value {
    let texts = |texts: Vec<&str>| texts.into_iter().collect::<Value>();
    let mut rule = Value::object();
    rule["verbs"] = texts(random.some_of(&RULE_VERBS, 3));
    if paths && random.chance(30) {
        rule["nonResourceURLs"] = texts(random.some_of(&RULE_PATHS, 2));
        return rule;
    }
    rule["apiGroups"] = texts(random.some_of(&RULE_GROUPS, 2));
    rule["resources"] = texts(random.some_of(&RULE_RESOURCES, 3));
    if random.chance(30) {
        rule["resourceNames"] = texts(random.some_of(&["x", "y", "", "*"], 2));
    }
    rule
}

fn binding(name: &str, namespace: &str, random: &mut Random, round: usize) -> Value {
    let of_cluster = namespace.is_empty() || random.chance(40);
    let (kind, role) = match (of_cluster, random.one_of(&ROLE_NAMES)) {
        (true, role) => ("ClusterRole", format!("c{round}-{role}")),
        (false, role) => ("Role", role.to_owned()),
    };
    let own = if namespace.is_empty() { "ClusterRoleBinding" } else { "RoleBinding" };
    let mut binding = tree(&format!(
        r#"{{"apiVersion":"{RBAC}/v1","kind":"{own}","metadata":{{"name":"{name}"}},
        "roleRef":{{"apiGroup":"{RBAC}","kind":"{kind}","name":"{role}"}}}}"#
    ));
    binding["subjects"] = (0..=random.below(3)).map(|_| subject(random, round)).collect();
    binding
}

fn subject(random: &mut Random, round: usize) -> Value {
    let (kind, name, namespace) = match random.below(3) {
        0 => ("User", random.one_of(&USERS), String::new()),
        1 => ("Group", random.one_of(&GROUPS), String::new()),
        _ => ("ServiceAccount", random.one_of(&NAMES), random.one_of(&namespaces(round))),
    };
    let mut subject = Value::object();
    subject["kind"] = kind.into();
    subject["name"] = name.into();
    if kind == "ServiceAccount" {
        subject["namespace"] = namespace.into();
    } else {
        subject["apiGroup"] = RBAC.into();
    }
    subject
}
