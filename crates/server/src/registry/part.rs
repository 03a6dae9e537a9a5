//! Subresources that change one part of an object and nothing else.

use object::Value;

/// The old object with that field of the new one.
pub(super) fn with_part(old: &Value, new: &Value, parent: &str, field: &str) -> Value {
    let mut object = old.clone();
    match new.get(parent).get(field) {
        Value::Null => {
            if object.get(parent).is_object() {
                object[parent].remove(field);
            }
        }
        value => object[parent][field] = value.clone(),
    }
    object
}
