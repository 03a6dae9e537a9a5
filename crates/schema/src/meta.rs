//! Validation of the metadata of every object.

use object::{
    List, ManagedFieldsEntry, Map, Object, ObjectMeta, OwnerReference, Value, View, names,
};

use crate::{ErrorList, FieldPath, Scope};

/// Maximum size of all annotations of an object together, in bytes.
const ANNOTATIONS: usize = 256 * 1024;
/// Maximum length of a field manager's name, in bytes.
const MAX_MANAGER_NAME_LENGTH: usize = 128;
const SUBRESOURCE: usize = 256;
/// Finalizers that need no domain prefix.
const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];

const METADATA: FieldPath = FieldPath::Root.field("metadata");

/// Validates the metadata that all kinds share. Names are validated by each kind.
pub fn validate_object_meta(
    object: &Value,
    old: Option<&Value>,
    scope: Scope,
    errs: &mut ErrorList,
) {
    let meta = Object::view(object).metadata();
    match old {
        None => check_namespace(meta, scope, errs),
        Some(old) => {
            let (at, prefix) = (METADATA.field("generateName"), meta.generate_name());
            errs.invalid_each(&at, prefix, names::path_segment_prefix(prefix));
            check_changed(meta, Object::view(old).metadata(), errs);
        }
    }
    check_common(meta, true, errs);
}

/// Reports the errors of an update again, for the few kinds whose metadata upstream validates
/// repeatedly; `whole`: the kind is also validated like a new object.
pub fn validate_object_meta_repeated(
    object: &Value,
    old: &Value,
    whole: bool,
    errs: &mut ErrorList,
) {
    let meta = Object::view(object).metadata();
    if whole {
        check_common(meta, true, errs);
    }
    check_changed(meta, Object::view(old).metadata(), errs);
    check_common(meta, false, errs);
    check_common(meta, false, errs);
}

fn check_common(meta: &ObjectMeta, finalizers: bool, errs: &mut ErrorList) {
    errs.non_negative(&METADATA.field("generation"), meta.generation());
    validate_labels(meta.labels(), &METADATA.field("labels"), errs);
    validate_annotations(meta.annotations(), &METADATA.field("annotations"), errs);
    check_owners(meta.owner_references(), &METADATA.field("ownerReferences"), errs);
    if finalizers {
        check_qualified(meta, errs);
    }
    check_managers(meta.managed_fields(), errs);
}

pub fn validate_labels(labels: &Map<String>, at: &FieldPath, errs: &mut ErrorList) {
    for (name, value) in labels.iter() {
        errs.invalid_each(at, name, names::qualified_name(name));
        errs.invalid_each(at, value, names::label_value(value));
    }
}

pub fn validate_annotations(annotations: &Map<String>, at: &FieldPath, errs: &mut ErrorList) {
    let mut size = 0;
    for (name, value) in annotations.iter() {
        size += name.len() + value.len();
        errs.invalid_each(at, name, names::qualified_name(&name.to_lowercase()));
    }
    if size > ANNOTATIONS {
        errs.too_long(at, ANNOTATIONS);
    }
}

/// Validates the name of a finalizer.
pub fn validate_finalizer_name(finalizer: &str, at: &FieldPath, errs: &mut ErrorList) {
    errs.invalid_each(at, finalizer, names::qualified_name(finalizer));
    check_standard(finalizer, at, errs);
}

fn check_standard(finalizer: &str, at: &FieldPath, errs: &mut ErrorList) {
    if !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(&finalizer) {
        let why = "name is neither a standard finalizer name nor is it fully qualified";
        errs.invalid(at, finalizer, why);
    }
}

/// A finalizer of a built-in kind must be a standard one or have a domain prefix.
pub fn validate_finalizers(meta: &ObjectMeta, errs: &mut ErrorList) {
    let all = METADATA.field("finalizers");
    all.for_each_item(meta.finalizers().iter(), |finalizer, at| {
        check_standard(finalizer, at, errs);
    });
}

