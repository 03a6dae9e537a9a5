//! Chooses a node for every pod that names none.
//!
//! ```text
//!  caches ─► State: Snapshot (nodes, what is placed on them) and Waiting (pods to place)
//!  loop:   Waiting.pop → schedule(pod, snapshot): filter → score → assume → bind (its own task)
//!                        no node will do: preempt(pod, snapshot) → delete others, say why
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

#[derive(Clone, Debug)]
pub struct Config {
    /// Pods that name another scheduler are left alone.
    pub scheduler_name: String,
    /// How many of the nodes are looked at, in percent; 0: fewer the more there are.
    pub percentage_of_nodes_to_score: u8,
    /// How many bindings may be on their way at once.
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
