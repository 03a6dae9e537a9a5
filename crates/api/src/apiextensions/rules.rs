//! What a CRD must keep, apart from its schemas.
//!
//! Upstream checks an older form of it, in which what all versions have alike stands beside
//! them: so errors in a schema that all versions share are told of `spec.validation`.

use std::collections::HashSet;

use object::{Lens, depth, names};
use schema::{
    ErrorList, FieldPath,
    custom::{
        JsonSchema, has_defaults_with_unknown_fields, resolve_field_path, unsupported_keyword,
        validate_structural,
    },
};

use super::{
    CustomResourceColumnDefinition, CustomResourceDefinition, CustomResourceDefinitionNames,
    CustomResourceDefinitionVersion, CustomResourceSubresources, approval,
    conversion_rules::{self, check_conversion},
    go,
    schema_rules::{SchemaValidationOptions, check_schema},
};

/// A version may select by so many fields.
const SELECTABLE: usize = 8;

/// What a new CRD must keep.
pub(super) fn check_new(crd: &CustomResourceDefinition, errs: &mut ErrorList) {
    let spec = crd.spec();
    let (meta, right) = (crd.metadata(), format!("{}.{}", spec.names().plural(), spec.group()));
    for (field, name) in [("name", meta.name()), ("generateName", meta.generate_name())] {
        if !name.is_empty() && name != right {
            let why = r#"must be spec.names.plural+"."+spec.group"#;
            errs.invalid(&FieldPath::METADATA.field(field), name, why);
        }
    }
    let terms = ValidationOptions {
        strictness: SchemaValidationOptions::default(),
        conversion: conversion_rules::ConversionOptions::NEW,
        fields: false,
    };
    check_all(crd, None, terms, errs);
}

/// What a changed CRD must keep. What was wrong before may stay so.
pub(super) fn check_changed(
    crd: &CustomResourceDefinition,
    old: &CustomResourceDefinition,
    errs: &mut ErrorList,
) {
    let established = old.is_true("Established");
    let terms = ValidationOptions {
        strictness: schema_options_for_update(old),
        conversion: conversion_rules::ConversionOptions::for_update(old),
        fields: crd.tree().get("spec").get("versions") == old.tree().get("spec").get("versions"),
    };
    check_all(crd, Some(old), terms, errs);
    let (spec, before) = (crd.spec(), old.spec());
    if established {
        immutable(&FieldPath::SPEC.field("scope"), spec.scope(), before.scope(), errs);
        let at = FieldPath::SPEC.field("names");
        immutable(&at.field("kind"), spec.names().kind(), before.names().kind(), errs);
    }
    immutable(&FieldPath::SPEC.field("group"), spec.group(), before.group(), errs);
    let at = FieldPath::SPEC.field("names");
    immutable(&at.field("plural"), spec.names().plural(), before.names().plural(), errs);
}

pub(super) fn check_status(crd: &CustomResourceDefinition, errs: &mut ErrorList) {
    check_names(crd.status().accepted_names(), &FieldPath::STATUS.field("acceptedNames"), errs);
}

/// The schemas of a CRD, each with the place at which errors in it are told and the name
/// of (one of) its versions.
pub fn schemas(crd: &CustomResourceDefinition) -> Vec<(String, &JsonSchema, &str)> {
    let versions = crd.spec().versions();
    let of = |version: &CustomResourceDefinitionVersion| {
        version.tree().get("schema").get("openAPIV3Schema").is_object()
    };
    let hoisted = is_same_in_all_versions(crd, "schema");
    let all = versions.iter().enumerate().filter(|(_, version)| of(version)).map(|(i, version)| {
        let schema = JsonSchema::view(version.tree().get("schema").get("openAPIV3Schema"));
        let at = match hoisted {
            true => "spec.validation.openAPIV3Schema".to_owned(),
            false => format!("spec.versions[{i}].schema.openAPIV3Schema"),
        };
        (at, schema, version.name())
    });
    all.take(if hoisted { 1 } else { usize::MAX }).collect()
}

/// How much is asked of a CRD.
#[derive(Clone, Copy)]
struct ValidationOptions {
    strictness: SchemaValidationOptions,
    conversion: conversion_rules::ConversionOptions,
    /// There may be too many selectable fields.
    fields: bool,
}

