//! The MutatingAdmissionWebhook and ValidatingAdmissionWebhook admission plugins: webhooks that
//! change or reject writes. Which webhooks are called, and what happens when one fails, is in the
//! webhook configurations.

mod call;
mod hook;
mod metrics;
mod review;

use std::sync::Arc;

use anyhow::Result;
use object::{Status, Value, to_json};
use server::{AdmissionAttributes, AdmissionFuture, AdmissionPlugin, trace, track_latency};
use tokio::time::Instant;
use tracing::warn;

use self::{
    call::{WebhookError, call},
    hook::{Invocation, Webhook, hooks},
    review::{apply, request},
};
pub(crate) use self::{
    metrics::WebhookMetrics,
    review::{ReviewResult, ReviewVersion},
};
use super::{PluginDependencies, manifests::ManifestDir, policy::WebhookMatchConditions};
use crate::client_config::WebhookClientSettings;

/// The kind and the resource of the webhook configurations.
const MUTATING: (&str, &str) = ("MutatingWebhookConfiguration", "mutatingwebhookconfigurations");
const VALIDATING: (&str, &str) =
    ("ValidatingWebhookConfiguration", "validatingwebhookconfigurations");

/// The MutatingAdmissionWebhook plugin.
#[derive(Debug)]
pub(super) struct Mutating(pub(super) WebhookDispatcher);

/// The ValidatingAdmissionWebhook plugin.
#[derive(Debug)]
pub(super) struct Validating(pub(super) WebhookDispatcher);

/// What both plugins need to call webhooks.
#[derive(Debug)]
pub(super) struct WebhookDispatcher {
    conditions: Arc<WebhookMatchConditions>,
    tally: Arc<WebhookMetrics>,
    /// Webhooks from files.
    files: Option<Arc<ManifestDir>>,
    client: WebhookClientSettings,
}

impl WebhookDispatcher {
    pub(super) fn new(tools: &PluginDependencies, plugin: &'static str) -> Result<Self> {
        Ok(Self {
            conditions: tools.conditions.clone(),
            tally: tools.hooks.clone(),
            files: tools.manifests.open(plugin)?,
            client: WebhookClientSettings {
                users: tools.configs.webhook_credentials(plugin)?,
                egress: tools.egress.clone(),
            },
        })
    }
}

impl AdmissionPlugin for Mutating {
    fn name(&self) -> &'static str {
        "MutatingAdmissionWebhook"
    }

    fn mutate<'a>(&'a self, admission: &'a mut AdmissionAttributes<'_>) -> AdmissionFuture<'a> {
        Box::pin(self.run(admission))
    }
}

impl AdmissionPlugin for Validating {
    fn name(&self) -> &'static str {
        "ValidatingAdmissionWebhook"
    }

    fn validate<'a>(&'a self, admission: &'a AdmissionAttributes<'_>) -> AdmissionFuture<'a> {
        Box::pin(self.run(admission))
    }
}

impl Mutating {
    /// Calls the webhooks one after the other; each sees the changes of those before it. A second
    /// round reinvokes those with `reinvocationPolicy: IfNeeded`, if the object has changed since.
    async fn run(&self, admission: &mut AdmissionAttributes<'_>) -> Result<(), Status> {
        let hooks = hooks(admission, MUTATING, self.0.files.as_deref())?;
        if hooks.is_empty() {
            return Ok(());
        }
        let again = admission.reinvocation.should_reinvoke(self.name(), &admission.object);
        let mut index = 0;
        for hook in hooks {
            let Some(invocation) = hook.matches(admission, &self.0.conditions).await? else {
                continue;
            };
            if again && !admission.reinvocation.to_reinvoke.contains(&hook.id) {
                continue;
            }
            let reinvocable = hook.is("reinvocationPolicy", "IfNeeded");
            let place = InvocationIndex { round: admission.reinvocation.round, index };
            index += 1;
            let began = Instant::now();
            let done = mutate_once(admission, &hook, &invocation, &self.0.client).await;
            let seconds = began.elapsed().as_secs_f64();
            self.0.tally.asked(&hook, admission.operation, true, done.as_ref().err(), seconds);
            let changed = matches!(done, Ok(Some((_, true))));
            place.annotate(admission, &hook, done.as_ref().ok().and_then(Option::as_ref));
            match done {
                Ok(_) if changed => admission.reinvocation.mark_changed(),
                Ok(_) => {}
                Err(failure) => failed(admission, &hook, failure, Some(&place))?,
            }
            if reinvocable {
                admission.reinvocation.invoked.push(hook.id.clone());
            }
        }
        let left = admission.object.clone();
        admission.reinvocation.last.insert(self.name(), left);
        Ok(())
    }
}

/// The position of a call, for the keys of audit annotations: the round and the index in it.
struct InvocationIndex {
    round: u8,
    index: usize,
}

