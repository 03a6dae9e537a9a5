//! apiserverinternal/v1alpha1: StorageVersion.

use macros::api;
use object::{List, ObjectMeta, Time};
use schema::{Kind, METADATA, Names, Scope, Storage, Subresource};

#[api]
pub struct StorageVersion {
    #[api(tag = 1)]
    metadata: ObjectMeta,
    #[api(tag = 2, always, go = "v1alpha1.StorageVersionSpec")]
    spec: StorageVersionSpec,
    #[api(tag = 3, always)]
    status: StorageVersionStatus,
}

#[api]
pub struct StorageVersionStatus {
    #[api(tag = 1, keys("apiServerID"))]
    storage_versions: List<ServerStorageVersion>,
    #[api(tag = 2)]
    common_encoding_version: Option<String>,
    #[api(tag = 3, keys("type"))]
    conditions: List<StorageVersionCondition>,
}

#[api]
pub struct ServerStorageVersion {
    #[api(tag = 1, name = "apiServerID")]
    api_server_id: String,
    #[api(tag = 2)]
    encoding_version: String,
    #[api(tag = 3, set)]
    decodable_versions: List<String>,
    #[api(tag = 4, set)]
    served_versions: List<String>,
}

#[api]
pub struct StorageVersionCondition {
    #[api(tag = 1, required, always, go = "v1alpha1.StorageVersionConditionType")]
    type_: String,
    #[api(tag = 2, required, always, go = "v1alpha1.ConditionStatus")]
    status: String,
    #[api(tag = 3)]
    observed_generation: i64,
    #[api(tag = 4)]
    last_transition_time: Time,
    #[api(tag = 5, required, always)]
    reason: String,
    #[api(tag = 6)]
    message: String,
}

#[api]
pub struct StorageVersionSpec {}

impl Kind for StorageVersion {
    const NAMES: Names = Names {
        group: "internal.apiserver.k8s.io",
        version: "v1alpha1",
        kind: "StorageVersion",
        plural: "storageversions",
        singular: "storageversion",
        short: &[],
        categories: &[],
    };
    const SCOPE: Scope = Scope::Cluster;
    const STORAGE: Storage = Storage::new("storageversions", "v1alpha1");
    const STATUS_KEEPS: &'static [&'static str] = METADATA;
    const BLIND_UPDATES: bool = false;
    const DEFAULT_ON: bool = false;
    const SUBRESOURCES: &'static [Subresource] =
        &[Subresource::new("status", "StorageVersion", &["get", "patch", "update"])];

    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }
}