fn check_all(
    crd: &CustomResourceDefinition,
    old: Option<&CustomResourceDefinition>,
    terms: ValidationOptions,
    errs: &mut ErrorList,
) {
    check_spec(crd, terms, errs);
    check_status(crd, errs);
    check_stored(crd, errs);
    approval::check(crd, old, errs);
    let kept = old.is_some_and(|old| old.spec().preserve_unknown_fields());
    if crd.spec().preserve_unknown_fields() && !kept {
        let why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
                   spec.versions[*].schema instead";
        errs.invalid(&FieldPath::SPEC.field("preserveUnknownFields"), true, why);
    }
}

fn check_spec(crd: &CustomResourceDefinition, mut terms: ValidationOptions, errs: &mut ErrorList) {
    let spec = crd.spec();
    let wrong = names::dns1123_subdomain(spec.group());
    let at = FieldPath::SPEC.field("group");
    if spec.group().is_empty() {
        errs.required(&at, "");
    } else if !wrong.is_empty() {
        errs.invalid(&at, spec.group(), wrong.join(","));
    } else if !spec.group().contains('.') {
        errs.invalid(&at, spec.group(), "should be a domain with at least one dot");
    }
    choice(&FieldPath::SPEC.field("scope"), spec.scope(), &["Cluster", "Namespaced"], errs);
    let keeps = spec.preserve_unknown_fields();
    terms.strictness.structural |= !keeps;
    let versions = FieldPath::SPEC.field("versions");
    for (i, version) in spec.versions().iter().enumerate() {
        if !version.tree().get("schema").get("openAPIV3Schema").is_object() {
            let at = versions.index(i);
            let schema = at.field("schema");
            if terms.strictness.schema {
                errs.required(&schema.field("openAPIV3Schema"), "");
            } else if !keeps && version.served() {
                let why = "because otherwise all fields are pruned";
                errs.required(&schema.field("openAPIV3Schema"), why);
            }
        }
    }
    let has = |wanted: &dyn Fn(&JsonSchema) -> bool| {
        schemas(crd).iter().any(|(_, s, _)| s.any_node(wanted))
    };
    if has(&|schema| schema.default_value().is_some()) {
        terms.strictness.structural = true;
        if keeps {
            let why = "must be false in order to use defaults in the schema";
            errs.invalid(&FieldPath::SPEC.field("preserveUnknownFields"), true, why);
        }
    }
    terms.strictness.structural |= has(&|schema| {
        let tree = schema.tree();
        schema.is_embedded_resource()
            || schema.is_int_or_string()
            || schema.list_type().is_some()
            || schema.list_keys().len() > 0
            || !tree.get("x-kubernetes-preserve-unknown-fields").is_null()
            || !schema.validations().is_empty()
    });
    check_versions(crd, terms, errs);
    let at = FieldPath::SPEC.field("names");
    let own = spec.names();
    for (name, value) in [
        ("plural", own.plural()),
        ("singular", own.singular()),
        ("kind", own.kind()),
        ("listKind", own.list_kind()),
    ] {
        if value.is_empty() {
            errs.required(&at.field(name), "");
        }
    }
    check_names(own, &at, errs);
    check_shared(crd, terms, errs);
    let at = FieldPath::SPEC.field("conversion");
    if let Some(conversion) = spec.conversion() {
        if conversion.strategy() != "None" && keeps {
            let why = "must be None if spec.preserveUnknownFields is true";
            errs.invalid(&at.field("strategy"), conversion.strategy(), why);
        }
        check_conversion(conversion, terms.conversion, &at, errs);
    }
}

fn check_versions(crd: &CustomResourceDefinition, terms: ValidationOptions, errs: &mut ErrorList) {
    let (versions, all) = (FieldPath::SPEC.field("versions"), crd.spec().versions());
    let alike = Alike::of(crd);
    let mut seen = HashSet::new();
    let mut unique = true;
    for (i, version) in all.iter().enumerate() {
        unique &= seen.insert(version.name());
        let at = versions.index(i);
        let wrong = names::dns1035_label(version.name());
        if !wrong.is_empty() {
            errs.invalid(&at.field("name"), version.name(), wrong.join(","));
        }
        check_version(version, &alike, terms, &at, errs);
    }
    let shown = || {
        let parts = ["schema", "subresources", "additionalPrinterColumns", "selectableFields"];
        let hoisted: Vec<_> =
            parts.into_iter().filter(|part| is_same_in_all_versions(crd, part)).collect();
        go::versions(crd.tree().get("spec").get("versions"), &hoisted)
    };
    if !unique {
        errs.invalid_formatted(&versions, shown(), "must contain unique version names");
    }
    if all.iter().filter(|version| version.storage()).count() != 1 {
        let why = "must have exactly one version marked as storage version";
        errs.invalid_formatted(&versions, shown(), why);
    }
    let first = all.iter().next().map(CustomResourceDefinitionVersion::name).unwrap_or_default();
    let wrong = names::dns1035_label(first);
    if !first.is_empty() && !wrong.is_empty() {
        errs.invalid(&FieldPath::SPEC.field("version"), first, wrong.join(","));
    }
}

