//! Metrics of the StatefulSet controller, under upstream's names.

use object::NamespacedName;
use runtime::metrics::{Family, Metrics};
use schema::Kind;

use super::{
    plan::{PlanInput, max_unavailable},
    pod::range,
};

const LABELS: &[&str] = &["pod_management_policy", "statefulset_name", "statefulset_namespace"];
const MAX_UNAVAILABLE: Family = Family::gauge(
    "statefulset_controller_statefulset_max_unavailable",
    "[ALPHA] Maximum number of unavailable pods allowed during StatefulSet rolling updates",
    LABELS,
);
const UNAVAILABLE: Family = Family::gauge(
    "statefulset_controller_statefulset_unavailable_replicas",
    "[ALPHA] Current number of unavailable pods in StatefulSet",
    LABELS,
);
const POLICIES: [&str; 2] = ["OrderedReady", "Parallel"];

/// Sets the gauges of a set.
pub(super) fn report(scene: &PlanInput<'_>, metrics: &Metrics) {
    let meta = scene.set.metadata();
    let labels = [scene.set.spec().pod_management_policy(), meta.name(), meta.namespace()];
    let ready = scene.set.spec().min_ready_seconds();
    let available =
        scene.pods.iter().filter(|pod| pod.is_available(ready, scene.now) && !pod.is_terminating());
    let missing = range(scene.set).count().saturating_sub(available.count());
    metrics.gauge(&MAX_UNAVAILABLE, &labels).set_count(max_unavailable(scene.set));
    metrics.gauge(&UNAVAILABLE, &labels).set_count(missing);
}

/// Removes the gauges of a set that is gone.
pub(super) fn forget(key: &NamespacedName, metrics: &Metrics) {
    for policy in POLICIES {
        for family in [&MAX_UNAVAILABLE, &UNAVAILABLE] {
            metrics.remove(family, &[policy, &key.name, &key.namespace]);
        }
    }
}
