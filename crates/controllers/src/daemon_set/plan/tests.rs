use api::{
    apps::{DaemonSetSpec, DaemonSetUpdateStrategy, RollingUpdateDaemonSet},
    core::{PodCondition, PodStatus, PodTemplateSpec},
};
use object::{IntOrString, ObjectMeta};

use super::*;

/// A set, nodes and pods on which the plan is carried out.
struct World {
    set: DaemonSet,
    nodes: Vec<Node>,
    pods: Vec<Pod>,
    revisions: Vec<ControllerRevision>,
    resting: HashSet<Text>,
    made: usize,
}

impl World {
    fn new(nodes: &[&str]) -> Self {
        let rolling = RollingUpdateDaemonSet::new().with_max_unavailable(1).with_max_surge(0);
        let strategy = DaemonSetUpdateStrategy::new().with_rolling_update(rolling);
        let spec = DaemonSetSpec::new().with_update_strategy(strategy);
        let set = DaemonSet::new().with_spec(spec.with_template(template("a"))).with_metadata(
            ObjectMeta::new().with_name("ds").with_namespace("default").with_uid("u"),
        );
        let node = |name: &&str| Node::new().with_metadata(ObjectMeta::new().with_name(*name));
        let nodes = nodes.iter().map(node).collect();
        let (pods, revisions) = (Vec::new(), Vec::new());
        Self { set, nodes, pods, revisions, resting: HashSet::new(), made: 0 }
    }

    fn limits(mut self, unavailable: i32, surge: impl Into<IntOrString>) -> Self {
        let rolling = self.set.spec_mut().update_strategy_mut().rolling_update_mut();
        rolling.set_max_unavailable(unavailable);
        rolling.set_max_surge(surge.into());
        self
    }

    fn steps(&self) -> Vec<Action> {
        let scene = PlanInput {
            set: &self.set,
            pods: self.pods.clone(),
            revisions: self.revisions.clone(),
            nodes: self.nodes.clone(),
            nodes_in_backoff: self.resting.clone(),
            now: 1_900_000_000,
        };
        plan(&scene).into_iter().map(|step| step.action).collect()
    }

    /// Carries out the plan; returns a short description of each step.
    fn go(&mut self) -> Vec<String> {
        let mut said = Vec::new();
        for act in self.steps() {
            match act {
                Action::CreateRevision(revision) => {
                    said.push(format!("record {}", revision.revision()));
                    self.revisions.push(revision);
                }
                Action::UpdateRevision(new) => {
                    said.push(format!("renumber {}", new.revision()));
                    let name = new.metadata().name();
                    self.revisions.retain(|old| old.metadata().name() != name);
                    self.revisions.push(new);
                }
                Action::DeleteRevision(old) => {
                    said.push(format!("forget {}", old.revision()));
                    self.revisions.retain(|one| *one != old);
                }
                Action::Relabel(..) => said.push("relabel".into()),
                Action::Create(mut pod) => {
                    self.made += 1;
                    let node = target(&pod).expect("it is pinned").to_owned();
                    said.push(format!("create {node}"));
                    pod.metadata_mut().set_name(format!("p{}", self.made));
                    pod.metadata_mut()
                        .set_creation_timestamp(format!("2030-01-01T00:00:{:02}Z", self.made));
                    pod.spec_mut().set_node_name(node);
                    self.pods.push(pod);
                }
                Action::Delete(pod) => {
                    said.push(format!("delete {}", target(&pod).unwrap_or_default()));
                    self.pods.retain(|one| *one != pod);
                }
                Action::Replace { pod, node } => {
                    said.push(format!("replace {node}"));
                    self.pods.retain(|one| *one != pod);
                }
                Action::UpdateStatus(status) => self.set.set_status(status),
            }
        }
        said
    }

    fn all_ready(&mut self) {
        self.pods.iter_mut().for_each(|pod| mark(pod, "Running", true));
    }

    /// Runs until no step is left; every pod becomes ready at once.
    fn settle(&mut self) -> Vec<String> {
        let mut said = Vec::new();
        loop {
            let round = self.go();
            if round.is_empty() {
                return said;
            }
            said.extend(round);
            self.all_ready();
        }
    }

    fn change(&mut self, image: &str) {
        self.set.spec_mut().set_template(template(image));
    }
}