fn check_namespace(meta: &ObjectMeta, scope: Scope, errs: &mut ErrorList) {
    let at = METADATA.field("namespace");
    match (scope, meta.namespace()) {
        (Scope::Namespaced, "") => errs.required(&at, ""),
        (Scope::Namespaced, namespace) => {
            errs.invalid_each(&at, namespace, names::dns1123_label(namespace));
        }
        (Scope::Cluster, "") => {}
        (Scope::Cluster, _) => errs.forbidden(&at, "not allowed on this type"),
    }
}

fn check_qualified(meta: &ObjectMeta, errs: &mut ErrorList) {
    let at = METADATA.field("finalizers");
    for finalizer in meta.finalizers().iter() {
        errs.invalid_each(&at, finalizer, names::qualified_name(finalizer));
    }
    let has = |name| meta.finalizers().iter().any(|finalizer| finalizer == name);
    if has("orphan") && has("foregroundDeletion") {
        errs.invalid(
            &at,
            Value::from(meta.finalizers().clone()),
            "finalizer orphan and foregroundDeletion cannot be both set",
        );
    }
}

fn check_changed(meta: &ObjectMeta, old: &ObjectMeta, errs: &mut ErrorList) {
    if old.is_terminating() {
        let known = |finalizer: &&str| old.finalizers().iter().any(|old| old == *finalizer);
        let mut new: Vec<_> = meta.finalizers().iter().filter(|new| !known(new)).collect();
        new.sort_unstable();
        if !new.is_empty() {
            let new: Vec<_> = new.iter().map(|name| format!("{name:?}")).collect();
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new \
                 finalizers []string{{{}}}",
                new.join(", ")
            );
            errs.forbidden(&METADATA.field("finalizers"), detail);
        }
    }
    if meta.generation() < old.generation() {
        let at = METADATA.field("generation");
        errs.invalid(&at, meta.generation(), "must not be decremented");
    }
    let fields = [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ];
    for name in fields {
        let (new, old) = (object::Lens::tree(meta).get(name), object::Lens::tree(old).get(name));
        errs.immutable(&METADATA.field(name), new, old);
    }
}

fn check_owners(owners: &List<OwnerReference>, at: &FieldPath, errs: &mut ErrorList) {
    let mut controller: Option<&OwnerReference> = None;
    for (i, owner) in owners.iter().enumerate() {
        check_owner(owner, &at.index(i), errs);
        if owner.controller() != Some(true) {
            continue;
        }
        if let Some(first) = controller {
            if errs.is_full() {
                return;
            }
            let detail = format!(
                "Only one reference can have Controller set to true. Found \"true\" in references \
                 for {}/{} and {}/{}",
                first.kind(),
                first.name(),
                owner.kind(),
                owner.name()
            );
            let all: Vec<_> = owners.iter().map(shown).collect();
            errs.invalid_formatted(at, format!("[{}]", all.join(",")), detail);
        } else {
            controller = Some(owner);
        }
    }
}

fn check_owner(owner: &OwnerReference, at: &FieldPath, errs: &mut ErrorList) {
    let version = owner.api_version();
    let parts: Vec<_> = version.split('/').collect();
    if !version.is_empty() && (parts.len() > 2 || parts.last() == Some(&"")) {
        errs.invalid(&at.field("apiVersion"), version, "must be <group>/<version> or <version>");
    }
    for (name, value) in [
        ("apiVersion", version),
        ("kind", owner.kind()),
        ("name", owner.name()),
        ("uid", owner.uid()),
    ] {
        if value.is_empty() {
            errs.required(&at.field(name), "must not be empty");
        }
    }
    if owner.is_banned() {
        let detail = format!("/{version}, Kind={} is disallowed from being an owner", owner.kind());
        errs.invalid_formatted(at, shown(owner), detail);
    }
}

