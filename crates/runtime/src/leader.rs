//! Leader election: only the holder of a Lease acts, as long as it renews it.
//!
//! ```text
//!  a   creates the lease         renews … renews                      (dies)
//!  b   tries every 2 s           sees a renewal, waits                no renewal for 15 s: acquires it
//! ```
//!
//! Clocks are not compared: each candidate measures for itself how long the lease has not changed.

use std::{sync::Arc, time::Duration};

use client::{Api, ApiResource, Error};
use object::{Clock, MicroTime, NamespacedName, SystemClock, Value, wait_seconds};
use tokio::time::{Instant, sleep, timeout_at};
use tracing::{debug, info, warn};

use crate::{Backoff, Context, metrics::Family};

const MASTER_STATUS: Family = Family::gauge(
    "leader_election_master_status",
    "[ALPHA] Whether this process is the leader of the lease: 0 indicates backup, 1 indicates master.",
    &["name"],
);

/// A candidate for leadership.
#[derive(Clone, Debug)]
pub struct LeaderElector {
    pub key: NamespacedName,
    /// The identity of this candidate, which must be unique.
    pub identity: String,
    /// Without a renewal for this long, another candidate may take over.
    pub lease_duration: Duration,
    /// A leader that could not renew for this long gives up.
    pub renew_deadline: Duration,
    /// Interval between attempts.
    pub retry_period: Duration,
    pub clock: Arc<dyn Clock>,
}

/// The last observed lease, and when it was first observed.
#[derive(Debug)]
struct ObservedLease {
    lease: Value,
    observed_at: Instant,
}

impl LeaderElector {
    /// A candidate with upstream's default durations.
    pub fn new(namespace: &str, name: &str, identity: &str) -> Self {
        Self {
            key: NamespacedName::new(namespace, name),
            identity: identity.into(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            clock: Arc::new(SystemClock),
        }
    }

    /// Waits to become the leader, calls `start` with a child of `cx`, and stops that child when leadership is lost or
    /// `cx` stops. Finally releases the lease, so that another candidate can lead at once.
    pub async fn run(self, cx: &Context, start: impl FnOnce(&Context)) {
        let status = cx.metrics().gauge(&MASTER_STATUS, &[&self.key.name]);
        status.set(0.0);
        let api = Api::<Value>::for_resource(cx.client(), leases());
        let mut seen = None;
        tokio::select! {
            () = self.acquire(&api, &mut seen) => {}
            () = cx.stopping() => return,
        }
        info!(lease = %self.key, identity = self.identity, "became leader");
        status.set(1.0);
        let part = cx.child();
        start(&part);
        tokio::select! {
            () = self.renew_until_lost(&api, &mut seen) => warn!(lease = %self.key, "lost leadership"),
            () = cx.stopping() => {}
        }
        part.stop().await;
        status.set(0.0);
        self.release(&api, seen).await;
    }

    async fn acquire(&self, api: &Api<Value>, seen: &mut Option<ObservedLease>) {
        let mut pause = Backoff::new(self.retry_period, self.retry_period);
        loop {
            match self.try_acquire_or_renew(api, seen).await {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) => debug!(lease = %self.key, %error, "cannot get the lease"),
            }
            sleep(pause.next_delay()).await;
        }
    }

    /// Renews until that has failed for the renew deadline.
    async fn renew_until_lost(&self, api: &Api<Value>, seen: &mut Option<ObservedLease>) {
        let mut until = Instant::now() + self.renew_deadline;
        loop {
            sleep(self.retry_period).await;
            match timeout_at(until, self.try_acquire_or_renew(api, seen)).await {
                Ok(Ok(true)) => until = Instant::now() + self.renew_deadline,
                Ok(Err(error)) if Instant::now() < until => {
                    warn!(lease = %self.key, %error, "cannot renew the lease; will retry");
                }
                Ok(Ok(false) | Err(_)) | Err(_) => return,
            }
        }
    }

    /// Acquires or renews the lease if possible. Returns whether this candidate holds it.
    async fn try_acquire_or_renew(
        &self,
        api: &Api<Value>,
        seen: &mut Option<ObservedLease>,
    ) -> Result<bool, Error> {
        let now = self.clock.now_micros();
        let lease = match api.get(&self.key).await {
            Ok(lease) => lease,
            Err(error) if error.is_not_found() => {
                let made = api.create(self.with_self_as_holder(&Value::object(), now)).await?;
                *seen = Some(ObservedLease { lease: made, observed_at: Instant::now() });
                return Ok(true);
            }
            Err(error) => return Err(error),
        };
        if seen.as_ref().is_none_or(|seen| seen.lease["spec"] != lease["spec"]) {
            *seen = Some(ObservedLease { lease: lease.clone(), observed_at: Instant::now() });
        }
        let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
        let since = seen.as_ref().map_or_else(Instant::now, |seen| seen.observed_at);
        if holder != self.identity && !holder.is_empty() && since.elapsed() < duration_of(&lease) {
            return Ok(false);
        }
        let taken = api.update(self.with_self_as_holder(&lease, now)).await?;
        *seen = Some(ObservedLease { lease: taken, observed_at: Instant::now() });
        Ok(true)
    }

    /// The lease with this candidate as the holder.
    fn with_self_as_holder(&self, lease: &Value, now: i64) -> Value {
        let mut mine = lease.clone();
        mine["metadata"]["name"] = self.key.name.clone().into();
        mine["metadata"]["namespace"] = self.key.namespace.clone().into();
        let spec = &mut mine["spec"];
        let before = spec["holderIdentity"].as_str();
        let is_new = lease["metadata"].is_null();
        if before != Some(&*self.identity) {
            let transitions = spec["leaseTransitions"].as_i64().unwrap_or_default();
            spec["leaseTransitions"] = transitions.saturating_add(i64::from(!is_new)).into();
            spec["acquireTime"] = MicroTime::format(now).into();
            spec["holderIdentity"] = (&*self.identity).into();
        }
        spec["leaseDurationSeconds"] =
            i64::try_from(self.lease_duration.as_secs()).unwrap_or(15).into();
        spec["renewTime"] = MicroTime::format(now).into();
        mine
    }

    /// Releases the lease; if that fails, other candidates wait for it to expire.
    async fn release(&self, api: &Api<Value>, seen: Option<ObservedLease>) {
        let Some(ObservedLease { mut lease, .. }) = seen else { return };
        if lease["spec"]["holderIdentity"].as_str() != Some(&*self.identity) {
            return;
        }
        let now = MicroTime::format(self.clock.now_micros());
        let spec = &mut lease["spec"];
        spec["holderIdentity"] = "".into();
        spec["leaseDurationSeconds"] = 1.into();
        (spec["renewTime"], spec["acquireTime"]) = (now.clone().into(), now.into());
        if let Err(error) = api.update(lease).await {
            debug!(lease = %self.key, %error, "cannot release the lease");
        }
    }
}

fn duration_of(lease: &Value) -> Duration {
    wait_seconds(lease["spec"]["leaseDurationSeconds"].as_i64().unwrap_or_default())
}

fn leases() -> ApiResource {
    ApiResource {
        group: "coordination.k8s.io".into(),
        version: "v1".into(),
        plural: "leases".into(),
        kind: "Lease".into(),
        namespaced: true,
    }
}
