//! core/v1: ComponentStatus.

use macros::api;
use object::{List, ObjectMeta};
use schema::{Kind, Names, Scope};

#[api]
pub struct ComponentStatus {
    #[api(tag = 1)]
    metadata: ObjectMeta,
    #[api(tag = 2, keys("type"), merge, merge_key = "type")]
    conditions: List<ComponentCondition>,
}

#[api]
pub struct ComponentCondition {
    #[api(tag = 1, required, always, go = "v1.ComponentConditionType")]
    type_: String,
    #[api(tag = 2, required, always, go = "v1.ConditionStatus")]
    status: String,
    #[api(tag = 3)]
    message: String,
    #[api(tag = 4)]
    error: String,
}

impl Kind for ComponentStatus {
    const NAMES: Names = Names {
        group: "",
        version: "v1",
        kind: "ComponentStatus",
        plural: "componentstatuses",
        singular: "componentstatus",
        short: &["cs"],
        categories: &[],
    };
    const DEPRECATED: &str = "deprecated in v1.19+";
    const SCOPE: Scope = Scope::Cluster;
    const VERBS: &'static [&'static str] = &["get", "list"];

    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }
}
