//! admissionregistration/v1: MutatingWebhookConfiguration.

use std::mem;

use macros::api;
use object::{LabelSelector, List, ObjectMeta, Value, saturating_i32};
use schema::{ErrorList, FieldPath, Kind, ResourceNames, Scope, TableColumn};

use super::{
    MatchCondition, RuleWithOperations, ValidatingWebhookConfiguration, WebhookClientConfig,
    rules::REINVOCATION_POLICIES, webhooks,
};
use crate::generation;

/// Services that may change objects before they are written.
#[api]
pub struct MutatingWebhookConfiguration {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// The services.
    #[api(keys("name"), merge, merge_key = "name")]
    webhooks: List<MutatingWebhook>,
}

#[api]
pub struct MutatingWebhook {
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
    #[api(tag = 11)]
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
    /// Whether it is asked again after later changes: Never, IfNeeded.
    #[api(tag = 10, default = "Never", unpublished_default, go_type = "$.ReinvocationPolicyType")]
    #[api(enum_values("IfNeeded", "Never"))]
    reinvocation_policy: Option<String>,
    /// What else must hold for it to be asked.
    #[api(tag = 12, keys("name"), merge, merge_key = "name")]
    match_conditions: List<MatchCondition>,
}

impl Kind for MutatingWebhookConfiguration {
    const COMPILES: bool = true;
    const NAMES: ResourceNames =
        super::names("MutatingWebhookConfiguration", "mutatingwebhookconfigurations");
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
        let mut seen = ValidatingWebhookConfiguration::from(Value::from(mem::take(self)));
        seen.default_fields();
        *self = Value::from(seen).into();
    }

    fn prepare_update(&mut self, old: &Self) {
        let changed = self.webhooks() != old.webhooks();
        generation::bump_if(self.metadata_mut(), old.metadata(), changed);
    }

    fn validate(&self, errs: &mut ErrorList) {
        self.check(None, errs);
    }

    fn validate_update(&self, old: &Self, errs: &mut ErrorList) {
        self.check(Some(old), errs);
    }
}

impl MutatingWebhookConfiguration {
    fn check(&self, old: Option<&Self>, errs: &mut ErrorList) {
        webhooks::check(self.webhooks(), old.map(Self::webhooks), errs);
        FieldPath::Root.field("webhooks").for_each_item(self.webhooks().iter(), |hook, at| {
            errs.one_of(
                &at.field("reinvocationPolicy"),
                hook.reinvocation_policy(),
                &REINVOCATION_POLICIES,
            );
        });
    }
}
