use std::collections::HashMap;

use api::core::{PodCondition, PodStatus};
use object::{View, from_json};
use schema::Kind;

use super::*;

struct World {
    set: StatefulSet,
    pods: Vec<Pod>,
    revisions: Vec<ControllerRevision>,
    claims: HashMap<String, PersistentVolumeClaim>,
}

impl World {
    fn new(spec: &str) -> Self {
        let text = format!(
            r#"{{"metadata":{{"name":"s","namespace":"n","uid":"s"}},"spec":{{"serviceName":"x",
            "updateStrategy":{{"type":"RollingUpdate","rollingUpdate":{{"partition":0}}}},
            "template":{{"spec":{{"hostname":"a"}}}},{spec}}}}}"#
        );
        let set = StatefulSet::view(&from_json(text.as_bytes()).unwrap()).clone();
        Self { set, pods: vec![], revisions: vec![], claims: HashMap::new() }
    }

    fn go(&mut self) -> String {
        let scene = PlanInput {
            set: &self.set,
            pods: self.pods.clone(),
            revisions: self.revisions.clone(),
            claims: self.claims.clone(),
            now: 1_900_000_000,
        };
        let steps = plan(&scene);
        let said = steps.into_iter().filter_map(|step| self.act(step.action));
        said.collect::<Vec<_>>().join(" ")
    }

    fn act(&mut self, act: Action) -> Option<String> {
        let short = |pod: &Pod| pod.metadata().name().trim_start_matches("s-").to_owned();
        Some(match act {
            Action::CreateRevision(revision) => {
                let said = format!("record {}", revision.revision());
                self.revisions.push(revision);
                said
            }
            Action::Renumber(new) => {
                self.revisions.retain(|old| old.metadata().name() != new.metadata().name());
                let said = format!("renumber {}", new.revision());
                self.revisions.push(new);
                said
            }
            Action::Forget(old) => {
                self.revisions.retain(|one| *one != old);
                format!("forget {}", old.revision())
            }
            Action::CreateClaim(claim, _) => {
                let said = format!("claim {}", claim.metadata().name());
                self.claims.insert(claim.metadata().name().into(), claim);
                said
            }
            Action::UpdateClaimOwners(claim) => {
                let said = format!("own {}", claim.metadata().name());
                self.claims.insert(claim.metadata().name().into(), claim);
                said
            }
            Action::Conflict(name) => format!("conflict {name}"),
            Action::Create(mut pod) => {
                let name = pod.metadata().name().to_owned();
                pod.metadata_mut().set_uid(name);
                pod.set_status(PodStatus::new().with_phase("Pending"));
                let said = format!("+{}", short(&pod));
                self.pods.push(pod);
                said
            }
            Action::Update(pod) => format!("update {}", short(&pod)),
            Action::Delete(pod) => {
                self.pods.retain(|one| *one != pod);
                format!("-{}", short(&pod))
            }
            Action::UpdateStatus(status) => {
                self.set.set_status(status);
                return None;
            }
        })
    }

    fn ready(&mut self) -> String {
        for pod in &mut self.pods {
            let ready = PodCondition::new().with_type("Ready").with_status("True");
            pod.set_status(PodStatus::new().with_phase("Running").with_conditions([ready]));
        }
        self.go()
    }

    /// Runs until no step is left; every pod becomes ready at once.
    fn settle(&mut self) -> String {
        let mut said = vec![self.go()];
        while said.last().is_some_and(|last| !last.is_empty()) {
            let next = self.ready();
            said.push(next);
        }
        said.pop();
        said.join(" ")
    }

    fn change(&mut self, text: &str) {
        self.set.spec_mut().template_mut().spec_mut().set_hostname(text);
    }
}

