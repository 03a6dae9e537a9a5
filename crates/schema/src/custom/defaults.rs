//! Validates the defaults in a CRD's schema against that schema.

use object::Value;

use super::{
    check::SchemaValidator,
    meta::{
        check_embedded, coerce_embedded, coerce_metadata, coerce_type_and_metadata,
        validate_embedded_object,
    },
    prune::prune,
    schema::{JsonSchema, is_meta},
};
use crate::{ErrorList, FieldPath, UnknownFields};

/// Reports the errors of the defaults of a structural schema. `pruned`: they may not have fields
/// that the schema lacks.
pub fn validate_defaults(schema: &JsonSchema, at: &FieldPath, pruned: bool, errs: &mut ErrorList) {
    let mut walk = Walk { pruned, errs };
    walk.node(schema, at, &mut Vec::new(), NodePosition::Root);
}

/// Whether a default has fields that the schema lacks.
pub fn has_defaults_with_unknown_fields(schema: &JsonSchema) -> bool {
    schema.any_node(&|schema| {
        schema.default_value().is_some_and(|default| {
            let (mut left, mut unknown) = (default.clone(), UnknownFields::new());
            prune(&mut left, schema, schema.is_embedded_resource(), &mut unknown);
            left != *default
        })
    })
}

/// Walks a schema and validates its defaults.
struct Walk<'a> {
    pruned: bool,
    errs: &'a mut ErrorList,
}

/// The position of a node in the schema.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NodePosition {
    Root,
    /// Inside `metadata`, `apiVersion` or `kind` of an object.
    Meta,
    Elsewhere,
}

/// A step from an object to one of its defaults.
#[derive(Clone, Copy)]
enum PathStep<'a> {
    Field(&'a str),
    Item,
}

impl<'s> Walk<'_> {
    /// Validates a node. `down` is the path from the enclosing object to the node.
    fn node(
        &mut self,
        schema: &'s JsonSchema,
        at: &FieldPath,
        down: &mut Vec<PathStep<'s>>,
        place: NodePosition,
    ) {
        let root = place == NodePosition::Root;
        let whole = root || schema.is_embedded_resource();
        let inside = place == NodePosition::Meta && !whole;
        if let Some(default) = schema.default_value() {
            let here = at.field("default");
            if inside {
                self.meta(schema, default, &here, down);
            } else {
                self.value(schema, default, &here, root);
            }
        }
        let mut fresh = Vec::new();
        let down = if whole { &mut fresh } else { down };
        let below = if inside { NodePosition::Meta } else { NodePosition::Elsewhere };
        if let Some(items) = schema.items() {
            down.push(PathStep::Item);
            self.node(items, &at.field("items"), down, below);
            down.pop();
        }
        let properties = at.field("properties");
        for (name, property) in schema.properties() {
            down.push(PathStep::Field(name));
            let below = if whole && is_meta(name) { NodePosition::Meta } else { below };
            self.node(property, &properties.key(name), down, below);
            down.pop();
        }
    }

    /// Validates a default of or inside metadata: the metadata must be valid with it.
    fn meta(&mut self, schema: &JsonSchema, default: &Value, at: &FieldPath, down: &[PathStep]) {
        let mut object = wrap_at_path(default, down);
        for (name, value) in [("kind", "Validation"), ("apiVersion", "validation/v1")] {
            if object.get(name).is_null() {
                object[name] = value.into();
            }
        }
        if let Err(why) = coerce_metadata(&mut object, "", &mut UnknownFields::new()) {
            let why = format!("must result in valid metadata: {why}");
            return self.errs.invalid(at, default.clone(), why);
        }
        let mut found = ErrorList::default();
        validate_embedded_object(&object, &FieldPath::Root, &mut found);
        if !found.is_empty() {
            let all: Vec<_> = found.0.iter().map(ToString::to_string).collect();
            let all = if let [one] = &*all { one.clone() } else { format!("[{}]", all.join(", ")) };
            let why = format!("must result in valid metadata: {all}");
            return self.errs.invalid(at, default.clone(), why);
        }
        self.check(schema, default, at);
    }

    fn value(&mut self, schema: &JsonSchema, default: &Value, at: &FieldPath, root: bool) {
        let whole = root || schema.is_embedded_resource();
        let mut left = default.clone();
        if self.pruned {
            prune(&mut left, schema, whole, &mut UnknownFields::new());
            if left != *default {
                self.errs.invalid(at, default.clone(), "must not have unknown fields");
            }
        }
        let place = at.to_string();
        let (mut coerced, mut unknown) = (default.clone(), UnknownFields::new());
        let root = root && default.is_object();
        let done = if root {
            coerce_type_and_metadata(&mut coerced, &place, &mut unknown)
        } else {
            Ok(())
        };
        let done =
            done.and_then(|()| coerce_embedded(&mut coerced, Some(schema), &place, &mut unknown));
        if let Err(why) = done {
            // The message is itself a formatted field error.
            let (path, why) = why.split_once(": Invalid value: ").unwrap_or((&place, &why));
            let (shown, why) = why.split_once(": ").unwrap_or(("", why));
            self.errs.invalid_formatted(&FieldPath::Root, shown.to_owned(), why);
            if let Some(last) = self.errs.0.last_mut() {
                path.clone_into(&mut last.path);
            }
            return;
        }
        let before = self.errs.0.len();
        if root {
            validate_embedded_object(&coerced, at, self.errs);
        }
        check_embedded(&coerced, schema, at, self.errs);
        if self.errs.0.len() == before {
            self.check(schema, default, at);
        }
    }

    fn check(&mut self, schema: &JsonSchema, default: &Value, at: &FieldPath) {
        SchemaValidator::literal(schema).validate(
            schema,
            (default, None),
            &at.to_string(),
            self.errs,
        );
    }
}

/// The smallest object that has this value at the path.
fn wrap_at_path(value: &Value, down: &[PathStep]) -> Value {
    down.iter().rev().fold(value.clone(), |value, step| match step {
        PathStep::Item => [value].into_iter().collect(),
        PathStep::Field(name) => {
            let mut object = Value::object();
            object[*name] = value;
            object
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::tree;

    fn complaints(schema: &str) -> Vec<String> {
        let mut errs = ErrorList::default();
        validate_defaults(
            &JsonSchema::from(tree(schema)),
            &FieldPath::Root.field("s"),
            true,
            &mut errs,
        );
        errs.0.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_default_is_as_the_schema_wants_it() {
        let schema = |default: &str| {
            format!(
                r#"{{"type":"object","properties":{{"a":{{"type":"object","default":{default},
                "properties":{{"b":{{"type":"integer"}}}}}}}}}}"#
            )
        };
        assert_eq!(complaints(&schema(r#"{"b":1}"#)), [""; 0]);
        assert_eq!(
            complaints(&schema(r#"{"z":1}"#)),
            [r#"s.properties[a].default: Invalid value: {"z":1}: must not have unknown fields"#]
        );
        assert_eq!(
            complaints(&schema(r#"{"b":"x"}"#)),
            [
                r#"s.properties[a].default.b: Invalid value: "string": b in body must be of type integer: "string""#
            ]
        );
    }
}
