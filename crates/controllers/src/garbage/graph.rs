//! The ownership graph: every object, its owners and its dependents.

use std::collections::{BTreeSet, HashMap, HashSet};

use client::ApiResource;
use object::{NamespacedName, ObjectMeta, OwnerReference, Text};

use super::decision::FOREGROUND;

/// An object in the graph.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub(super) resource: ApiResource,
    pub(super) key: NamespacedName,
    pub(super) uid: Text,
    pub(super) revision: u64,
    pub(super) owners: Vec<OwnerReference>,
    pub(super) finalizers: Vec<Text>,
    pub(super) terminating: bool,
}

impl Default for Node {
    fn default() -> Self {
        Self::new(&ApiResource::default(), &ObjectMeta::new())
    }
}

impl Node {
    /// Builds a node from an object's metadata.
    pub(super) fn new(resource: &ApiResource, meta: &ObjectMeta) -> Self {
        Self {
            resource: resource.clone(),
            key: NamespacedName::from_meta(meta),
            uid: meta.uid().into(),
            revision: meta.revision(),
            owners: meta.owner_references().iter().cloned().collect(),
            finalizers: meta.finalizers().iter().map(Text::from).collect(),
            terminating: meta.is_terminating(),
        }
    }

    /// Whether it is terminating and waits for its dependents.
    pub(super) fn is_waiting(&self) -> bool {
        self.terminating && self.has(FOREGROUND)
    }

    /// Whether this object may own another one: a cluster-scoped owner may have dependents
    /// everywhere, a namespaced one only in its namespace.
    pub(super) fn can_own(&self, dependent: &Self) -> bool {
        let home = &self.key.namespace;
        home.is_empty() || *home == dependent.key.namespace
    }

    /// Whether it has this finalizer.
    pub(super) fn has(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|name| name == finalizer)
    }

    /// Whether its owner, in foreground deletion, must wait for it (blockOwnerDeletion).
    pub(super) fn blocks(&self, owner: &str) -> bool {
        let blocks =
            |o: &OwnerReference| o.uid() == owner && o.block_owner_deletion() == Some(true);
        self.owners.iter().any(blocks)
    }
}

/// All objects by uid, and the dependents of each owner.
#[derive(Debug, Default)]
pub(super) struct Graph {
    nodes: HashMap<Text, Node>,
    /// Uids of the dependents by the uid of the owner, which need not be in the graph.
    dependents: HashMap<Text, BTreeSet<Text>>,
}

impl Graph {
    /// An object and its dependents. A reference from another namespace does not count: it would
    /// let a tenant block or observe the deletions of another tenant.
    pub(super) fn get(&self, uid: &str) -> Option<(Node, Vec<Node>)> {
        let node = self.nodes.get(uid)?.clone();
        let all = self.dependents.get(uid).into_iter().flatten();
        let all = all.filter_map(|uid| self.nodes.get(uid));
        let owned = all.filter(|one| node.can_own(one)).cloned().collect();
        Some((node, owned))
    }

    /// Adds or updates an object. Returns the uids of the objects that must be processed because of
    /// it.
    pub(super) fn put(&mut self, node: Node) -> Vec<Text> {
        let uid = node.uid.clone();
        let old = self.unlink(&uid);
        let mut touched = Vec::new();
        for owner in &node.owners {
            self.dependents.entry(owner.uid().into()).or_default().insert(uid.clone());
        }
        let before = old.iter().flat_map(|old| &old.owners);
        let before = before.filter(|owner| owner.block_owner_deletion() == Some(true));
        let released = before.map(OwnerReference::uid).filter(|owner| !node.blocks(owner));
        touched.extend(released.map(Text::from));
        let was_waiting = old.as_ref().is_some_and(Node::is_waiting);
        if node.is_waiting() && !was_waiting {
            touched.extend(self.dependents.get(&uid).into_iter().flatten().cloned());
        }
        let changed = old.as_ref().is_none_or(|old| old.owners != node.owners);
        let terminating = node.terminating && !node.finalizers.is_empty();
        if !node.owners.is_empty() && changed || terminating {
            touched.push(uid.clone());
        }
        self.nodes.insert(uid, node);
        touched
    }

