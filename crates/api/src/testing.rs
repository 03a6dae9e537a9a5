//! What the tests of kinds share: an object as the server would take it.

use object::{Text, from_json};
use schema::{ErrorList, Kind, ResourceDefinition, UnknownFields, coerce_to_schema, normalize};

/// An object as it is after creation, or as far as it got.
pub(crate) fn created_from_json<K: Kind>(json: &str) -> K {
    let definition = ResourceDefinition::from_kind::<K>();
    let mut object = from_json(json.as_bytes()).expect("the test writes JSON");
    let mut unknown = UnknownFields::new();
    coerce_to_schema(&definition.schema, &mut object, &mut unknown)
        .expect("the test knows the types");
    assert!(unknown.is_empty(), "unknown fields: {unknown:?}");
    normalize(&definition.schema, &mut object);
    definition.strategy.default_fields(&mut object);
    definition.strategy.prepare_for_create(&mut object);
    normalize(&definition.schema, &mut object);
    K::from(object)
}

/// What is wrong with a new object.
pub(crate) fn create_errors<K: Kind>(object: &K) -> Vec<String> {
    collect_errors(|errs| object.validate(errs))
}

/// What is wrong with a change.
pub(crate) fn update_errors<K: Kind>(new: &K, old: &K) -> Vec<String> {
    collect_errors(|errs| new.validate_update(old, errs))
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

fn collect_errors(check: impl Fn(&mut ErrorList)) -> Vec<String> {
    let mut errs = ErrorList::default();
    check(&mut errs);
    errs.0.iter().map(ToString::to_string).collect()
}
