//! networking/v1: IPAddress.

use macros::api;
use object::{ObjectMeta, Value};
use schema::{ErrorList, FieldPath, Kind, ResourceNames, Scope, TableColumn, ValidateName};

use crate::{columns, rules::ValidateField};

/// An address that is in use.
#[api]
pub struct IPAddress {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// Desired state.
    #[api(required)]
    spec: IPAddressSpec,
}

#[api]
pub struct IPAddressSpec {
    /// The object that the address belongs to.
    #[api(required)]
    parent_ref: Option<ParentReference>,
}

#[api]
pub struct ParentReference {
    /// The group of the object.
    group: String,
    /// The resource of the object.
    #[api(required)]
    resource: String,
    /// The namespace of the object.
    namespace: String,
    /// The name of the object.
    #[api(required)]
    name: String,
}

impl Kind for IPAddress {
    const NAMES: ResourceNames =
        ResourceNames::new("networking.k8s.io", "v1", "IPAddress", "ipaddresses").short(&["ip"]);
    const UPDATE_CHECKS_GENERATE_NAME: bool = true;
    const FORMER_API_VERSIONS: &'static [&'static str] = &["networking.k8s.io/v1beta1"];
    const SCOPE: Scope = Scope::Cluster;
    const COLUMNS: &'static [TableColumn<Self>] =
        &[TableColumn::NAME, TableColumn::text("ParentRef", |address, _| address.parent().into())];
    const EXACT_NAMES: bool = true;
    const NAME: ValidateName = |name, _| object::names::ip(name);

    fn validate(&self, errs: &mut ErrorList) {
        let at = FieldPath::SPEC.field("parentRef");
        let Some(parent) = self.spec().parent_ref() else { return errs.required(&at, "") };
        errs.required_field(&at, "resource", parent.resource());
        errs.required_field(&at, "name", parent.name());
        errs.optional_format(&at.field("group"), parent.group(), object::names::dns1123_subdomain);
        for (name, text) in [
            ("resource", parent.resource()),
            ("name", parent.name()),
            ("namespace", parent.namespace()),
        ] {
            errs.invalid_each(&at.field(name), text, object::names::path_segment_name(text));
        }
    }

    fn validate_update(&self, old: &Self, errs: &mut ErrorList) {
        if self.spec().parent_ref() != old.spec().parent_ref() {
            errs.invalid(&FieldPath::SPEC.field("parentRef"), Value::Null, "field is immutable");
            self.validate(errs);
        }
    }
}

impl IPAddress {
    /// What the address belongs to, as tables show it.
    fn parent(&self) -> String {
        let Some(parent) = self.spec().parent_ref() else { return columns::NONE.into() };
        let mut text = parent.resource().to_owned();
        if !parent.group().is_empty() {
            text = format!("{text}.{}", parent.group());
        }
        text.make_ascii_lowercase();
        if !parent.namespace().is_empty() {
            text = format!("{text}/{}", parent.namespace());
        }
        format!("{text}/{}", parent.name())
    }
}

#[cfg(test)]
mod tests {
    use object::from_json;

    use super::*;

    #[test]
    fn a_changed_parent_is_told_with_all_that_is_wrong_with_it() {
        let tree = |text: &str| from_json(text.as_bytes()).expect("well formed");
        let old = tree(r#"{"spec":{"parentRef":{"resource":"services","name":"a"}}}"#);
        let new = tree(r#"{"spec":{"parentRef":{"resource":"pods","name":".."}}}"#);
        let mut errs = ErrorList::default();
        schema::ResourceDefinition::from_kind::<IPAddress>().strategy.validate(
            &new,
            Some(&old),
            &mut errs,
        );
        let paths: Vec<_> = errs.0.iter().map(|error| &*error.path).collect();
        assert_eq!(paths, ["spec.parentRef", "spec.parentRef.name"]);
    }
}
