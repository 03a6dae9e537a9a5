//! Node lifecycle controller: detects nodes that are unreachable or unhealthy, and taints them.
//!
//! ```text
//!  kubelet renews its lease ─► no renewal in the grace period: all conditions Unknown
//!  conditions ─► taints NoSchedule; not ready or unreachable: NoExecute too
//!  NoExecute  ─► eviction.rs deletes pods when their toleration ends
//! ```

pub(crate) mod eviction;
mod health;
mod metrics;
mod taints;
mod zones;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use api::{
    coordination::Lease,
    core::{Node, Pod},
};
use client::{Api, Error, Selectors};
use object::{Clock, NamespacedName, SteadyClock, Text, Time, wait_seconds};
use runtime::{
    Cache, CachedApi, Context, Controller, EventRecorder, EventType, InvolvedObject, Reconcile,
    Requeue,
};
use schema::Kind;
use tokio::time::Instant;

use self::{
    health::{NodeHealth, Now},
    metrics::NodeMetrics,
    taints::EvictionPermission,
    zones::ZoneEvictionTimes,
};
use crate::Config;

const LEASES: &str = "kube-node-lease";
/// How often nodes that are not ready are reconciled; whether their pods are evicted also depends
/// on other nodes.
const PERIOD: Duration = Duration::from_secs(5);

pub(crate) fn start(cx: &Context, config: &Config) {
    let lifecycle = NodeLifecycle {
        nodes: cx.cached_api(),
        pods: cx.cached_api(),
        leases: cx.cache_in_namespace(LEASES, &Selectors::default()),
        lease_api: cx.api(),
        seen: Mutex::default(),
        zone_evictions: Mutex::default(),
        grace: i64::try_from(config.node_monitor_grace.as_secs()).unwrap_or(i64::MAX / 2),
        events: EventRecorder::start(cx, "node-controller", ""),
        metrics: NodeMetrics::start(cx),
        clock: config.clock.clone(),
        steady: SteadyClock::new(),
    };
    Controller::new("nodelifecycle", cx, lifecycle)
        .queue_named("node_lifecycle_controller")
        .watches::<Pod>(|pod| {
            let suspicious = pod.is_ready() && pod.is_scheduled();
            suspicious
                .then(|| NamespacedName::new("", pod.spec().node_name()))
                .into_iter()
                .collect()
        })
        .start();
}

/// Reconciler of nodes.
#[derive(Debug)]
struct NodeLifecycle {
    nodes: CachedApi<Node>,
    pods: CachedApi<Pod>,
    leases: Arc<Cache<Lease>>,
    lease_api: Api<Lease>,
    /// The last heartbeat of each node.
    seen: Mutex<HashMap<Text, NodeHealth>>,
    zone_evictions: Mutex<ZoneEvictionTimes>,
    grace: i64,
    events: EventRecorder,
    metrics: NodeMetrics,
    /// The time of day, for timestamps.
    clock: Arc<dyn Clock>,
    /// Grace periods and the pace of evictions are counted by it.
    steady: SteadyClock,
}

impl Reconcile for NodeLifecycle {
    type Kind = Node;

    async fn reconcile(&self, key: &NamespacedName, node: Option<Node>) -> Result<Requeue, Error> {
        let Some(node) = node else {
            self.forget(key);
            return Ok(Requeue::OnChange);
        };
        let began = Instant::now();
        let done = self.update_health(key, node).await;
        self.metrics.updated_health(began.elapsed());
        done
    }
}

impl NodeLifecycle {
    /// Sets conditions, taints and the readiness of pods by the node's heartbeat.
    async fn update_health(&self, key: &NamespacedName, mut node: Node) -> Result<Requeue, Error> {
        let now = Now::of(self.steady, &*self.clock);
        let lease = self.leases.get(&NamespacedName::new(LEASES, &key.name));
        let mut left = self.look(&node, lease.as_ref(), now);
        if left <= 0
            && let Some(lost) = health::with_unknown_conditions(&node, now.wall)
        {
            // The cache may lag behind, so the lease is read from the API server first.
            let lease = self.live_lease(&key.name).await?;
            left = self.look(&node, lease.as_ref(), now);
            if left <= 0 {
                node = self.mark_unknown(&node, lost).await?;
            }
        }
        let evict = self.evict(&node, now.steady);
        if let Some(aligned) = taints::with_expected_taints(&node, evict, now.wall) {
            let because = node.write_cause("taints follow the state of the node");
            let was_evicting = taints::is_evicting(&node);
            node = self.nodes.with_cause(&because).update(aligned).await?;
            if taints::is_evicting(&node) && !was_evicting {
                self.metrics.evicted(&node);
            }
        }
        self.mark_pods(&node, now.wall).await?;
        let wait = if left > 0 { wait_seconds(left) } else { PERIOD };
        Ok(Requeue::After(if node.is_ready() { wait } else { wait.min(PERIOD) }))
    }

