//! flowcontrol/v1: FlowSchema.

use macros::api;
use object::{List, ObjectMeta, Time};
use schema::{Kind, METADATA, Names, Scope, Storage, Subresource};

#[api]
pub struct FlowSchema {
    #[api(tag = 1)]
    metadata: ObjectMeta,
    #[api(tag = 2)]
    spec: FlowSchemaSpec,
    #[api(tag = 3)]
    status: FlowSchemaStatus,
}

#[api]
pub struct FlowSchemaSpec {
    #[api(tag = 1, required, always)]
    priority_level_configuration: PriorityLevelConfigurationReference,
    #[api(tag = 2, always)]
    matching_precedence: i32,
    #[api(tag = 3)]
    distinguisher_method: Option<FlowDistinguisherMethod>,
    #[api(tag = 4)]
    rules: List<PolicyRulesWithSubjects>,
}

#[api]
pub struct FlowDistinguisherMethod {
    #[api(tag = 1, required, always, go = "v1.FlowDistinguisherMethodType")]
    type_: String,
}

#[api]
pub struct PriorityLevelConfigurationReference {
    #[api(tag = 1, required, always)]
    name: String,
}

#[api]
pub struct PolicyRulesWithSubjects {
    #[api(tag = 1, required, always)]
    subjects: List<Subject>,
    #[api(tag = 2)]
    resource_rules: List<ResourcePolicyRule>,
    #[api(tag = 3)]
    non_resource_rules: List<NonResourcePolicyRule>,
}

#[api]
pub struct Subject {
    #[api(tag = 1, required, always, go = "v1.SubjectKind")]
    kind: String,
    #[api(tag = 2)]
    user: Option<UserSubject>,
    #[api(tag = 3)]
    group: Option<GroupSubject>,
    #[api(tag = 4)]
    service_account: Option<ServiceAccountSubject>,
}

#[api]
pub struct UserSubject {
    #[api(tag = 1, required, always)]
    name: String,
}

#[api]
pub struct GroupSubject {
    #[api(tag = 1, required, always)]
    name: String,
}

#[api]
pub struct ServiceAccountSubject {
    #[api(tag = 1, required, always)]
    namespace: String,
    #[api(tag = 2, required, always)]
    name: String,
}

#[api]
pub struct ResourcePolicyRule {
    #[api(tag = 1, required, set, always)]
    verbs: List<String>,
    #[api(tag = 2, required, set, always)]
    api_groups: List<String>,
    #[api(tag = 3, required, set, always)]
    resources: List<String>,
    #[api(tag = 4)]
    cluster_scope: bool,
    #[api(tag = 5, set, always)]
    namespaces: List<String>,
}

#[api]
pub struct NonResourcePolicyRule {
    #[api(tag = 1, required, set, always)]
    verbs: List<String>,
    #[api(tag = 6, name = "nonResourceURLs", required, set, always)]
    non_resource_urls: List<String>,
}

#[api]
pub struct FlowSchemaStatus {
    #[api(tag = 1, keys("type"), merge, merge_key = "type")]
    conditions: List<FlowSchemaCondition>,
}

#[api]
pub struct FlowSchemaCondition {
    #[api(tag = 1, go = "v1.FlowSchemaConditionType")]
    type_: String,
    #[api(tag = 2, go = "v1.ConditionStatus")]
    status: String,
    #[api(tag = 3)]
    last_transition_time: Time,
    #[api(tag = 4)]
    reason: String,
    #[api(tag = 5)]
    message: String,
}

impl Kind for FlowSchema {
    const NAMES: Names = Names {
        group: "flowcontrol.apiserver.k8s.io",
        version: "v1",
        kind: "FlowSchema",
        plural: "flowschemas",
        singular: "flowschema",
        short: &[],
        categories: &[],
    };
    const SCOPE: Scope = Scope::Cluster;
    const STORAGE: Storage = Storage::new("flowschemas", "v1");
    const STATUS_KEEPS: &'static [&'static str] = METADATA;
    const GENERATION: bool = true;
    const SUBRESOURCES: &'static [Subresource] =
        &[Subresource::new("status", "FlowSchema", &["get", "patch", "update"])];

    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }
}
