//! Disruption controller: computes how many pods of a PodDisruptionBudget may be evicted now. The
//! eviction subresource reads the result from the budget's status.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use api::{
    apps::{Deployment, ReplicaSet, StatefulSet},
    core::{Pod, PodCondition, ReplicationController},
    policy::{PodDisruptionBudget, PodDisruptionBudgetStatus},
};
use client::{Api, Error};
use object::{
    Clock, Condition, IntOrString, Lens, NamespacedName, OwnerReference, Text, Time, Value,
    saturating_i32, seconds_left, selector::Selector, wait_seconds,
};
use runtime::{CachedApi, Context, Controller, EventRecorder, Reconcile, Requeue};
use schema::Kind;

use crate::{Config, conditions::Conditions};

/// A pod whose eviction was permitted, but which is not deleted after this many seconds, counts
/// again.
const DELETION_TIMEOUT_SECONDS: i64 = 120;

pub(crate) fn start(cx: &Context, config: &Config) {
    let budgets = DisruptionBudgets {
        budgets: cx.cached_api(),
        pods: cx.cached_api(),
        deployments: cx.cached_api(),
        sets: cx.cached_api(),
        stateful: cx.cached_api(),
        replication: cx.cached_api(),
        events: EventRecorder::start(cx, "controllermanager", ""),
        clock: config.clock.clone(),
    };
    let known = budgets.budgets.clone();
    let stale = StaleDisruptions { pods: cx.cached_api(), clock: config.clock.clone() };
    Controller::new("disruption", cx, budgets)
        .watches::<Pod>(move |pod| {
            let near = known.in_namespace(pod.metadata().namespace()).into_iter();
            let near = near.filter(|it| selector(it).matches(pod.metadata().labels()));
            near.map(|budget| NamespacedName::from_meta(budget.metadata())).collect()
        })
        .start();
    Controller::new("disruption-stale", cx, stale).queue_named("stale_pod_disruption").start();
}

/// Reconciler of PodDisruptionBudgets.
#[derive(Debug)]
struct DisruptionBudgets {
    budgets: CachedApi<PodDisruptionBudget>,
    pods: CachedApi<Pod>,
    deployments: CachedApi<Deployment>,
    sets: CachedApi<ReplicaSet>,
    stateful: CachedApi<StatefulSet>,
    replication: CachedApi<ReplicationController>,
    events: EventRecorder,
    clock: Arc<dyn Clock>,
}

impl Reconcile for DisruptionBudgets {
    type Kind = PodDisruptionBudget;

    async fn reconcile(
        &self,
        key: &NamespacedName,
        budget: Option<PodDisruptionBudget>,
    ) -> Result<Requeue, Error> {
        let Some(budget) = budget else { return Ok(Requeue::OnChange) };
        let selector = selector(&budget);
        let mut pods = self.pods.in_namespace(&key.namespace);
        pods.retain(|pod| selector.matches(pod.metadata().labels()));
        if pods.is_empty() {
            self.events.normal(&budget, "NoPods", "No matching pods found");
        }
        let now = self.clock.now();
        let (status, next) = match self.scale(&budget, &pods).await {
            Ok(scale) => self.compute_status(&budget, &pods, scale, now),
            Err(why) => {
                let message = format!("Failed to calculate the number of expected pods: {why}");
                self.events.warning(&budget, "CalculateExpectedPodCountFailed", message);
                (unknown(&budget, &why, now), None)
            }
        };
        if status != *budget.status() {
            let because = budget.write_cause("pods have changed");
            self.budgets.with_cause(&because).update_status(budget.with_status(status)).await?;
        }
        let next = next.map(|at| wait_seconds(at.saturating_sub(now)));
        Ok(next.map_or(Requeue::OnChange, Requeue::After))
    }
}

