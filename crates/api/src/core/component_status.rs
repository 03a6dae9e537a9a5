//! core/v1: ComponentStatus.

use macros::api;
use object::{List, ObjectMeta, Value};
use schema::{Kind, ResourceNames, Scope, StorageConfig, TableColumn};

/// How a part of the control plane is, asked when somebody wants to know.
#[api]
pub struct ComponentStatus {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// Current conditions of the object.
    #[api(keys("type"), merge, merge_key = "type")]
    conditions: List<ComponentCondition>,
}

#[api]
pub struct ComponentCondition {
    /// Type of the condition.
    #[api(go_type = "v1.ComponentConditionType")]
    type_: Must<String>,
    /// Status of the condition: True, False or Unknown.
    #[api(go_type = "v1.ConditionStatus")]
    status: Must<String>,
    /// Human-readable details.
    message: String,
    /// What went wrong.
    error: String,
}

impl Kind for ComponentStatus {
    const NAMES: ResourceNames =
        ResourceNames::new("", "v1", "ComponentStatus", "componentstatuses").short(&["cs"]);
    const STORAGE: StorageConfig = StorageConfig::NONE;
    const DEPRECATED: &str = "deprecated in v1.19+";
    const SCOPE: Scope = Scope::Cluster;
    const VERBS: &'static [&'static str] = &["get", "list"];
    const COLUMNS: &'static [TableColumn<Self>] = &[
        TableColumn::NAME,
        TableColumn::text("Status", |component, _| {
            match component.health().map(ComponentCondition::status) {
                None => "Unknown".into(),
                Some("True") => "Healthy".into(),
                Some(_) => "Unhealthy".into(),
            }
        }),
        TableColumn::text("Message", |component, _| {
            component.health().map_or_else(|| Value::from(""), |own| own.message().into())
        }),
        TableColumn::text("Error", |component, _| {
            component.health().map_or_else(|| Value::from(""), |own| own.error().into())
        }),
    ];
}

impl ComponentStatus {
    fn health(&self) -> Option<&ComponentCondition> {
        self.conditions().find(|condition| condition.type_() == "Healthy")
    }
}
