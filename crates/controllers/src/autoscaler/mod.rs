//! HorizontalPodAutoscaler controller: scales a workload so that its metrics approach their
//! targets.
//!
//! ```text
//!  mod.rs       start, reconcile: reads the scale and the metrics, writes the scale
//!  replicas.rs  computes the number of replicas that a metric proposes
//!  behavior.rs  stabilization windows and scaling policies
//!  metrics.rs   what is counted
//!  status.rs    collects the new status
//! ```

mod behavior;
mod metrics;
mod replicas;
mod status;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use api::{
    autoscaling::{
        HPAScalingRules, HorizontalPodAutoscaler, HorizontalPodAutoscalerBehavior, MetricSpec,
        MetricStatus, MetricTarget,
    },
    core::Pod,
};
use client::{Api, ApiResource, Error, Selectors};
use object::{Clock, NamespacedName, SteadyClock, Text, Value, selector::Selector};
use runtime::{CachedApi, Context, Controller, EventRecorder, Reconcile, Requeue};
use schema::Kind;
use tokio::time::Instant;

use self::{
    behavior::ScaleHistory,
    metrics::{AutoscalerMetrics, ErrorKind},
    replicas::{MetricQuery, Proposal, Target, Tolerance, propose_replicas, samples},
    status::{StatusBuilder, metric_status},
};
use crate::Config;

/// Default tolerance: a metric whose ratio to its target differs from 1 by no more proposes no
/// change.
const TOLERANCE: f64 = 0.1;

pub(crate) fn start(cx: &Context, config: &Config) {
    let scalers = Autoscalers {
        scalers: cx.cached_api(),
        pods: cx.cached_api(),
        histories: Mutex::default(),
        events: EventRecorder::start(cx, "horizontal-pod-autoscaler", ""),
        metrics: AutoscalerMetrics::start(cx),
        period: config.autoscaler_period,
        clock: config.clock.clone(),
        steady: SteadyClock::new(),
    };
    Controller::new("horizontal-pod-autoscaler", cx, scalers)
        .queue_named("horizontalpodautoscaler")
        .start();
}

/// Reconciler of HorizontalPodAutoscalers.
#[derive(Debug)]
struct Autoscalers {
    scalers: CachedApi<HorizontalPodAutoscaler>,
    pods: CachedApi<Pod>,
    /// Recent recommendations and scale events, by the uid of the autoscaler.
    histories: Mutex<HashMap<Text, ScaleHistory>>,
    events: EventRecorder,
    metrics: AutoscalerMetrics,
    period: Duration,
    clock: Arc<dyn Clock>,
    /// Stabilization windows and the periods of policies are counted by it.
    steady: SteadyClock,
}

/// The `scale` subresource of the target, and the API client to update it with.
struct Scale {
    api: Api<Value>,
    tree: Value,
    replicas: i32,
}

/// Inputs that all metrics of an autoscaler share.
struct MetricContext<'a> {
    selector: &'a str,
    pods: &'a [Pod],
    current: i32,
    now: i64,
}

impl Reconcile for Autoscalers {
    type Kind = HorizontalPodAutoscaler;

    async fn reconcile(
        &self,
        key: &NamespacedName,
        scaler: Option<HorizontalPodAutoscaler>,
    ) -> Result<Requeue, Error> {
        let Some(scaler) = scaler.filter(|scaler| !scaler.is_terminating()) else {
            self.metrics.forget(key);
            return Ok(Requeue::OnChange);
        };
        let began = Instant::now();
        let mut report = StatusBuilder::new(&scaler, self.clock.now());
        let failed = self.scale(&scaler, &mut report).await;
        let (error, desired) = (report.error, report.desired);
        let scaled = if report.scaled { (report.current, desired) } else { (0, 0) };
        let status = report.finish(&scaler);
        let error = if failed.is_err() { ErrorKind::Internal } else { error };
        self.metrics.reconciled(scaled, error, began.elapsed());
        self.metrics.desired(key, desired);
        if status != *scaler.status() {
            let because = scaler.write_cause("status has changed");
            self.scalers.with_cause(&because).update_status(scaler.with_status(status)).await?;
        }
        failed?;
        Ok(Requeue::After(self.period))
    }
}

