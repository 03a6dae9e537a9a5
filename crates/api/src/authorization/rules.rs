//! The rules that all reviews of access share.

use object::{List, ObjectMeta};
use schema::{Errors, Path};

use super::{NonResourceAttributes, ResourceAttributes, SubjectAccessReviewSpec};
use crate::{
    rules::check_known_requirement,
    shown::{shown, shown_or_null},
};

/// A review is about a resource or about a path, and never about both.
pub(super) fn check_attributes(
    resource: Option<&ResourceAttributes>,
    path: Option<&NonResourceAttributes>,
    errs: &mut Errors,
) {
    if resource.is_some() == path.is_some() {
        let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        errs.invalid_shown(&Path::SPEC, shown_or_null(path), why);
    }
}

/// A review is not stored, so that it has no metadata.
pub(super) fn check_metadata(meta: &ObjectMeta, namespaced: bool, errs: &mut Errors) {
    let mut rest = meta.clone();
    rest.set_managed_fields(List::default());
    if namespaced {
        rest.set_namespace("");
    }
    if rest != ObjectMeta::new() {
        let why = if namespaced { "must be empty except for namespace" } else { "must be empty" };
        errs.invalid_shown(&Path::METADATA, shown(meta), why);
    }
}

impl SubjectAccessReviewSpec {
    pub(super) fn check(&self, errs: &mut Errors) {
        check_attributes(self.resource_attributes(), self.non_resource_attributes(), errs);
        if self.user().is_empty() && self.groups().is_empty() {
            let why = "at least one of user or group must be specified";
            errs.invalid(&Path::SPEC.field("user"), self.user(), why);
        }
        if let Some(attributes) = self.resource_attributes() {
            attributes.check(errs);
        }
    }
}

impl ResourceAttributes {
    pub(super) fn check(&self, errs: &mut Errors) {
        let at = Path::SPEC.field("resourceAttributes");
        if let Some(selector) = self.field_selector() {
            let at = at.field("fieldSelector");
            let all = selector.requirements();
            check_selector(selector.raw_selector(), all.len(), &at, errs);
            at.field("requirements").each(all.iter(), |one, at| {
                if one.key().is_empty() {
                    errs.required(&at.field("key"), "must be specified");
                }
                check_known_requirement(one.operator(), one.values().is_empty(), at, errs);
            });
        }
        if let Some(selector) = self.label_selector() {
            let at = at.field("labelSelector");
            let all = selector.requirements();
            check_selector(selector.raw_selector(), all.len(), &at, errs);
            at.field("requirements").each(all.iter(), |one, at| {
                crate::rules::check_requirement(one, true, at, errs);
            });
        }
    }
}

fn check_selector(raw: &str, requirements: usize, at: &Path, errs: &mut Errors) {
    match (raw.is_empty(), requirements) {
        (false, 1..) => {
            let why = "may not specified at the same time as requirements";
            errs.invalid(&at.field("rawSelector"), raw, why);
        }
        (true, 0) => {
            let why = format!("when {at} is specified, requirements or rawSelector is required");
            errs.required(&at.field("requirements"), why);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authorization::FieldSelectorAttributes;

    #[test]
    fn a_review_asks_one_thing_about_somebody() {
        let mut errs = Errors::default();
        SubjectAccessReviewSpec::new().check(&mut errs);
        let found: Vec<_> = errs.0.iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "spec: Invalid value: null: exactly one of nonResourceAttributes or \
                 resourceAttributes must be specified",
                "spec.user: Invalid value: \"\": at least one of user or group must be specified",
            ]
        );
        let mut errs = Errors::default();
        let selector = FieldSelectorAttributes::new();
        ResourceAttributes::new().with_field_selector(selector).check(&mut errs);
        assert_eq!(errs.0.len(), 1);
    }
}
