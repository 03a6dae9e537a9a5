//! Metrics of the EndpointSlice controller, under upstream's names.

use std::sync::Arc;

use api::core::Service;
use object::NamespacedName;
use runtime::metrics::{Family, Metrics, exponential};

use super::counts::{ServiceCounts, SyncCounts};

static ENDPOINTS: [f64; 15] = exponential(2.0, 2.0);
/// The default buckets of Prometheus' library.
static CHANGED_SLICES: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

const ADDED: Family = Family::histogram(
    "endpoint_slice_controller_endpoints_added_per_sync",
    "[BETA] Number of endpoints added on each Service sync",
    &[],
    &ENDPOINTS,
);
const REMOVED: Family = Family::histogram(
    "endpoint_slice_controller_endpoints_removed_per_sync",
    "[BETA] Number of endpoints removed on each Service sync",
    &[],
    &ENDPOINTS,
);
const DESIRED_ENDPOINTS: Family = Family::gauge(
    "endpoint_slice_controller_endpoints_desired",
    "[BETA] Number of endpoints desired",
    &[],
);
const SLICES: Family = Family::gauge(
    "endpoint_slice_controller_num_endpoint_slices",
    "[BETA] Number of EndpointSlices",
    &[],
);
const DESIRED_SLICES: Family = Family::gauge(
    "endpoint_slice_controller_desired_endpoint_slices",
    "[BETA] Number of EndpointSlices that would exist with perfect endpoint allocation",
    &[],
);
const CHANGES: Family = Family::counter(
    "endpoint_slice_controller_changes",
    "[ALPHA] Number of EndpointSlice changes",
    &["operation"],
);
const CHANGED_PER_SYNC: Family = Family::histogram(
    "endpoint_slice_controller_endpointslices_changed_per_sync",
    "[ALPHA] Number of EndpointSlices changed on each Service sync",
    &["topology", "traffic_distribution"],
    &CHANGED_SLICES,
);
const SYNCS: Family = Family::counter(
    "endpoint_slice_controller_syncs",
    "[ALPHA] Number of EndpointSlice syncs",
    &["result"],
);
const DISTRIBUTIONS: Family = Family::gauge(
    "endpoint_slice_controller_services_count_by_traffic_distribution",
    "[BETA] Number of Services using some specific trafficDistribution",
    &["traffic_distribution"],
);

/// Counts what the EndpointSlice controller does.
#[derive(Debug)]
pub(super) struct SliceMetrics {
    metrics: Metrics,
    services: Arc<ServiceCounts>,
}

impl SliceMetrics {
    pub(super) fn new(metrics: &Metrics) -> Self {
        let services = Arc::new(ServiceCounts::default());
        metrics.on_read(&services, |services, metrics| {
            let (sum, distributions) = services.sum();
            metrics.gauge(&DESIRED_ENDPOINTS, &[]).set_count(sum.endpoints);
            metrics.gauge(&SLICES, &[]).set_count(sum.slices);
            metrics.gauge(&DESIRED_SLICES, &[]).set_count(sum.desired_slices);
            metrics.clear(&DISTRIBUTIONS);
            for (distribution, count) in distributions {
                metrics.gauge(&DISTRIBUTIONS, &[&distribution]).set_count(count);
            }
        });
        Self { metrics: metrics.clone(), services }
    }

    /// Records a write: `create`, `update` or `delete`.
    pub(super) fn changed(&self, operation: &str) {
        self.metrics.counter(&CHANGES, &[operation]).add(1);
    }

    /// Records what a sync found and planned.
    pub(super) fn planned(&self, service: &Service, counts: SyncCounts) {
        self.metrics.histogram(&ADDED, &[]).observe_count(counts.added);
        self.metrics.histogram(&REMOVED, &[]).observe_count(counts.removed);
        let key = NamespacedName::from_meta(service.metadata());
        self.services.set(&key, counts.after, distribution(service));
    }

    /// Records that the `changed` writes of a sync have succeeded.
    pub(super) fn written(&self, service: &Service, changed: usize) {
        let labels = ["Disabled", distribution(service)]; // there are no topology hints by CPU
        self.metrics.histogram(&CHANGED_PER_SYNC, &labels).observe_count(changed);
    }

    pub(super) fn synced(&self, ok: bool) {
        let result = if ok { "success" } else { "error" };
        self.metrics.counter(&SYNCS, &[result]).add(1);
    }

    pub(super) fn forget(&self, key: &NamespacedName) {
        self.services.forget(key);
    }
}

fn distribution(service: &Service) -> &str {
    service.spec().traffic_distribution().unwrap_or_default()
}
