//! The defaults of a schema must themselves be as the schema wants them.

use object::Value;

use super::{
    check::Checker,
    meta::{check_embedded, check_object, coerce, coerce_embedded, coerce_whole},
    prune::prune,
    schema::{Schema, is_meta},
};
use crate::{Errors, Path, Unknown};

/// What is wrong with the defaults of a structural schema. `pruned`: they may not have
/// fields that the schema lacks.
pub fn check_defaults(schema: &Schema, at: &Path, pruned: bool, errs: &mut Errors) {
    let mut walk = Walk { pruned, errs };
    walk.node(schema, at, &mut Vec::new(), Place::Root);
}

/// Whether a default has fields that the schema lacks.
pub fn has_unpruned_defaults(schema: &Schema) -> bool {
    schema.has(&|schema| {
        schema.default_value().is_some_and(|default| {
            let (mut left, mut unknown) = (default.clone(), Unknown::new());
            prune(&mut left, schema, schema.is_embedded(), &mut unknown);
            left != *default
        })
    })
}

struct Walk<'a> {
    pruned: bool,
    errs: &'a mut Errors,
}

/// Where a node stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Root,
    /// In metadata, or in what names the kind, of an object.
    Meta,
    Elsewhere,
}

/// A step from an object down to one of its defaults.
#[derive(Clone, Copy)]
enum Down<'a> {
    Field(&'a str),
    Item,
}

impl<'s> Walk<'_> {
    /// `down` leads to the node from the object that it is in.
    fn node(&mut self, schema: &'s Schema, at: &Path, down: &mut Vec<Down<'s>>, place: Place) {
        let root = place == Place::Root;
        let whole = root || schema.is_embedded();
        let inside = place == Place::Meta && !whole;
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
        let below = if inside { Place::Meta } else { Place::Elsewhere };
        if let Some(items) = schema.items() {
            down.push(Down::Item);
            self.node(items, &at.field("items"), down, below);
            down.pop();
        }
        let properties = at.field("properties");
        for (name, property) in schema.properties() {
            down.push(Down::Field(name));
            let below = if whole && is_meta(name) { Place::Meta } else { below };
            self.node(property, &properties.key(name), down, below);
            down.pop();
        }
    }

    /// A default of or within metadata must leave metadata right.
    fn meta(&mut self, schema: &Schema, default: &Value, at: &Path, down: &[Down]) {
        let mut object = surrounded(default, down);
        for (name, value) in [("kind", "Validation"), ("apiVersion", "validation/v1")] {
            if object.get(name).is_null() {
                object[name] = value.into();
            }
        }
        if let Err(why) = coerce(&mut object, "", &mut Unknown::new()) {
            let why = format!("must result in valid metadata: {why}");
            return self.errs.invalid(at, default.clone(), why);
        }
        let mut found = Errors::default();
        check_object(&object, &Path::Root, &mut found);
        if !found.is_empty() {
            let all: Vec<_> = found.0.iter().map(ToString::to_string).collect();
            let all = if let [one] = &*all { one.clone() } else { format!("[{}]", all.join(", ")) };
            let why = format!("must result in valid metadata: {all}");
            return self.errs.invalid(at, default.clone(), why);
        }
        self.check(schema, default, at);
    }

    fn value(&mut self, schema: &Schema, default: &Value, at: &Path, root: bool) {
        let whole = root || schema.is_embedded();
        let mut left = default.clone();
        if self.pruned {
            prune(&mut left, schema, whole, &mut Unknown::new());
            if left != *default {
                self.errs.invalid(at, default.clone(), "must not have unknown fields");
            }
        }
        let place = at.to_string();
        let (mut coerced, mut unknown) = (default.clone(), Unknown::new());
        let root = root && default.is_object();
        let done = if root { coerce_whole(&mut coerced, &place, &mut unknown) } else { Ok(()) };
        let done =
            done.and_then(|()| coerce_embedded(&mut coerced, Some(schema), &place, &mut unknown));
        if let Err(why) = done {
            // The text has the form of an error of its own.
            let (path, why) = why.split_once(": Invalid value: ").unwrap_or((&place, &why));
            let (shown, why) = why.split_once(": ").unwrap_or(("", why));
            self.errs.invalid_shown(&Path::Root, shown.to_owned(), why);
            if let Some(last) = self.errs.0.last_mut() {
                path.clone_into(&mut last.path);
            }
            return;
        }
        let before = self.errs.0.len();
        if root {
            check_object(&coerced, at, self.errs);
        }
        check_embedded(&coerced, schema, at, self.errs);
        if self.errs.0.len() == before {
            self.check(schema, default, at);
        }
    }

    fn check(&mut self, schema: &Schema, default: &Value, at: &Path) {
        Checker::literal(schema).check(schema, (default, None), &at.to_string(), self.errs);
    }
}

/// The smallest object that has this value there.
fn surrounded(value: &Value, down: &[Down]) -> Value {
    down.iter().rev().fold(value.clone(), |value, step| match step {
        Down::Item => [value].into_iter().collect(),
        Down::Field(name) => {
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
        let mut errs = Errors::default();
        check_defaults(&Schema::from(tree(schema)), &Path::Root.field("s"), true, &mut errs);
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
