//! The rules that all reviews of access share.

use object::{List, ObjectMeta};
use schema::{ErrorList, FieldPath};

use super::{NonResourceAttributes, ResourceAttributes, SubjectAccessReviewSpec};
use crate::{
    rules::validate_selector_operator,
    shown::{format_go, format_go_option},
};

/// A review is about a resource or about a path, and never about both.
pub(super) fn check_attributes(
    resource: Option<&ResourceAttributes>,
    path: Option<&NonResourceAttributes>,
    errs: &mut ErrorList,
) {
    if resource.is_some() == path.is_some() {
        let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        errs.invalid_formatted(&FieldPath::SPEC, format_go_option(path), why);
    }
}

/// A review is not stored, so that it has no metadata.
pub(super) fn check_metadata(meta: &ObjectMeta, namespaced: bool, errs: &mut ErrorList) {
    let mut rest = meta.clone();
    rest.set_managed_fields(List::default());
    if namespaced {
        rest.set_namespace("");
    }
    if rest != ObjectMeta::new() {
        let why = if namespaced { "must be empty except for namespace" } else { "must be empty" };
        errs.invalid_formatted(&FieldPath::METADATA, format_go(meta), why);
    }
}

impl SubjectAccessReviewSpec {
    pub(super) fn check(&self, errs: &mut ErrorList) {
        check_attributes(self.resource_attributes(), self.non_resource_attributes(), errs);
        if self.user().is_empty() && self.groups().is_empty() {
            let why = "at least one of user or group must be specified";
            errs.invalid(&FieldPath::SPEC.field("user"), self.user(), why);
        }
        if let Some(attributes) = self.resource_attributes() {
            attributes.check(errs);
        }
    }
}

impl ResourceAttributes {
    pub(super) fn check(&self, errs: &mut ErrorList) {
        let at = FieldPath::SPEC.field("resourceAttributes");
        if let Some(selector) = self.field_selector() {
            let at = at.field("fieldSelector");
            let all = selector.requirements();
            check_selector(selector.raw_selector(), all.len(), &at, errs);
            at.field("requirements").for_each_item(all.iter(), |one, at| {
                if one.key().is_empty() {
                    errs.required(&at.field("key"), "must be specified");
                }
                validate_selector_operator(one.operator(), one.values().is_empty(), at, errs);
            });
        }
        if let Some(selector) = self.label_selector() {
            let at = at.field("labelSelector");
            let all = selector.requirements();
            check_selector(selector.raw_selector(), all.len(), &at, errs);
            at.field("requirements").for_each_item(all.iter(), |one, at| {
                crate::rules::validate_selector_requirement(one, true, at, errs);
            });
        }
    }
}

fn check_selector(raw: &str, requirements: usize, at: &FieldPath, errs: &mut ErrorList) {
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
        let mut errs = ErrorList::default();
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
        let mut errs = ErrorList::default();
        let selector = FieldSelectorAttributes::new();
        ResourceAttributes::new().with_field_selector(selector).check(&mut errs);
        assert_eq!(errs.0.len(), 1);
    }
}
