//! scheduling/v1: PriorityClass.

use macros::api;
use object::ObjectMeta;
use schema::{ErrorList, FieldPath, Kind, ResourceNames, Scope, TableColumn};

use crate::generation;

/// Maps a name to a priority of pods.
#[api]
pub struct PriorityClass {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// Priority of the pods; higher is more important. Cannot be changed.
    #[api(no_omitempty)]
    value: i32,
    /// Whether the class applies to pods that name none. Only one can be the default.
    global_default: bool,
    /// Description of when the class should be used.
    description: String,
    /// Whether pods of the class preempt pods of lower priority: PreemptLowerPriority (default) or Never.
    #[api(default = "PreemptLowerPriority", unpublished_default, go_type = "v1.PreemptionPolicy")]
    #[api(enum_values("Never", "PreemptLowerPriority"))]
    preemption_policy: Option<String>,
}

impl Kind for PriorityClass {
    const NAMES: ResourceNames =
        ResourceNames::new("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses")
            .short(&["pc"]);
    const FORMER_API_VERSIONS: &'static [&'static str] = &["scheduling.k8s.io/v1beta1"];
    const SCOPE: Scope = Scope::Cluster;
    const COLUMNS: &'static [TableColumn<Self>] = &[
        TableColumn::NAME,
        TableColumn::new("Value", "integer", |class, _| class.value().into()),
        TableColumn::new("Global-Default", "boolean", |class, _| class.global_default().into()),
        TableColumn::AGE,
        TableColumn::text("PreemptionPolicy", |class, _| class.preemption_policy().into()),
    ];

    fn validate(&self, errs: &mut ErrorList) {
        let name = self.metadata().name();
        if name.starts_with("system-") {
            if let Some(wrong) = self.unlike_system() {
                let why = format!(
                    "priority class names with 'system-' prefix are reserved for system use only. \
                     error: {wrong}"
                );
                errs.forbidden(&FieldPath::METADATA.field("name"), why);
            }
        } else if self.value() > HIGHEST {
            let why = format!("maximum allowed value of a user defined priority is {HIGHEST}");
            errs.forbidden(&FieldPath::Root.field("value"), why);
        }
        let at = FieldPath::Root.field("preemptionPolicy");
        errs.required_one_of(&at, self.preemption_policy(), &["PreemptLowerPriority", "Never"]);
    }

    fn validate_update(&self, old: &Self, errs: &mut ErrorList) {
        if self.value() != old.value() {
            errs.forbidden(&FieldPath::Root.field("value"), "may not be changed in an update.");
        }
        let at = FieldPath::Root.field("preemptionPolicy");
        errs.immutable(&at, &self.preemption_policy().into(), &old.preemption_policy().into());
    }

    fn prepare_create(&mut self) {
        generation::init(self.metadata_mut());
    }
}

/// The highest priority that users can give; above are the system's own classes.
const HIGHEST: i32 = 1_000_000_000;
const SYSTEM: [(&str, i32); 2] =
    [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];

impl PriorityClass {
    /// The difference from the system class of the same name.
    fn unlike_system(&self) -> Option<String> {
        let name = self.metadata().name();
        match SYSTEM.iter().find(|(known, _)| *known == name) {
            None => Some(format!("{name} is not a known system priority class")),
            Some((_, value)) if *value != self.value() => {
                Some(format!("value of {name} PriorityClass must be {value}"))
            }
            Some(_) if self.global_default() => {
                Some(format!("globalDefault of {name} PriorityClass must be false"))
            }
            Some(_) => None,
        }
    }
}