impl InvocationIndex {
    /// Adds the audit annotations: which webhook was called, whether it changed the object, and its
    /// patch.
    fn annotate(
        &self,
        admission: &AdmissionAttributes<'_>,
        hook: &Webhook,
        patch: Option<&(Value, bool)>,
    ) {
        let Self { round, index } = self;
        let text = |tree: &Value| String::from_utf8_lossy(&to_json(tree)).into_owned();
        let (configuration, name) =
            (text(&hook.configuration.as_str().into()), text(&hook.name.as_str().into()));
        let mutated = patch.is_some_and(|(_, changed)| *changed);
        let who = format!(r#""configuration":{configuration},"webhook":{name}"#);
        let key =
            |kind: &str| format!("{kind}.webhook.admission.k8s.io/round_{round}_index_{index}");
        admission.annotate(&key("mutation"), format!(r#"{{{who},"mutated":{mutated}}}"#));
        if let Some((patch, _)) = patch {
            let patch = text(patch);
            let told = format!(r#"{{{who},"patch":{patch},"patchType":"JSONPatch"}}"#);
            admission.annotate(&key("patch"), told);
        }
    }
}

/// Calls a webhook and applies its patch; returns the patch, and whether it changed the object.
async fn mutate_once(
    admission: &mut AdmissionAttributes<'_>,
    hook: &Webhook,
    invocation: &Invocation,
    manner: &WebhookClientSettings,
) -> Result<Option<(Value, bool)>, WebhookError> {
    let verdict = dispatch(admission, hook, invocation, (manner, true)).await?;
    if verdict.patch.items().is_empty() {
        return Ok(None);
    }
    let before = admission.object.clone();
    apply(admission, hook, invocation, &verdict.patch)?;
    // Upstream compares built-in objects with times that JSON cannot represent, so that every patch
    // counts as a change.
    let built_in = invocation.served.definition.is_built_in();
    let changed = built_in || before != admission.object;
    Ok(Some((verdict.patch, changed)))
}

impl Validating {
    /// Calls all webhooks concurrently; the first denial counts.
    async fn run(&self, admission: &AdmissionAttributes<'_>) -> Result<(), Status> {
        let mut asked = Vec::new();
        for hook in hooks(admission, VALIDATING, self.0.files.as_deref())? {
            if let Some(invocation) = hook.matches(admission, &self.0.conditions).await? {
                asked.push((hook, invocation));
            }
        }
        let asking = asked.iter().map(|(hook, invocation)| async move {
            let began = Instant::now();
            let done = dispatch(admission, hook, invocation, (&self.0.client, false)).await;
            let seconds = began.elapsed().as_secs_f64();
            self.0.tally.asked(hook, admission.operation, false, done.as_ref().err(), seconds);
            match done {
                Ok(_) => Ok(()),
                Err(failure) => failed(admission, hook, failure, None),
            }
        });
        let mut asking: Vec<_> = asking.map(Box::pin).collect();
        let mut done: Vec<Option<Result<(), Status>>> = vec![None; asking.len()];
        std::future::poll_fn(|cx| {
            let mut pending = false;
            for (one, done) in asking.iter_mut().zip(&mut done) {
                if done.is_none() {
                    match one.as_mut().poll(cx) {
                        std::task::Poll::Ready(answer) => *done = Some(answer),
                        std::task::Poll::Pending => pending = true,
                    }
                }
            }
            if pending { std::task::Poll::Pending } else { std::task::Poll::Ready(()) }
        })
        .await;
        done.into_iter().flatten().collect()
    }
}

/// Calls a webhook, and records the warnings and audit annotations of its response.
async fn dispatch(
    admission: &AdmissionAttributes<'_>,
    hook: &Webhook,
    invocation: &Invocation,
    (manner, mutating): (&WebhookClientSettings, bool),
) -> Result<ReviewResult, WebhookError> {
    if admission.dry_run
        && !(hook.is("sideEffects", "None") || hook.is("sideEffects", "NoneOnDryRun"))
    {
        let why = format!("admission webhook {:?} does not support dry run", hook.name);
        return Err(WebhookError::Denied(Status::bad_request(why)));
    }
    let version = ReviewVersion::of(hook)?;
    let (uid, review) = request(admission, invocation, version);
    let name = if mutating { "Call mutating webhook" } else { "Call validating webhook" };
    let about = || {
        let names = &invocation.served.definition.names;
        let resource = format!("{}/{}, Resource={}", names.group, names.version, names.plural);
        vec![
            ("configuration", hook.configuration.as_str().into()),
            ("webhook", hook.name.as_str().into()),
            ("resource", resource.into()),
            ("subresource", admission.subresource.into()),
            ("operation", admission.operation.name().into()),
            ("UID", uid.as_str().into()),
        ]
    };
    let asking = call(admission.registry, hook, &review, manner);
    let began = Instant::now();
    let answer = trace::span(name, about, asking).await;
    let layer = if mutating { "mutating-webhook" } else { "validating-webhook" };
    track_latency(layer, began.elapsed(), !mutating);
    let answer = answer?;
    let verdict =
        ReviewResult::read(&answer, &uid, (version, mutating)).map_err(WebhookError::Calling)?;
    for warning in &verdict.warnings {
        admission.warn(warning.as_str());
    }
    for (key, value) in &verdict.annotations {
        admission.annotate(&format!("{}/{key}", hook.name), value.clone());
    }
    if verdict.allowed {
        return Ok(verdict);
    }
    Err(WebhookError::Denied(verdict.denied_status(&hook.name)))
}

/// Handles a failed call: a denial rejects the request; for any other failure the failurePolicy
/// decides.
fn failed(
    admission: &AdmissionAttributes<'_>,
    hook: &Webhook,
    failure: WebhookError,
    place: Option<&InvocationIndex>,
) -> Result<(), Status> {
    match failure {
        WebhookError::Denied(status) => Err(status),
        WebhookError::Calling(why) => {
            let why = format!("failed calling webhook {:?}: {why}", hook.name);
            if hook.is("failurePolicy", "Ignore") {
                warn!(%why, "admission webhook failed; ignored because of its failurePolicy");
                let key = match place {
                    Some(InvocationIndex { round, index }) => format!(
                        "failed-open.mutation.webhook.admission.k8s.io/round_{round}_index_{index}"
                    ),
                    None => {
                        "failed-open.validating.webhook.admission.k8s.io/round_0_index_0".to_owned()
                    }
                };
                admission.annotate(&key, hook.name.clone());
                return Ok(());
            }
            Err(Status::internal(why))
        }
    }
}
