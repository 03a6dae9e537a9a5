//! Common validations of names, and how a kind's name validation is applied.

use object::{ObjectMeta, names};

use crate::{ErrorList, FieldPath};

/// Returns the errors of a name. With `prefix` the name is a `generateName`, to which the server
/// appends a suffix.
pub type ValidateName = fn(name: &str, prefix: bool) -> Vec<String>;

/// Validates name and generateName with the kind's name validation.
pub fn validate_name(rule: ValidateName, meta: &ObjectMeta, errs: &mut ErrorList) {
    let metadata = FieldPath::Root.field("metadata");
    if !meta.generate_name().is_empty() {
        let at = metadata.field("generateName");
        errs.invalid_each(&at, meta.generate_name(), rule(meta.generate_name(), true));
    }
    if meta.name().is_empty() {
        errs.required(&metadata.field("name"), "name or generateName is required");
    } else {
        errs.invalid_each(&metadata.field("name"), meta.name(), rule(meta.name(), false));
    }
}

fn whole(name: &str, prefix: bool, rule: fn(&str) -> Vec<String>) -> Vec<String> {
    if prefix { rule(&names::mask_trailing_dash(name)) } else { rule(name) }
}

pub fn dns_subdomain(name: &str, prefix: bool) -> Vec<String> {
    whole(name, prefix, names::dns1123_subdomain)
}

/// Like `dns_subdomain`, with upstream's messages of declarative validation: the length is in
/// bytes, and a prefix is checked as a path segment only.
pub fn long_name(name: &str, prefix: bool) -> Vec<String> {
    let rule = if prefix { names::path_segment_prefix } else { names::dns1123_subdomain };
    let wrong = rule(name).into_iter();
    wrong.map(|wrong| wrong.replace("253 characters", "253 bytes")).collect()
}

pub fn dns_label(name: &str, prefix: bool) -> Vec<String> {
    whole(name, prefix, names::dns1123_label)
}

pub fn dns1035_label(name: &str, prefix: bool) -> Vec<String> {
    whole(name, prefix, names::dns1035_label)
}

/// Any name that can be a path segment, as RBAC objects have.
pub fn path_segment(name: &str, prefix: bool) -> Vec<String> {
    if prefix { names::path_segment_prefix(name) } else { names::path_segment_name(name) }
}
