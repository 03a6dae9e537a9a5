//! Removes the certificate requests of pods: whoever asked has the answer by then.

use std::sync::Arc;

use api::certificates::PodCertificateRequest;
use client::Error;
use object::{Clock, Key, Time, seconds_left, wait_seconds};
use runtime::{Context, Controller, Next, Objects, Reconcile};
use schema::Kind;

use crate::Config;

/// How long a request may stay, in seconds.
const STAYS: i64 = 15 * 60;

pub(crate) fn start(cx: &Context, config: &Config) {
    let cleaner = Cleaner { requests: cx.objects(), clock: config.clock.clone() };
    Controller::new("podcertificaterequest-cleaner", cx, cleaner).start();
}

#[derive(Debug)]
struct Cleaner {
    requests: Objects<PodCertificateRequest>,
    clock: Arc<dyn Clock>,
}

impl Reconcile for Cleaner {
    type Kind = PodCertificateRequest;

    async fn reconcile(
        &self,
        _: &Key,
        request: Option<PodCertificateRequest>,
    ) -> Result<Next, Error> {
        let Some(request) = request.filter(|request| !request.is_terminating()) else {
            return Ok(Next::OnChange);
        };
        let left = left(request.metadata().creation_timestamp(), self.clock.now());
        if left > 0 {
            return Ok(Next::After(wait_seconds(left)));
        }
        let because = request.causes("nobody will read the request any more");
        self.requests.because(&because).delete(&request).await?;
        Ok(Next::OnChange)
    }
}

/// The seconds that a request made at that moment may stay.
fn left(made: &str, now: i64) -> i64 {
    seconds_left(Time::seconds(made).unwrap_or(now), STAYS, now)
}

#[test]
fn a_request_stays_a_quarter_of_an_hour() {
    let made = Time::seconds("2026-01-01T00:00:00Z").unwrap();
    assert_eq!(left("2026-01-01T00:00:00Z", made + 60), 14 * 60);
    assert!(left("2026-01-01T00:00:00Z", made + STAYS) <= 0);
}
