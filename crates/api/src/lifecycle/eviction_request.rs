//! lifecycle/v1alpha1: EvictionRequest.

use macros::api;
use object::{Condition, List, ObjectMeta};
use schema::{
    CLIENT_METADATA_FIELDS, ErrorList, FieldPath, Kind, ResourceNames, Subresource, TableColumn,
    ValidateName, name_validation,
};

use super::eviction::{check_unnamed, progress, target};
use crate::rules::ValidateField;

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
    #[api(validations(Immutable))]
    target: Must<EvictionRequestTarget>,
    /// Who asks. It never changes.
    #[api(validations(Required, Immutable, Format("prefixed-label-key")))]
    requester: Must<String>,
    /// What they want: Eviction, Withdrawn.
    #[api(
        go_type = "v1alpha1.EvictionRequestIntent",
        validations(Required, OneOfValues("Eviction", "Withdrawn"))
    )]
    intent: Must<String>,
}

#[api]
pub struct EvictionRequestTarget {
    /// The pod.
    #[api(validations(UnionMember))]
    pod: Option<EvictionRequestPodReference>,
}

#[api]
pub struct EvictionRequestPodReference {
    /// The pod's name.
    #[api(validations(Required, Format("long-name")))]
    name: Must<String>,
    /// The pod's number.
    #[api(go_type = "types.UID", validations(Required, Format("uuid")))]
    uid: Must<String>,
}

#[api]
pub struct EvictionRequestStatus {
    /// What holds of the request.
    #[api(keys("type"), merge, merge_key = "type", validations(MaxItems(100)))]
    conditions: List<Condition>,
    /// The generation that was looked at.
    #[api(validations(Min(1), NoUnset, Monotonic))]
    observed_generation: Option<i64>,
}

impl Kind for EvictionRequest {
    const NAMES: ResourceNames =
        ResourceNames::new("lifecycle.k8s.io", "v1alpha1", "EvictionRequest", "evictionrequests");
    const FORMER_API_VERSIONS: &'static [&'static str] = &["lifecycle.k8s.io/v1alpha1"];
    const NAME: ValidateName = name_validation::long_name;
    const BLIND_UPDATES: bool = false;
    const STATUS_KEEPS: &'static [&'static str] = CLIENT_METADATA_FIELDS;
    const GATE: Option<&str> = Some("EvictionRequestAPI");
    const GENERATION: bool = true;
    const DEFAULT_ON: bool = false;
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::status("EvictionRequest")];

    const COLUMNS: &'static [TableColumn<Self>] = &[
        TableColumn::NAME,
        TableColumn::text("Target", |this, _| {
            target(this.spec().target().pod().map(EvictionRequestPodReference::name)).0.into()
        }),
        TableColumn::text("Target Type", |this, _| {
            target(this.spec().target().pod().map(EvictionRequestPodReference::name)).1.into()
        }),
        TableColumn::text("Status", |this, _| {
            progress(this.status().observed_generation(), this.status().conditions()).into()
        }),
        TableColumn::text("Requester", |this, _| this.spec().requester().into()),
        TableColumn::text("Intent", |this, _| this.spec().intent().into()),
        TableColumn::AGE,
    ];

    fn validate(&self, errs: &mut ErrorList) {
        check_unnamed(self.metadata(), errs);
        let (at, requester) = (FieldPath::SPEC, self.spec().requester());
        let domain = requester.split('/').next().unwrap_or_default();
        for reserved in ["k8s.io", "kubernetes.io"] {
            let within = domain.strip_suffix(reserved);
            if within.is_some_and(|rest| rest.is_empty() || rest.ends_with('.')) {
                let why = "domain names *.k8s.io, *.kubernetes.io are reserved";
                errs.invalid(&at.field("requester"), requester, why);
            }
        }
    }

    fn validate_update(&self, _old: &Self, _errs: &mut ErrorList) {}

    fn validate_status(&self, _: &Self, errs: &mut ErrorList) {
        errs.conditions(&FieldPath::STATUS.field("conditions"), self.status().conditions());
    }
}
