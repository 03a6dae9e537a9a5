//! Pod garbage collector: deletes pods whose node is gone, terminating pods that were never
//! scheduled, and the oldest finished pods if there are too many.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use api::core::{Node, Pod, PodCondition};
use client::{DeleteParams, Error, Patch};
use object::{
    Clock, Lens, NamespacedName, SteadyClock, Text, Time, Value, seconds_left, wait_seconds,
};
use runtime::{
    CachedApi, Context, Controller, Reconcile, Requeue,
    metrics::{Family, Metrics},
};
use schema::Kind;
use tokio::time::sleep;
use tracing::warn;

use crate::Config;

const PERIOD: Duration = Duration::from_secs(20);
/// How long to wait for a missing node to appear, in seconds.
const QUARANTINE: i64 = 40;
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

const DELETIONS: Family = Family::counter(
    "pod_gc_collector_force_delete_pods_total",
    "[ALPHA] Number of pods that are being forcefully deleted since the Pod GC Controller started.",
    &["namespace", "reason"],
);
const FAILED_DELETIONS: Family = Family::counter(
    "pod_gc_collector_force_delete_pod_errors_total",
    "[ALPHA] Number of errors encountered when forcefully deleting the pods since the Pod GC Controller started.",
    &["namespace", "reason"],
);

pub(crate) fn start(cx: &Context, config: &Config) {
    let most = config.terminated_pod_threshold;
    let lost = Arc::new(PodGc {
        pods: cx.cached_api(),
        nodes: cx.cached_api(),
        missing: Mutex::default(),
        metrics: cx.metrics().clone(),
        clock: config.clock.clone(),
        steady: SteadyClock::new(),
    });
    let pods = lost.pods.clone();
    let waiting = cx.clone();
    let this = lost.clone();
    if most > 0 {
        cx.spawn("pod-garbage-collector", async move {
            waiting.wait_for_cache_sync().await;
            loop {
                let _ = panics::contain("pod-garbage-collector", this.gc_terminated(most)).await;
                sleep(PERIOD).await;
            }
        });
    }
    Controller::new("pod-garbage-collector", cx, PodGcReconciler(lost))
        .queue_named("orphaned_pods_nodes")
        .watches::<Node>(move |node| {
            let on = pods.by_index("spec.nodeName", node.metadata().name());
            on.iter().map(|pod| NamespacedName::from_meta(pod.metadata())).collect()
        })
        .start();
}

/// State of the pod garbage collector.
#[derive(Debug)]
struct PodGc {
    pods: CachedApi<Pod>,
    nodes: CachedApi<Node>,
    /// Nodes that pods name and that do not exist, and since when by the steady clock.
    missing: Mutex<HashMap<Text, i64>>,
    metrics: Metrics,
    clock: Arc<dyn Clock>,
    steady: SteadyClock,
}

/// Reconciler of pods.
#[derive(Debug)]
struct PodGcReconciler(Arc<PodGc>);

impl Reconcile for PodGcReconciler {
    type Kind = Pod;

    async fn reconcile(&self, _: &NamespacedName, pod: Option<Pod>) -> Result<Requeue, Error> {
        let Some(pod) = pod else { return Ok(Requeue::OnChange) };
        let node = self.0.nodes.get(&NamespacedName::new("", pod.spec().node_name()));
        match judge(&pod, node.as_ref()) {
            PodGcDecision::Keep => Ok(Requeue::OnChange),
            PodGcDecision::Delete(reason) => self.0.collect(&pod, None, reason).await,
            PodGcDecision::Orphan => self.0.orphan(&pod).await,
        }
    }
}

/// What to do with a pod.
#[derive(Debug, PartialEq)]
enum PodGcDecision {
    Keep,
    Delete(GcReason),
    /// Its node does not exist, or not yet.
    Orphan,
}

/// Why a pod is deleted.
#[derive(Clone, Copy, Debug, PartialEq)]
enum GcReason {
    Unscheduled,
    OutOfService,
    Orphaned,
    Terminated,
}

impl GcReason {
    /// The label of the metrics.
    fn label(self) -> &'static str {
        match self {
            Self::Unscheduled => "unscheduled",
            Self::OutOfService => "out-of-service",
            Self::Orphaned => "orphaned",
            Self::Terminated => "terminated",
        }
    }

    /// The cause of the write.
    fn rule(self) -> &'static str {
        match self {
            Self::Unscheduled => "it never had a node",
            Self::OutOfService => "its node is out of service",
            Self::Orphaned => "its node is gone",
            Self::Terminated => "too many pods have ended",
        }
    }
}

fn judge(pod: &Pod, node: Option<&Node>) -> PodGcDecision {
    if !pod.is_scheduled() {
        return if pod.is_terminating() {
            PodGcDecision::Delete(GcReason::Unscheduled)
        } else {
            PodGcDecision::Keep
        };
    }
    let Some(node) = node else { return PodGcDecision::Orphan };
    let out = node.spec().taints().find(|taint| taint.key() == OUT_OF_SERVICE).is_some();
    if pod.is_terminating() && out && !node.is_ready() {
        return PodGcDecision::Delete(GcReason::OutOfService);
    }
    PodGcDecision::Keep
}

