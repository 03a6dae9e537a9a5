//! Preemption: selects victims of lower priority for a pod that fits no node. Does no I/O.

use std::{cmp::Reverse, sync::Arc};

use api::policy::PodDisruptionBudget;
use object::Text;

use crate::{
    PodInfo, Snapshot, Unschedulable,
    affinity_terms::selector,
    cycle::{evaluators, first_filter_error},
};

/// This many candidate nodes, or a tenth of all nodes, are enough to choose from.
const MIN_CANDIDATE_NODES: usize = 100;

/// A node and the pods to preempt there.
#[derive(Clone, Debug)]
pub struct PreemptionCandidate {
    pub node: Text,
    /// The most important victim first.
    pub victims: Vec<Arc<PodInfo>>,
    /// How many victims violate their PodDisruptionBudget.
    pdb_violations: usize,
}

/// Selects the best candidate to make room for an unschedulable pod, or says why preemption cannot
/// help.
pub fn preempt(
    pod: &PodInfo,
    all: &Snapshot,
    none: &Unschedulable,
    budgets: &[PodDisruptionBudget],
) -> Result<PreemptionCandidate, String> {
    check_eligible_to_preempt(pod, all, none)?;
    let unhelpful = all.len() - none.resolvable_nodes.len();
    let mut failed = Unschedulable { nodes: all.len(), ..Unschedulable::default() };
    failed.add_reason("Preemption is not helpful for scheduling", unhelpful);
    let mut trial = all.clone();
    let mut found: Vec<PreemptionCandidate> = Vec::new();
    for name in &none.resolvable_nodes {
        match select_victims_on_node(pod, &mut trial, name, budgets) {
            Ok(sacrifice) => found.push(sacrifice),
            Err(reasons) => reasons.iter().for_each(|reason| failed.add_reason(reason, 1)),
        }
        if let Some(node) = all.node(name) {
            trial.restore_node(node);
        }
        if found.len() >= MIN_CANDIDATE_NODES.max(all.len() / 10) {
            break;
        }
    }
    found
        .into_iter()
        .min_by_key(PreemptionCandidate::preemption_cost)
        .ok_or_else(|| failed.to_string())
}

fn check_eligible_to_preempt(
    pod: &PodInfo,
    all: &Snapshot,
    none: &Unschedulable,
) -> Result<(), String> {
    if pod.pod.spec().preemption_policy() == Some("Never") {
        return Err("not eligible due to preemptionPolicy=Never.".into());
    }
    let nominated = pod.pod.status().nominated_node_name();
    let pods = all.node(nominated).map(|node| &*node.pods).unwrap_or_default();
    let may_help = none.resolvable_nodes.iter().any(|name| name == nominated);
    let going =
        |other: &PodInfo| other.priority < pod.priority && other.pod.metadata().is_terminating();
    if may_help && pods.iter().any(|other| going(other)) {
        return Err("not eligible due to a terminating pod on the nominated node.".into());
    }
    Ok(())
}

/// Removes all pods of lower priority, then reprieves as many as possible.
fn select_victims_on_node(
    pod: &PodInfo,
    trial: &mut Snapshot,
    name: &str,
    budgets: &[PodDisruptionBudget],
) -> Result<PreemptionCandidate, Vec<Text>> {
    let pods = trial.node(name).map(|node| node.pods.clone()).unwrap_or_default();
    let mut lower: Vec<_> = pods.into_iter().filter(|o| o.priority < pod.priority).collect();
    if lower.is_empty() {
        return Err(vec!["No preemption victims found for incoming pod".into()]);
    }
    trial.update_node(name, |node| lower.iter().for_each(|other| node.remove(other.uid())));
    fits(pod, trial, name)?;
    lower.sort_by_cached_key(|other| importance(other));
    let (violating, others) = split_by_pdb_violation(lower, budgets);
    let protected = violating.len();
    let mut sacrifice =
        PreemptionCandidate { node: name.into(), victims: Vec::new(), pdb_violations: 0 };
    for (at, other) in violating.into_iter().chain(others).enumerate() {
        trial.update_node(name, |node| node.add(other.clone()));
        if fits(pod, trial, name).is_err() {
            trial.update_node(name, |node| node.remove(other.uid()));
            sacrifice.pdb_violations += usize::from(at < protected);
            sacrifice.victims.push(other);
        }
    }
    sacrifice.victims.sort_by_cached_key(|other| importance(other));
    Ok(sacrifice)
}

fn fits(pod: &PodInfo, trial: &Snapshot, name: &str) -> Result<(), Vec<Text>> {
    let Some(node) = trial.node(name) else { return Ok(()) };
    first_filter_error(&evaluators(pod, trial), node).map_or(Ok(()), |unfit| Err(unfit.reasons))
}

/// Sort key by importance, most important first: higher priority, then older.
fn importance(pod: &PodInfo) -> (Reverse<i32>, String) {
    (Reverse(pod.priority), pod.pod.metadata().creation_timestamp().to_owned())
}

