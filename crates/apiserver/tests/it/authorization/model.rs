//! A slow and obvious implementation of authorization, written from the Kubernetes documentation:
//! every check looks at every object.

use std::collections::{BTreeSet, HashMap};

use client::Client;
use http::Method;
use object::Value;
use server::{Attributes, UserInfo};

use super::{
    node_model::{self, Related, related},
    question::Question,
    world::NODES,
};

/// The objects of a cluster that authorization depends on.
pub(super) struct Model {
    roles: Vec<Role>,
    bindings: Vec<Binding>,
    pub(super) pods: Vec<Value>,
    pub(super) volumes: Vec<Value>,
    pub(super) attachments: Vec<Value>,
    pub(super) slices: Vec<Value>,
    /// The objects that are related to each node.
    pub(super) related: HashMap<&'static str, Vec<Related>>,
}

/// A Role, or without a namespace a ClusterRole.
struct Role {
    namespace: String,
    name: String,
    rules: Vec<Rule>,
}

struct Rule {
    verbs: Vec<String>,
    groups: Vec<String>,
    resources: Vec<String>,
    names: Vec<String>,
    paths: Vec<String>,
}

/// A RoleBinding, or without a namespace a ClusterRoleBinding.
struct Binding {
    namespace: String,
    name: String,
    kind_of_role: String,
    role: String,
    subjects: Vec<Subject>,
}

struct Subject {
    kind: String,
    name: String,
    namespace: String,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) allowed: bool,
    /// When allowed, all reasons of which one must be given; otherwise all that must be given, sorted.
    pub(super) reasons: BTreeSet<String>,
}

impl Model {
    pub(super) async fn of(admin: &Client) -> Self {
        let list = async |path: &str| {
            let list = admin.call(Method::GET, path, "", bytes::Bytes::new()).await;
            list.unwrap_or_else(|why| panic!("{path}: {why}"))["items"].items().to_vec()
        };
        let rbac = "/apis/rbac.authorization.k8s.io/v1";
        let mut roles = list(&format!("{rbac}/clusterroles")).await;
        roles.extend(list(&format!("{rbac}/roles")).await);
        let mut bindings = list(&format!("{rbac}/clusterrolebindings")).await;
        bindings.extend(list(&format!("{rbac}/rolebindings")).await);
        let mut this = Self {
            roles: roles.iter().map(Role::of).collect(),
            bindings: bindings.iter().map(Binding::of).collect(),
            pods: list("/api/v1/pods").await,
            volumes: list("/api/v1/persistentvolumes").await,
            attachments: list("/apis/storage.k8s.io/v1/volumeattachments").await,
            slices: list("/apis/resource.k8s.io/v1/resourceslices").await,
            related: HashMap::new(),
        };
        this.related = NODES.iter().map(|node| (*node, related(&this, node))).collect();
        this
    }

    /// Decides a check: `system:masters` may do everything; then the node rules apply to kubelets,
    /// and the roles to every user.
    pub(super) fn decide(&self, question: &Question) -> Verdict {
        let Question { user, attributes } = question;
        if user.groups.iter().any(|group| group == "system:masters") {
            return Verdict { allowed: true, reasons: BTreeSet::from([String::new()]) };
        }
        let node = match node_model::decide(self, user, attributes) {
            Ok(()) => return Verdict { allowed: true, reasons: BTreeSet::from([String::new()]) },
            Err(why) => why,
        };
        let (allowing, missing) = self.by_roles(user, attributes);
        if !allowing.is_empty() {
            return Verdict { allowed: true, reasons: allowing };
        }
        let mut reasons = BTreeSet::new();
        if !node.is_empty() {
            reasons.insert(format!("node: {node}"));
        }
        let missing: Vec<String> = missing.into_iter().collect();
        match &*missing {
            [] => {}
            [one] => drop(reasons.insert(format!("rbac: RBAC: {one}"))),
            many => drop(reasons.insert(format!("rbac: RBAC: [{}]", many.join(", ")))),
        }
        Verdict { allowed: false, reasons }
    }

