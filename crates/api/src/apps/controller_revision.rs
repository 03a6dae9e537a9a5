//! apps/v1: ControllerRevision.

use macros::api;
use object::{ObjectMeta, Value};
use schema::{ErrorList, FieldPath, Kind, ResourceNames, TableColumn};

use crate::columns;

/// A past state of a DaemonSet or StatefulSet, kept to go back to.
#[api]
pub struct ControllerRevision {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// The state, as its owner wrote it.
    #[api(raw)]
    data: Must<Value>,
    /// Its number among the revisions.
    #[api(no_omitempty)]
    revision: i64,
}

impl Kind for ControllerRevision {
    const NAMES: ResourceNames =
        ResourceNames::new("apps", "v1", "ControllerRevision", "controllerrevisions");
    const UPDATE_CHECKS_GENERATE_NAME: bool = true;
    const FORMER_API_VERSIONS: &'static [&'static str] = &["apps/v1beta1", "apps/v1beta2"];
    const COLUMNS: &'static [TableColumn<Self>] = &[
        TableColumn::NAME,
        TableColumn::text("Controller", |revision, _| revision.controller().into()),
        TableColumn::text("Revision", |revision, _| revision.revision().into()),
        TableColumn::AGE,
    ];

    fn validate(&self, errs: &mut ErrorList) {
        errs.non_negative(&FieldPath::Root.field("revision"), self.revision());
        let data = FieldPath::Root.field("data");
        match self.data() {
            Value::Null => errs.required(&data, "data is mandatory"),
            data if data.with_raw_expanded().is_object() => {}
            _ => errs.required(&data, "data must be a valid JSON object"),
        }
    }

    fn validate_update(&self, old: &Self, errs: &mut ErrorList) {
        errs.non_negative(&FieldPath::Root.field("revision"), self.revision());
        errs.immutable(&FieldPath::Root.field("data"), self.data(), old.data());
    }
}

impl ControllerRevision {
    /// Whose revision it is, as tables show it: `statefulset.apps/web`.
    fn controller(&self) -> String {
        let Some(owner) = self.metadata().controller_ref() else { return columns::NONE.into() };
        let kind = owner.kind().to_ascii_lowercase();
        match owner.api_version().split_once('/') {
            Some((group, _)) => format!("{kind}.{group}/{}", owner.name()),
            None => format!("{kind}/{}", owner.name()),
        }
    }
}
