//! resource/v1beta2: DeviceTaintRule.

use macros::api;
use object::{Condition, List, ObjectMeta};
use schema::{Kind, METADATA, Names, Scope, Storage, Subresource};

use super::DeviceTaint;

#[api]
pub struct DeviceTaintRule {
    #[api(tag = 1)]
    metadata: ObjectMeta,
    #[api(tag = 2, required, always)]
    spec: DeviceTaintRuleSpec,
    #[api(tag = 3)]
    status: DeviceTaintRuleStatus,
}

#[api]
pub struct DeviceTaintRuleSpec {
    #[api(tag = 1)]
    device_selector: Option<DeviceTaintSelector>,
    #[api(tag = 2)]
    taint: DeviceTaint,
}

#[api]
pub struct DeviceTaintSelector {
    #[api(tag = 2)]
    driver: Option<String>,
    #[api(tag = 3)]
    pool: Option<String>,
    #[api(tag = 4)]
    device: Option<String>,
}

#[api]
pub struct DeviceTaintRuleStatus {
    #[api(tag = 1, keys("type"), merge, merge_key = "type")]
    conditions: List<Condition>,
}

impl Kind for DeviceTaintRule {
    const NAMES: Names = Names {
        group: "resource.k8s.io",
        version: "v1beta2",
        kind: "DeviceTaintRule",
        plural: "devicetaintrules",
        singular: "devicetaintrule",
        short: &[],
        categories: &[],
    };
    const SCOPE: Scope = Scope::Cluster;
    const STORAGE: Storage = Storage::new("devicetaintrules", "v1beta2");
    const STATUS_KEEPS: &'static [&'static str] = METADATA;
    const DEFAULT_ON: bool = false;
    const SUBRESOURCES: &'static [Subresource] =
        &[Subresource::new("status", "DeviceTaintRule", &["get", "patch", "update"])];

    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }
}
