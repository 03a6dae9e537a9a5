//! Metrics of the EndpointSlice mirroring controller, under upstream's names.

use std::{sync::Arc, time::Duration};

use api::discovery::EndpointSlice;
use object::NamespacedName;
use runtime::{
    Step,
    metrics::{Family, Metrics, exponential},
};

use crate::endpoint_slice::{Action, ServiceCounts, count};

static ENDPOINTS: [f64; 15] = exponential(2.0, 2.0);
static SYNC_SECONDS: [f64; 15] = exponential(0.001, 2.0);

const ADDED: Family = Family::histogram(
    "endpoint_slice_mirroring_controller_endpoints_added_per_sync",
    "[ALPHA] Number of endpoints added on each Endpoints sync",
    &[],
    &ENDPOINTS,
);
const UPDATED: Family = Family::histogram(
    "endpoint_slice_mirroring_controller_endpoints_updated_per_sync",
    "[ALPHA] Number of endpoints updated on each Endpoints sync",
    &[],
    &ENDPOINTS,
);
const REMOVED: Family = Family::histogram(
    "endpoint_slice_mirroring_controller_endpoints_removed_per_sync",
    "[ALPHA] Number of endpoints removed on each Endpoints sync",
    &[],
    &ENDPOINTS,
);
const SKIPPED: Family = Family::histogram(
    "endpoint_slice_mirroring_controller_addresses_skipped_per_sync",
    "[ALPHA] Number of addresses skipped on each Endpoints sync due to being invalid or exceeding MaxEndpointsPerSubset",
    &[],
    &ENDPOINTS,
);
const SYNC_DURATION: Family = Family::histogram(
    "endpoint_slice_mirroring_controller_endpoints_sync_duration",
    "[ALPHA] Duration of syncEndpoints() in seconds",
    &[],
    &SYNC_SECONDS,
);
const DESIRED_ENDPOINTS: Family = Family::gauge(
    "endpoint_slice_mirroring_controller_endpoints_desired",
    "[ALPHA] Number of endpoints desired",
    &[],
);
const SLICES: Family = Family::gauge(
    "endpoint_slice_mirroring_controller_num_endpoint_slices",
    "[ALPHA] Number of EndpointSlices",
    &[],
);
const DESIRED_SLICES: Family = Family::gauge(
    "endpoint_slice_mirroring_controller_desired_endpoint_slices",
    "[ALPHA] Number of EndpointSlices that would exist with perfect endpoint allocation",
    &[],
);
const CHANGES: Family = Family::counter(
    "endpoint_slice_mirroring_controller_changes",
    "[ALPHA] Number of EndpointSlice changes",
    &["operation"],
);

/// Counts what the mirroring controller does.
#[derive(Debug)]
pub(super) struct MirroringMetrics {
    metrics: Metrics,
    services: Arc<ServiceCounts>,
}

impl MirroringMetrics {
    pub(super) fn new(metrics: &Metrics) -> Self {
        let services = Arc::new(ServiceCounts::default());
        metrics.on_read(&services, |services, metrics| {
            let (sum, _) = services.sum();
            metrics.gauge(&DESIRED_ENDPOINTS, &[]).set_count(sum.endpoints);
            metrics.gauge(&SLICES, &[]).set_count(sum.slices);
            metrics.gauge(&DESIRED_SLICES, &[]).set_count(sum.desired_slices);
        });
        Self { metrics: metrics.clone(), services }
    }

    /// Records a write: `create`, `update` or `delete`.
    pub(super) fn changed(&self, operation: &str) {
        self.metrics.counter(&CHANGES, &[operation]).add(1);
    }

    pub(super) fn skipped(&self, addresses: usize) {
        self.metrics.histogram(&SKIPPED, &[]).observe_count(addresses);
    }

    /// Records what a sync found and planned.
    pub(super) fn planned(
        &self,
        key: &NamespacedName,
        before: &[EndpointSlice],
        steps: &[Step<Action>],
        most: usize,
    ) {
        let counts = count(before, steps, most);
        self.metrics.histogram(&ADDED, &[]).observe_count(counts.added);
        self.metrics.histogram(&UPDATED, &[]).observe_count(counts.updated);
        self.metrics.histogram(&REMOVED, &[]).observe_count(counts.removed);
        self.services.set(key, counts.after, "");
    }

    pub(super) fn synced(&self, took: Duration) {
        self.metrics.histogram(&SYNC_DURATION, &[]).observe_duration(took);
    }

    pub(super) fn forget(&self, key: &NamespacedName) {
        self.services.forget(key);
    }
}
