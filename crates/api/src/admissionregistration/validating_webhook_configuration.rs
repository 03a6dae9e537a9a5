//! admissionregistration/v1: ValidatingWebhookConfiguration.

use macros::api;
use object::{Bytes, LabelSelector, List, ObjectMeta, count};
use schema::{Column, Errors, Kind, Names, Scope, Storage};

use super::{MatchCondition, RuleWithOperations, webhooks};
use crate::generation;

#[api]
pub struct ValidatingWebhookConfiguration {
    #[api(tag = 1)]
    metadata: ObjectMeta,
    #[api(tag = 2, keys("name"), merge, merge_key = "name")]
    webhooks: List<ValidatingWebhook>,
}

#[api]
pub struct ValidatingWebhook {
    #[api(tag = 1, required, always)]
    name: String,
    #[api(tag = 2, required, always)]
    client_config: WebhookClientConfig,
    #[api(tag = 3)]
    rules: List<RuleWithOperations>,
    #[api(tag = 4, default = "Fail", implied, go = "$.FailurePolicyType")]
    failure_policy: Option<String>,
    #[api(tag = 9, default = "Equivalent", implied, go = "$.MatchPolicyType")]
    match_policy: Option<String>,
    #[api(tag = 5)]
    namespace_selector: Option<LabelSelector>,
    #[api(tag = 10)]
    object_selector: Option<LabelSelector>,
    #[api(tag = 6, go = "$.SideEffectClass")]
    side_effects: Option<String>,
    #[api(tag = 7, default = 10, implied)]
    timeout_seconds: Option<i32>,
    #[api(tag = 8, required, always)]
    admission_review_versions: List<String>,
    #[api(tag = 11, keys("name"), merge, merge_key = "name")]
    match_conditions: List<MatchCondition>,
}

#[api]
pub struct WebhookClientConfig {
    #[api(tag = 3)]
    url: Option<String>,
    #[api(tag = 1)]
    service: Option<ServiceReference>,
    #[api(tag = 2)]
    ca_bundle: Bytes,
}

#[api]
pub struct ServiceReference {
    #[api(tag = 1, required, always)]
    namespace: String,
    #[api(tag = 2, required, always)]
    name: String,
    #[api(tag = 3)]
    path: Option<String>,
    #[api(tag = 4, default = 443, implied)]
    port: Option<i32>,
}

impl Kind for ValidatingWebhookConfiguration {
    const NAMES: Names = Names {
        group: "admissionregistration.k8s.io",
        version: "v1",
        kind: "ValidatingWebhookConfiguration",
        plural: "validatingwebhookconfigurations",
        singular: "validatingwebhookconfiguration",
        short: &[],
        categories: &["api-extensions"],
    };
    const SCOPE: Scope = Scope::Cluster;
    const STORAGE: Storage = Storage::new("validatingwebhookconfigurations", "v1");
    const BLIND_UPDATES: bool = false;
    const ANY_FINALIZER: bool = true;
    const GENERATION: bool = true;

    const COLUMNS: &'static [Column<Self>] = &[
        Column::NAME,
        Column::new("Webhooks", "integer", |this, _| count(this.webhooks().len()).into()),
        Column::AGE,
    ];

    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }

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
        generation::next(self.metadata_mut(), old.metadata(), changed);
    }

    fn validate(&self, errs: &mut Errors) {
        self.check(None, errs);
    }

    fn validate_update(&self, old: &Self, errs: &mut Errors) {
        self.check(Some(old), errs);
    }
}

impl ValidatingWebhookConfiguration {
    fn check(&self, old: Option<&Self>, errs: &mut Errors) {
        webhooks::check(self.webhooks(), old.map(Self::webhooks), errs);
    }
}