/// What a version has for itself.
fn check_version(
    version: &CustomResourceDefinitionVersion,
    alike: &Alike,
    terms: ValidationOptions,
    at: &FieldPath,
    errs: &mut ErrorList,
) {
    check_deprecation(version, &at.field("deprecationWarning"), errs);
    if !alike.schema {
        let status = version.subresources().is_some_and(|sub| sub.status().is_some());
        let schema = version.tree().get("schema");
        check_schema(schema, status, terms.strictness, &at.field("schema"), errs);
    }
    if !alike.subresources {
        check_subresources(version.subresources(), &at.field("subresources"), errs);
    }
    if !alike.columns {
        check_columns(version, &at.field("additionalPrinterColumns"), errs);
    }
    if !alike.fields && !version.selectable_fields().is_empty() {
        let here = at.field("selectableFields");
        let schema = version.tree().get("schema").get("openAPIV3Schema");
        // A shared schema stands elsewhere, and so is none of this version.
        if !schema.is_object() || alike.schema {
            let why = "may only be set when `version.schema.openAPIV3Schema` is not included";
            errs.invalid(&here, "", why);
        } else {
            check_selectable(version, JsonSchema::view(schema), terms, &here, errs);
        }
    }
}

/// What all versions have alike.
fn check_shared(crd: &CustomResourceDefinition, terms: ValidationOptions, errs: &mut ErrorList) {
    let Some(first) = crd.spec().versions().iter().next() else { return };
    if is_same_in_all_versions(crd, "schema") {
        let status = |version: &CustomResourceDefinitionVersion| {
            version.subresources().is_some_and(|sub| sub.status().is_some())
        };
        let status = crd.spec().versions().iter().any(status);
        let schema = first.tree().get("schema");
        check_schema(schema, status, terms.strictness, &FieldPath::SPEC.field("validation"), errs);
    }
    if is_same_in_all_versions(crd, "subresources") {
        check_subresources(first.subresources(), &FieldPath::SPEC.field("subresources"), errs);
    }
    if is_same_in_all_versions(crd, "additionalPrinterColumns") {
        check_columns(first, &FieldPath::SPEC.field("additionalPrinterColumns"), errs);
    }
    if is_same_in_all_versions(crd, "selectableFields") && !first.selectable_fields().is_empty() {
        let at = FieldPath::SPEC.field("selectableFields");
        let schema = first.tree().get("schema").get("openAPIV3Schema");
        if first.schema().is_none() || !is_same_in_all_versions(crd, "schema") {
            errs.invalid(&at, "", "may only be set when validations.schema is included");
        } else {
            check_selectable(first, JsonSchema::view(schema), terms, &at, errs);
        }
    }
}

/// The parts that are the same in all versions.
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
struct Alike {
    schema: bool,
    subresources: bool,
    columns: bool,
    fields: bool,
}

impl Alike {
    fn of(crd: &CustomResourceDefinition) -> Self {
        Self {
            schema: is_same_in_all_versions(crd, "schema"),
            subresources: is_same_in_all_versions(crd, "subresources"),
            columns: is_same_in_all_versions(crd, "additionalPrinterColumns"),
            fields: is_same_in_all_versions(crd, "selectableFields"),
        }
    }
}

/// Whether all versions say the same of this, be it nothing.
fn is_same_in_all_versions(crd: &CustomResourceDefinition, part: &str) -> bool {
    let mut parts = crd.spec().versions().iter().map(|version| version.tree().get(part));
    let first = parts.next();
    first.is_some_and(|first| parts.all(|part| part == first))
}

