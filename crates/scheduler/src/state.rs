//! State of the scheduler, updated by informers: the snapshot of nodes and pods, and the scheduling
//! queue. Decisions are assumed before the API server confirms them.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use api::core::{Namespace, Node, Pod};
use object::Text;
use tokio::time::Instant;

use crate::{NodeInfo, PodInfo, Snapshot, scheduling_queue::SchedulingQueue};

/// The scheduler cache and the scheduling queue.
#[derive(Debug, Default)]
pub(crate) struct SchedulerState {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) queue: SchedulingQueue,
    /// Pods by node and uid, whether the node is known or not.
    pods_by_node: HashMap<Text, HashMap<Text, Arc<PodInfo>>>,
    /// Assumed pods, whose binding is in progress: node by uid.
    assumed: HashMap<Text, Text>,
    /// Nominated pods, for which others are preempted: node and pod by uid.
    nominated: HashMap<Text, (Text, Arc<PodInfo>)>,
    /// Pods with scheduling gates, by uid.
    gated: HashSet<Text>,
}

impl SchedulerState {
    /// Handles a node event.
    pub(crate) fn on_node_change(&mut self, old: Option<&Node>, new: Option<&Node>) {
        match (old, new) {
            (_, Some(new)) => {
                if old.is_some_and(|old| equal_for_scheduling(old, new)) {
                    return; // a heartbeat
                }
                let pods = self.pods_by_node.get(new.metadata().name()).into_iter().flatten();
                let info = NodeInfo::new(new, pods.map(|(_, pod)| pod.clone()));
                Arc::make_mut(&mut self.snapshot).set_node(info);
                let event = if old.is_none() { "NodeAdd" } else { "NodeUpdate" };
                self.queue.move_unschedulable_to_backoff(event, Instant::now());
            }
            (Some(old), None) => Arc::make_mut(&mut self.snapshot).remove(old.metadata().name()),
            (None, None) => {}
        }
    }

    /// Handles a namespace event.
    pub(crate) fn on_namespace_change(&mut self, old: Option<&Namespace>, new: Option<&Namespace>) {
        let labels = |namespace: &Namespace| namespace.metadata().labels().clone();
        if old.map(labels) == new.map(labels) {
            return;
        }
        let Some(name) = new.or(old).map(|one| Text::from(one.metadata().name())) else { return };
        let namespaces = &mut Arc::make_mut(&mut self.snapshot).namespaces;
        match new {
            Some(new) => Arc::make_mut(namespaces).insert(name, labels(new)),
            None => Arc::make_mut(namespaces).remove(&name),
        };
        self.queue.move_unschedulable_to_backoff("NamespaceUpdate", Instant::now());
    }

    /// Handles a pod event. `ours`: whether the pod has this scheduler's name.
    pub(crate) fn on_pod_change(&mut self, old: Option<&Pod>, new: Option<&Pod>, ours: bool) {
        let is_placed = |pod: &&Pod| pod.is_scheduled() && !pod.is_finished();
        let new_uid = new.map(|pod| pod.metadata().uid());
        if let Some(old) = old.filter(|old| new_uid != Some(old.metadata().uid())) {
            self.remove_unscheduled(old.metadata().uid());
            self.gated.remove(old.metadata().uid());
        }
        if let Some(old) = old.filter(is_placed) {
            let stays = new.filter(is_placed).filter(|new| {
                new.spec() == old.spec() && new.metadata().labels() == old.metadata().labels()
            });
            let going = |pod: &Pod| pod.metadata().is_terminating();
            if stays.is_some_and(|new| going(new) == going(old)) {
                return;
            }
            self.remove_pod_from_node(old.spec().node_name(), old.metadata().uid());
            if stays.is_none() {
                self.queue.move_unschedulable_to_backoff("AssignedPodDelete", Instant::now());
            }
        }
        let Some(new) = new else { return };
        let uid = new.metadata().uid();
        let is_gated = new.is_active() && ours && !new.spec().scheduling_gates().is_empty();
        if is_gated {
            self.gated.insert(uid.into());
        } else {
            self.gated.remove(uid);
        }
        if is_placed(&new) {
            self.remove_unscheduled(uid);
            self.add_pod_to_node(new.spec().node_name(), Arc::new(PodInfo::new(new)));
        } else if new.is_active() && ours && new.spec().scheduling_gates().is_empty() {
            let nominated = new.status().nominated_node_name();
            if !nominated.is_empty() {
                self.nominate(Arc::new(PodInfo::new(new)), nominated);
            }
            let spec_changed = old.is_none_or(|old| old.spec() != new.spec());
            if spec_changed && !self.assumed.contains_key(uid) {
                self.queue.add(new);
            }
        } else {
            self.remove_unscheduled(uid);
        }
    }

    /// The snapshot for scheduling this pod. It includes nominated pods of equal or higher priority
    /// on their nodes.
    pub(crate) fn snapshot_for(&self, pod: &PodInfo) -> Arc<Snapshot> {
        let mut all = self.snapshot.clone();
        for (node, other) in self.nominated.values() {
            if other.uid() != pod.uid() && other.priority >= pod.priority {
                Arc::make_mut(&mut all).update_node(node, |node| node.add(other.clone()));
            }
        }
        all
    }