#[test]
fn pods_come_and_go_in_order() {
    let mut world = World::new(r#""replicas":3"#);
    assert_eq!(
        (world.go(), world.go(), world.go()),
        ("record 1".into(), "+0".into(), String::new())
    );
    assert_eq!(
        (world.ready(), world.ready(), world.ready()),
        ("+1".into(), "+2".into(), String::new())
    );
    let status = world.set.status();
    assert_eq!((status.ready_replicas(), status.current_replicas()), (3, 3));
    assert_eq!(status.current_revision(), status.update_revision());
    world.set.spec_mut().set_replicas(1);
    assert_eq!((world.go(), world.go(), world.go()), ("-2".into(), "-1".into(), String::new()));
    let mut parallel = World::new(r#""replicas":3,"podManagementPolicy":"Parallel""#);
    assert_eq!(parallel.settle(), "record 1 +0 +1 +2");
    parallel.set.spec_mut().set_replicas(0);
    assert_eq!(parallel.go(), "-2 -1 -0");
}

#[test]
fn a_new_template_rolls_from_the_last_to_the_first() {
    let mut world = World::new(r#""replicas":3"#);
    world.settle();
    world.change("b");
    assert_eq!(world.settle(), "record 2 -2 +2 -1 +1 -0 +0");
    world.set.spec_mut().update_strategy_mut().rolling_update_mut().set_partition(2);
    world.change("c");
    assert_eq!(world.settle(), "record 3 -2 +2");
    let status = world.set.status();
    assert_ne!(status.current_revision(), status.update_revision());
    assert_eq!((status.current_replicas(), status.updated_replicas()), (2, 1));
    world.pods.retain(|pod| pod.metadata().name() != "s-0");
    assert_eq!(world.settle(), "+0", "of the old template");
    assert_eq!(world.set.status().updated_replicas(), 1);
    world.change("b");
    world.set.spec_mut().update_strategy_mut().rolling_update_mut().set_partition(0);
    assert_eq!(world.settle(), "renumber 4 -2 +2", "a rollback");
    world.set.spec_mut().update_strategy_mut().set_type("OnDelete");
    world.change("d");
    assert_eq!(world.settle(), "record 5");
}

#[test]
fn several_may_be_missing_at_a_time() {
    let mut world = World::new(r#""replicas":4,"podManagementPolicy":"Parallel""#);
    world.set.spec_mut().update_strategy_mut().rolling_update_mut().set_max_unavailable("50%");
    world.settle();
    world.change("b");
    assert_eq!(world.settle(), "record 2 -3 -2 +2 +3 -1 -0 +0 +1");
}

#[test]
fn each_pod_has_its_claims() {
    let mut world = World::new(
        r#""replicas":1,"volumeClaimTemplates":[{"metadata":{"name":"data"}}],
        "persistentVolumeClaimRetentionPolicy":{"whenScaled":"Delete","whenDeleted":"Delete"}"#,
    );
    assert_eq!(world.settle(), "record 1 claim data-s-0 +0 own data-s-0");
    let volume = world.pods[0].spec().volumes().iter().next().unwrap().clone();
    assert_eq!(volume.volume_source().persistent_volume_claim().unwrap().claim_name(), "data-s-0");
    world.set.spec_mut().set_replicas(0);
    assert_eq!(world.go(), "own data-s-0 -0");
    let owner = world.claims["data-s-0"].metadata().controller_ref().unwrap().clone();
    assert_eq!(owner.kind(), "Pod");
    world.set.spec_mut().set_replicas(1);
    assert_eq!(world.go(), "", "the claim must go first");
    world.claims.clear();
    assert_eq!(world.go(), "claim data-s-0 +0");
}

#[test]
fn ended_pods_are_replaced_and_lost_marks_restored() {
    let mut world = World::new(r#""replicas":1,"ordinals":{"start":5}"#);
    assert_eq!(world.settle(), "record 1 +5");
    world.pods[0].metadata_mut().set_labels([(history::HASH, "x")]);
    assert_eq!(world.go(), "update 5 -5", "and its template is not known");
    world.settle();
    world.pods[0].status_mut().set_phase("Failed");
    assert_eq!(world.settle(), "-5 +5");
    assert!(!world.set.is_terminating());
}