impl DisruptionBudgets {
    fn compute_status(
        &self,
        budget: &PodDisruptionBudget,
        pods: &[Pod],
        scale: Option<Scale>,
        now: i64,
    ) -> (PodDisruptionBudgetStatus, Option<i64>) {
        if scale.as_ref().is_some_and(|scale| scale.unmanaged) {
            let selector = budget.spec().selector().map_or(&object::NULL, Lens::tree);
            let shown = String::from_utf8_lossy(&object::to_json(selector)).into_owned();
            let message = format!(
                "Pods selected by this PodDisruptionBudget (selector: {shown}) were found to be \
                 unmanaged. As a result, the status of the PDB cannot be calculated correctly, \
                 which may result in undefined behavior. To account for these pods please set \
                 \".spec.minAvailable\" field of the PDB to an integer value."
            );
            self.events.warning(budget, "UnmanagedPods", message);
        }
        let disrupted = disrupted(budget, pods, now);
        for pod in &disrupted.expired {
            let namespace = budget.metadata().namespace();
            let message = format!(
                "Pod was expected by PDB {namespace}/{namespace} to be deleted but it wasn't"
            );
            self.events.warning(*pod, "NotDeleted", message);
        }
        let next = disrupted.going.values().map(|(at, _)| at + DELETION_TIMEOUT_SECONDS).min();
        (status(budget, pods, scale.map(|scale| scale.expected_count), &disrupted, now), next)
    }

    /// The number of replicas that the pods' controllers want; `None` where the budget does not
    /// depend on it.
    async fn scale(
        &self,
        budget: &PodDisruptionBudget,
        pods: &[Pod],
    ) -> Result<Option<Scale>, String> {
        let spec = budget.spec();
        let counts = matches!(spec.min_available(), Some(IntOrString::Int(_)) | None);
        if spec.max_unavailable().is_none() && counts {
            return Ok(None);
        }
        let (mut sizes, mut unmanaged) = (HashMap::new(), false);
        let mut asked: HashSet<Text> = HashSet::new();
        for pod in pods {
            let Some(owner) = pod.metadata().controller_ref() else {
                unmanaged = true;
                continue;
            };
            if !asked.insert(owner.uid().into()) {
                continue;
            }
            let size = self.size(owner, pod.metadata().namespace()).await;
            let size = size.map_err(|error| error.to_string())?;
            let (uid, size) = size
                .ok_or_else(|| format!("found no controllers for pod {:?}", pod.meta().name()))?;
            sizes.insert(uid, size);
        }
        Ok(Some(Scale {
            expected_count: sizes.values().copied().fold(0, i32::saturating_add),
            unmanaged,
        }))
    }

    /// The uid and the replicas of the topmost workload that manages the pods of `owner`.
    async fn size(
        &self,
        owner: &OwnerReference,
        namespace: &str,
    ) -> Result<Option<(Text, i32)>, Error> {
        let key = NamespacedName::new(namespace, owner.name());
        let group = owner.api_version().split_once('/').map_or("", |(group, _)| group);
        let found = match (group, owner.kind()) {
            ("", "ReplicationController") => {
                self.replication.get(&key).map(|it| (of(&it), it.spec().replicas()))
            }
            ("apps", "StatefulSet") => {
                self.stateful.get(&key).map(|it| (of(&it), it.spec().replicas()))
            }
            ("apps" | "extensions", "ReplicaSet") => self.sets.get(&key).map(|set| {
                let above = set.metadata().controller_ref().filter(|it| it.kind() == "Deployment");
                let above = above.and_then(|above| {
                    let found = self.deployments.get(&NamespacedName::new(namespace, above.name()));
                    found.filter(|found| found.metadata().uid() == above.uid())
                });
                match above {
                    Some(above) => (of(&above), above.spec().replicas()),
                    None => (of(&set), set.spec().replicas()),
                }
            }),
            _ => return self.scale_of(owner, &key).await,
        };
        Ok(found.filter(|(uid, _)| group == "apps" || uid == owner.uid()))
    }

    /// The replicas of any kind that has a `scale` subresource.
    async fn scale_of(
        &self,
        owner: &OwnerReference,
        key: &NamespacedName,
    ) -> Result<Option<(Text, i32)>, Error> {
        let client = self.budgets.api().client();
        let mapper = client.discover().await?;
        let Some(found) = mapper.of_kind(owner.api_version(), owner.kind()) else {
            return Ok(None);
        };
        if !found.subresources.iter().any(|name| name == "scale") {
            return Ok(None);
        }
        let api = Api::<Value>::for_resource(client, found.resource.clone());
        let scale = match api.get_subresource(key, "scale").await {
            Err(error) if error.is_not_found() => return Ok(None),
            scale => scale?,
        };
        let uid = scale["metadata"]["uid"].as_str().unwrap_or_default();
        let size = scale["spec"]["replicas"].as_i64().unwrap_or_default();
        let size = i32::try_from(size).unwrap_or(i32::MAX);
        Ok((uid == owner.uid()).then(|| (uid.into(), size)))
    }
}

/// The expected number of pods.
struct Scale {
    expected_count: i32,
    /// Whether some pods have no controller.
    unmanaged: bool,
}