fn template(image: &str) -> PodTemplateSpec {
    let mut template = PodTemplateSpec::new();
    template.spec_mut().set_hostname(image);
    template
}

fn mark(pod: &mut Pod, phase: &str, ready: bool) {
    let ready = PodCondition::new()
        .with_type("Ready")
        .with_status(if ready { "True" } else { "False" })
        .with_last_transition_time("2030-01-01T00:00:00Z");
    pod.set_status(PodStatus::new().with_phase(phase).with_conditions([ready]));
}

#[test]
fn every_node_gets_one_pod_and_a_template_its_revision() {
    let mut world = World::new(&["a", "b"]);
    assert_eq!(world.go(), ["record 1"]);
    assert_eq!(world.go(), ["create a", "create b"]);
    world.all_ready();
    assert_eq!(world.go(), [""; 0]);
    let status = world.set.status();
    assert_eq!((status.desired_number_scheduled(), status.number_available()), (2, 2));
    assert_eq!((status.updated_number_scheduled(), status.number_unavailable()), (2, 0));
    world.pods.push(world.pods[0].clone());
    world.pods[2].metadata_mut().set_name("double");
    assert_eq!(world.go(), ["delete a"]);
    world.nodes[0].set_spec(
        api::core::NodeSpec::new()
            .with_taints([api::core::Taint::new().with_key("k").with_effect("NoExecute")]),
    );
    assert_eq!(world.go(), ["delete a"]);
}

#[test]
fn a_new_template_replaces_one_pod_after_the_other() {
    let mut world = World::new(&["a", "b"]);
    world.settle();
    world.change("b");
    assert_eq!(world.go(), ["record 2"]);
    assert_eq!(world.go(), ["delete a"]);
    assert_eq!(world.go(), ["create a"]);
    assert_eq!(world.go(), [""; 0], "b waits until a is available");
    world.all_ready();
    assert_eq!(world.settle(), ["delete b", "create b"]);
    world.change("a");
    assert_eq!(world.settle()[0], "renumber 3", "a rollback makes the old one the newest");
}

#[test]
fn what_is_not_available_goes_first_and_at_once() {
    let mut world = World::new(&["a", "b", "c"]);
    world.settle();
    world.change("b");
    world.go();
    mark(&mut world.pods[2], "Running", false);
    assert_eq!(world.go(), ["delete c"], "one is missing already");
    world.set.spec_mut().update_strategy_mut().set_type("OnDelete");
    world.all_ready();
    assert_eq!(world.settle(), ["create c"], "the others are left to the user");
}

#[test]
fn a_surge_makes_the_new_before_the_old_goes() {
    let mut world = World::new(&["a", "b"]).limits(0, "50%");
    world.settle();
    world.change("b");
    world.go();
    assert_eq!(world.go(), ["create a"]);
    assert_eq!(world.go(), [""; 0]);
    world.all_ready();
    assert_eq!(world.go(), ["delete a"]);
    assert_eq!(world.settle(), ["create b", "delete b"]);
}

#[test]
fn failed_pods_are_replaced_but_not_without_rest() {
    let mut world = World::new(&["a"]);
    world.settle();
    mark(&mut world.pods[0], "Failed", false);
    world.resting.insert("a".into());
    assert_eq!(world.go(), [""; 0]);
    world.resting.clear();
    assert_eq!(world.go(), ["replace a"]);
    assert_eq!(world.go(), ["create a"]);
}

#[test]
fn history_is_limited_and_has_no_doubles() {
    let mut world = World::new(&["a"]);
    world.set.spec_mut().set_revision_history_limit(1);
    for image in ["a", "b", "c"] {
        world.change(image);
        world.settle();
    }
    assert_eq!(world.revisions.len(), 2);
    let mut double = world.revisions.last().expect("the current one").clone();
    double.metadata_mut().set_name("double");
    double.metadata_mut().labels_mut().insert(history::HASH, "double");
    let current = double.metadata().labels().clone();
    world.revisions.push(double);
    world.pods[0].metadata_mut().set_labels(current);
    let said = world.go();
    assert!(said.contains(&"forget 3".to_owned()), "{said:?}");
    assert_eq!(world.revisions.len(), 2);
}
