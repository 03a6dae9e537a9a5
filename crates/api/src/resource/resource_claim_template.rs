//! resource/v1 and v1beta2: ResourceClaimTemplate.

use macros::api;
use object::{Lens, ObjectMeta};
use schema::{Column, Errors, Kind, Names, Path, Storage, check_annotations, check_labels};

use super::ResourceClaimSpec;
use crate::shown::shown;

/// What claims are made from, one for each pod.
#[api]
pub struct ResourceClaimTemplate {
    #[api(tag = 1)]
    metadata: ObjectMeta,
    /// What the claims look like. It never changes.
    #[api(tag = 2, always)]
    spec: ResourceClaimTemplateSpec,
}

#[api]
pub struct ResourceClaimTemplateSpec {
    #[api(tag = 1)]
    metadata: ObjectMeta,
    /// What is claimed.
    #[api(tag = 2, always)]
    spec: ResourceClaimSpec,
}

impl Kind for ResourceClaimTemplate {
    const NAMES: Names = Names {
        group: "resource.k8s.io",
        version: "v1",
        kind: "ResourceClaimTemplate",
        plural: "resourceclaimtemplates",
        singular: "resourceclaimtemplate",
        short: &[],
        categories: &[],
    };
    const STORAGE: Storage = Storage::new("resourceclaimtemplates", "v1");

    const COLUMNS: &'static [Column<Self>] = &[Column::NAME, Column::AGE];

    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }

    fn default_fields(&mut self) {
        self.spec_mut().spec_mut().default_fields();
    }

    fn validate(&self, errs: &mut Errors) {
        let at = Path::Root.field("spec");
        let (meta, here) = (self.spec().metadata(), at.field("metadata"));
        check_labels(meta.labels(), &here.field("labels"), errs);
        check_annotations(meta.annotations(), &here.field("annotations"), errs);
        for name in SET_LATER {
            if !meta.tree().get(name).is_zero() {
                // Upstream makes the path from Go's name.
                let name = if name == "uid" { "uID" } else { name };
                errs.forbidden(&here.field(name), "cannot be set");
            }
        }
        let at = at.field("spec");
        self.spec().spec().devices().check(&at.field("devices"), errs);
    }

    fn validate_update(&self, old: &Self, errs: &mut Errors) {
        self.validate(errs);
        if self.spec() != old.spec() {
            let shown = shown(self.spec());
            errs.invalid_shown(&Path::Root.field("spec"), shown, "field is immutable");
        }
    }
}

/// What only claims themselves have, not the templates they are made from.
const SET_LATER: [&str; 13] = [
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];
