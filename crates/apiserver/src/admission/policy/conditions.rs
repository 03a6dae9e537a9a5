//! `matchConditions` of webhooks: CEL expressions that decide whether a webhook is called.

use std::sync::{Arc, Mutex, PoisonError};

use cel::{
    Environment,
    policy::{MatchConditions, PolicyInputs, VariableScope, Variables},
};
use object::{Recent, Value, to_json};
use server::{AdmissionAttributes, CounterVec, HistogramVec, MetricDesc, MetricsSource};
use tokio::time::Instant;

use super::{CelAuthorizer, request_resource_attributes};
use crate::admission::AuthorizerChain;

/// Maximum size in bytes of the cache of compiled conditions; more than all webhooks of a cluster
/// have.
const CACHE: usize = 4 << 20;
const SECONDS: &[f64] = &[0.001, 0.005, 0.01, 0.025, 0.1, 0.2, 0.25];

/// The match conditions of all webhooks, compiled once, and their metrics.
#[derive(Debug)]
pub(crate) struct WebhookMatchConditions {
    rights: AuthorizerChain,
    environment: Arc<Environment>,
    compiled: Mutex<Recent<Vec<u8>, Arc<MatchConditions>>>,
    seconds: HistogramVec,
    errors: CounterVec,
    exclusions: CounterVec,
}

impl MetricsSource for WebhookMatchConditions {
    fn report(&self, out: &mut String) {
        self.seconds.write(out);
        self.errors.write(out);
        self.exclusions.write(out);
    }
}

impl WebhookMatchConditions {
    pub(crate) fn new(rights: AuthorizerChain) -> Self {
        let scope = VariableScope { authorizer: true, ..VariableScope::default() };
        let name =
            |name, help| MetricDesc { name, help, labels: &["kind", "name", "operation", "type"] };
        Self {
            rights,
            environment: scope.environment(&Variables::default()),
            compiled: Mutex::new(Recent::new(CACHE)),
            seconds: HistogramVec::new(
                name(
                    "apiserver_admission_match_condition_evaluation_seconds",
                    "Latency of match conditions in seconds.",
                ),
                SECONDS,
            ),
            errors: CounterVec::new(name(
                "apiserver_admission_match_condition_evaluation_errors_total",
                "Match conditions whose evaluation failed.",
            )),
            exclusions: CounterVec::new(name(
                "apiserver_admission_match_condition_exclusions_total",
                "Webhooks and policies skipped because of their match conditions.",
            )),
        }
    }

    /// Whether all conditions of a webhook hold; `request` is the AdmissionReview's. An error means
    /// that an evaluation failed and the webhook's failurePolicy is Fail.
    pub(crate) async fn matches(
        &self,
        hook: &Value,
        admission: &AdmissionAttributes<'_>,
        request: &Value,
    ) -> Result<bool, String> {
        let asked = CelAuthorizer::new(&self.rights, admission.user);
        let request = &request.with_raw_expanded();
        let began = Instant::now();
        let conditions = self.compiled(hook);
        let held = loop {
            let inputs = PolicyInputs {
                old_object: request.get("oldObject"),
                authorizer: Some((&asked, request_resource_attributes(admission))),
                ..PolicyInputs::new(request.get("object"), request)
            };
            let held = conditions.matches(&inputs, &[], true);
            if !asked.answer().await {
                break held;
            }
        };
        // Only mutating webhooks have a reinvocationPolicy.
        let mutates = !hook.get("reinvocationPolicy").is_null();
        let name = hook.get("name").as_str().unwrap_or_default();
        let kind = if mutates { "admit" } else { "validating" };
        let labels = ["webhook", name, admission.operation.name(), kind];
        self.seconds.observe(&labels, began.elapsed().as_secs_f64());
        match held {
            Err(_) => self.errors.count(&labels),
            Ok(false) => self.exclusions.count(&labels),
            Ok(true) => {}
        }
        let ignores = hook.get("failurePolicy").as_str() == Some("Ignore");
        held.or_else(|why| if ignores { Ok(false) } else { Err(why) })
    }

    fn compiled(&self, hook: &Value) -> Arc<MatchConditions> {
        let key = to_json(hook.get("matchConditions"));
        let cache = || self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(compiled) = cache().get(&key) {
            return compiled.clone();
        }
        let make = || Arc::new(MatchConditions::new(hook, &self.environment));
        let (compiled, weight) = (server::expensive::aside(make), key.len());
        cache().insert(key, compiled.clone(), weight);
        compiled
    }
}