impl Autoscalers {
    async fn scale(
        &self,
        scaler: &HorizontalPodAutoscaler,
        report: &mut StatusBuilder,
    ) -> Result<(), Error> {
        let scale = match self.find(scaler).await {
            Ok(scale) => scale,
            Err(error) => {
                let why = format!(
                    "the HPA controller was unable to get the target's current scale: {error}"
                );
                report.put("AbleToScale", "False", "FailedGetScale", &why);
                self.events.warning(scaler, "FailedGetScale", error.to_string());
                return Err(error);
            }
        };
        let why = "the HPA controller was able to get the target's current scale";
        report.put("AbleToScale", "True", "SucceededGetScale", why);
        report.current = scale.replicas;
        let Some((wanted, reason)) = self.decide(scaler, &scale, report).await else {
            return Ok(());
        };
        report.desired = wanted;
        if wanted == scale.replicas {
            return Ok(());
        }
        self.update_scale(scaler, scale, (wanted, &reason), report).await
    }

    /// Computes the desired number of replicas and the reason. `None`: the metrics are not
    /// available.
    async fn decide(
        &self,
        scaler: &HorizontalPodAutoscaler,
        scale: &Scale,
        report: &mut StatusBuilder,
    ) -> Option<(i32, String)> {
        let (current, spec) = (scale.replicas, scaler.spec());
        if current == 0 && spec.min_replicas() != 0 {
            let why = "scaling is disabled since the replica count of the target is zero";
            report.put("ScalingActive", "False", "ScalingDisabled", why);
            return Some((0, String::new()));
        }
        if current > spec.max_replicas() {
            let why = "Current number of replicas above Spec.MaxReplicas";
            return Some((spec.max_replicas(), why.to_owned()));
        }
        if current < spec.min_replicas() {
            let why = "Current number of replicas below Spec.MinReplicas";
            return Some((spec.min_replicas(), why.to_owned()));
        }
        let (wish, name) = match self.metrics(scaler, scale, report).await {
            Ok(found) => found,
            Err((reason, why)) => {
                report.error = error_kind(reason);
                report.put("ScalingActive", "False", reason, &why);
                self.events.warning(scaler, reason, why.clone());
                self.events.warning(scaler, "FailedComputeMetricsReplicas", why);
                report.desired = current;
                return None;
            }
        };
        let why = format!("the HPA was able to successfully calculate a replica count from {name}");
        report.put("ScalingActive", "True", "ValidMetricFound", &why);
        let verdict = {
            let mut memories = self.histories.lock().unwrap_or_else(PoisonError::into_inner);
            let memory = memories.entry(scaler.metadata().uid().into()).or_default();
            memory.normalize(scaler, current, wish, self.steady.now())
        };
        let (reason, why) = verdict
            .stabilized
            .unwrap_or(("ReadyForNewScale", "recommended size matches current size"));
        report.put("AbleToScale", "True", reason, why);
        let (limited, (reason, why)) = verdict.limited;
        report.put("ScalingLimited", if limited { "True" } else { "False" }, reason, why);
        let why = if verdict.replicas > current {
            format!("{name} above target")
        } else {
            "All metrics below target".to_owned()
        };
        Some((verdict.replicas, why))
    }

