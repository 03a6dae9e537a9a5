//! resource/v1beta1: ResourceClaimTemplate.

use macros::api;
use object::{ObjectMeta, Value};
use schema::{Kind, ResourceNames, StorageConfig};

use super::{
    ResourceClaimSpec,
    resource_claim::{from_v1, to_v1},
};
use crate::resource;

/// What claims are made from, one for each pod.
#[api]
pub struct ResourceClaimTemplate {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// What the claims look like. It never changes.
    #[api(no_omitempty)]
    spec: ResourceClaimTemplateSpec,
}

#[api]
pub struct ResourceClaimTemplateSpec {
    /// Labels and annotations of the claims.
    metadata: ObjectMeta,
    /// What is claimed.
    #[api(no_omitempty)]
    spec: ResourceClaimSpec,
}

impl Kind for ResourceClaimTemplate {
    const COMPILES: bool = true;
    const NAMES: ResourceNames =
        ResourceNames { version: "v1beta1", ..resource::ResourceClaimTemplate::NAMES };
    const UPDATE_CHECKS_GENERATE_NAME: bool = true;
    const FORMER_API_VERSIONS: &'static [&'static str] =
        resource::ResourceClaimTemplate::FORMER_API_VERSIONS;
    const STORAGE: StorageConfig = resource::ResourceClaimTemplate::STORAGE;
    const SHOWS_DELETED: bool = true;
    const DEFAULT_ON: bool = false;
    const DEPRECATED: &str = crate::UNTIL_38;

    fn default_fields(&mut self) {
        self.spec_mut().spec_mut().default_fields();
    }

    fn to_stored(object: &mut Value) {
        to_v1(object.get_mut("spec").get_mut("spec"));
    }

    fn from_stored(object: &mut Value) {
        from_v1(object.get_mut("spec").get_mut("spec"));
    }
}
