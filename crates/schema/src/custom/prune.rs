//! Pruning: drops fields that the schema does not specify, and collects their paths.

use object::Value;

use super::schema::{AdditionalProperties, JsonSchema, is_meta, join};
use crate::UnknownFields;

/// Prunes an object. At the `root`, apiVersion, kind and metadata stay.
pub(super) fn prune(
    object: &mut Value,
    schema: &JsonSchema,
    root: bool,
    unknown: &mut UnknownFields,
) {
    fields(object, Some(schema), root, "", unknown);
    unknown.sort_unstable();
}

/// Drops every `null` that is not nullable and has no default.
pub(super) fn drop_nulls(value: &mut Value, schema: Option<&JsonSchema>) {
    match value {
        Value::List(items) => {
            let schema = schema.and_then(JsonSchema::items);
            items.make_mut().iter_mut().for_each(|item| drop_nulls(item, schema));
        }
        Value::Object(_) | Value::Map(_) => value.retain(|name, value| {
            let schema = schema.and_then(|schema| schema.entry(name));
            let refused =
                |schema: &JsonSchema| !schema.is_nullable() && schema.default_value().is_none();
            if value.is_null() && schema.is_some_and(refused) {
                return false;
            }
            drop_nulls(value, schema);
            true
        }),
        _ => {}
    }
}

fn fields(
    value: &mut Value,
    schema: Option<&JsonSchema>,
    root: bool,
    path: &str,
    unknown: &mut UnknownFields,
) {
    let keeps = schema.is_some_and(JsonSchema::preserves_unknown_fields);
    let whole = root || schema.is_some_and(JsonSchema::is_embedded_resource);
    match value {
        Value::List(items) => {
            let inner = schema.and_then(JsonSchema::items);
            for (at, item) in items.make_mut().iter_mut().enumerate() {
                let path = format!("{path}[{at}]");
                if keeps {
                    prune_preserved(item, inner, &path, unknown);
                } else {
                    fields(item, inner, false, &path, unknown);
                }
            }
        }
        Value::Object(_) | Value::Map(_) => value.retain(|name, value| {
            if whole && is_meta(name) {
                return true;
            }
            let inner = schema.and_then(|schema| schema.entry(name));
            let additional =
                schema.is_some_and(|s| !matches!(s.additional(), AdditionalProperties::Unset));
            if inner.is_some() || additional {
                fields(value, inner, false, &join(path, name), unknown);
                return true;
            }
            let own = is_meta(name) && path.is_empty();
            if !keeps && !own {
                unknown.push(join(path, name).into());
            }
            keeps
        }),
        _ => {}
    }
}

/// Prunes below a node that preserves unknown fields: only specified fields are pruned inside.
fn prune_preserved(
    value: &mut Value,
    schema: Option<&JsonSchema>,
    path: &str,
    unknown: &mut UnknownFields,
) {
    let Some(schema) = schema else { return };
    match value {
        Value::List(items) => {
            for (at, item) in items.make_mut().iter_mut().enumerate() {
                prune_preserved(item, schema.items(), &format!("{path}[{at}]"), unknown);
            }
        }
        Value::Object(_) | Value::Map(_) => value.retain(|name, value| {
            let named = !(schema.is_embedded_resource() && is_meta(name));
            let additional = !matches!(schema.additional(), AdditionalProperties::Unset);
            let inner = schema.entry(name);
            if named && (inner.is_some() || additional) {
                fields(value, inner, false, &join(path, name), unknown);
            }
            true
        }),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::tree;

    fn pruned(schema: &str, object: &str) -> (Value, UnknownFields) {
        let (schema, mut object) = (JsonSchema::from(tree(schema)), tree(object));
        let mut unknown = UnknownFields::new();
        prune(&mut object, &schema, true, &mut unknown);
        drop_nulls(&mut object, Some(&schema));
        (object, unknown)
    }

    #[test]
    fn drops_what_is_not_named() {
        let schema = r#"{"properties":{"spec":{"properties":{"a":{"type":"string"},
            "l":{"items":{"properties":{"b":{}}}},"m":{"additionalProperties":{"properties":{"c":{}}}}}}}}"#;
        let object = r#"{"kind":"K","metadata":{"x":1},"zed":1,"spec":{"a":"b","z":1,
            "l":[{"b":1,"z":1}],"m":{"k":{"c":1,"z":1}}}}"#;
        let (object, unknown) = pruned(schema, object);
        assert_eq!(unknown, ["spec.l[0].z", "spec.m.k.z", "spec.z", "zed"]);
        let left =
            r#"{"kind":"K","metadata":{"x":1},"spec":{"a":"b","l":[{"b":1}],"m":{"k":{"c":1}}}}"#;
        assert_eq!(object, tree(left));
    }

    #[test]
    fn keeps_where_told_to() {
        let schema = r#"{"properties":{"spec":{"x-kubernetes-preserve-unknown-fields":true,
            "properties":{"a":{"properties":{"b":{}}}}}}}"#;
        let (object, unknown) = pruned(schema, r#"{"spec":{"a":{"b":1,"z":1},"z":{"y":1}}}"#);
        assert_eq!(unknown, ["spec.a.z"]);
        assert_eq!(object, tree(r#"{"spec":{"a":{"b":1},"z":{"y":1}}}"#));
    }

    #[test]
    fn a_null_goes_unless_allowed() {
        let schema = r#"{"properties":{"a":{"type":"string"},"b":{"nullable":true},
            "c":{"default":1},"l":{"items":{"type":"string"}}}}"#;
        let (object, _) = pruned(schema, r#"{"a":null,"b":null,"c":null,"l":[null]}"#);
        let names: Vec<_> = object.entries().map(|entry| entry.0).collect();
        assert_eq!(names, ["b", "c", "l"]);
    }
}