/// Formats a reference with its fields in Go's order.
fn shown(owner: &OwnerReference) -> String {
    let mut text = format!(
        "{{\"apiVersion\":{:?},\"kind\":{:?},\"name\":{:?},\"uid\":{:?}",
        owner.api_version(),
        owner.kind(),
        owner.name(),
        owner.uid()
    );
    for (name, flag) in
        [("controller", owner.controller()), ("blockOwnerDeletion", owner.block_owner_deletion())]
    {
        if let Some(flag) = flag {
            text.extend([",\"", name, "\":", if flag { "true" } else { "false" }]);
        }
    }
    text + "}"
}

fn check_managers(managers: &List<ManagedFieldsEntry>, errs: &mut ErrorList) {
    let all = METADATA.field("managedFields");
    all.for_each_item(managers.iter(), |manager, at| {
        match manager.operation() {
            "" => errs.required(&at.field("operation"), "must not be empty"),
            operation => errs.one_of(&at.field("operation"), operation, &["Apply", "Update"]),
        }
        if !matches!(manager.fields_type(), "" | "FieldsV1") {
            errs.invalid(&at.field("fieldsType"), manager.fields_type(), "must be `FieldsV1`");
        }
        errs.max_bytes(&at.field("manager"), manager.manager(), MAX_MANAGER_NAME_LENGTH);
        errs.max_bytes(&at.field("subresource"), manager.subresource(), SUBRESOURCE);
    });
}

#[cfg(test)]
mod tests {
    use object::{Lens, OwnerReference};

    use super::*;

    fn complaints(meta: ObjectMeta, old: Option<ObjectMeta>, scope: Scope) -> Vec<String> {
        let object = |meta| Value::from(Object::new().with_metadata(meta));
        let old = old.map(object);
        let mut errs = ErrorList::default();
        validate_object_meta(&object(meta), old.as_ref(), scope, &mut errs);
        errs.0.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_good_object_passes() {
        let meta = ObjectMeta::new().with_name("a").with_namespace("b");
        assert!(complaints(meta.clone(), None, Scope::Namespaced).is_empty());
        assert!(complaints(meta.clone(), Some(meta), Scope::Namespaced).is_empty());
    }

    #[test]
    fn the_namespace_fits_the_scope() {
        let found = complaints(ObjectMeta::new(), None, Scope::Namespaced);
        assert_eq!(found, ["metadata.namespace: Required value"]);
        let found = complaints(ObjectMeta::new().with_namespace("a"), None, Scope::Cluster);
        assert_eq!(found, ["metadata.namespace: Forbidden: not allowed on this type"]);
    }

    #[test]
    fn only_one_owner_controls() {
        let owner = OwnerReference::new()
            .with_api_version("apps/v1")
            .with_kind("ReplicaSet")
            .with_name("r")
            .with_uid("u")
            .with_controller(true);
        let meta = ObjectMeta::new().with_owner_references([owner.clone(), owner]);
        let found = complaints(meta, None, Scope::Cluster);
        assert_eq!(found.len(), 1);
        assert!(found[0].contains(r#"[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"r""#));
        assert!(found[0].ends_with("references for ReplicaSet/r and ReplicaSet/r"));
    }

    #[test]
    fn an_update_is_looked_at_as_a_new_object_is() {
        let old = ObjectMeta::new().with_name("a");
        let new = old.clone().with_finalizers([""]).with_generate_name("a%");
        let found = complaints(new, Some(old), Scope::Cluster);
        assert_eq!(found[0], "metadata.generateName: Invalid value: \"a%\": may not contain '%'");
        assert!(found[1].starts_with("metadata.finalizers: Invalid value: \"\""), "{found:?}");
    }

    #[test]
    fn what_is_going_takes_no_new_finalizers() {
        let old = ObjectMeta::new().with_deletion_timestamp("2026-01-01T00:00:00Z");
        let new = ObjectMeta::from(old.tree().clone()).with_finalizers(["a/b"]);
        let found = complaints(new, Some(old), Scope::Cluster);
        assert!(found[0].ends_with(r#"found new finalizers []string{"a/b"}"#), "{found:?}");
    }
}