    /// The largest number of replicas that any metric proposes, and the name of that metric.
    async fn metrics(
        &self,
        scaler: &HorizontalPodAutoscaler,
        scale: &Scale,
        report: &mut StatusBuilder,
    ) -> Result<(i32, String), (&'static str, String)> {
        let selector = scale.tree["status"]["selector"].as_str().unwrap_or_default();
        if selector.is_empty() {
            let why = "the HPA target's scale is missing a selector";
            return Err(("InvalidSelector", why.to_owned()));
        }
        let parsed = Selector::parse(selector).map_err(|error| {
            let why = format!(
                "couldn't convert selector into a corresponding internal selector object: {error}"
            );
            ("InvalidSelector", why)
        })?;
        let mut pods = self.pods.in_namespace(scaler.metadata().namespace());
        pods.retain(|pod| parsed.matches(pod.metadata().labels()));
        let (current, now) = (scale.replicas, report.now);
        let seen = MetricContext { selector, pods: &pods, current, now };
        let (mut best, mut failures) = (None, Vec::new());
        let all = scaler.spec().metrics();
        for metric in all.iter() {
            let began = Instant::now();
            let found = self.evaluate_metric(scaler, metric, &seen).await;
            let (proposed, error) = match &found {
                Ok((proposal, ..)) => (proposal.replicas, ErrorKind::None),
                Err((reason, _)) => (current, error_kind(reason)),
            };
            self.metrics.computed((current, proposed), error, metric.type_(), began.elapsed());
            match found {
                Ok((proposal, name, status)) => {
                    report.metrics.push(status);
                    if best.as_ref().is_none_or(|(most, _)| proposal.replicas > *most) {
                        best = Some((proposal.replicas, name));
                    }
                }
                Err(failure) => failures.push(failure),
            }
        }
        let lower = best.as_ref().is_none_or(|(most, _)| *most < scale.replicas);
        match (best, failures.into_iter().next()) {
            (_, Some((reason, why))) if lower => {
                let why = format!("the HPA was unable to compute the replica count: {why}");
                Err((reason, why))
            }
            (Some(best), _) => Ok(best),
            (None, _) => Ok((scale.replicas, String::new())),
        }
    }

    async fn evaluate_metric(
        &self,
        scaler: &HorizontalPodAutoscaler,
        metric: &MetricSpec,
        seen: &MetricContext<'_>,
    ) -> Result<(Proposal, String, MetricStatus), (&'static str, String)> {
        let MetricContext { selector, pods, current, now } = *seen;
        let (resource, container, target, reason) =
            match (metric.resource(), metric.container_resource()) {
                (Some(it), _) => (it.name(), "", it.target(), "FailedGetResourceMetric"),
                (_, Some(it)) => {
                    (it.name(), it.container(), it.target(), "FailedGetContainerResourceMetric")
                }
                _ => {
                    let what = metric.type_();
                    let why = format!("metrics of type {what:?} are not supported");
                    return Err(("InvalidMetricSourceType", why));
                }
            };
        let target = read(target).ok_or_else(|| {
            let why = "invalid resource metric source: neither an average utilization target nor \
                       an average value (usage) target was set";
            (reason, why.to_owned())
        })?;
        let what = if matches!(target, Target::Average(_)) { "usage" } else { "utilization" };
        let failed = |why: String| (reason, format!("failed to get {resource} {what}: {why}"));
        let list = self.list(scaler.metadata().namespace(), selector).await.map_err(failed)?;
        let samples = samples(&list, resource, container);
        let tolerance = tolerance(scaler);
        let ask = MetricQuery { resource, container, target, tolerance, current, now };
        let proposal = propose_replicas(&ask, pods, samples).map_err(failed)?;
        let name = match (target, container) {
            (Target::Average(_), _) => format!("{resource} resource"),
            (_, "") => format!("{resource} resource utilization (percentage of request)"),
            _ => format!("{resource} container resource utilization (percentage of request)"),
        };
        Ok((proposal, name, metric_status(&ask, &proposal)))
    }

