//! What the tests of kinds share: an object as the server would take it.

use object::{Text, from_json};
use schema::{Definition, Errors, Kind, Unknown, conform, normalize};

/// An object as it is after creation, or as far as it got.
pub(crate) fn created<K: Kind>(json: &str) -> K {
    let definition = Definition::of::<K>();
    let mut object = from_json(json.as_bytes()).expect("the test writes JSON");
    let mut unknown = Unknown::new();
    conform(&definition.shape, &mut object, &mut unknown).expect("the test knows the types");
    assert!(unknown.is_empty(), "unknown fields: {unknown:?}");
    normalize(&definition.shape, &mut object);
    definition.hooks.default_fields(&mut object);
    definition.hooks.prepare_create(&mut object);
    normalize(&definition.shape, &mut object);
    K::from(object)
}

/// What is wrong with a new object.
pub(crate) fn complaints<K: Kind>(object: &K) -> Vec<String> {
    told(|errs| object.validate(errs))
}

/// What is wrong with a change.
pub(crate) fn complaints_of_change<K: Kind>(new: &K, old: &K) -> Vec<String> {
    told(|errs| new.validate_update(old, errs))
}

/// The cells of an object's row, by the names of their columns.
pub(crate) fn cell<K: Kind>(object: &K, column: &str) -> Text {
    let column = K::COLUMNS.iter().find(|found| found.name == column).expect("a column's name");
    let value = (column.cell)(object, 1_900_000_000);
    match value.as_str() {
        Some(text) => text.into(),
        None => String::from_utf8_lossy(&object::to_json(&value)).as_ref().into(),
    }
}

fn told(check: impl Fn(&mut Errors)) -> Vec<String> {
    let mut errs = Errors::default();
    check(&mut errs);
    errs.0.iter().map(ToString::to_string).collect()
}
