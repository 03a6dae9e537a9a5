//! `apiVersion`, `kind` and `metadata` of custom resources and of resources embedded in them.

use object::{Lens, Object, ObjectMeta, Value, View, names};

use super::schema::{JsonSchema, join};
use crate::{
    ErrorList, FieldPath, Scope, UnknownFields, coerce_to_schema, normalize, validate_name,
    validate_object_meta,
};

/// Coerces metadata to its types; unknown fields are dropped and collected. The error is Go's.
pub(super) fn coerce_metadata(
    object: &mut Value,
    at: &str,
    unknown: &mut UnknownFields,
) -> Result<(), String> {
    let meta = object.get("metadata");
    if meta.is_null() && super::schema::get_entry(object, "metadata").is_none() {
        return Ok(());
    }
    let mut meta = if meta.is_null() { Value::object() } else { meta.clone() };
    let mut odd = UnknownFields::new();
    coerce_to_schema(ObjectMeta::SHAPE, &mut meta, &mut odd)?;
    unknown.extend(odd.iter().map(|name| String::from(join(&join(at, "metadata"), name))));
    normalize(ObjectMeta::SHAPE, &mut meta);
    object["metadata"] = meta;
    Ok(())
}

/// Like `coerce_metadata`, also for apiVersion and kind. The error contains the path.
pub(super) fn coerce_type_and_metadata(
    object: &mut Value,
    at: &str,
    unknown: &mut UnknownFields,
) -> Result<(), String> {
    types(object, at)?;
    coerce_metadata(object, at, unknown).map_err(|error| {
        let meta = object::to_json(object.get("metadata"));
        let shown = String::from_utf8_lossy(&meta);
        format!("{}: Invalid value: {shown}: {error}", join(at, "metadata"))
    })
}

/// Coerces the metadata of all embedded resources.
pub(super) fn coerce_embedded(
    value: &mut Value,
    schema: Option<&JsonSchema>,
    at: &str,
    unknown: &mut UnknownFields,
) -> Result<(), String> {
    let Some(schema) = schema else { return Ok(()) };
    match value {
        Value::List(items) => {
            for (i, item) in items.make_mut().iter_mut().enumerate() {
                coerce_embedded(item, schema.items(), &format!("{at}[{i}]"), unknown)?;
            }
            Ok(())
        }
        Value::Object(_) | Value::Map(_) => {
            if schema.is_embedded_resource() {
                coerce_type_and_metadata(value, at, unknown)?;
            }
            let mut failed = Ok(());
            value.retain(|name, value| {
                let inner = match (schema.property(name), schema.entry(name)) {
                    (Some(inner), _) => Some((inner, join(at, name))),
                    (None, Some(inner)) => Some((inner, format!("{at}[{name}]").into())),
                    (None, None) => None,
                };
                if let (Ok(()), Some((inner, at))) = (&failed, inner) {
                    failed = coerce_embedded(value, Some(inner), &at, unknown);
                }
                true
            });
            failed
        }
        _ => Ok(()),
    }
}

/// Validates the resources embedded in a custom resource.
pub(super) fn check_embedded(
    value: &Value,
    schema: &JsonSchema,
    at: &FieldPath,
    errs: &mut ErrorList,
) {
    match value {
        Value::List(items) => {
            let Some(inner) = schema.items() else { return };
            at.for_each_item(items.iter(), |item, at| check_embedded(item, inner, at, errs));
        }
        Value::Object(_) | Value::Map(_) => {
            if schema.is_embedded_resource() {
                validate_embedded_object(value, at, errs);
            }
            for (name, value) in value.entries() {
                match (schema.property(name), schema.entry(name)) {
                    (Some(inner), _) => check_embedded(value, inner, &at.field(name), errs),
                    (None, Some(inner)) => check_embedded(value, inner, &at.key(name), errs),
                    (None, None) => {}
                }
            }
        }
        _ => {}
    }
}

/// Validates apiVersion, kind and metadata.
pub(super) fn validate_embedded_object(value: &Value, at: &FieldPath, errs: &mut ErrorList) {
    for name in ["apiVersion", "kind"] {
        let here = at.field(name);
        match super::schema::get_entry(value, name) {
            None => errs.required(&here, ""),
            Some(Value::Text(text)) if text.is_empty() => {
                errs.invalid(&here, "", "must not be empty");
            }
            Some(Value::Text(text)) if name == "apiVersion" => {
                if text.matches('/').count() > 1 {
                    let why = format!("unexpected GroupVersion string: {text}");
                    errs.invalid(&here, text.clone(), why);
                }
            }
            Some(Value::Text(text)) => {
                let wrong = names::dns1035_label(&text.to_lowercase());
                if !wrong.is_empty() {
                    let why = "may have mixed case, but should otherwise match: ";
                    errs.invalid(&here, text.clone(), format!("{why}{}", wrong.join(",")));
                }
            }
            Some(other) => errs.invalid(&here, other.clone(), "must be a string"),
        }
    }
    let meta = Object::view(value).metadata();
    if super::schema::get_entry(value, "metadata").is_none() {
        return;
    }
    let scope = if meta.namespace().is_empty() { Scope::Cluster } else { Scope::Namespaced };
    let mut found = ErrorList::default();
    validate_object_meta(value, None, scope, &mut found);
    let named =
        if meta.name().is_empty() { meta.clone().with_name("fakename") } else { meta.clone() };
    validate_name(crate::name_validation::path_segment, &named, &mut found);
    let prefix = at.to_string();
    errs.0.extend(found.0.into_iter().map(|mut error| {
        error.path = join(&prefix, &error.path).into();
        error
    }));
}

fn types(value: &Value, at: &str) -> Result<(), String> {
    for name in ["apiVersion", "kind"] {
        match super::schema::get_entry(value, name) {
            None | Some(Value::Text(_)) => {}
            Some(other) => {
                let shown = String::from_utf8_lossy(&object::to_json(other)).into_owned();
                let at = join(at, name);
                return Err(format!("{at}: Invalid value: {shown}: must be a string"));
            }
        }
    }
    Ok(())
}
