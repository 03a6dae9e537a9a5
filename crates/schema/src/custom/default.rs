//! Applies the defaults of a CRD's schema to an object.

use object::Value;

use super::schema::{JsonSchema, get_entry};

/// After this many bytes of defaults no more are set. An object of that size is not stored anyway;
/// without the limit, a short list of empty objects whose schema has a long default could exhaust
/// the memory.
const MOST_BYTES: usize = 9 << 20;

/// Sets defaults for fields that are absent, or that are `null` and not nullable.
pub(super) fn apply_defaults(value: &mut Value, schema: Option<&JsonSchema>) {
    let mut room = MOST_BYTES;
    fill_within(value, schema, &mut room);
}

fn fill_within(value: &mut Value, schema: Option<&JsonSchema>, room: &mut usize) {
    let Some(schema) = schema.filter(|_| *room > 0) else { return };
    match value {
        Value::List(items) => {
            let Some(inner) = schema.items() else { return };
            for item in items.make_mut() {
                replace(item, inner, room);
                fill_within(item, Some(inner), room);
            }
        }
        Value::Object(_) | Value::Map(_) => {
            for (name, property) in schema.properties() {
                let Some(default) = property.default_value() else { continue };
                let absent = match get_entry(value, name) {
                    None => true,
                    Some(found) => found.is_null() && !property.is_nullable(),
                };
                if absent && *room > 0 {
                    *room = room.saturating_sub(name.len() + written_bytes(default));
                    value[name] = default.clone();
                }
            }
            value.retain(|name, value| {
                if let Some(inner) = schema.entry(name) {
                    if schema.property(name).is_none() {
                        replace(value, inner, room);
                    }
                    fill_within(value, Some(inner), room);
                }
                true
            });
        }
        _ => {}
    }
}

fn replace(value: &mut Value, schema: &JsonSchema, room: &mut usize) {
    if value.is_null() && !schema.is_nullable() && *room > 0 {
        *value = schema.default_value().cloned().unwrap_or_default();
        *room = room.saturating_sub(written_bytes(value));
    }
}

/// The minimum size of a value in JSON, in bytes.
fn written_bytes(value: &Value) -> usize {
    let items: usize = value.items().iter().map(written_bytes).sum();
    let entries = value.entries().map(|(name, value)| name.len() + written_bytes(value));
    value.as_str().map_or(1, str::len) + items + entries.sum::<usize>()
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
        let schema = JsonSchema::from(tree(schema));
        let mut object = tree(r#"{"s":null,"u":null,"l":[{}],"m":{"k":null}}"#);
        apply_defaults(&mut object, Some(&schema));
        let full = tree(r#"{"s":"d","p":{"n":2},"u":null,"l":[{"n":3}],"m":{"k":4}}"#);
        assert_eq!(object, full);
    }

    #[test]
    fn defaults_do_not_multiply_without_end() {
        let text = "y".repeat(1_000);
        let long = vec!["{}"; 100].join(",");
        let schema = format!(
            r#"{{"properties":{{"l":{{"items":{{"properties":{{"d":{{"default":[{long}],
            "items":{{"properties":{{"x":{{"default":"{text}"}}}}}}}}}}}}}}}}}}"#
        );
        let schema = JsonSchema::from(tree(&schema));
        let many = vec!["{}"; 10_000].join(",");
        let mut object = tree(&format!(r#"{{"l":[{many}]}}"#));
        apply_defaults(&mut object, Some(&schema));
        let size = object::to_json(&object).len();
        assert!(size > 8 << 20, "{size}: must be more than is stored");
        assert!(size < 100 << 20, "{size}");
    }
}
