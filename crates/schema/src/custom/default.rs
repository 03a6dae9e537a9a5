//! Fills in defaults, wherever in an object they stand.

use object::Value;

use super::schema::{Schema, entry_of};

/// Sets what is absent, or `null` without being allowed to be.
pub(super) fn fill(value: &mut Value, schema: Option<&Schema>) {
    let Some(schema) = schema else { return };
    match value {
        Value::List(items) => {
            let Some(inner) = schema.items() else { return };
            for item in items.make_mut() {
                replace(item, inner);
                fill(item, Some(inner));
            }
        }
        Value::Object(_) | Value::Map(_) => {
            for (name, property) in schema.properties() {
                let Some(default) = property.default_value() else { continue };
                let absent = match entry_of(value, name) {
                    None => true,
                    Some(found) => found.is_null() && !property.is_nullable(),
                };
                if absent {
                    value[name] = default.clone();
                }
            }
            value.retain(|name, value| {
                if let Some(inner) = schema.entry(name) {
                    if schema.property(name).is_none() {
                        replace(value, inner);
                    }
                    fill(value, Some(inner));
                }
                true
            });
        }
        _ => {}
    }
}

fn replace(value: &mut Value, schema: &Schema) {
    if value.is_null() && !schema.is_nullable() {
        *value = schema.default_value().cloned().unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::tree;

    #[test]
    fn defaults_go_down_to_where_there_is_something() {
        let schema = r#"{"properties":{"s":{"default":"d"},"o":{"properties":{"n":{"default":1}}},
            "p":{"default":{},"properties":{"n":{"default":2}}},"u":{"nullable":true,"default":"d"},
            "l":{"items":{"properties":{"n":{"default":3}}}},"m":{"additionalProperties":{"default":4}}}}"#;
        let schema = Schema::from(tree(schema));
        let mut object = tree(r#"{"s":null,"u":null,"l":[{}],"m":{"k":null}}"#);
        fill(&mut object, Some(&schema));
        let full = tree(r#"{"s":"d","p":{"n":2},"u":null,"l":[{"n":3}],"m":{"k":4}}"#);
        assert_eq!(object, full);
    }
}
