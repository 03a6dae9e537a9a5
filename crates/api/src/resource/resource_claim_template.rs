//! resource/v1 and v1beta2: ResourceClaimTemplate.

use macros::api;
use object::ObjectMeta;
use schema::{Column, Errors, Kind, Names, Path};

use super::ResourceClaimSpec;
use crate::{core::volume::sources::check_template_meta, rules::Rules, shown::shown};

/// What claims are made from, one for each pod.
#[api]
pub struct ResourceClaimTemplate {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// What the claims look like. It never changes.
    #[api(always)]
    spec: ResourceClaimTemplateSpec,
}

#[api]
pub struct ResourceClaimTemplateSpec {
    /// Labels and annotations of the claims.
    metadata: ObjectMeta,
    /// What is claimed.
    #[api(always)]
    spec: ResourceClaimSpec,
}

impl Kind for ResourceClaimTemplate {
    const COMPILES: bool = true;
    const NAMES: Names =
        Names::new("resource.k8s.io", "v1", "ResourceClaimTemplate", "resourceclaimtemplates");
    const SHOWS_DELETED: bool = true;

    const NEEDS: Option<&'static schema::Part> = Some(&crate::parts::DYNAMIC_RESOURCES);
    const COLUMNS: &'static [Column<Self>] = &[Column::NAME, Column::AGE];

    fn default_fields(&mut self) {
        self.spec_mut().spec_mut().default_fields();
    }

    fn validate(&self, errs: &mut Errors) {
        check_template_meta(self.spec().metadata(), &Path::SPEC.field("metadata"), errs);
        self.spec().spec().devices().check(&Path::SPEC.field("spec").field("devices"), errs);
    }

    fn validate_update(&self, old: &Self, errs: &mut Errors) {
        self.validate(errs);
        errs.kept(&Path::SPEC, (self.spec(), old.spec()), shown);
    }
}
