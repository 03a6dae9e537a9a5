//! node/v1: RuntimeClass.

use macros::api;
use object::{List, Map, ObjectMeta, Quantity};
use schema::{Kind, Names, Scope, Storage};

use crate::core::Toleration;

#[api]
pub struct RuntimeClass {
    #[api(tag = 1)]
    metadata: ObjectMeta,
    #[api(tag = 2, required, always)]
    handler: String,
    #[api(tag = 3)]
    overhead: Option<Overhead>,
    #[api(tag = 4)]
    scheduling: Option<Scheduling>,
}

#[api]
pub struct Overhead {
    #[api(tag = 1, go = "v1.ResourceList")]
    pod_fixed: Map<Quantity>,
}

#[api]
pub struct Scheduling {
    #[api(tag = 1, atomic)]
    node_selector: Map<String>,
    #[api(tag = 2)]
    tolerations: List<Toleration>,
}

impl Kind for RuntimeClass {
    const NAMES: Names = Names {
        group: "node.k8s.io",
        version: "v1",
        kind: "RuntimeClass",
        plural: "runtimeclasses",
        singular: "runtimeclass",
        short: &[],
        categories: &[],
    };
    const SCOPE: Scope = Scope::Cluster;
    const STORAGE: Storage = Storage::new("runtimeclasses", "v1");
    const BLIND_UPDATES: bool = false;
    const ANY_FINALIZER: bool = true;

    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }
}
