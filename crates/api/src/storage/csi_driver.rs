//! storage/v1: CSIDriver.

use macros::api;
use object::{List, ObjectMeta};
use schema::{Kind, Names, Scope, Storage};

#[api]
pub struct CSIDriver {
    #[api(tag = 1)]
    metadata: ObjectMeta,
    #[api(tag = 2, required, always)]
    spec: CSIDriverSpec,
}

#[api]
pub struct CSIDriverSpec {
    #[api(tag = 1)]
    attach_required: Option<bool>,
    #[api(tag = 2)]
    pod_info_on_mount: Option<bool>,
    #[api(tag = 3, set, go = "[]v1.VolumeLifecycleMode")]
    volume_lifecycle_modes: List<String>,
    #[api(tag = 4)]
    storage_capacity: Option<bool>,
    #[api(tag = 5, go = "v1.FSGroupPolicy")]
    fs_group_policy: Option<String>,
    #[api(tag = 6)]
    token_requests: List<TokenRequest>,
    #[api(tag = 7)]
    requires_republish: Option<bool>,
    #[api(tag = 8)]
    se_linux_mount: Option<bool>,
    #[api(tag = 9)]
    node_allocatable_update_period_seconds: Option<i64>,
    #[api(tag = 10)]
    service_account_token_in_secrets: Option<bool>,
    #[api(tag = 11)]
    prevent_pod_scheduling_if_missing: Option<bool>,
}

#[api]
pub struct TokenRequest {
    #[api(tag = 1, required, always)]
    audience: String,
    #[api(tag = 2)]
    expiration_seconds: Option<i64>,
}

impl Kind for CSIDriver {
    const NAMES: Names = Names {
        group: "storage.k8s.io",
        version: "v1",
        kind: "CSIDriver",
        plural: "csidrivers",
        singular: "csidriver",
        short: &[],
        categories: &[],
    };
    const SCOPE: Scope = Scope::Cluster;
    const STORAGE: Storage = Storage::new("csidrivers", "v1");
    const BLIND_UPDATES: bool = false;
    const GENERATION: bool = true;

    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }
}
