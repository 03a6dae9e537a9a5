//! NodeResourcesFit and NodeResourcesBalancedAllocation: filter by free resources; score by least
//! allocated and by balance.

use object::Text;

use crate::{FilterError, NodeEvaluator, NodeInfo, Plugin, PodInfo, Resources, Snapshot};

/// Filters nodes without enough free resources; prefers the least allocated ones.
#[derive(Debug)]
pub(crate) struct NodeResourcesFit;

impl Plugin for NodeResourcesFit {
    fn name(&self) -> &'static str {
        "NodeResourcesFit"
    }

    fn evaluator<'a>(
        &self,
        pod: &'a PodInfo,
        _: &'a Snapshot,
    ) -> Option<Box<dyn NodeEvaluator + 'a>> {
        Some(Box::new(FitEvaluator(pod)))
    }
}

struct FitEvaluator<'a>(&'a PodInfo);

impl NodeEvaluator for FitEvaluator<'_> {
    fn filter(&self, node: &NodeInfo) -> Result<(), FilterError> {
        let reasons = insufficient_resources(self.0, &node.allocatable, &node.requested);
        if reasons.is_empty() {
            return Ok(());
        }
        // Preemption does not help if the pod would not even fit the empty node.
        let when_empty = insufficient_resources(self.0, &node.allocatable, &Resources::default());
        Err(FilterError { reasons, resolvable: when_empty.is_empty() })
    }

    /// LeastAllocated: the larger the free fraction, the higher the score.
    fn score(&self, node: &NodeInfo) -> Option<i64> {
        let free = |has: i64, used: i64| match has {
            1.. if used <= has => has.saturating_sub(used).saturating_mul(100) / has,
            _ => 0,
        };
        let (cpu, memory) = non_zero_requested_with(self.0, node);
        Some(i64::midpoint(
            free(node.allocatable.milli_cpu, cpu),
            free(node.allocatable.memory, memory),
        ))
    }
}

/// Prefers nodes where CPU and memory are used in balance.
#[derive(Debug)]
pub(crate) struct NodeResourcesBalancedAllocation;

impl Plugin for NodeResourcesBalancedAllocation {
    fn name(&self) -> &'static str {
        "NodeResourcesBalancedAllocation"
    }

    fn evaluator<'a>(
        &self,
        pod: &'a PodInfo,
        _: &'a Snapshot,
    ) -> Option<Box<dyn NodeEvaluator + 'a>> {
        let asks = pod.requests.milli_cpu > 0 || pod.requests.memory > 0;
        asks.then(|| Box::new(BalancedAllocationEvaluator(pod)) as Box<dyn NodeEvaluator>)
    }
}

struct BalancedAllocationEvaluator<'a>(&'a PodInfo);

impl NodeEvaluator for BalancedAllocationEvaluator<'_> {
    /// Scores how balanced CPU and memory use is with the pod; 75 if the pod does not change the
    /// balance.
    fn score(&self, node: &NodeInfo) -> Option<i64> {
        let (has, used, asked) = (&node.allocatable, &node.requested, &self.0.requests);
        let before = balance_score(used.milli_cpu, used.memory, has);
        let after = balance_score(
            used.milli_cpu.saturating_add(asked.milli_cpu),
            used.memory.saturating_add(asked.memory),
            has,
        );
        Some(50 + (50 + after - before) / 2)
    }
}

/// Balance of CPU and memory: 100 if both are used to the same fraction, 50 if one is exhausted and
/// the other unused.
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "a part of 100")]
fn balance_score(cpu: i64, memory: i64, has: &Resources) -> i64 {
    if has.milli_cpu <= 0 || has.memory <= 0 {
        return 100; // only one resource to consider
    }
    let part = |used: i64, has: i64| (used as f64 / has as f64).min(1.0);
    let deviation = (part(cpu, has.milli_cpu) - part(memory, has.memory)).abs() / 2.0;
    ((1.0 - deviation) * 100.0) as i64
}

/// CPU and memory requested on the node including the pod, with defaults for containers without
/// requests.
fn non_zero_requested_with(pod: &PodInfo, node: &NodeInfo) -> (i64, i64) {
    (
        node.non_zero_requested.0.saturating_add(pod.non_zero_requests.0),
        node.non_zero_requested.1.saturating_add(pod.non_zero_requests.1),
    )
}

fn insufficient_resources(pod: &PodInfo, has: &Resources, used: &Resources) -> Vec<Text> {
    let asked = &pod.requests;
    let mut reasons = Vec::new();
    if used.pods >= has.pods {
        reasons.push("Too many pods".into());
    }
    let mut check = |name: &str, asked: i64, free: i64| {
        if asked > 0 && asked > free {
            reasons.push(format!("Insufficient {name}").into());
        }
    };
    check("cpu", asked.milli_cpu, has.milli_cpu.saturating_sub(used.milli_cpu));
    check("memory", asked.memory, has.memory.saturating_sub(used.memory));
    check(
        "ephemeral-storage",
        asked.ephemeral_storage,
        has.ephemeral_storage.saturating_sub(used.ephemeral_storage),
    );
    for (name, amount) in &asked.scalar_resources {
        check(name, *amount, has.scalar(name).saturating_sub(used.scalar(name)));
    }
    reasons
}
