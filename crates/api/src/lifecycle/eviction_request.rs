//! lifecycle/v1alpha1: EvictionRequest.

use macros::api;
use object::{Condition, List, ObjectMeta};
use schema::{Column, Errors, Kind, METADATA, NameRule, Names, Path, Subresource, names};

use super::eviction::{check_unnamed, progress, target};
use crate::rules::Rules;

/// The wish of one requester that a pod is evicted.
#[api]
pub struct EvictionRequest {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// Who wants what.
    spec: Must<EvictionRequestSpec>,
    /// How far it has come.
    status: EvictionRequestStatus,
}

#[api]
pub struct EvictionRequestSpec {
    /// What is to be evicted. It never changes.
    #[api(checks(Immutable))]
    target: Must<EvictionRequestTarget>,
    /// Who asks. It never changes.
    #[api(checks(Filled, Immutable, Format("prefixed-label-key")))]
    requester: Must<String>,
    /// What they want: Eviction, Withdrawn.
    #[api(go = "v1alpha1.EvictionRequestIntent", checks(Filled, Values("Eviction", "Withdrawn")))]
    intent: Must<String>,
}

#[api]
pub struct EvictionRequestTarget {
    /// The pod.
    #[api(checks(OneOf))]
    pod: Option<EvictionRequestPodReference>,
}

#[api]
pub struct EvictionRequestPodReference {
    /// The pod's name.
    #[api(checks(Filled, Format("long-name")))]
    name: Must<String>,
    /// The pod's number.
    #[api(go = "types.UID", checks(Filled, Format("uuid")))]
    uid: Must<String>,
}

#[api]
pub struct EvictionRequestStatus {
    /// What holds of the request.
    #[api(keys("type"), merge, merge_key = "type", checks(MaxItems(100)))]
    conditions: List<Condition>,
    /// The generation that was looked at.
    #[api(checks(Min(1), NoUnset, Monotonic))]
    observed_generation: Option<i64>,
}

impl Kind for EvictionRequest {
    const NAMES: Names =
        Names::new("lifecycle.k8s.io", "v1alpha1", "EvictionRequest", "evictionrequests");
    const NAME: NameRule = names::long_name;
    const BLIND_UPDATES: bool = false;
    const STATUS_KEEPS: &'static [&'static str] = METADATA;
    const GATE: Option<&str> = Some("EvictionRequestAPI");
    const GENERATION: bool = true;
    const DEFAULT_ON: bool = false;
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::status("EvictionRequest")];

    const COLUMNS: &'static [Column<Self>] = &[
        Column::NAME,
        Column::text("Target", |this, _| {
            target(this.spec().target().pod().map(EvictionRequestPodReference::name)).0.into()
        }),
        Column::text("Target Type", |this, _| {
            target(this.spec().target().pod().map(EvictionRequestPodReference::name)).1.into()
        }),
        Column::text("Status", |this, _| {
            progress(this.status().observed_generation(), this.status().conditions()).into()
        }),
        Column::text("Requester", |this, _| this.spec().requester().into()),
        Column::text("Intent", |this, _| this.spec().intent().into()),
        Column::AGE,
    ];

    fn validate(&self, errs: &mut Errors) {
        check_unnamed(self.metadata(), errs);
        let (at, requester) = (Path::SPEC, self.spec().requester());
        let domain = requester.split('/').next().unwrap_or_default();
        for reserved in ["k8s.io", "kubernetes.io"] {
            let within = domain.strip_suffix(reserved);
            if within.is_some_and(|rest| rest.is_empty() || rest.ends_with('.')) {
                let why = "domain names *.k8s.io, *.kubernetes.io are reserved";
                errs.invalid(&at.field("requester"), requester, why);
            }
        }
    }

    fn validate_update(&self, _old: &Self, _errs: &mut Errors) {}

    fn validate_status(&self, _: &Self, errs: &mut Errors) {
        errs.conditions(&Path::STATUS.field("conditions"), self.status().conditions());
    }
}
