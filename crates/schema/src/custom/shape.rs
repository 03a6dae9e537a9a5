//! A schema as a shape, for server-side apply: what there is, and how lists are told apart.

use std::sync::{Arc, OnceLock};

use object::{Field, Link, ListType, ObjectMeta, Rules, Struct, Text, Type, Value, View, Word};

use super::{
    intern::{self, Full},
    schema::{Additional, Schema},
};
use crate::apply::{ENTRY, ITEM};

/// The shape of whole objects.
pub(super) fn shape_of(kind: &str, schema: Option<&Schema>) -> Result<Link<Struct>, Full> {
    let none = Schema::default();
    let known = schema.unwrap_or(&none);
    let mut shape = structure(known, true)?;
    shape.name = kind.into();
    shape.open |= schema.is_none();
    Ok(Link::Shared(Arc::new(shape)))
}

fn structure(schema: &Schema, whole: bool) -> Result<Struct, Full> {
    let mut fields = Vec::new();
    if whole {
        let ty = Link::Static(<ObjectMeta as View>::TYPE);
        fields.push(field("metadata", ty, Rules::NONE));
    }
    for (name, property) in schema.properties() {
        if whole && matches!(name, "metadata" | "apiVersion" | "kind") {
            continue;
        }
        let rules = Rules { optional: true, ..rules(property)? };
        let default = property.default_value().cloned().unwrap_or_default();
        let ty = Link::Shared(Arc::new(type_of(property)?));
        fields.push(Field { default, ..field(name, ty, rules) });
    }
    if whole && schema.is_embedded() {
        for name in ["apiVersion", "kind"] {
            let rules = Rules { optional: true, ..Rules::NONE };
            fields.push(field(name, Link::Static(<String as View>::TYPE), rules));
        }
    }
    Ok(Struct {
        name: Text::default(),
        doc: schema.text("description").into(),
        module: "",
        fields: Link::Shared(fields.into()),
        atomic: schema.map_type() == Some("atomic"),
        open: schema.preserves(),
        index: OnceLock::new(),
    })
}

fn field(name: &str, ty: Link<Type>, rules: Rules) -> Field {
    let (word, name) = (Word::find(name), name.into());
    Field { name, word, doc: Text::default(), ty, default: Value::Null, rules }
}

fn type_of(schema: &Schema) -> Result<Type, Full> {
    Ok(match schema.ty() {
        _ if schema.is_int_or_string() => Type::IntOrString,
        "object" => match schema.additional() {
            Additional::Of(inner) if schema.properties().len() == 0 => {
                let (ty, rules) = (Link::Shared(Arc::new(type_of(inner)?)), rules(inner)?);
                if rules.list == ListType::Atomic && !rules.atomic && !rules.granular {
                    return Ok(Type::Map(ty));
                }
                standing_for(field(ENTRY, ty, rules), schema)?
            }
            _ => {
                let mut shape = structure(schema, schema.is_embedded())?;
                shape.open |= schema.properties().len() == 0;
                Type::Object(Link::Shared(Arc::new(shape)))
            }
        },
        "array" => match schema.items() {
            Some(items) if items.ty() == "array" => {
                let item = field(ITEM, Link::Shared(Arc::new(type_of(items)?)), rules(items)?);
                Type::List(Link::Shared(Arc::new(standing_for(item, items)?)))
            }
            Some(items) => Type::List(Link::Shared(Arc::new(type_of(items)?))),
            None => Type::List(Link::Static(&Type::Any)),
        },
        // To server-side apply, text of a format is any scalar, as a moment is.
        "string" if !matches!(schema.text("format"), "" | "byte") => Type::Time,
        "string" => Type::Text,
        "integer" => Type::Int64,
        "number" => Type::Float,
        "boolean" => Type::Bool,
        _ => Type::Any,
    })
}