impl PodGc {
    async fn orphan(&self, pod: &Pod) -> Result<Requeue, Error> {
        let (name, now) = (pod.spec().node_name(), self.steady.now());
        let since = *self
            .missing
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .entry(name.into())
            .or_insert(now);
        let left = seconds_left(since, QUARANTINE, now);
        if left > 0 {
            return Ok(Requeue::After(wait_seconds(left)));
        }
        match self.nodes.api().get(&NamespacedName::new("", name)).await {
            Ok(_) => {
                self.missing.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
                return Ok(Requeue::OnChange);
            }
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
        let condition = PodCondition::new()
            .with_type("DisruptionTarget")
            .with_status("True")
            .with_reason("DeletionByPodGC")
            .with_message("PodGC: node no longer exists")
            .with_last_transition_time(Time::format(self.clock.now()));
        self.collect(pod, Some(condition), GcReason::Orphaned).await
    }

    /// Deletes a pod by force, and counts that.
    async fn collect(
        &self,
        pod: &Pod,
        condition: Option<PodCondition>,
        reason: GcReason,
    ) -> Result<Requeue, Error> {
        let done = self.fail_and_delete(pod, condition, reason.rule()).await;
        let labels = [pod.metadata().namespace(), reason.label()];
        self.metrics.counter(&DELETIONS, &labels).add(1);
        if done.is_err() {
            self.metrics.counter(&FAILED_DELETIONS, &labels).add(1);
        }
        done
    }

    /// Sets the phase Failed if the pod has not finished, and deletes the pod without a grace
    /// period.
    async fn fail_and_delete(
        &self,
        pod: &Pod,
        condition: Option<PodCondition>,
        rule: &str,
    ) -> Result<Requeue, Error> {
        let pods = self.pods.with_cause(&pod.write_cause(rule));
        let mut pod = pod.clone();
        if !pod.is_finished() {
            let mut failed = Value::object();
            failed["metadata"]["uid"] = Text::from(pod.metadata().uid()).into();
            failed["status"]["phase"] = "Failed".into();
            if let Some(condition) = condition {
                failed["status"]["conditions"] = [condition.tree().clone()].into_iter().collect();
            }
            // the controller's role permits patch, not update
            let key = NamespacedName::from_meta(pod.metadata());
            pod = match pods.patch_status(&key, &Patch::Strategic(failed)).await {
                Err(error) if error.is_not_found() => return Ok(Requeue::OnChange),
                done => done?,
            };
        }
        let at_once = DeleteParams { grace_seconds: Some(0), ..DeleteParams::default() };
        pods.delete_with(&pod, at_once).await?;
        Ok(Requeue::OnChange)
    }

    async fn gc_terminated(&self, most: usize) {
        for pod in surplus(self.pods.all(), most) {
            if let Err(error) = self.collect(&pod, None, GcReason::Terminated).await {
                warn!(%error, pod = pod.metadata().name(), "cannot delete a finished pod");
            }
        }
        let known = self.nodes.all();
        let known = |name: &str| known.iter().any(|node| node.metadata().name() == name);
        self.missing.lock().unwrap_or_else(PoisonError::into_inner).retain(|name, _| !known(name));
    }
}

/// The finished pods to delete: evicted ones first, then the oldest.
fn surplus(pods: Vec<Pod>, most: usize) -> Vec<Pod> {
    let mut ended: Vec<Pod> = pods.into_iter().filter(Pod::is_finished).collect();
    let many = ended.len().saturating_sub(most);
    ended.sort_by_cached_key(|pod| {
        let meta = pod.metadata();
        let evicted = pod.status().reason() == "Evicted";
        (!evicted, meta.creation_timestamp().to_owned(), meta.name().to_owned())
    });
    ended.truncate(many);
    ended
}

#[cfg(test)]
mod tests {
    use object::{View, from_json};

    use super::*;

    fn pod(name: &str, node: &str, going: bool, phase: &str) -> Pod {
        let going = if going { r#","deletionTimestamp":"2030-01-01T00:00:00Z""# } else { "" };
        let text = format!(
            r#"{{"metadata":{{"name":"{name}"{going}}},"spec":{{"nodeName":"{node}"}},
            "status":{{"phase":"{phase}"}}}}"#
        );
        Pod::view(&from_json(text.as_bytes()).unwrap()).clone()
    }

    #[test]
    fn pods_without_a_node_go() {
        let text = r#"{"metadata":{"name":"a"},"spec":{"taints":
            [{"key":"node.kubernetes.io/out-of-service","effect":"NoExecute"}]}}"#;
        let out = Node::view(&from_json(text.as_bytes()).unwrap()).clone();
        let kept = |verdict| verdict == PodGcDecision::Keep;
        assert!(kept(judge(&pod("p", "", false, "Pending"), None)));
        assert!(matches!(judge(&pod("p", "", true, "Pending"), None), PodGcDecision::Delete(_)));
        assert_eq!(judge(&pod("p", "a", false, "Running"), None), PodGcDecision::Orphan);
        assert!(kept(judge(&pod("p", "a", false, "Running"), Some(&out))));
        assert!(matches!(
            judge(&pod("p", "a", true, "Running"), Some(&out)),
            PodGcDecision::Delete(_)
        ));
    }

    #[test]
    fn the_oldest_that_have_ended_go() {
        let mut evicted = pod("z", "a", false, "Failed");
        evicted.status_mut().set_reason("Evicted");
        let all = vec![
            pod("a", "a", false, "Succeeded"),
            pod("b", "a", false, "Failed"),
            pod("c", "a", false, "Running"),
            evicted,
        ];
        let named = |most| -> Vec<String> {
            let gone = surplus(all.clone(), most);
            gone.iter().map(|pod| pod.metadata().name().to_owned()).collect()
        };
        assert_eq!((named(1), named(3)), (vec!["z".to_owned(), "a".to_owned()], vec![]));
    }
}