    /// Uids of the resource's objects, in any version, that are not in `listed`.
    pub(super) fn lost(&self, resource: &ApiResource, listed: &HashSet<&str>) -> Vec<Text> {
        let same = |node: &&Node| {
            node.resource.group == resource.group && node.resource.plural == resource.plural
        };
        let all = self.nodes.values().filter(same).map(|node| &node.uid);
        all.filter(|uid| !listed.contains(&***uid)).cloned().collect()
    }

    /// Removes a deleted object. Returns its dependents, and its owners, which may wait for it.
    pub(super) fn remove(&mut self, uid: &str) -> Vec<Text> {
        let old = self.unlink(uid);
        let owned = self.dependents.get(uid).into_iter().flatten().cloned();
        let owners = old.iter().flat_map(|old| &old.owners).map(|owner| Text::from(owner.uid()));
        owned.chain(owners).collect()
    }

    fn unlink(&mut self, uid: &str) -> Option<Node> {
        let old = self.nodes.remove(uid)?;
        for owner in &old.owners {
            let Some(set) = self.dependents.get_mut(owner.uid()) else { continue };
            set.remove(uid);
            if set.is_empty() {
                self.dependents.remove(owner.uid());
            }
        }
        Some(old)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(uid: &str, owners: &[&str]) -> Node {
        let owners = owners.iter().map(|uid| OwnerReference::new().with_uid(*uid)).collect();
        Node { uid: uid.into(), owners, ..Node::default() }
    }

    #[test]
    fn the_end_of_one_concerns_those_around_it() {
        let mut graph = Graph::default();
        assert_eq!(graph.put(node("pod", &["set"])), ["pod"], "its owner may not exist");
        assert!(graph.put(node("set", &[])).is_empty());
        assert_eq!(graph.get("set").unwrap().1.len(), 1);
        assert!(graph.put(node("pod", &["set"])).is_empty(), "nothing new");
        assert_eq!(graph.remove("set"), ["pod"]);
        assert_eq!(graph.remove("pod"), ["set"]);
        assert!(graph.dependents.is_empty());
    }

    #[test]
    fn nobody_owns_what_is_in_another_namespace() {
        let mut graph = Graph::default();
        let at =
            |namespace: &str, node: Node| Node { key: NamespacedName::new(namespace, "x"), ..node };
        graph.put(at("a", node("owner", &[])));
        graph.put(at("", node("cluster", &[])));
        for (namespace, uid) in [("a", "own"), ("b", "foreign"), ("", "wide")] {
            graph.put(at(namespace, node(uid, &["owner", "cluster"])));
        }
        let owned = |uid: &str| {
            let (_, owned) = graph.get(uid).unwrap();
            owned.iter().map(|one| one.uid.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(owned("owner"), ["own"]);
        assert_eq!(owned("cluster"), ["foreign", "own", "wide"]);
    }

    #[test]
    fn an_owner_that_waits_calls_those_it_owns() {
        let mut graph = Graph::default();
        graph.put(node("pod", &["set"]));
        let set =
            Node { finalizers: vec![FOREGROUND.into()], terminating: true, ..node("set", &[]) };
        assert_eq!(graph.put(set), ["pod", "set"]);
        let pod = |blocks: bool| {
            let owner = OwnerReference::new().with_uid("set").with_block_owner_deletion(blocks);
            Node { owners: vec![owner], ..node("pod", &[]) }
        };
        assert_eq!(graph.put(pod(true)), ["pod"]);
        assert_eq!(graph.put(pod(false)), ["set", "pod"], "it need not wait any more");
        graph.put(pod(true));
        assert_eq!(graph.put(node("pod", &[])), ["set"], "nor for what it no longer owns");
    }
}
