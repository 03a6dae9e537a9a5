//! One of several may act: the one that a Lease names, as long as it renews it.
//!
//! ```text
//!  a   creates the lease         renews … renews                      (dies)
//!  b   looks every 2 s           sees it change, waits                no change for 15 s: takes it
//! ```
//!
//! Nobody compares clocks: each counts for itself how long it has seen no change.

use std::{sync::Arc, time::Duration};

use client::{Api, Error, Resource};
use object::{Clock, Key, MicroTime, SystemClock, Value, wait_seconds};
use tokio::time::{Instant, sleep, timeout_at};
use tracing::{debug, info, warn};

use crate::{Context, Retry};

#[derive(Clone, Debug)]
pub struct Election {
    pub key: Key,
    /// Who we are: unlike any other candidate.
    pub identity: String,
    /// Without a sign of life for that long, others may take over.
    pub lease: Duration,
    /// A leader that could not renew for that long gives up.
    pub renew: Duration,
    /// How often to try.
    pub retry: Duration,
    pub clock: Arc<dyn Clock>,
}

/// The lease as last seen, and since when.
#[derive(Debug)]
struct Seen {
    lease: Value,
    since: Instant,
}

impl Election {
    /// With upstream's times.
    pub fn new(namespace: &str, name: &str, identity: &str) -> Self {
        Self {
            key: Key::new(namespace, name),
            identity: identity.into(),
            lease: Duration::from_secs(15),
            renew: Duration::from_secs(10),
            retry: Duration::from_secs(2),
            clock: Arc::new(SystemClock),
        }
    }

    /// Waits to become the leader, calls `start` with a part of `cx`, and stops that
    /// part when the lead is lost or `cx` stops. In the end others may lead at once.
    pub async fn lead(self, cx: &Context, start: impl FnOnce(&Context)) {
        let api = Api::<Value>::of(cx.client(), leases());
        let mut seen = None;
        tokio::select! {
            () = self.acquire(&api, &mut seen) => {}
            () = cx.stopping() => return,
        }
        info!(lease = %self.key, identity = self.identity, "leading");
        let part = cx.part();
        start(&part);
        tokio::select! {
            () = self.hold(&api, &mut seen) => warn!(lease = %self.key, "lost the lead"),
            () = cx.stopping() => {}
        }
        part.stop().await;
        self.release(&api, seen).await;
    }

    async fn acquire(&self, api: &Api<Value>, seen: &mut Option<Seen>) {
        let mut pause = Retry::new(self.retry, self.retry);
        loop {
            match self.attempt(api, seen).await {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) => debug!(lease = %self.key, %error, "cannot get the lease"),
            }
            sleep(pause.pause()).await;
        }
    }

    /// Renews until it has not worked for too long.
    async fn hold(&self, api: &Api<Value>, seen: &mut Option<Seen>) {
        let mut until = Instant::now() + self.renew;
        loop {
            sleep(self.retry).await;
            match timeout_at(until, self.attempt(api, seen)).await {
                Ok(Ok(true)) => until = Instant::now() + self.renew,
                Ok(Err(error)) if Instant::now() < until => {
                    warn!(lease = %self.key, %error, "cannot renew the lease; will retry");
                }
                Ok(Ok(false) | Err(_)) | Err(_) => return,
            }
        }
    }

    /// Takes or renews the lease, if we may. Whether it is ours now.
    async fn attempt(&self, api: &Api<Value>, seen: &mut Option<Seen>) -> Result<bool, Error> {
        let now = self.clock.micros();
        let lease = match api.get(&self.key).await {
            Ok(lease) => lease,
            Err(error) if error.is_not_found() => {
                let made = api.create(self.claim(&Value::object(), now)).await?;
                *seen = Some(Seen { lease: made, since: Instant::now() });
                return Ok(true);
            }
            Err(error) => return Err(error),
        };
        if seen.as_ref().is_none_or(|seen| seen.lease["spec"] != lease["spec"]) {
            *seen = Some(Seen { lease: lease.clone(), since: Instant::now() });
        }
        let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
        let since = seen.as_ref().map_or_else(Instant::now, |seen| seen.since);
        if holder != self.identity && !holder.is_empty() && since.elapsed() < duration_of(&lease) {
            return Ok(false);
        }
        let taken = api.update(self.claim(&lease, now)).await?;
        *seen = Some(Seen { lease: taken, since: Instant::now() });
        Ok(true)
    }

    /// The lease, with us as the holder.
    fn claim(&self, lease: &Value, now: i64) -> Value {
        let mut mine = lease.clone();
        mine["metadata"]["name"] = self.key.name.clone().into();
        mine["metadata"]["namespace"] = self.key.namespace.clone().into();
        let spec = &mut mine["spec"];
        let before = spec["holderIdentity"].as_str();
        let is_new = lease["metadata"].is_null();
        if before != Some(&*self.identity) {
            let transitions = spec["leaseTransitions"].as_i64().unwrap_or_default();
            spec["leaseTransitions"] = transitions.saturating_add(i64::from(!is_new)).into();
            spec["acquireTime"] = MicroTime::text(now).into();
            spec["holderIdentity"] = (&*self.identity).into();
        }
        spec["leaseDurationSeconds"] = i64::try_from(self.lease.as_secs()).unwrap_or(15).into();
        spec["renewTime"] = MicroTime::text(now).into();
        mine
    }

    /// Lets others lead at once; if that fails, they wait for the lease to end.
    async fn release(&self, api: &Api<Value>, seen: Option<Seen>) {
        let Some(Seen { mut lease, .. }) = seen else { return };
        if lease["spec"]["holderIdentity"].as_str() != Some(&*self.identity) {
            return;
        }
        let now = MicroTime::text(self.clock.micros());
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

fn leases() -> Resource {
    Resource {
        group: "coordination.k8s.io".into(),
        version: "v1".into(),
        plural: "leases".into(),
        kind: "Lease".into(),
        namespaced: true,
    }
}