fn check_names(own: &CustomResourceDefinitionNames, at: &FieldPath, errs: &mut ErrorList) {
    for (name, value, lower) in [
        ("plural", own.plural(), false),
        ("singular", own.singular(), false),
        ("kind", own.kind(), true),
        ("listKind", own.list_kind(), true),
    ] {
        let wrong = match lower {
            true => names::dns1035_label(&value.to_lowercase()),
            false => names::dns1035_label(value),
        };
        if !value.is_empty() && !wrong.is_empty() {
            let mixed =
                if lower { "may have mixed case, but should otherwise match: " } else { "" };
            errs.invalid(&at.field(name), value, format!("{mixed}{}", wrong.join(",")));
        }
    }
    for (list, all) in [("shortNames", own.short_names()), ("categories", own.categories())] {
        for (i, name) in all.iter().enumerate() {
            let wrong = names::dns1035_label(name);
            if !wrong.is_empty() {
                errs.invalid(&at.field(list).index(i), name, wrong.join(","));
            }
        }
    }
    if !own.kind().is_empty() && own.kind() == own.list_kind() {
        let why = "kind and listKind may not be the same";
        errs.invalid(&at.field("listKind"), own.list_kind(), why);
    }
}

fn check_deprecation(
    version: &CustomResourceDefinitionVersion,
    at: &FieldPath,
    errs: &mut ErrorList,
) {
    let Some(told) = version.deprecation_warning() else { return };
    if !version.deprecated() {
        return errs.invalid(at, told, "can only be set for deprecated versions");
    }
    if told.len() > 256 {
        errs.invalid(at, told, "must be <= 256 characters long");
    }
    if told.is_empty() {
        errs.invalid(at, told, "must not be an empty string");
    }
    let odd = told.char_indices().find(|(_, c)| {
        c.is_control() || *c != ' ' && c.is_whitespace() || *c == '\u{feff}' || *c == '\u{ad}'
    });
    if let Some((index, _)) = odd {
        let why = format!(
            "must only contain printable UTF-8 characters; non-printable character found at index \
             {index}"
        );
        errs.invalid(at, told, why);
    }
}

fn check_subresources(
    subresources: Option<&CustomResourceSubresources>,
    at: &FieldPath,
    errs: &mut ErrorList,
) {
    let Some(scale) = subresources.and_then(CustomResourceSubresources::scale) else { return };
    let at = at.field("scale");
    for (name, path, root) in [
        ("specReplicasPath", scale.spec_replicas_path(), ".spec"),
        ("statusReplicasPath", scale.status_replicas_path(), ".status"),
    ] {
        let here = at.field(name);
        if path.is_empty() {
            errs.required(&here, "");
        } else if is_simple(path, &here, errs) && !path.starts_with(&format!("{root}.")) {
            errs.invalid(&here, path, format!("should be a json path under {root}"));
        }
    }
    let path = scale.label_selector_path().unwrap_or_default();
    let here = at.field("labelSelectorPath");
    let below = path.starts_with(".spec.") || path.starts_with(".status.");
    if !path.is_empty() && is_simple(path, &here, errs) && !below {
        errs.invalid(&here, path, "should be a json path under either .spec or .status");
    }
}

fn is_simple(path: &str, at: &FieldPath, errs: &mut ErrorList) -> bool {
    if !path.starts_with('.') {
        errs.invalid(at, path, "must be a simple json path starting with .");
        return false;
    }
    if path.matches('.').count() > depth::MAX {
        errs.invalid(at, path, format!("exceeded max depth of {}", depth::MAX));
        return false;
    }
    true
}

fn check_columns(version: &CustomResourceDefinitionVersion, at: &FieldPath, errs: &mut ErrorList) {
    at.for_each_item(version.additional_printer_columns().iter(), |it, at| {
        check_column(it, at, errs);
    });
}

fn check_column(column: &CustomResourceColumnDefinition, at: &FieldPath, errs: &mut ErrorList) {
    const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
    const FORMATS: [&str; 8] =
        ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
    if column.name().is_empty() {
        errs.required(&at.field("name"), "");
    }
    let why = format!("must be one of {}", TYPES.join(","));
    if column.type_().is_empty() {
        errs.required(&at.field("type"), why);
    } else if !TYPES.contains(&column.type_()) {
        errs.invalid(&at.field("type"), column.type_(), why);
    }
    if !column.format().is_empty() && !FORMATS.contains(&column.format()) {
        let why = format!("must be one of {}", FORMATS.join(","));
        errs.invalid(&at.field("format"), column.format(), why);
    }
    let at = at.field("JSONPath");
    if column.json_path().is_empty() {
        errs.required(&at, "");
    } else {
        is_simple(column.json_path(), &at, errs);
    }
}

