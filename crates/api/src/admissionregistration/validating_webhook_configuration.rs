//! admissionregistration/v1: ValidatingWebhookConfiguration.

use macros::api;
use object::{Bytes, LabelSelector, List, ObjectMeta};
use schema::{Kind, Names, Scope, Storage};

use super::{MatchCondition, RuleWithOperations};

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
    #[api(tag = 4, go = "v1.FailurePolicyType")]
    failure_policy: Option<String>,
    #[api(tag = 9, go = "v1.MatchPolicyType")]
    match_policy: Option<String>,
    #[api(tag = 5)]
    namespace_selector: Option<LabelSelector>,
    #[api(tag = 10)]
    object_selector: Option<LabelSelector>,
    #[api(tag = 6, go = "v1.SideEffectClass")]
    side_effects: Option<String>,
    #[api(tag = 7)]
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
    #[api(tag = 4)]
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

    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }
}
