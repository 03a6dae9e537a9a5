//! networking/v1: IngressClass.

use macros::api;
use object::ObjectMeta;
use schema::{Kind, Names, Scope, Storage};

#[api]
pub struct IngressClass {
    #[api(tag = 1)]
    metadata: ObjectMeta,
    #[api(tag = 2)]
    spec: IngressClassSpec,
}

#[api]
pub struct IngressClassSpec {
    #[api(tag = 1)]
    controller: String,
    #[api(tag = 2)]
    parameters: Option<IngressClassParametersReference>,
}

#[api]
pub struct IngressClassParametersReference {
    #[api(tag = 1)]
    api_group: Option<String>,
    #[api(tag = 2, required, always)]
    kind: String,
    #[api(tag = 3, required, always)]
    name: String,
    #[api(tag = 4)]
    scope: Option<String>,
    #[api(tag = 5)]
    namespace: Option<String>,
}

impl Kind for IngressClass {
    const NAMES: Names = Names {
        group: "networking.k8s.io",
        version: "v1",
        kind: "IngressClass",
        plural: "ingressclasses",
        singular: "ingressclass",
        short: &[],
        categories: &[],
    };
    const SCOPE: Scope = Scope::Cluster;
    const STORAGE: Storage = Storage::new("ingressclasses", "v1");
    const GENERATION: bool = true;

    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }
}
