//! What `explain` says: a sentence of every kind and of every field.

use std::collections::{BTreeSet, HashSet};

use object::{StructSchema, Type};

#[test]
fn every_field_is_explained() {
    let (mut seen, mut missing) = (HashSet::new(), BTreeSet::new());
    for kind in api::builtin_resources() {
        if kind.schema.doc.is_empty() {
            missing.insert(kind.names.kind.to_owned());
        }
        walk(&kind.schema, &mut seen, &mut missing);
    }
    assert!(missing.is_empty(), "{} without a word: {missing:?}", missing.len());
    assert!(seen.len() > 500, "only {} types were looked at", seen.len());
}

fn walk(
    shape: &StructSchema,
    seen: &mut HashSet<(String, &'static str)>,
    missing: &mut BTreeSet<String>,
) {
    if !seen.insert((shape.name.to_string(), shape.rust_module)) {
        return;
    }
    for field in shape.json_fields() {
        if field.doc.is_empty() {
            missing.insert(format!("{}.{}", shape.name, field.name));
        }
        let mut ty = &*field.ty;
        while let Type::List(inner) | Type::Map(inner) = ty {
            ty = inner;
        }
        if let Type::Object(inner) | Type::StructOr(inner, _) = ty {
            walk(inner, seen, missing);
        }
    }
}