    pub(crate) fn nominate(&mut self, pod: Arc<PodInfo>, node: &str) {
        self.nominated.insert(pod.uid().into(), (node.into(), pod));
    }

    pub(crate) fn clear_nomination(&mut self, uid: &str) {
        self.nominated.remove(uid);
    }

    /// Number of pods with scheduling gates.
    pub(crate) fn gated(&self) -> usize {
        self.gated.len()
    }

    /// Numbers of nodes, of pods on them, and of assumed pods among these.
    pub(crate) fn sizes(&self) -> (usize, usize, usize) {
        let pods = self.pods_by_node.values().map(HashMap::len).sum();
        (self.snapshot.len(), pods, self.assumed.len())
    }

    fn remove_unscheduled(&mut self, uid: &str) {
        self.forget(uid);
        self.clear_nomination(uid);
        self.queue.remove(uid);
    }

    /// Assumes the pod on the node, before its binding is confirmed.
    pub(crate) fn assume(&mut self, pod: PodInfo, node: &str) {
        self.clear_nomination(pod.uid());
        self.assumed.insert(pod.uid().into(), node.into());
        self.add_pod_to_node(node, Arc::new(pod));
    }

    /// Removes an assumed pod whose binding failed.
    pub(crate) fn forget(&mut self, uid: &str) {
        if let Some(node) = self.assumed.remove(uid) {
            self.remove_pod_from_node(&node, uid);
        }
    }

    fn add_pod_to_node(&mut self, node: &str, pod: Arc<PodInfo>) {
        self.remove_pod_from_node(node, pod.uid());
        self.pods_by_node.entry(node.into()).or_default().insert(pod.uid().into(), pod.clone());
        Arc::make_mut(&mut self.snapshot).update_node(node, |info| info.add(pod));
    }

    fn remove_pod_from_node(&mut self, node: &str, uid: &str) {
        let Some(pods) = self.pods_by_node.get_mut(node) else { return };
        if pods.remove(uid).is_some() {
            Arc::make_mut(&mut self.snapshot).update_node(node, |info| info.remove(uid));
        }
        if self.pods_by_node.get(node).is_some_and(HashMap::is_empty) {
            self.pods_by_node.remove(node);
        }
    }
}

/// Whether nothing relevant to scheduling has changed.
fn equal_for_scheduling(old: &Node, new: &Node) -> bool {
    old.spec() == new.spec()
        && old.metadata().labels() == new.metadata().labels()
        && old.status().allocatable() == new.status().allocatable()
        && old.status().images() == new.status().images()
}

#[cfg(test)]
mod tests {
    use object::ObjectMeta;

    use super::*;

    fn pod(node: &str) -> Pod {
        let mut pod = Pod::new().with_metadata(ObjectMeta::new().with_name("p").with_uid("1"));
        if !node.is_empty() {
            pod.spec_mut().set_node_name(node);
        }
        pod
    }

    fn used(state: &SchedulerState, node: &str) -> i64 {
        state.snapshot.node(node).map_or(-1, |node| node.requested.pods)
    }

    #[tokio::test]
    async fn a_pod_counts_once_whoever_tells() {
        let mut state = SchedulerState::default();
        let node = Node::new().with_metadata(ObjectMeta::new().with_name("a"));
        state.on_pod_change(None, Some(&pod("a")), true);
        state.on_node_change(None, Some(&node));
        assert_eq!(used(&state, "a"), 1, "placed before the node was known");
        state.on_pod_change(Some(&pod("a")), None, true);
        assert_eq!(used(&state, "a"), 0);

        state.on_pod_change(None, Some(&pod("")), true);
        assert!(state.queue.pop(Instant::now()).is_some());
        state.assume(PodInfo::new(&pod("")), "a");
        assert_eq!(used(&state, "a"), 1);
        state.on_pod_change(Some(&pod("")), Some(&pod("a")), true); // the watch event arrives too
        assert_eq!(used(&state, "a"), 1);
        state.on_pod_change(Some(&pod("a")), None, true);
        assert_eq!(used(&state, "a"), 0);
    }

    #[tokio::test]
    async fn a_binding_that_fails_is_undone() {
        let mut state = SchedulerState::default();
        let node = Node::new().with_metadata(ObjectMeta::new().with_name("a"));
        state.on_node_change(None, Some(&node));
        state.assume(PodInfo::new(&pod("")), "a");
        state.forget("1");
        assert_eq!(used(&state, "a"), 0);
    }

    #[tokio::test]
    async fn gated_pods_are_counted() {
        let mut state = SchedulerState::default();
        let mut gated = pod("");
        let gate = api::core::PodSchedulingGate::new().with_name("g");
        gated.spec_mut().set_scheduling_gates([gate]);
        state.on_pod_change(None, Some(&gated), true);
        assert_eq!((state.gated(), state.queue.pending().active), (1, 0));
        state.on_pod_change(Some(&gated), Some(&pod("")), true);
        assert_eq!((state.gated(), state.queue.pending().active), (0, 1));
        state.on_pod_change(None, Some(&gated), true);
        state.on_pod_change(Some(&gated), None, true);
        assert_eq!(state.gated(), 0);
    }
}
