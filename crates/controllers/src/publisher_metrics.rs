//! Metrics of the controllers that publish certificates: syncs by the HTTP status code of their
//! result.

use client::Error;
use runtime::{
    Context,
    metrics::{Family, Metrics, exponential},
};
use tokio::time::Instant;

pub(crate) static SYNC_SECONDS: [f64; 15] = exponential(0.001, 2.0);

/// Counts and times the syncs of a publisher.
#[derive(Debug)]
pub(crate) struct PublisherMetrics {
    metrics: Metrics,
    syncs: Family,
    duration: Family,
}

impl PublisherMetrics {
    pub(crate) fn new(cx: &Context, syncs: Family, duration: Family) -> Self {
        Self { metrics: cx.metrics().clone(), syncs, duration }
    }

    /// Carries out a sync and records its result.
    pub(crate) async fn measure(
        &self,
        sync: impl Future<Output = Result<(), Error>>,
    ) -> Result<(), Error> {
        let began = Instant::now();
        let done = sync.await;
        let code = match &done {
            Ok(()) => 200,
            Err(error) => error.status().map_or(500, object::Status::code),
        };
        let code = code.to_string();
        self.metrics.histogram(&self.duration, &[&code]).observe_duration(began.elapsed());
        self.metrics.counter(&self.syncs, &[&code]).add(1);
        done
    }
}
