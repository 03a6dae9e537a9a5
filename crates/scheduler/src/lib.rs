//! Chooses a node for every pod that names none.
//!
//! ```text
//!  caches ─► State: Snapshot (nodes, what is placed on them) and Waiting (pods to place)
//!  loop:   Waiting.pop → schedule(pod, snapshot): filter → score → assume → bind (its own task)
//!                        no node will do: preempt(pod, snapshot) → delete others, say why
//! ```

mod amounts;
mod claims;
mod cycle;
mod metrics;
mod peers;
mod place;
mod plugin;
mod plugins;
mod preempt;
mod refuse;
mod snapshot;
mod state;
mod terms;
mod waiting;

pub use self::{
    amounts::Amounts,
    claims::Claimed,
    cycle::{Unschedulable, schedule},
    place::start,
    plugin::{Judge, PLUGINS, Plugin, Unfit},
    preempt::{Sacrifice, preempt},
    snapshot::{NodeInfo, PodInfo, Snapshot},
    terms::{Namespaces, Term, Terms},
};

#[derive(Clone, Debug)]
pub struct Config {
    /// Pods that name another scheduler are left alone.
    pub name: String,
    /// How many of the nodes are looked at, in percent; 0: fewer the more there are.
    pub percentage_of_nodes_to_score: u8,
    /// How many bindings may be on their way at once.
    pub bindings: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self { name: "default-scheduler".into(), percentage_of_nodes_to_score: 0, bindings: 64 }
    }
}
