//! apps/v1: ControllerRevision.

use macros::api;
use object::{ObjectMeta, Value};
use schema::{Column, Errors, Kind, Names, Path, Storage};

use crate::columns;

#[api]
pub struct ControllerRevision {
    #[api(tag = 1)]
    metadata: ObjectMeta,
    #[api(tag = 2, required, always)]
    data: Value,
    #[api(tag = 3, always)]
    revision: i64,
}

impl Kind for ControllerRevision {
    const NAMES: Names = Names {
        group: "apps",
        version: "v1",
        kind: "ControllerRevision",
        plural: "controllerrevisions",
        singular: "controllerrevision",
        short: &[],
        categories: &[],
    };
    const STORAGE: Storage = Storage::new("controllerrevisions", "v1");
    const COLUMNS: &'static [Column<Self>] = &[
        Column::NAME,
        Column::new("Controller", "string", |revision, _| revision.controller().into()),
        Column::new("Revision", "string", |revision, _| revision.revision().into()),
        Column::AGE,
    ];

    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }

    fn validate(&self, errs: &mut Errors) {
        errs.non_negative(&Path::Root.field("revision"), self.revision());
        let data = Path::Root.field("data");
        match self.data() {
            Value::Null => errs.required(&data, "data is mandatory"),
            data if data.is_object() => {}
            _ => errs.required(&data, "data must be a valid JSON object"),
        }
    }

    fn validate_update(&self, old: &Self, errs: &mut Errors) {
        errs.non_negative(&Path::Root.field("revision"), self.revision());
        errs.immutable(&Path::Root.field("data"), self.data(), old.data());
    }
}

impl ControllerRevision {
    /// Whose revision it is, as tables show it: `statefulset.apps/web`.
    fn controller(&self) -> String {
        let Some(owner) = self.metadata().controller() else { return columns::NONE.into() };
        let kind = owner.kind().to_ascii_lowercase();
        match owner.api_version().split_once('/') {
            Some((group, _)) => format!("{kind}.{group}/{}", owner.name()),
            None => format!("{kind}/{}", owner.name()),
        }
    }
}