/// Pods whose eviction has begun (`status.disruptedPods`).
#[derive(Debug, Default, PartialEq)]
struct DisruptedPods<'a> {
    /// Pods that will be deleted, by name: the time of the eviction, parsed and as written.
    going: HashMap<&'a str, (i64, &'a str)>,
    /// Pods that were not deleted in time.
    expired: Vec<&'a Pod>,
}

fn of<K: Kind>(object: &K) -> Text {
    object.meta().uid().into()
}

/// The selector of a budget. An empty one selects every pod, an absent one none.
fn selector(budget: &PodDisruptionBudget) -> Selector {
    crate::claim::selector(budget.spec().selector())
}

fn disrupted<'a>(budget: &'a PodDisruptionBudget, pods: &'a [Pod], now: i64) -> DisruptedPods<'a> {
    let mut found = DisruptedPods::default();
    for pod in pods.iter().filter(|pod| !pod.is_terminating()) {
        let name = pod.metadata().name();
        let Some(text) = budget.status().disrupted_pods().get(name) else { continue };
        let Some(since) = Time::parse_seconds(text) else { continue };
        if since + DELETION_TIMEOUT_SECONDS < now {
            found.expired.push(pod);
        } else {
            found.going.insert(name, (since, text));
        }
    }
    found
}

fn status(
    budget: &PodDisruptionBudget,
    pods: &[Pod],
    scale: Option<i32>,
    disrupted: &DisruptedPods<'_>,
    now: i64,
) -> PodDisruptionBudgetStatus {
    let spec = budget.spec();
    let (expected, desired) = match (spec.max_unavailable(), spec.min_available(), scale) {
        (Some(most), _, Some(scale)) => {
            (scale, scale.saturating_sub(most.scaled_value(scale, true).unwrap_or_default()).max(0))
        }
        (None, Some(least), Some(scale)) => {
            (scale, least.scaled_value(scale, true).unwrap_or_default())
        }
        (None, Some(IntOrString::Int(least)), None) => (saturating_i32(pods.len()), least),
        _ => (0, 0),
    };
    let healthy = pods.iter().filter(|pod| {
        let going = disrupted.going.contains_key(pod.metadata().name());
        !pod.is_terminating() && !going && pod.is_ready()
    });
    let healthy = saturating_i32(healthy.count());
    let allowed = if expected <= 0 { 0 } else { healthy.saturating_sub(desired).max(0) };
    let mut status = PodDisruptionBudgetStatus::new()
        .with_current_healthy(healthy)
        .with_desired_healthy(desired)
        .with_expected_pods(expected)
        .with_disruptions_allowed(allowed)
        .with_observed_generation(budget.metadata().generation())
        .with_conditions(budget.status().conditions().clone());
    for (name, (_, since)) in &disrupted.going {
        status.disrupted_pods_mut().insert(name, *since);
    }
    let (verdict, reason) =
        if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    put(&mut status, (verdict, reason, ""), budget.metadata().generation(), now);
    status
}

/// The status when the expected number of pods cannot be computed: no disruption is allowed.
fn unknown(budget: &PodDisruptionBudget, why: &str, now: i64) -> PodDisruptionBudgetStatus {
    let mut status = budget.status().clone().with_disruptions_allowed(0);
    let generation = status.observed_generation();
    put(&mut status, ("False", "SyncFailed", why), generation, now);
    status
}

fn put(
    status: &mut PodDisruptionBudgetStatus,
    (verdict, reason, message): (&str, &str, &str),
    generation: i64,
    now: i64,
) {
    let condition = Condition::new()
        .with_type("DisruptionAllowed")
        .with_status(verdict)
        .with_observed_generation(generation)
        .with_reason(reason)
        .with_message(message);
    status.conditions_mut().set_condition(condition, now);
}

/// Sets the condition DisruptionTarget of a pod back to False when the pod was not deleted in time.
#[derive(Debug)]
struct StaleDisruptions {
    pods: CachedApi<Pod>,
    clock: Arc<dyn Clock>,
}

impl Reconcile for StaleDisruptions {
    type Kind = Pod;

