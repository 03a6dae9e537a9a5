//! core/v1: ComponentStatus.

use macros::api;
use object::{List, ObjectMeta};
use schema::{Kind, Names, Scope, Storage};

/// How a part of the control plane is; no longer filled.
#[api]
pub struct ComponentStatus {
    /// Name, labels and the like.
    metadata: ObjectMeta,
    /// What holds of the object at present.
    #[api(keys("type"), merge, merge_key = "type")]
    conditions: List<ComponentCondition>,
}

#[api]
pub struct ComponentCondition {
    /// Which condition this is.
    #[api(go = "v1.ComponentConditionType")]
    type_: Must<String>,
    /// Whether it holds: True, False or Unknown.
    #[api(go = "v1.ConditionStatus")]
    status: Must<String>,
    /// Why, as a sentence for people.
    message: String,
    /// What went wrong.
    error: String,
}

impl Kind for ComponentStatus {
    const NAMES: Names =
        Names::new("", "v1", "ComponentStatus", "componentstatuses", "componentstatus")
            .short(&["cs"]);
    const STORAGE: Storage = Storage::NONE;
    const DEPRECATED: &str = "deprecated in v1.19+";
    const SCOPE: Scope = Scope::Cluster;
    const VERBS: &'static [&'static str] = &["get", "list"];
}
