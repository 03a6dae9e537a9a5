//! TTL controller: annotates nodes with how long kubelets may cache Secrets and ConfigMaps; longer
//! in larger clusters.

use std::sync::{Mutex, PoisonError};

use api::core::Node;
use client::{Error, Patch};
use object::{NamespacedName, Value};
use runtime::{CachedApi, Context, Controller, Reconcile, Requeue};
use schema::Kind;

use crate::Config;

const TTL_ANNOTATION: &str = "node.alpha.kubernetes.io/ttl";

/// Minimum and maximum number of nodes, and the TTL in seconds. The ranges overlap (hysteresis), so
/// that adding or removing one node does not update all nodes.
const STEPS: [(usize, usize, u32); 5] =
    [(0, 100, 0), (90, 500, 15), (450, 1000, 30), (900, 2000, 60), (1800, usize::MAX, 300)];

pub(crate) fn start(cx: &Context, _: &Config) {
    let ttl = Ttl { nodes: cx.cached_api(), step: Mutex::default() };
    Controller::new("ttl", cx, ttl).queue_named("ttlcontroller").start();
}

/// Reconciler of nodes.
#[derive(Debug)]
struct Ttl {
    nodes: CachedApi<Node>,
    step: Mutex<usize>,
}

impl Reconcile for Ttl {
    type Kind = Node;

    async fn reconcile(&self, key: &NamespacedName, node: Option<Node>) -> Result<Requeue, Error> {
        let Some(node) = node else { return Ok(Requeue::OnChange) };
        let seconds = {
            let mut step = self.step.lock().unwrap_or_else(PoisonError::into_inner);
            *step = next(*step, self.nodes.cache().len());
            STEPS[*step].2.to_string()
        };
        if node.metadata().annotations().get(TTL_ANNOTATION) != Some(&*seconds) {
            let mut patch = Value::object();
            patch["metadata"]["annotations"][TTL_ANNOTATION] = seconds.into();
            let nodes = self.nodes.with_cause(&node.write_cause("the size of the cluster decides"));
            match nodes.patch(key, &Patch::Merge(patch)).await {
                Err(error) if error.is_not_found() => {}
                done => drop(done?),
            }
        }
        Ok(Requeue::OnChange)
    }
}

/// The step for this number of nodes, starting from the current step.
fn next(mut step: usize, nodes: usize) -> usize {
    while nodes > STEPS[step].1 {
        step += 1;
    }
    while nodes < STEPS[step].0 {
        step -= 1;
    }
    step
}

#[test]
fn a_few_nodes_more_or_less_change_nothing() {
    assert_eq!([next(0, 100), next(0, 101), next(1, 95), next(1, 89)], [0, 1, 1, 0]);
    assert_eq!([next(0, 5000), next(4, 0)], [4, 0]);
}