    /// Lists the PodMetrics of the selected pods from `metrics.k8s.io`.
    async fn list(&self, namespace: &str, selector: &str) -> Result<Value, String> {
        let failed =
            |error: Error| format!("unable to fetch metrics from resource metrics API: {error}");
        let resource = ApiResource {
            group: "metrics.k8s.io".into(),
            version: "v1beta1".into(),
            plural: "pods".into(),
            kind: "PodMetrics".into(),
            namespaced: true,
        };
        let api =
            Api::<Value>::for_resource(self.scalers.api().client(), resource).namespaced(namespace);
        let found = api.list_all(&Selectors::labels(selector)).await.map_err(failed)?;
        if found.items.is_empty() {
            return Err("no metrics returned from resource metrics API".into());
        }
        let mut list = Value::object();
        list["items"] = Value::List(found.items.into_iter().collect());
        Ok(list)
    }

    async fn find(&self, scaler: &HorizontalPodAutoscaler) -> Result<Scale, Error> {
        let target = scaler.spec().scale_target_ref();
        let client = self.scalers.api().client();
        let mapper = client.discover().await?;
        let found = mapper.of_kind(target.api_version(), target.kind()).ok_or_else(|| {
            let (kind, version) = (target.kind(), target.api_version());
            Error::Invalid(format!("no matches for kind {kind:?} in version {version:?}"))
        })?;
        let because = scaler.write_cause("metrics ask for another size");
        let api = Api::<Value>::for_resource(client, found.resource.clone()).with_cause(&because);
        let tree = api.get_subresource(&key(scaler), "scale").await?;
        let replicas = tree["spec"]["replicas"].as_i64().unwrap_or_default();
        Ok(Scale { api, tree, replicas: i32::try_from(replicas).unwrap_or(i32::MAX) })
    }

    async fn update_scale(
        &self,
        scaler: &HorizontalPodAutoscaler,
        scale: Scale,
        (to, reason): (i32, &str),
        report: &mut StatusBuilder,
    ) -> Result<(), Error> {
        let Scale { api, mut tree, replicas } = scale;
        tree["spec"]["replicas"] = i64::from(to).into();
        if let Err(error) = api.update_subresource(&key(scaler), "scale", &tree).await {
            let message = format!("New size: {to}; reason: {reason}; error: {error}");
            self.events.warning(scaler, "FailedRescale", message);
            let why = format!("the HPA controller was unable to update the target scale: {error}");
            report.put("AbleToScale", "False", "FailedUpdateScale", &why);
            report.desired = replicas;
            return Err(error);
        }
        let why = format!("the HPA controller was able to update the target scale to {to}");
        report.put("AbleToScale", "True", "SucceededRescale", &why);
        let message = format!("New size: {to}; reason: {reason}");
        self.events.normal(scaler, "SuccessfulRescale", message);
        let mut memories = self.histories.lock().unwrap_or_else(PoisonError::into_inner);
        let memory = memories.entry(scaler.metadata().uid().into()).or_default();
        memory.changed(replicas, to, self.steady.now());
        report.scaled = true;
        Ok(())
    }
}

/// Whether an error with this reason is the fault of the spec.
fn error_kind(reason: &str) -> ErrorKind {
    if reason == "InvalidMetricSourceType" { ErrorKind::Spec } else { ErrorKind::Internal }
}

fn key(scaler: &HorizontalPodAutoscaler) -> NamespacedName {
    NamespacedName::new(scaler.metadata().namespace(), scaler.spec().scale_target_ref().name())
}

fn read(target: &MetricTarget) -> Option<Target> {
    let average = target.average_value().map(|value| Target::Average(value.milli_value()));
    average.or_else(|| target.average_utilization().map(Target::Utilization))
}

fn tolerance(scaler: &HorizontalPodAutoscaler) -> Tolerance {
    let own = |rules: Option<&HPAScalingRules>| {
        let own = rules.and_then(HPAScalingRules::tolerance);
        own.map_or(TOLERANCE, |own| own.as_approximate_f64())
    };
    let behavior = scaler.spec().behavior();
    Tolerance {
        down: own(behavior.and_then(HorizontalPodAutoscalerBehavior::scale_down)),
        up: own(behavior.and_then(HorizontalPodAutoscalerBehavior::scale_up)),
    }
}
