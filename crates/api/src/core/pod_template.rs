//! core/v1: PodTemplate.

use crate::generation::changed;
use macros::api;
use object::ObjectMeta;
use schema::{ErrorList, FieldPath, Kind, ResourceNames, TableColumn, WarningList};

use super::PodSpec;
use crate::{columns, generation};

/// A template for pods.
#[api]
pub struct PodTemplate {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// Template of the pods.
    template: PodTemplateSpec,
}

#[api]
pub struct PodTemplateSpec {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// Desired behaviour of the pods.
    spec: PodSpec,
}

impl Kind for PodTemplate {
    const NAMES: ResourceNames = ResourceNames::new("", "v1", "PodTemplate", "podtemplates");
    const SHOWS_DELETED: bool = true;
    const COLUMNS: &'static [TableColumn<Self>] = &[
        TableColumn::NAME,
        TableColumn::text("Containers", |this, _| columns::containers(this.template().spec())),
        TableColumn::text("Images", |this, _| columns::images(this.template().spec())),
        TableColumn::text("Pod Labels", |this, _| {
            columns::labels(this.template().metadata().labels())
        }),
    ];

    fn warn(&self, old: Option<&Self>, warnings: &mut WarningList) {
        if changed(self.metadata(), old.map(Self::metadata)) {
            self.template().warn(&FieldPath::Root.field("template"), warnings);
        }
    }

    fn validate(&self, errs: &mut ErrorList) {
        self.template().check(&FieldPath::Root.field("template"), errs);
    }

    fn default_fields(&mut self) {
        self.template_mut().default_fields();
    }

    fn prepare_create(&mut self) {
        generation::init(self.metadata_mut());
    }

    fn prepare_update(&mut self, old: &Self) {
        let changed = self.template() != old.template();
        generation::bump_if(self.metadata_mut(), old.metadata(), changed);
    }
}
