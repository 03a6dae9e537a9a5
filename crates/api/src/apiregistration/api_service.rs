//! apiregistration/v1: APIService.

use macros::api;
use object::{Bytes, List, ObjectMeta, Time};
use schema::{Kind, METADATA, Names, Scope, Storage, Subresource};

#[api]
pub struct APIService {
    #[api(tag = 1)]
    metadata: ObjectMeta,
    #[api(tag = 2)]
    spec: APIServiceSpec,
    #[api(tag = 3)]
    status: APIServiceStatus,
}

#[api]
pub struct APIServiceSpec {
    #[api(tag = 1)]
    service: Option<ServiceReference>,
    #[api(tag = 2)]
    group: String,
    #[api(tag = 3)]
    version: String,
    #[api(tag = 4, name = "insecureSkipTLSVerify")]
    insecure_skip_tls_verify: bool,
    #[api(tag = 5)]
    ca_bundle: Bytes,
    #[api(tag = 7, required, always)]
    group_priority_minimum: i32,
    #[api(tag = 8, required, always)]
    version_priority: i32,
}

#[api]
pub struct ServiceReference {
    #[api(tag = 1)]
    namespace: String,
    #[api(tag = 2)]
    name: String,
    #[api(tag = 3)]
    port: Option<i32>,
}

#[api]
pub struct APIServiceStatus {
    #[api(tag = 1, keys("type"), merge, merge_key = "type")]
    conditions: List<APIServiceCondition>,
}

#[api]
pub struct APIServiceCondition {
    #[api(tag = 1, required, always, go = "v1.APIServiceConditionType")]
    type_: String,
    #[api(tag = 2, required, always, go = "v1.ConditionStatus")]
    status: String,
    #[api(tag = 3)]
    last_transition_time: Time,
    #[api(tag = 4)]
    reason: String,
    #[api(tag = 5)]
    message: String,
}

impl Kind for APIService {
    const NAMES: Names = Names {
        group: "apiregistration.k8s.io",
        version: "v1",
        kind: "APIService",
        plural: "apiservices",
        singular: "apiservice",
        short: &[],
        categories: &["api-extensions"],
    };
    const SCOPE: Scope = Scope::Cluster;
    const STORAGE: Storage = Storage::json("apiregistration.k8s.io/apiservices", "v1");
    const STATUS_KEEPS: &'static [&'static str] = METADATA;
    const BLIND_UPDATES: bool = false;
    const SUBRESOURCES: &'static [Subresource] =
        &[Subresource::new("status", "APIService", &["get", "patch", "update"])];

    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }
}
