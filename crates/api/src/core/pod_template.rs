//! core/v1: PodTemplate.

use crate::generation::is_other;
use macros::api;
use object::ObjectMeta;
use schema::{Column, Errors, Kind, Names, Path, Warnings};

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
    const NAMES: Names = Names::new("", "v1", "PodTemplate", "podtemplates");
    const SHOWS_DELETED: bool = true;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::NAME,
        Column::text("Containers", |this, _| columns::containers(this.template().spec())),
        Column::text("Images", |this, _| columns::images(this.template().spec())),
        Column::text("Pod Labels", |this, _| columns::labels(this.template().metadata().labels())),
    ];

    fn warn(&self, old: Option<&Self>, warnings: &mut Warnings) {
        if is_other(self.metadata(), old.map(Self::metadata)) {
            self.template().warn(&Path::Root.field("template"), warnings);
        }
    }

    fn validate(&self, errs: &mut Errors) {
        self.template().check(&Path::Root.field("template"), errs);
    }

    fn default_fields(&mut self) {
        self.template_mut().default_fields();
    }

    fn prepare_create(&mut self) {
        generation::first(self.metadata_mut());
    }

    fn prepare_update(&mut self, old: &Self) {
        let changed = self.template() != old.template();
        generation::next(self.metadata_mut(), old.metadata(), changed);
    }
}