    async fn reconcile(&self, _: &NamespacedName, pod: Option<Pod>) -> Result<Requeue, Error> {
        let now = self.clock.now();
        let Some((pod, left)) = pod.and_then(|pod| stale_in(&pod, now).map(|left| (pod, left)))
        else {
            return Ok(Requeue::OnChange);
        };
        if left > 0 {
            return Ok(Requeue::After(wait_seconds(left)));
        }
        let because = pod.write_cause("the pod was not disrupted after all");
        let mut new = pod;
        let generation = new.metadata().generation();
        let old = new.status().condition("DisruptionTarget").cloned();
        let counted = old.is_some_and(|old| old.observed_generation() > 0);
        let mut condition = PodCondition::new().with_type("DisruptionTarget").with_status("False");
        if counted {
            condition.set_observed_generation(generation);
        }
        new.status_mut().conditions_mut().set_condition(condition, now);
        self.pods.with_cause(&because).update_status(new).await?;
        Ok(Requeue::OnChange)
    }
}

/// The seconds until the condition DisruptionTarget of a running pod is stale; `None` if it has
/// none.
fn stale_in(pod: &Pod, now: i64) -> Option<i64> {
    let condition = pod.status().condition("DisruptionTarget")?;
    let ours = condition.status() == "True" && condition.reason() != "TerminationByKubelet";
    if pod.is_terminating() || pod.is_finished() || !ours {
        return None;
    }
    Some(seconds_left(
        Time::parse_seconds(condition.last_transition_time())?,
        DELETION_TIMEOUT_SECONDS,
        now,
    ))
}

#[cfg(test)]
mod tests {
    use object::{View, from_json};

    use super::*;

    fn budget(spec: &str, disrupted: &str) -> PodDisruptionBudget {
        let text = format!(r#"{{"spec":{{{spec}}},"status":{{"disruptedPods":{{{disrupted}}}}}}}"#);
        PodDisruptionBudget::view(&from_json(text.as_bytes()).unwrap()).clone()
    }

    fn pods(ready: usize, all: usize) -> Vec<Pod> {
        let pod = |at: usize| {
            let text = format!(
                r#"{{"metadata":{{"name":"p{at}"}},"status":{{"conditions":
                [{{"type":"Ready","status":"{}"}}]}}}}"#,
                if at < ready { "True" } else { "False" }
            );
            Pod::view(&from_json(text.as_bytes()).unwrap()).clone()
        };
        (0..all).map(pod).collect()
    }

    #[test]
    fn budgets_say_how_many_may_go() {
        for (spec, ready, all, scale, expected) in [
            (r#""minAvailable":2"#, 3, 3, None, (3, 2, 1)),
            (r#""minAvailable":2"#, 1, 3, None, (3, 2, 0)),
            (r#""minAvailable":"50%""#, 3, 3, Some(5), (5, 3, 0)),
            (r#""maxUnavailable":1"#, 3, 3, Some(3), (3, 2, 1)),
            (r#""maxUnavailable":"100%""#, 3, 3, Some(3), (3, 0, 3)),
            (r#""maxUnavailable":1"#, 0, 0, Some(0), (0, 0, 0)),
        ] {
            let (budget, pods) = (budget(spec, ""), pods(ready, all));
            let found = status(&budget, &pods, scale, &DisruptedPods::default(), 0);
            let numbers =
                (found.expected_pods(), found.desired_healthy(), found.disruptions_allowed());
            assert_eq!(numbers, expected, "{spec} {ready}/{all}");
            let reason = if expected.2 > 0 { "SufficientPods" } else { "InsufficientPods" };
            assert_eq!(found.conditions().iter().next().unwrap().reason(), reason);
        }
    }

    #[test]
    fn who_is_evicted_does_not_count() {
        let budget = budget(r#""minAvailable":1"#, r#""p0":"1970-01-01T00:00:00Z""#);
        let pods = pods(2, 2);
        let going = disrupted(&budget, &pods, 60);
        assert_eq!(status(&budget, &pods, None, &going, 60).current_healthy(), 1);
        let late = disrupted(&budget, &pods, 121);
        assert_eq!((late.going.len(), late.expired.len()), (0, 1));
        assert_eq!(status(&budget, &pods, None, &late, 121).current_healthy(), 2);
    }

    #[test]
    fn a_disruption_becomes_stale() {
        let text = r#"{"status":{"conditions":[{"type":"DisruptionTarget","status":"True",
            "lastTransitionTime":"1970-01-01T00:00:00Z"}]}}"#;
        let mut pod = Pod::view(&from_json(text.as_bytes()).unwrap()).clone();
        assert_eq!(stale_in(&pod, 100), Some(20));
        pod.metadata_mut().set_deletion_timestamp("1970-01-01T00:00:00Z");
        assert_eq!(stale_in(&pod, 100), None);
    }
}