/// Splits pods into those whose preemption violates a PodDisruptionBudget, and the others.
fn split_by_pdb_violation(
    pods: Vec<Arc<PodInfo>>,
    budgets: &[PodDisruptionBudget],
) -> (Vec<Arc<PodInfo>>, Vec<Arc<PodInfo>>) {
    let mut left: Vec<_> = budgets.iter().map(|b| b.status().disruptions_allowed()).collect();
    let breaks = |pod: &Arc<PodInfo>| {
        let meta = pod.pod.metadata();
        let mut breaks = false;
        for (budget, left) in budgets.iter().zip(&mut left) {
            let covers = budget.metadata().namespace() == meta.namespace()
                && !selector(budget.spec().selector()).is_empty()
                && selector(budget.spec().selector()).matches(meta.labels())
                && budget.status().disrupted_pods().get(meta.name()).is_none();
            if covers {
                *left -= 1;
                breaks |= *left < 0;
            }
        }
        breaks
    };
    pods.into_iter().partition(breaks)
}

impl PreemptionCandidate {
    /// Sort key of candidates, best first: fewest PDB violations, lowest highest priority, lowest
    /// sum of priorities, fewest victims, latest start of the most important victims.
    fn preemption_cost(&self) -> (usize, i32, i64, usize, Reverse<String>) {
        let highest = self.victims.iter().map(|victim| victim.priority).max().unwrap_or(i32::MIN);
        // Shifted to be positive, so that fewer victims cost less even if priorities are negative.
        let cost = |victim: &Arc<PodInfo>| i64::from(victim.priority) - i64::from(i32::MIN);
        let first = self.victims.iter().filter(|victim| victim.priority == highest);
        let oldest = first.map(|victim| victim.pod.metadata().creation_timestamp()).min();
        let oldest = Reverse(oldest.unwrap_or_default().to_owned());
        (
            self.pdb_violations,
            highest,
            self.victims.iter().map(cost).sum(),
            self.victims.len(),
            oldest,
        )
    }
}

#[cfg(test)]
mod tests {
    use api::core::{Container, Node, NodeStatus, Pod, PodSpec};
    use object::{ObjectMeta, from_json};

    use super::*;
    use crate::{NodeInfo, schedule};

    fn pod(name: &str, priority: i32, cpu: &str) -> PodInfo {
        let container = format!(r#"{{"resources":{{"requests":{{"cpu":"{cpu}"}}}}}}"#);
        let container = Container::from(from_json(container.as_bytes()).unwrap());
        let spec = PodSpec::new().with_containers([container]).with_priority(priority);
        let meta = ObjectMeta::new().with_name(name).with_uid(name).with_labels([("app", name)]);
        PodInfo::new(&Pod::new().with_metadata(meta).with_spec(spec))
    }

    fn node(name: &str, pods: Vec<PodInfo>) -> NodeInfo {
        let status = r#"{"allocatable":{"cpu":"4","memory":"4Gi","pods":"9"}}"#;
        let status = NodeStatus::from(from_json(status.as_bytes()).unwrap());
        let node = Node::new().with_metadata(ObjectMeta::new().with_name(name)).with_status(status);
        NodeInfo::new(&node, pods.into_iter().map(Arc::new))
    }

    fn make_room(pod: &PodInfo, all: &Snapshot) -> Result<(String, Vec<String>), String> {
        let none = schedule(pod, all, 0, 0).unwrap_err();
        preempt(pod, all, &none, &[]).map(|found| {
            let victims = found.victims.iter().map(|victim| victim.uid().to_owned()).collect();
            (found.node.into(), victims)
        })
    }

    #[test]
    fn the_least_important_go_and_no_more_than_needed() {
        let a = node("a", vec![pod("a1", 5, "2"), pod("a2", 1, "1"), pod("a3", 1, "1")]);
        let b = node("b", vec![pod("b1", 3, "4")]);
        let all: Snapshot = [a, b].into_iter().collect();
        let victims = |pod: &PodInfo| make_room(pod, &all);
        assert_eq!(victims(&pod("p", 9, "1")), Ok(("a".into(), vec!["a3".into()])));
        assert_eq!(victims(&pod("p", 9, "3")), Ok(("b".into(), vec!["b1".into()])));
        assert_eq!(
            victims(&pod("p", 2, "4")).unwrap_err(),
            "0/2 nodes are available: 1 Insufficient cpu, \
             1 No preemption victims found for incoming pod."
        );
        assert_eq!(
            victims(&pod("p", 9, "5")).unwrap_err(),
            "0/2 nodes are available: 2 Preemption is not helpful for scheduling."
        );
        let mut polite = pod("p", 9, "1");
        polite.pod.spec_mut().set_preemption_policy("Never");
        let why = victims(&polite).unwrap_err();
        assert_eq!(why, "not eligible due to preemptionPolicy=Never.");
    }

    #[test]
    fn budgets_protect_if_there_is_another_way() {
        let a = node("a", vec![pod("a1", 1, "4")]);
        let b = node("b", vec![pod("b1", 2, "4")]);
        let all: Snapshot = [a, b].into_iter().collect();
        let wanted = pod("p", 9, "1");
        let none = schedule(&wanted, &all, 0, 0).unwrap_err();
        let budget = r#"{"spec":{"selector":{"matchLabels":{"app":"a1"}}}}"#;
        let budget = PodDisruptionBudget::from(from_json(budget.as_bytes()).unwrap());
        assert_eq!(preempt(&wanted, &all, &none, &[]).unwrap().node, "a");
        assert_eq!(preempt(&wanted, &all, &none, &[budget]).unwrap().node, "b");
    }
}
