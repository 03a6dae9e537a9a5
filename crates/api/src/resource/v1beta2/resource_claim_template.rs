//! resource/v1beta2: ResourceClaimTemplate.

use macros::api;
use object::ObjectMeta;
use schema::{Kind, Names, Storage};

use super::ResourceClaimSpec;

#[api]
pub struct ResourceClaimTemplate {
    #[api(tag = 1)]
    metadata: ObjectMeta,
    #[api(tag = 2, always)]
    spec: ResourceClaimTemplateSpec,
}

#[api]
pub struct ResourceClaimTemplateSpec {
    #[api(tag = 1)]
    metadata: ObjectMeta,
    #[api(tag = 2, always)]
    spec: ResourceClaimSpec,
}

impl Kind for ResourceClaimTemplate {
    const NAMES: Names = Names {
        group: "resource.k8s.io",
        version: "v1beta2",
        kind: "ResourceClaimTemplate",
        plural: "resourceclaimtemplates",
        singular: "resourceclaimtemplate",
        short: &[],
        categories: &[],
    };
    const STORAGE: Storage = Storage::new("resourceclaimtemplates", "v1");
    const DEFAULT_ON: bool = false;

    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }
}
