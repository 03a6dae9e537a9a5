//! The ImagePolicyWebhook admission plugin: a webhook decides by ImageReview whether a pod's images
//! may run.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use object::{Object, Status, Value, View, from_json, to_json};
use server::{
    AdmissionAttributes, AdmissionFuture, AdmissionPlugin, ConnectionPool, Operation, WebhookClient,
};
use tracing::warn;

use crate::{egress::EgressSelector, remote::from_kubeconfig, structured::text};

const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
const TRIES: u32 = 5;
/// Maximum number of cached responses.
const CACHE: usize = 1024;
const AUDIT: &str = "imagepolicywebhook.image-policy.k8s.io";

#[derive(Debug)]
pub(super) struct ImagePolicyWebhook {
    remote: WebhookClient,
    allow_ttl: Duration,
    deny_ttl: Duration,
    /// Initial back-off before the webhook is called again; doubled with each attempt.
    backoff: Duration,
    /// Whether pods are admitted when the webhook does not respond.
    default_allow: bool,
    cache: Mutex<HashMap<Vec<u8>, (Instant, Value)>>,
}

impl ImagePolicyWebhook {
    /// Reads `imagePolicy` of the plugin's configuration.
    pub(super) fn new(config: &Value, lines: ConnectionPool) -> Result<Self> {
        let config = config.get("imagePolicy");
        ensure!(config.is_object(), "ImagePolicyWebhook: no config specified");
        let direct = EgressSelector { pool: lines, ..EgressSelector::default() };
        let (seconds, minutes) = (Duration::from_secs, Duration::from_mins);
        Ok(Self {
            remote: from_kubeconfig(text(config, "kubeConfigFile").as_ref(), &direct)?,
            allow_ttl: period(config, "allowTTL", seconds(1), minutes(5), minutes(30))?,
            deny_ttl: period(config, "denyTTL", seconds(1), seconds(30), minutes(30))?,
            backoff: period(
                config,
                "retryBackoff",
                Duration::from_millis(1),
                Duration::from_millis(500),
                minutes(5),
            )?,
            default_allow: config.get("defaultAllow").as_bool().unwrap_or_default(),
            cache: Mutex::default(),
        })
    }

    async fn decide(&self, admission: &AdmissionAttributes<'_>) -> Result<(), Status> {
        let names = &admission.served.definition.names;
        let lists: &[&str] = match (names.group, names.plural, admission.subresource) {
            ("", "pods", "") => &["containers", "initContainers"],
            ("", "pods", "ephemeralcontainers") => &["ephemeralContainers"],
            _ => return Ok(()),
        };
        if !matches!(admission.operation, Operation::Create | Operation::Update) {
            return Ok(());
        }
        let review = review(admission, lists);
        let status = match self.ask(&to_json(&review)).await {
            Ok(status) => status,
            Err(error) if self.default_allow => {
                warn!(error, "image policy webhook failed; admitting the pod without it");
                admission.annotate(&format!("{AUDIT}/failed-open"), "true".to_owned());
                return Ok(());
            }
            Err(error) => return Err(admission.forbidden(&error)),
        };
        for (key, value) in status.get("auditAnnotations").entries() {
            let value = value.as_str().unwrap_or_default().to_owned();
            admission.annotate(&format!("{AUDIT}/{key}"), value);
        }
        match (status.get("allowed").as_bool(), text(&status, "reason")) {
            (Some(true), _) => Ok(()),
            (_, "") => Err(admission.forbidden("one or more images rejected by webhook backend")),
            (_, why) => Err(admission.forbidden(&format!(
                "image policy webhook backend denied one or more images: {why}"
            ))),
        }
    }

    /// Sends the ImageReview to the webhook, or finds it in the cache, and returns its `status`.
    async fn ask(&self, review: &[u8]) -> Result<Value, String> {
        let now = Instant::now();
        {
            let known = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((_, status)) = known.get(review).filter(|(until, _)| *until > now) {
                return Ok(status.clone());
            }
        }
        let (mut attempt, mut pause) = (1, self.backoff);
        let bytes = loop {
            match self.remote.post(review.to_vec(), REQUEST_TIMEOUT).await {
                Ok((code, bytes)) if code.is_success() => break bytes,
                Ok((code, _)) if attempt == TRIES || !code.is_server_error() => {
                    return Err(format!("Error contacting webhook: {}", code.as_u16()));
                }
                Err(error) if attempt == TRIES => return Err(error),
                _ => {}
            }
            tokio::time::sleep(pause).await;
            (attempt, pause) = (attempt + 1, pause * 2);
        };
        let answer = from_json(&bytes).map_err(|error| error.to_string())?;
        let status = answer.get("status").clone();
        let allowed = status.get("allowed").as_bool() == Some(true);
        let ttl = if allowed { self.allow_ttl } else { self.deny_ttl };
        let mut known = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= CACHE {
            known.retain(|_, (until, _)| *until > now);
        }
        if known.len() < CACHE {
            known.insert(review.to_vec(), (now + ttl, status.clone()));
        }
        Ok(status)
    }
}

impl AdmissionPlugin for ImagePolicyWebhook {
    fn name(&self) -> &'static str {
        "ImagePolicyWebhook"
    }

    fn validate<'a>(&'a self, admission: &'a AdmissionAttributes<'_>) -> AdmissionFuture<'a> {
        Box::pin(self.decide(admission))
    }
}

fn review(admission: &AdmissionAttributes<'_>, lists: &[&str]) -> Value {
    let spec = admission.object.get("spec");
    let containers = lists.iter().flat_map(|list| spec.get(list).items()).map(|container| {
        let mut own = Value::object();
        own["image"] = container.get("image").clone();
        own
    });
    let mut review = Value::object();
    review["kind"] = "ImageReview".into();
    review["apiVersion"] = "imagepolicy.k8s.io/v1alpha1".into();
    review["spec"]["containers"] = containers.collect();
    review["spec"]["namespace"] = admission.namespace.clone().into();
    for (key, value) in Object::view(&admission.object).metadata().annotations().iter() {
        if key.contains(".image-policy.k8s.io/") {
            review["spec"]["annotations"][key] = value.into();
        }
    }
    review
}

/// Reads a duration in seconds (`retryBackoff`: milliseconds); 0 means the default, -1 means zero.
fn period(
    config: &Value,
    name: &str,
    least: Duration,
    default: Duration,
    most: Duration,
) -> Result<Duration> {
    let given = config.get(name).as_i64().unwrap_or_default();
    let unit = if name == "retryBackoff" { 1 } else { 1000 };
    let value = match given {
        -1 => return Ok(Duration::ZERO),
        0 => return Ok(default),
        given => u64::try_from(given).unwrap_or_default().saturating_mul(unit),
    };
    let value = Duration::from_millis(value);
    ensure!(
        value >= least && value <= most,
        "{name}: valid value is between {least:?} and {most:?}, got {value:?}"
    );
    Ok(value)
}
