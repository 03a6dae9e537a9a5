//! resource/v1 and v1beta2: ResourceClaimTemplate.

use macros::api;
use object::ObjectMeta;
use schema::{ErrorList, FieldPath, Kind, ResourceNames, TableColumn};

use super::ResourceClaimSpec;
use crate::{core::volume::sources::check_template_meta, rules::ValidateField, shown::format_go};

/// What claims are made from, one for each pod.
#[api]
pub struct ResourceClaimTemplate {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// What the claims look like. It never changes.
    #[api(no_omitempty)]
    spec: ResourceClaimTemplateSpec,
}

#[api]
pub struct ResourceClaimTemplateSpec {
    /// Labels and annotations of the claims.
    metadata: ObjectMeta,
    /// What is claimed.
    #[api(no_omitempty)]
    spec: ResourceClaimSpec,
}

impl Kind for ResourceClaimTemplate {
    const COMPILES: bool = true;
    const NAMES: ResourceNames = ResourceNames::new(
        "resource.k8s.io",
        "v1",
        "ResourceClaimTemplate",
        "resourceclaimtemplates",
    );
    const UPDATE_CHECKS_GENERATE_NAME: bool = true;
    const FORMER_API_VERSIONS: &'static [&'static str] =
        &["resource.k8s.io/v1beta1", "resource.k8s.io/v1beta2"];
    const SHOWS_DELETED: bool = true;

    const NEEDS: Option<&'static schema::Part> = Some(&crate::parts::DYNAMIC_RESOURCES);
    const COLUMNS: &'static [TableColumn<Self>] = &[TableColumn::NAME, TableColumn::AGE];

    fn default_fields(&mut self) {
        self.spec_mut().spec_mut().default_fields();
    }

    fn validate(&self, errs: &mut ErrorList) {
        check_template_meta(self.spec().metadata(), &FieldPath::SPEC.field("metadata"), errs);
        self.spec().spec().devices().check(&FieldPath::SPEC.field("spec").field("devices"), errs);
    }

    fn validate_update(&self, old: &Self, errs: &mut ErrorList) {
        self.validate(errs);
        errs.immutable_formatted(&FieldPath::SPEC, (self.spec(), old.spec()), format_go);
    }
}
