//! kube-scheduler: assigns a node to every pod that has none.
//!
//! ```text
//!  informers ─► SchedulerState: Snapshot (nodes and their pods) and SchedulingQueue (pending pods)
//!  loop:   SchedulingQueue.pop → schedule(pod, snapshot): filter → score → assume → bind (its own task)
//!                        no node fits: preempt(pod, snapshot) → delete victims, set status
//! ```

mod affinity_terms;
mod claims;
mod cycle;
mod default_selectors;
mod metrics;
mod plugin;
mod plugins;
mod preempt;
mod resources;
mod scheduling_loop;
mod scheduling_queue;
mod snapshot;
mod state;
mod unschedulable;

pub use self::{
    affinity_terms::{AffinityTerm, AffinityTerms, NamespaceLabels},
    claims::PodVolumeClaims,
    cycle::{Unschedulable, schedule},
    plugin::{FilterError, NodeEvaluator, PLUGINS, Plugin},
    preempt::{PreemptionCandidate, preempt},
    resources::Resources,
    scheduling_loop::start,
    scheduling_queue::backoff,
    snapshot::{NodeInfo, PodInfo, Snapshot},
};

/// Configuration of the scheduler.
#[derive(Clone, Debug)]
pub struct Config {
    /// Pods with another `schedulerName` are ignored.
    pub scheduler_name: String,
    /// Percentage of nodes to find feasible before scoring; 0 means adaptive, fewer in larger
    /// clusters.
    pub percentage_of_nodes_to_score: u8,
    /// Maximum number of concurrent bindings.
    pub max_concurrent_bindings: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            scheduler_name: "default-scheduler".into(),
            percentage_of_nodes_to_score: 0,
            max_concurrent_bindings: 64,
        }
    }
}
