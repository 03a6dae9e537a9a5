//! Subresources that update a single field of an object.

use object::Value;
use schema::SubresourceField;

/// The old object with this field and the metadata of the new one.
pub(super) fn with_subresource_field(old: &Value, new: &Value, field: SubresourceField) -> Value {
    let SubresourceField { parent, name: field } = field;
    let mut object = old.clone();
    match new.get(parent).get(field) {
        Value::Null => {
            if object.get(parent).is_object() {
                object[parent].remove(field);
            }
        }
        value => object[parent][field] = value.clone(),
    }
    object["metadata"] = new.get("metadata").clone();
    object
}

#[cfg(test)]
mod tests {
    use object::from_json;

    use super::*;

    #[test]
    fn one_part_and_the_metadata_change() {
        let tree = |text: &str| from_json(text.as_bytes()).expect("well formed");
        let old = tree(r#"{"metadata":{"name":"a"},"spec":{"b":1},"status":{"c":1,"d":1}}"#);
        let new = tree(r#"{"metadata":{"name":"a","labels":{}},"spec":{"b":2},"status":{"c":2}}"#);
        let changed =
            tree(r#"{"metadata":{"name":"a","labels":{}},"spec":{"b":1},"status":{"c":2,"d":1}}"#);
        let field = SubresourceField { parent: "status", name: "c" };
        assert_eq!(with_subresource_field(&old, &new, field), changed);
    }
}