    /// The reasons why it is allowed, one for each binding; and the referenced roles that do not
    /// exist.
    fn by_roles(
        &self,
        user: &UserInfo,
        asked: &Attributes,
    ) -> (BTreeSet<String>, BTreeSet<String>) {
        let (mut allowing, mut missing) = (BTreeSet::new(), BTreeSet::new());
        for binding in &self.bindings {
            // ClusterRoleBindings apply everywhere, RoleBindings only in their namespace.
            if !binding.namespace.is_empty() && *binding.namespace != *asked.namespace {
                continue;
            }
            let mut subjects = binding.subjects.iter();
            let Some(subject) = subjects.find(|subject| subject.is(user)) else { continue };
            match self.role_of(binding) {
                None => {
                    let kind = binding.kind_of_role.to_lowercase();
                    let role = &binding.role;
                    missing.insert(format!("{kind}.rbac.authorization.k8s.io {role:?} not found"));
                }
                Some(role) if role.rules.iter().any(|rule| rule.allows(asked)) => {
                    allowing.insert(binding.allowing(subject));
                }
                Some(_) => {}
            }
        }
        (allowing, missing)
    }

    fn role_of(&self, binding: &Binding) -> Option<&Role> {
        let of_cluster = binding.kind_of_role == "ClusterRole";
        let namespace = if of_cluster { "" } else { &*binding.namespace };
        self.roles.iter().find(|role| role.namespace == namespace && role.name == binding.role)
    }
}

impl Role {
    fn of(role: &Value) -> Self {
        Self {
            namespace: meta(role, "namespace").to_owned(),
            name: meta(role, "name").to_owned(),
            rules: role["rules"].items().iter().map(Rule::of).collect(),
        }
    }
}

impl Rule {
    fn of(rule: &Value) -> Self {
        let texts = |field: &str| {
            let items = rule[field].items().iter();
            items.map(|item| item.as_str().expect("a text").to_owned()).collect()
        };
        Self {
            verbs: texts("verbs"),
            groups: texts("apiGroups"),
            resources: texts("resources"),
            names: texts("resourceNames"),
            paths: texts("nonResourceURLs"),
        }
    }

    /// Whether every part of the rule matches.
    fn allows(&self, asked: &Attributes) -> bool {
        let any =
            |list: &[String], wanted: &str| list.iter().any(|own| own == "*" || own == wanted);
        if !any(&self.verbs, &asked.verb) {
            return false;
        }
        if !asked.is_resource {
            return self.paths.iter().any(|own| match own.ends_with('*') {
                true => asked.path.starts_with(own.trim_end_matches('*')),
                false => *own == *asked.path,
            });
        }
        let resource = match asked.subresource.is_empty() {
            true => any(&self.resources, &asked.resource),
            false => {
                any(&self.resources, &format!("{}/{}", asked.resource, asked.subresource))
                    || any(&self.resources, &format!("*/{}", asked.subresource))
            }
        };
        let named = self.names.is_empty() || self.names.iter().any(|own| *own == *asked.name);
        any(&self.groups, &asked.group) && resource && named
    }
}

impl Binding {
    fn of(binding: &Value) -> Self {
        let namespace = meta(binding, "namespace");
        let subject = |subject: &Value| {
            let own = text(subject, "namespace");
            Subject {
                kind: text(subject, "kind").to_owned(),
                name: text(subject, "name").to_owned(),
                namespace: if own.is_empty() { namespace } else { own }.to_owned(),
            }
        };
        Self {
            namespace: namespace.to_owned(),
            name: meta(binding, "name").to_owned(),
            kind_of_role: text(&binding["roleRef"], "kind").to_owned(),
            role: text(&binding["roleRef"], "name").to_owned(),
            subjects: binding["subjects"].items().iter().map(subject).collect(),
        }
    }

    /// The reason, in upstream's words.
    fn allowing(&self, subject: &Subject) -> String {
        let Self { namespace, name, kind_of_role, role, .. } = self;
        let binding = match &**namespace {
            "" => format!("ClusterRoleBinding {name:?}"),
            namespace => format!("RoleBinding {:?}", format!("{name}/{namespace}")),
        };
        let whom = match &*subject.kind {
            "ServiceAccount" => format!("{}/{}", subject.name, subject.namespace),
            _ => subject.name.clone(),
        };
        format!(
            "RBAC: allowed by {binding} of {kind_of_role} {role:?} to {} {whom:?}",
            subject.kind
        )
    }
}

impl Subject {
    fn is(&self, user: &UserInfo) -> bool {
        match &*self.kind {
            "User" => *user.name == *self.name,
            "Group" => user.groups.iter().any(|group| **group == *self.name),
            _ => *user.name == *format!("system:serviceaccount:{}:{}", self.namespace, self.name),
        }
    }
}

pub(super) fn text<'a>(tree: &'a Value, field: &str) -> &'a str {
    tree[field].as_str().unwrap_or_default()
}

pub(super) fn meta<'a>(object: &'a Value, field: &str) -> &'a str {
    text(&object["metadata"], field)
}
