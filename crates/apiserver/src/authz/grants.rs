//! Index of all RBAC roles and bindings by subject. It is rebuilt when one of them changes, which
//! is rare, and queried by every request.

use std::{collections::HashMap, fmt, sync::Arc};

use api::rbac::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject};
use object::{List, Status, Text, Value, View};
use server::{ListOptions, Registry, Selection, UserInfo};
use store::{Cursor, Topic, Version};

const GROUP: &str = "rbac.authorization.k8s.io";
const PLURALS: [&str; 4] = ["clusterrolebindings", "rolebindings", "clusterroles", "roles"];

/// One binding with the rules of its role.
#[derive(Debug)]
pub(super) struct ResolvedBinding {
    /// The namespace in which it applies; empty means the whole cluster.
    pub(super) namespace: Text,
    /// `None` if the role does not exist.
    pub(super) rules: Option<Arc<Vec<PolicyRule>>>,
    /// The binding and the role, in upstream's words.
    pub(super) why: String,
    /// The role, as the NotFound message names it.
    pub(super) role: String,
}

/// A subject of a binding; a service account is a user.
#[derive(Debug, PartialEq, Eq, Hash)]
enum SubjectKey {
    User(Text),
    Group(Text),
}

/// All bindings and roles, indexed by subject.
pub(super) struct BindingIndex {
    /// ClusterRoleBindings first, then RoleBindings, each sorted by name.
    all: Vec<ResolvedBinding>,
    /// By subject: the index of the binding, the position among its subjects, and the subject as
    /// text.
    by: HashMap<SubjectKey, Vec<(usize, usize, String)>>,
    roles: HashMap<(Text, Text), Arc<Vec<PolicyRule>>>,
}

impl fmt::Debug for BindingIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Grants({})", self.all.len())
    }
}

impl BindingIndex {
    /// Reads all roles and bindings. The cursors report any later change.
    pub(super) fn read(registry: &Registry) -> Result<(Self, Vec<Cursor<Value>>), Status> {
        let (mut lists, mut cursors) = (Vec::new(), Vec::new());
        for plural in PLURALS {
            let kind = registry.kind(GROUP, plural)?;
            let list = registry.list(&kind, &Selection::default(), &ListOptions::default())?;
            let cursor = Cursor::open(kind.objects()?, Topic::All, list.revision);
            cursors.push(cursor.map_err(|error| Status::unavailable(error.to_string()))?);
            lists.push(list.items);
        }
        let [all, some, cluster_roles, roles] = &*lists else { unreachable!("as many as plurals") };
        let mut this = Self { all: Vec::new(), by: HashMap::new(), roles: HashMap::new() };
        this.add_roles(cluster_roles, roles);
        for version in all {
            let binding = ClusterRoleBinding::view(&version.object);
            let name = format!("ClusterRoleBinding {:?}", binding.metadata().name());
            this.add("", &name, binding.role_ref(), binding.subjects());
        }
        for version in some {
            let binding = RoleBinding::view(&version.object);
            let (name, namespace) = (binding.metadata().name(), binding.metadata().namespace());
            let full = format!("RoleBinding {:?}", format!("{name}/{namespace}"));
            this.add(namespace, &full, binding.role_ref(), binding.subjects());
        }
        Ok((this, cursors))
    }

    /// The bindings that apply to the user or one of its groups in the namespace, each with the
    /// subject as text.
    pub(super) fn of<'a>(
        &'a self,
        user: &UserInfo,
        namespace: &'a str,
    ) -> impl Iterator<Item = (&'a ResolvedBinding, &'a str)> {
        let groups = user.groups.iter().map(|group| SubjectKey::Group(group.clone()));
        let who = groups.chain([SubjectKey::User(user.name.clone())]);
        let mut found: Vec<_> = who.filter_map(|who| self.by.get(&who)).flatten().collect();
        // The reason names the first subject of a binding that matches the user.
        found.sort_unstable_by_key(|(at, place, _)| (*at, *place));
        found.dedup_by_key(|(at, ..)| *at);
        let holds = move |grant: &ResolvedBinding| {
            grant.namespace.is_empty() || (!namespace.is_empty() && grant.namespace == namespace)
        };
        let found = found.into_iter().map(|(at, _, to)| (&self.all[*at], to.as_str()));
        found.filter(move |(grant, _)| holds(grant))
    }

    /// The rules of the role that a binding in the namespace refers to.
    pub(super) fn role(
        &self,
        reference: &RoleRef,
        namespace: &str,
    ) -> Option<Arc<Vec<PolicyRule>>> {
        let place = match reference.kind() {
            "ClusterRole" => "",
            "Role" if !namespace.is_empty() => namespace,
            _ => return None,
        };
        self.roles.get(&(place.into(), reference.name().into())).cloned()
    }

    fn add_roles(&mut self, cluster: &[Arc<Version<Value>>], roles: &[Arc<Version<Value>>]) {
        let rules = |rules: &List<PolicyRule>| Arc::new(rules.iter().cloned().collect());
        for version in cluster {
            let role = ClusterRole::view(&version.object);
            let key = (Text::default(), role.metadata().name().into());
            self.roles.insert(key, rules(role.rules()));
        }
        for version in roles {
            let role = Role::view(&version.object);
            let key = (role.metadata().namespace().into(), role.metadata().name().into());
            self.roles.insert(key, rules(role.rules()));
        }
    }

    fn add(&mut self, namespace: &str, binding: &str, role: &RoleRef, to: &List<Subject>) {
        let rules = self.role(role, namespace);
        let at = self.all.len();
        for (place, subject) in to.iter().enumerate() {
            let (kind, name) = (subject.kind(), subject.name());
            let mut full = name.to_owned();
            let who = match kind {
                "User" => SubjectKey::User(name.into()),
                "Group" => SubjectKey::Group(name.into()),
                "ServiceAccount" => {
                    let own = subject.namespace();
                    let home = if own.is_empty() { namespace } else { own };
                    full = format!("{name}/{home}");
                    SubjectKey::User(format!("system:serviceaccount:{home}:{name}").into())
                }
                _ => continue,
            };
            self.by.entry(who).or_default().push((at, place, format!("{kind} {full:?}")));
        }
        let why = format!("{binding} of {} {:?}", role.kind(), role.name());
        let role = format!("{}.{GROUP} {:?}", role.kind().to_lowercase(), role.name());
        self.all.push(ResolvedBinding { namespace: namespace.into(), rules, why, role });
    }
}
