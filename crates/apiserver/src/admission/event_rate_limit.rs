//! The EventRateLimit admission plugin: limits the rate of Event writes, so that a flood of events
//! cannot fill the store.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Instant,
};

use anyhow::{Result, bail, ensure};
use object::{Status, Value};
use server::{AdmissionAttributes, AdmissionFuture, AdmissionPlugin, Operation};

use super::aggregate;

/// Default `cacheSize`: how many keys of one limit are tracked.
const CACHE: usize = 4096;

/// Token bucket limits on Events: for the server, per namespace, per user, or per source and
/// object.
#[derive(Debug)]
pub(super) struct EventRateLimit {
    limits: Vec<Limit>,
}

/// One entry of `limits`, with a token bucket per key.
#[derive(Debug)]
struct Limit {
    ty: String,
    rate: f64,
    burst: f64,
    cache: usize,
    buckets: Mutex<HashMap<String, Bucket>>,
}

/// A token bucket: the tokens left, and when they were last refilled.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    left: f64,
    at: Instant,
}

impl EventRateLimit {
    /// Reads the `limits` of a `Configuration` of eventratelimit.admission.k8s.io.
    pub(super) fn new(config: &Value) -> Result<Self> {
        let mut limits = Vec::new();
        for limit in config.get("limits").items() {
            let ty = limit.get("type").as_str().unwrap_or_default().to_owned();
            if !matches!(&*ty, "Server" | "Namespace" | "User" | "SourceAndObject") {
                bail!("EventRateLimit: limits: type {ty:?} is not supported");
            }
            let number = |name: &str| limit.get(name).as_i64().unwrap_or_default();
            let (rate, burst, cache) = (number("qps"), number("burst"), number("cacheSize"));
            ensure!(rate > 0 && burst > 0, "EventRateLimit: qps and burst must be positive");
            let cache = usize::try_from(cache).ok().filter(|size| *size > 0).unwrap_or(CACHE);
            #[expect(clippy::cast_precision_loss, reason = "rates are small")]
            let (rate, burst) = (rate as f64, burst as f64);
            limits.push(Limit { ty, rate, burst, cache, buckets: Mutex::default() });
        }
        ensure!(!limits.is_empty(), "EventRateLimit needs a configuration with limits");
        Ok(Self { limits })
    }
}

impl AdmissionPlugin for EventRateLimit {
    fn name(&self) -> &'static str {
        "EventRateLimit"
    }

    fn validate<'a>(&'a self, admission: &'a AdmissionAttributes<'_>) -> AdmissionFuture<'a> {
        let done = self.decide(admission);
        Box::pin(async move { done })
    }
}

impl EventRateLimit {
    fn decide(&self, admission: &AdmissionAttributes) -> Result<(), Status> {
        let writes = matches!(admission.operation, Operation::Create | Operation::Update);
        if !writes || admission.dry_run || !admission.is_resource("", "events") {
            return Ok(());
        }
        let mut refused = Vec::new();
        for limit in &self.limits {
            let key = limit.key(admission);
            if !limit.take(&key, Instant::now()) {
                refused.push(format!("limit reached on type {} for key {key}", limit.ty));
            }
        }
        match aggregate(refused) {
            None => Ok(()),
            Some(why) => {
                let why = format!("Too many requests: {why}");
                Err(Status::failure(429, "TooManyRequests", why))
            }
        }
    }
}

impl Limit {
    fn key(&self, admission: &AdmissionAttributes) -> String {
        let event = &admission.object;
        let text = |part: &str, name: &str| {
            event.get(part).get(name).as_str().unwrap_or_default().to_owned()
        };
        match &*self.ty {
            "Namespace" => admission.namespace.to_string(),
            "User" => admission.user.name.to_string(),
            "SourceAndObject" => [
                text("source", "component"),
                text("source", "host"),
                text("involvedObject", "kind"),
                text("involvedObject", "namespace"),
                text("involvedObject", "name"),
                text("involvedObject", "uid"),
                text("involvedObject", "apiVersion"),
            ]
            .concat(),
            _ => String::new(),
        }
    }

    /// Takes one token from the key's bucket; false if it is empty. A full cache drops the bucket
    /// that has not been used for the longest time.
    fn take(&self, key: &str, now: Instant) -> bool {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= self.cache && !buckets.contains_key(key) {
            let oldest = buckets.iter().min_by_key(|(_, bucket)| bucket.at);
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                buckets.remove(&oldest);
            }
        }
        let bucket = buckets.entry(key.to_owned()).or_insert(Bucket { left: self.burst, at: now });
        let passed = now.saturating_duration_since(bucket.at).as_secs_f64();
        bucket.left = (bucket.left + passed * self.rate).min(self.burst);
        bucket.at = now;
        let taken = bucket.left >= 1.0;
        if taken {
            bucket.left -= 1.0;
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use object::from_json;

    use super::*;

    #[test]
    fn a_bucket_empties_and_fills() {
        let config = br#"{"limits":[{"type":"Namespace","qps":1,"burst":2}]}"#;
        let limit = EventRateLimit::new(&from_json(config).unwrap()).unwrap();
        let limit = &limit.limits[0];
        let now = Instant::now();
        assert!(limit.take("a", now) && limit.take("a", now) && !limit.take("a", now));
        assert!(limit.take("b", now));
        assert!(limit.take("a", now + Duration::from_secs(1)));
        assert!(EventRateLimit::new(&Value::Null).is_err());
    }
}
