//! Computes the annotation `endpoints.kubernetes.io/last-change-trigger-time`: when the change
//! happened that a write to an EndpointSlice or Endpoints object follows. kube-proxy measures from
//! it how long network programming takes.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use api::core::{Pod, Service};
use object::{NamespacedName, ObjectMeta, Text, Time, Value};

pub(crate) const TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// The times that were known at the last sync of each Service.
#[derive(Debug, Default)]
pub(super) struct TriggerTimes(Mutex<HashMap<NamespacedName, ServiceTimes>>);

/// Creation of a Service, and the last change of readiness of each of its pods, in seconds.
#[derive(Debug)]
struct ServiceTimes {
    created: i64,
    pods: HashMap<Text, i64>,
}

impl TriggerTimes {
    /// The time of the earliest change since the last sync, in seconds; for a new Service the time
    /// of its creation. `None`: nothing has changed.
    pub(super) fn compute<'a>(
        &self,
        service: &Service,
        pods: impl Iterator<Item = &'a Pod>,
    ) -> Option<i64> {
        let times = pods.filter_map(|pod| {
            let ready = pod.status().condition("Ready")?;
            let since = Time::parse_seconds(ready.last_transition_time())?;
            Some((pod.metadata().name().into(), since))
        });
        let now = ServiceTimes {
            created: Time::parse_seconds(service.metadata().creation_timestamp())?,
            pods: times.collect(),
        };
        let mut services = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = NamespacedName::from_meta(service.metadata());
        let first = match services.get(&key) {
            None => Some(now.created),
            Some(before) => {
                let newer = |(name, since): &(&Text, &i64)| {
                    before.pods.get(*name).is_none_or(|before| before < since)
                };
                let pods = now.pods.iter().filter(newer).map(|(_, since)| *since);
                let created = (before.created < now.created).then_some(now.created);
                pods.chain(created).min()
            }
        };
        services.insert(key, now);
        first
    }

    pub(super) fn forget(&self, key: &NamespacedName) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

/// Sets the annotation, or removes it if no change is known.
pub(super) fn annotate(meta: &mut ObjectMeta, trigger: Option<i64>) {
    match trigger {
        Some(at) => meta.annotations_mut().insert(TRIGGER_TIME, Time::format(at)),
        None if meta.annotations().get(TRIGGER_TIME).is_some() => {
            let mut tree = Value::from(std::mem::take(meta));
            tree["annotations"].remove(TRIGGER_TIME);
            *meta = tree.into();
        }
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use object::from_json;

    use super::*;

    fn pod(name: &str, since: i64) -> Pod {
        let text = format!(
            r#"{{"metadata":{{"name":"{name}"}},"status":{{"conditions":[{{"type":"Ready",
            "status":"True","lastTransitionTime":"{}"}}]}}}}"#,
            Time::format(since)
        );
        Pod::from(from_json(text.as_bytes()).unwrap())
    }

    #[test]
    fn the_earliest_change_since_the_last_sync_counts() {
        let mut service = Service::new();
        let meta = ObjectMeta::new().with_name("s").with_creation_timestamp(Time::format(10));
        service.set_metadata(meta);
        let times = TriggerTimes::default();
        let compute = |pods: &[Pod]| times.compute(&service, pods.iter());
        assert_eq!(compute(&[pod("a", 20)]), Some(10), "a new service");
        assert_eq!(compute(&[pod("a", 20)]), None, "nothing new");
        assert_eq!(compute(&[pod("a", 20), pod("b", 31), pod("c", 30)]), Some(30));
        assert_eq!(compute(&[pod("a", 40)]), Some(40), "ready again");
        times.forget(&NamespacedName::from_meta(service.metadata()));
        assert_eq!(compute(&[]), Some(10));
    }

    #[test]
    fn an_old_annotation_goes() {
        let mut meta = ObjectMeta::new();
        annotate(&mut meta, Some(0));
        assert_eq!(meta.annotations().get(TRIGGER_TIME), Some("1970-01-01T00:00:00Z"));
        annotate(&mut meta, None);
        assert_eq!(meta.annotations().get(TRIGGER_TIME), None);
    }
}