fn check_selectable(
    version: &CustomResourceDefinitionVersion,
    schema: &JsonSchema,
    terms: ValidationOptions,
    at: &FieldPath,
    errs: &mut ErrorList,
) {
    if let Some(why) = unsupported_keyword(schema) {
        // Upstream goes on with no schema at all, and ends there.
        return errs.invalid(&FieldPath::SPEC.field("schema.openAPIV3Schema"), "", why);
    }
    let mut seen = HashSet::new();
    for (i, field) in version.selectable_fields().iter().enumerate() {
        let item = at.index(i);
        let (at, path) = (item.field("jsonPath"), field.json_path());
        if path.is_empty() {
            errs.required(&at, "");
            continue;
        }
        let (names, found) = match resolve_field_path(schema, path, false) {
            Ok(found) => found,
            Err(why) => {
                errs.invalid(&at, path, format!("is an invalid path: {why}"));
                continue;
            }
        };
        if names.first().is_some_and(|first| first == "metadata") {
            errs.invalid(&at, path, "must not point to fields in metadata");
        }
        if !matches!(found.ty(), "string" | "boolean" | "integer") {
            let why = "must point to a field of type string, boolean or integer. Enum string \
                       fields and strings with formats are allowed.";
            errs.invalid(&at, path, why);
        }
        if !seen.insert(names) {
            errs.duplicate(&at, path);
        }
    }
    if seen.len() > SELECTABLE && !terms.fields {
        errs.too_many_with_count(at, seen.len(), SELECTABLE);
    }
}

fn check_stored(crd: &CustomResourceDefinition, errs: &mut ErrorList) {
    let at = FieldPath::STATUS.field("storedVersions");
    let stored = crd.status().stored_versions();
    if stored.is_empty() {
        let why = "must have at least one stored version";
        return errs.invalid_formatted(&at, "null".to_owned(), why);
    }
    let all = crd.status().tree().get("storedVersions");
    let versions = crd.spec().versions();
    let mut left: HashSet<&str> = stored.iter().collect();
    for version in versions.iter() {
        let known = left.remove(version.name());
        if version.storage() && !known {
            let why = format!("must have the storage version {}", version.name());
            errs.invalid(&at, all.clone(), why);
        }
    }
    let versions = versions.by_key(|version| version.name());
    for (i, name) in stored.iter().enumerate() {
        if !versions.contains_key(name) {
            let why = format!(
                "missing from spec.versions; {name} was previously a storage version, and must \
                 remain in spec.versions until a storage migration ensures no data remains \
                 persisted in {name} and removes {name} from status.storedVersions"
            );
            errs.invalid(&at.index(i), name, why);
        }
    }
}

/// What may be asked of the new form, given that the old one was taken.
fn schema_options_for_update(old: &CustomResourceDefinition) -> SchemaValidationOptions {
    let all = schemas(old);
    let none =
        |wrong: &dyn Fn(&JsonSchema) -> bool| !all.iter().any(|(_, schema, _)| wrong(schema));
    let versions = old.spec().versions();
    let described = |version: &CustomResourceDefinitionVersion| {
        version.tree().get("schema").get("openAPIV3Schema").is_object()
    };
    SchemaValidationOptions {
        schema: versions.iter().all(described),
        types: none(&|schema| schema.any_node(&|node| super::schema_rules::has_unknown_type(node))),
        structural: none(&|schema| {
            let mut errs = ErrorList::default();
            validate_structural(schema, &FieldPath::Root, &mut errs);
            unsupported_keyword(schema).is_some() || !errs.is_empty()
        }),
        pruned: none(&has_defaults_with_unknown_fields),
        sets: none(&|schema| {
            schema.any_node(&|node| super::schema_rules::has_non_atomic_set_items(node))
        }),
        keys: none(&|schema| {
            schema.any_node(&|node| {
                let mut errs = ErrorList::default();
                super::schema_rules::validate_list_map_keys(node, &FieldPath::Root, &mut errs);
                !errs.is_empty()
            })
        }),
    }
}

pub(super) fn choice(at: &FieldPath, value: &str, allowed: &[&str], errs: &mut ErrorList) {
    if value.is_empty() {
        errs.required(at, "");
    } else {
        errs.one_of(at, value, allowed);
    }
}

fn immutable(at: &FieldPath, new: &str, old: &str, errs: &mut ErrorList) {
    errs.immutable(at, &new.into(), &old.into());
}
