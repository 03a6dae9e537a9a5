//! admissionregistration/v1: MutatingWebhookConfiguration.

use macros::api;
use object::{LabelSelector, List, ObjectMeta};
use schema::{Kind, Names, Scope, Storage};

use super::{MatchCondition, RuleWithOperations, WebhookClientConfig};

#[api]
pub struct MutatingWebhookConfiguration {
    #[api(tag = 1)]
    metadata: ObjectMeta,
    #[api(tag = 2, keys("name"), merge, merge_key = "name")]
    webhooks: List<MutatingWebhook>,
}

#[api]
pub struct MutatingWebhook {
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
    #[api(tag = 11)]
    object_selector: Option<LabelSelector>,
    #[api(tag = 6, go = "v1.SideEffectClass")]
    side_effects: Option<String>,
    #[api(tag = 7)]
    timeout_seconds: Option<i32>,
    #[api(tag = 8, required, always)]
    admission_review_versions: List<String>,
    #[api(tag = 10, go = "v1.ReinvocationPolicyType")]
    reinvocation_policy: Option<String>,
    #[api(tag = 12, keys("name"), merge, merge_key = "name")]
    match_conditions: List<MatchCondition>,
}

impl Kind for MutatingWebhookConfiguration {
    const NAMES: Names = Names {
        group: "admissionregistration.k8s.io",
        version: "v1",
        kind: "MutatingWebhookConfiguration",
        plural: "mutatingwebhookconfigurations",
        singular: "mutatingwebhookconfiguration",
        short: &[],
        categories: &["api-extensions"],
    };
    const SCOPE: Scope = Scope::Cluster;
    const STORAGE: Storage = Storage::new("mutatingwebhookconfigurations", "v1");
    const BLIND_UPDATES: bool = false;
    const ANY_FINALIZER: bool = true;
    const GENERATION: bool = true;

    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }
}