    /// Updates the heartbeat; returns the seconds until the node's status becomes Unknown.
    fn look(&self, node: &Node, lease: Option<&Lease>, now: Now) -> i64 {
        let name = Text::from(node.metadata().name());
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let before = seen.get(&name);
        let sign = NodeHealth::observe(before, node, lease, now);
        if before.is_none_or(|before| before.uid != sign.uid) {
            let message = format!("Node {name} event: Registered Node {name} in Controller");
            self.events.normal(node, "RegisteredNode", message);
        }
        let left = sign.remaining_grace(self.grace, now.steady);
        seen.insert(name, sign);
        left
    }

    fn forget(&self, key: &NamespacedName) {
        let Some(sign) = self.seen.lock().unwrap_or_else(PoisonError::into_inner).remove(&key.name)
        else {
            return;
        };
        let about = InvolvedObject {
            api_version: "v1".into(),
            kind: "Node".into(),
            key: Some(key.clone()),
            uid: sign.uid,
            ..InvolvedObject::default()
        };
        let name = &key.name;
        let message = format!("Node {name} event: Removing Node {name} from Controller");
        self.events.record(about, EventType::Normal, "RemovingNode", message);
    }

    async fn live_lease(&self, name: &str) -> Result<Option<Lease>, Error> {
        match self.lease_api.get(&NamespacedName::new(LEASES, name)).await {
            Err(error) if error.is_not_found() => Ok(None),
            lease => lease.map(Some),
        }
    }

    async fn mark_unknown(&self, node: &Node, lost: Node) -> Result<Node, Error> {
        let because = node.write_cause("the node gives no sign of life");
        let lost = self.nodes.with_cause(&because).update_status(lost).await?;
        if node.is_ready() {
            let name = node.metadata().name();
            let message = format!("Node {name} status is now: NodeNotReady");
            self.events.normal(node, "NodeNotReady", message);
        }
        Ok(lost)
    }

    fn evict(&self, node: &Node, now: i64) -> EvictionPermission {
        if taints::no_execute_taint(node).is_none() {
            return EvictionPermission::Later; // no taint to add
        }
        let tainted = taints::is_evicting(node);
        let mut turns = self.zone_evictions.lock().unwrap_or_else(PoisonError::into_inner);
        zones::decide(node, tainted, &self.nodes.all(), &mut turns, now)
    }

    /// Marks the pods of an unreachable node as not ready. While the kubelet is reachable, it
    /// reports their readiness itself.
    async fn mark_pods(&self, node: &Node, now: i64) -> Result<(), Error> {
        if node.condition("Ready").is_none_or(|ready| ready.status() != "Unknown") {
            return Ok(());
        }
        for pod in self.pods.by_index("spec.nodeName", node.metadata().name()) {
            let Some(marked) = not_ready(&pod, now) else { continue };
            let pods = self.pods.with_cause(&node.write_cause("the node of the pod is lost"));
            match pods.update_status(marked).await {
                Err(error) if error.is_not_found() => continue,
                done => drop(done?),
            }
            self.events.warning(&pod, "NodeNotReady", "Node is not ready");
        }
        Ok(())
    }
}

/// The pod marked as not ready; `None` if it was not ready.
fn not_ready(pod: &Pod, now: i64) -> Option<Pod> {
    let ready = pod.status().condition("Ready").filter(|ready| ready.status() == "True")?;
    let ready = ready.clone().with_status("False").with_last_transition_time(Time::format(now));
    let mut pod = pod.clone();
    pod.status_mut().conditions_mut().upsert(ready, |known| known.type_() == "Ready");
    Some(pod)
}

#[test]
fn only_pods_that_are_ready_become_not_ready() {
    use api::core::{PodCondition, PodStatus};
    let with = |status: &str| {
        let condition = PodCondition::new().with_type("Ready").with_status(status);
        Pod::new().with_status(PodStatus::new().with_conditions([condition]))
    };
    let marked = not_ready(&with("True"), 100).unwrap();
    let ready = marked.status().condition("Ready").unwrap();
    assert_eq!((ready.status(), ready.last_transition_time()), ("False", &*Time::format(100)));
    assert_eq!(not_ready(&with("False"), 100), None);
    assert_eq!(not_ready(&Pod::new(), 100), None);
}
