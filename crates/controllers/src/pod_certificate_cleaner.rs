//! Deletes old PodCertificateRequests; the kubelet has read the certificate by then.

use std::sync::Arc;

use api::certificates::PodCertificateRequest;
use client::Error;
use object::{Clock, NamespacedName, Time, seconds_left, wait_seconds};
use runtime::{CachedApi, Context, Controller, Reconcile, Requeue};
use schema::Kind;

use crate::Config;

/// How long a request is kept, in seconds.
const STAYS: i64 = 15 * 60;

pub(crate) fn start(cx: &Context, config: &Config) {
    let cleaner = Cleaner { requests: cx.cached_api(), clock: config.clock.clone() };
    Controller::new("podcertificaterequest-cleaner", cx, cleaner).start();
}

/// Reconciler of PodCertificateRequests.
#[derive(Debug)]
struct Cleaner {
    requests: CachedApi<PodCertificateRequest>,
    clock: Arc<dyn Clock>,
}

impl Reconcile for Cleaner {
    type Kind = PodCertificateRequest;

    async fn reconcile(
        &self,
        _: &NamespacedName,
        request: Option<PodCertificateRequest>,
    ) -> Result<Requeue, Error> {
        let Some(request) = request.filter(|request| !request.is_terminating()) else {
            return Ok(Requeue::OnChange);
        };
        let left = left(request.metadata().creation_timestamp(), self.clock.now());
        if left > 0 {
            return Ok(Requeue::After(wait_seconds(left)));
        }
        let because = request.write_cause("the request has expired");
        self.requests.with_cause(&because).delete(&request).await?;
        Ok(Requeue::OnChange)
    }
}

/// The seconds that a request with this creation time is still kept.
fn left(made: &str, now: i64) -> i64 {
    seconds_left(Time::parse_seconds(made).unwrap_or(now), STAYS, now)
}

#[test]
fn a_request_stays_a_quarter_of_an_hour() {
    let made = Time::parse_seconds("2026-01-01T00:00:00Z").unwrap();
    assert_eq!(left("2026-01-01T00:00:00Z", made + 60), 14 * 60);
    assert!(left("2026-01-01T00:00:00Z", made + STAYS) <= 0);
}
