//! admissionregistration/v1: ValidatingWebhookConfiguration.

use macros::api;
use object::{Bytes, LabelSelector, List, ObjectMeta, saturating_i32};
use schema::{ErrorList, Kind, ResourceNames, Scope, TableColumn};

use super::{MatchCondition, RuleWithOperations, webhooks};
use crate::generation;

/// Services that are asked whether objects may be written.
#[api]
pub struct ValidatingWebhookConfiguration {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// The services.
    #[api(keys("name"), merge, merge_key = "name")]
    webhooks: List<ValidatingWebhook>,
}

#[api]
pub struct ValidatingWebhook {
    /// The webhook's full name: `name.example.com`.
    name: Must<String>,
    /// Where it is reached.
    client_config: Must<WebhookClientConfig>,
    /// The operations and resources that it is asked about.
    rules: List<RuleWithOperations>,
    /// What follows from errors: Fail, Ignore.
    #[api(
        default = "Fail",
        unpublished_default,
        go_type = "$.FailurePolicyType",
        enum_values("Fail", "Ignore")
    )]
    failure_policy: Option<String>,
    /// Whether other versions of a resource match as well: Exact, Equivalent.
    #[api(tag = 9, default = "Equivalent", unpublished_default, go_type = "$.MatchPolicyType")]
    #[api(enum_values("Equivalent", "Exact"))]
    match_policy: Option<String>,
    /// The namespaces whose objects match.
    #[api(tag = 5)]
    namespace_selector: Option<LabelSelector>,
    /// The objects that match, by their labels.
    #[api(tag = 10)]
    object_selector: Option<LabelSelector>,
    /// Whether it does more than answer: None, NoneOnDryRun.
    #[api(tag = 6, required, go_type = "$.SideEffectClass")]
    #[api(enum_values("None", "NoneOnDryRun", "Some", "Unknown"))]
    side_effects: Option<String>,
    /// How long to wait for its answer.
    #[api(default = 10, unpublished_default)]
    timeout_seconds: Option<i32>,
    /// The versions of reviews that it understands, the best first.
    admission_review_versions: Must<List<String>>,
    /// What else must hold for it to be asked.
    #[api(tag = 11, keys("name"), merge, merge_key = "name")]
    match_conditions: List<MatchCondition>,
}

#[api]
pub struct WebhookClientConfig {
    /// URL of the webhook, with https. Either url or service is set.
    #[api(tag = 3)]
    url: Option<String>,
    /// Service that the webhook runs behind.
    #[api(tag = 1)]
    service: Option<ServiceReference>,
    /// The certificates that vouch for it, as PEM.
    ca_bundle: Bytes,
}

#[api]
pub struct ServiceReference {
    /// The service's namespace.
    namespace: Must<String>,
    /// The service's name.
    name: Must<String>,
    /// The path to ask at.
    path: Option<String>,
    /// The service's port.
    #[api(default = 443, unpublished_default)]
    port: Option<i32>,
}

impl Kind for ValidatingWebhookConfiguration {
    const COMPILES: bool = true;
    const NAMES: ResourceNames =
        super::names("ValidatingWebhookConfiguration", "validatingwebhookconfigurations");
    const UPDATE_CHECKS_GENERATE_NAME: bool = true;
    const EMPTY_IS_A_CHANGE: bool = true;
    const FORMER_API_VERSIONS: &'static [&'static str] = &["admissionregistration.k8s.io/v1beta1"];
    const EMPTY_BYTES: bool = true;
    const SCOPE: Scope = Scope::Cluster;
    const BLIND_UPDATES: bool = false;
    const ANY_FINALIZER: bool = true;
    const GENERATION: bool = true;

    const COLUMNS: &'static [TableColumn<Self>] = &[
        TableColumn::NAME,
        TableColumn::new("Webhooks", "integer", |this, _| {
            saturating_i32(this.webhooks().len()).into()
        }),
        TableColumn::AGE,
    ];

    fn default_fields(&mut self) {
        if self.webhooks().is_empty() {
            return;
        }
        for hook in self.webhooks_mut().iter_mut() {
            webhooks::default_selectors(hook);
        }
    }

    fn prepare_update(&mut self, old: &Self) {
        let changed = self.webhooks() != old.webhooks();
        generation::bump_if(self.metadata_mut(), old.metadata(), changed);
    }

    fn validate(&self, errs: &mut ErrorList) {
        webhooks::check(self.webhooks(), None, errs);
    }

    fn validate_update(&self, old: &Self, errs: &mut ErrorList) {
        webhooks::check(self.webhooks(), Some(old.webhooks()), errs);
    }
}
