//! A node must have what the pod asks for; the emptier and the more even, the better.

use object::Text;

use crate::{Amounts, Judge, NodeInfo, Plugin, PodInfo, Snapshot, Unfit};

#[derive(Debug)]
pub(crate) struct Fit;

impl Plugin for Fit {
    fn name(&self) -> &'static str {
        "NodeResourcesFit"
    }

    fn judge<'a>(&self, pod: &'a PodInfo, _: &'a Snapshot) -> Option<Box<dyn Judge + 'a>> {
        Some(Box::new(Fits(pod)))
    }
}

struct Fits<'a>(&'a PodInfo);

impl Judge for Fits<'_> {
    fn filter(&self, node: &NodeInfo) -> Result<(), Unfit> {
        let reasons = lacking(self.0, &node.allocatable, &node.requested);
        if reasons.is_empty() {
            return Ok(());
        }
        // Nobody need go if the node would be too small even when empty.
        let when_empty = lacking(self.0, &node.allocatable, &Amounts::default());
        Err(Unfit { reasons, resolvable: when_empty.is_empty() })
    }

    /// The larger the free part, the better.
    fn score(&self, node: &NodeInfo) -> Option<i64> {
        let free = |has: i64, used: i64| match has {
            1.. if used <= has => has.saturating_sub(used).saturating_mul(100) / has,
            _ => 0,
        };
        let (cpu, memory) = after(self.0, node);
        Some(i64::midpoint(free(node.allocatable.cpu, cpu), free(node.allocatable.memory, memory)))
    }
}

#[derive(Debug)]
pub(crate) struct Balanced;

impl Plugin for Balanced {
    fn name(&self) -> &'static str {
        "NodeResourcesBalancedAllocation"
    }

    fn judge<'a>(&self, pod: &'a PodInfo, _: &'a Snapshot) -> Option<Box<dyn Judge + 'a>> {
        let asks = pod.amounts.cpu > 0 || pod.amounts.memory > 0;
        asks.then(|| Box::new(Balances(pod)) as Box<dyn Judge>)
    }
}

struct Balances<'a>(&'a PodInfo);

impl Judge for Balances<'_> {
    /// Cpu and memory should run out together: 75 where the pod changes nothing in that.
    fn score(&self, node: &NodeInfo) -> Option<i64> {
        let (has, used, asked) = (&node.allocatable, &node.requested, &self.0.amounts);
        let before = evenness(used.cpu, used.memory, has);
        let after = evenness(
            used.cpu.saturating_add(asked.cpu),
            used.memory.saturating_add(asked.memory),
            has,
        );
        Some(50 + (50 + after - before) / 2)
    }
}

/// From 50, where one is used up and the other not at all, to 100.
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "a part of 100")]
fn evenness(cpu: i64, memory: i64, has: &Amounts) -> i64 {
    if has.cpu <= 0 || has.memory <= 0 {
        return 100; // only one to look at
    }
    let part = |used: i64, has: i64| (used as f64 / has as f64).min(1.0);
    let deviation = (part(cpu, has.cpu) - part(memory, has.memory)).abs() / 2.0;
    ((1.0 - deviation) * 100.0) as i64
}

/// Cpu and memory that are taken to be used with the pod on the node.
fn after(pod: &PodInfo, node: &NodeInfo) -> (i64, i64) {
    (node.at_least.0.saturating_add(pod.at_least.0), node.at_least.1.saturating_add(pod.at_least.1))
}

fn lacking(pod: &PodInfo, has: &Amounts, used: &Amounts) -> Vec<Text> {
    let asked = &pod.amounts;
    let mut reasons = Vec::new();
    if used.pods >= has.pods {
        reasons.push("Too many pods".into());
    }
    let mut check = |name: &str, asked: i64, free: i64| {
        if asked > 0 && asked > free {
            reasons.push(format!("Insufficient {name}").into());
        }
    };
    check("cpu", asked.cpu, has.cpu.saturating_sub(used.cpu));
    check("memory", asked.memory, has.memory.saturating_sub(used.memory));
    check("ephemeral-storage", asked.storage, has.storage.saturating_sub(used.storage));
    for (name, amount) in &asked.others {
        check(name, *amount, has.other(name).saturating_sub(used.other(name)));
    }
    reasons
}