/// A type whose one field stands for its values and says how they are merged.
fn standing_for(field: Field, schema: &Schema) -> Result<Type, Full> {
    let shape = Struct { fields: Link::Shared([field].into()), ..structure(schema, false)? };
    Ok(Type::Object(Link::Shared(Arc::new(shape))))
}

/// How a field is merged.
fn rules(schema: &Schema) -> Result<Rules, Full> {
    let list = match schema.list_type() {
        Some("set") => ListType::Set,
        Some("map") => ListType::Map(intern::texts(schema.list_keys())?),
        _ => ListType::Atomic,
    };
    let atomic = schema.map_type() == Some("atomic");
    // What nobody has declared tells by itself how it is to be merged.
    let granular = schema.ty().is_empty() && !schema.is_int_or_string();
    Ok(Rules { list, atomic, granular, ..Rules::NONE })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        apply::{Alone, Write, apply},
        sample::tree,
    };

    #[test]
    fn values_of_maps_are_merged_by_their_own_rules() {
        let schema = Schema::from(tree(
            r#"{"type":"object","properties":{"spec":{"type":"object","additionalProperties":{
                "type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}}}}}"#,
        ));
        let shape = shape_of("Thing", Some(&schema)).expect("there is room");
        let by = |manager, live: Option<&Value>, spec: &str| {
            let (api_version, kind, now) = ("e.com/v1", "Thing", "2030-01-01T00:00:00Z");
            let (subresource, reset, versions) = ("", &[][..], &Alone);
            let write = Write {
                shape: &shape,
                api_version,
                kind,
                manager,
                subresource,
                reset,
                now,
                versions,
            };
            let object = format!(r#"{{"apiVersion":"e.com/v1","kind":"Thing","spec":{spec}}}"#);
            apply(&write, live, &tree(&object), false).expect("no conflict")
        };
        let first = by("a", None, r#"{"x":["1"]}"#);
        let both = by("b", Some(&first), r#"{"x":["2"]}"#);
        assert_eq!(both["spec"], tree(r#"{"x":["1","2"]}"#));
        assert_eq!(by("a", Some(&both), "{}")["spec"], tree(r#"{"x":["2"]}"#));
    }

    #[test]
    fn text_of_a_format_is_any_scalar() {
        for (schema, scalar) in [
            (r#"{"type":"string"}"#, false),
            (r#"{"type":"string","format":"byte"}"#, false),
            (r#"{"type":"string","format":"uuid"}"#, true),
        ] {
            let ty = type_of(&Schema::from(tree(schema))).expect("there is room");
            assert_eq!(matches!(ty, Type::Time), scalar, "{schema}");
        }
    }

    #[test]
    fn lists_in_lists_are_checked_by_their_own_rules() {
        let schema = Schema::from(tree(
            r#"{"type":"object","properties":{"spec":{"type":"array","items":{"type":"array",
                "x-kubernetes-list-type":"set","items":{"type":"integer"}}}}}"#,
        ));
        let shape = shape_of("Thing", Some(&schema)).expect("there is room");
        let (api_version, kind, manager) = ("e.com/v1", "Thing", "a");
        let (now, subresource, reset, versions) = ("2030-01-01T00:00:00Z", "", &[][..], &Alone);
        let write =
            Write { shape: &shape, api_version, kind, manager, subresource, reset, now, versions };
        let thing = |spec: &str| {
            let object = format!(r#"{{"apiVersion":"e.com/v1","kind":"Thing","spec":{spec}}}"#);
            apply(&write, None, &tree(&object), false).map_err(|error| error.to_string())
        };
        let held = thing("[[1,2],[2]]").expect("each is a set");
        let entry = &held["metadata"]["managedFields"].items()[0];
        assert_eq!(entry["fieldsV1"].unpacked(), tree(r#"{"f:spec":{}}"#));
        let twice = thing("[[1],[2,2]]").expect_err("not a set");
        assert!(twice.ends_with(".spec[1]: duplicate entries for key [=2]"), "{twice}");
    }
}
