//! Go's encoding of patched objects, and upstream's errors for patch results that are not valid
//! objects.

use object::{StructSchema, Type, Value, to_json};

use crate::coerce;

/// The object as JSON with the fields in Go's order.
pub fn to_go_json(shape: &StructSchema, object: &Value) -> String {
    let mut text = String::new();
    // Custom resources have no Go types.
    let shape = Some(shape).filter(|shape| !shape.rust_module.is_empty());
    write_object(shape, None, object, &mut text);
    text
}

/// Converts a merged untyped object to its types, as upstream's `FromUnstructured`: numbers are
/// truncated to their size. The error is that of `FromUnstructured`.
pub fn from_unstructured(
    version: &str,
    shape: &StructSchema,
    value: &mut Value,
) -> Result<(), String> {
    if !value.is_object() {
        return Err(format!("cannot restore struct from: {}", go_kind(value)));
    }
    shape.fields_in_go_order().into_iter().try_for_each(|field| match value.get(&field.name) {
        Value::Null => Ok(()),
        _ => restore_as(version, &field.ty, field.attributes.go_type, &mut value[&*field.name]),
    })
}

/// The strict decoding errors of a JSON patch: unknown fields, and the duplicate ones in `twice`.
pub fn strict_patch_errors(patch: &Value, twice: &[String]) -> Vec<String> {
    let strays = patch.items().iter().enumerate().flat_map(|(i, operation)| {
        let names = operation.entries().map(|(name, _)| name);
        names
            .filter(|name| !matches!(*name, "op" | "path" | "from" | "value"))
            .map(move |name| format!("json patch unknown field \"[{i}].{name}\""))
    });
    let twice = twice.iter().map(|path| format!("json patch duplicate field {path:?}"));
    strays.chain(twice).collect()
}

fn write(ty: Option<&Type>, value: &Value, text: &mut String) {
    match (ty, value) {
        (
            Some(Type::Object(shape) | Type::StructOr(shape, _)),
            Value::Object(_) | Value::Map(_),
        ) => {
            write_object(Some(shape), None, value, text);
        }
        (Some(Type::Map(item)), Value::Object(_) | Value::Map(_)) => {
            write_object(None, Some(item), value, text);
        }
        (Some(Type::List(item)), Value::List(items)) => {
            for (i, inner) in items.iter().enumerate() {
                text.push(if i == 0 { '[' } else { ',' });
                write(Some(item), inner, text);
            }
            text.push_str(if items.is_empty() { "[]" } else { "]" });
        }
        _ => text.push_str(&String::from_utf8_lossy(&to_json(value))),
    }
}

/// Writes a struct, or a map whose values have one type.
fn write_object(
    shape: Option<&StructSchema>,
    item: Option<&Type>,
    value: &Value,
    text: &mut String,
) {
    let mut entries: Vec<_> = value.entries().collect();
    entries.sort_unstable_by_key(|entry| entry.0);
    if let Some(shape) = shape {
        let fields = shape.fields_in_go_order();
        let place = |name: &str| fields.iter().position(|field| field.name == name);
        // Go writes kind and apiVersion before all fields.
        entries.sort_by_key(|(name, _)| (place(name), *name != "kind"));
    }
    text.push('{');
    for (i, (name, inner)) in entries.into_iter().enumerate() {
        text.push_str(if i == 0 { "" } else { "," });
        text.push_str(&String::from_utf8_lossy(&to_json(&name.into())));
        text.push(':');
        let field = shape.and_then(|shape| shape.field(name));
        write(field.map(|field| &*field.ty).or(item), inner, text);
    }
    text.push('}');
}

fn restore_as(
    version: &str,
    ty: &Type,
    go: Option<&'static str>,
    value: &mut Value,
) -> Result<(), String> {
    let kind = go_kind(value);
    match (ty, &mut *value) {
        (Type::Text | Type::Enum(_), Value::Text(_))
        | (Type::Bool, Value::Bool(_))
        | (Type::Int64 | Type::Float, Value::UInt(_))
        | (Type::Float, Value::Int(_) | Value::Float(_)) => Ok(()),
        (Type::Int32 | Type::Int64, Value::Int(_) | Value::Float(_)) => truncate_integer(ty, value),
        (Type::Object(shape), _) => from_unstructured(version, shape, value),
        (Type::Map(item), Value::Object(_) | Value::Map(_)) => {
            let go = go.and_then(|go| go.split_once(']')).map(|(_, item)| item);
            let mut done = Ok(());
            value.retain(|_, inner| {
                if done.is_ok() && !inner.is_null() {
                    done = restore_as(version, item, go, inner);
                }
                true
            });
            done
        }
        (Type::List(item), Value::List(items)) => {
            let go = go.and_then(|go| go.strip_prefix("[]"));
            let mut items = items.make_mut().iter_mut().filter(|item| !item.is_null());
            items.try_for_each(|inner| restore_as(version, item, go, inner))
        }
        (Type::Map(_), _) => Err(format!("cannot restore map from {kind}")),
        (Type::Bytes, Value::Text(_)) => coerce::coerce_value(ty, value)
            .map_err(|why| format!("error decoding from json: {why}")),
        (Type::List(_) | Type::Bytes, _) => Err(format!("cannot restore slice from {kind}")),
        (Type::Text | Type::Enum(_), Value::Int(_) | Value::UInt(_)) => {
            let go = go.map_or("string".to_owned(), |go| go.replace('$', version));
            Err(format!("cannot convert {kind} to {go}"))
        }
        (Type::Text | Type::Enum(_) | Type::Bool | Type::Int32 | Type::Int64 | Type::Float, _) => {
            Err(format!("unrecognized type: {}", plain(ty)))
        }
        _ => coerce::coerce_value(ty, value),
    }
}

/// Converts an integer to the size of the type, as Go does.
#[expect(clippy::cast_possible_truncation, reason = "so does Go")]
fn truncate_integer(ty: &Type, value: &mut Value) -> Result<(), String> {
    let whole = match &*value {
        Value::Float(n) if n.fract() == 0.0 => *n as i64,
        Value::Float(_) => return Err(format!("cannot convert float64 to {}", plain(ty))),
        other => other.as_i64().unwrap_or_default(),
    };
    *value = if matches!(ty, Type::Int32) { i64::from(whole as i32) } else { whole }.into();
    Ok(())
}

/// Go's name of a scalar type.
fn plain(ty: &Type) -> &'static str {
    match ty {
        Type::Bool => "bool",
        Type::Int32 => "int32",
        Type::Int64 => "int64",
        Type::Float => "float64",
        _ => "string",
    }
}

/// Go's reflect kind of an untyped value.
fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "ptr",
        Value::Bool(_) => "bool",
        Value::Int(_) | Value::UInt(_) => "int64",
        Value::Float(_) => "float64",
        Value::Text(_) => "string",
        Value::List(_) => "slice",
        Value::Object(_) | Value::Map(_) | Value::Raw(_) => "map",
    }
}

#[cfg(test)]
mod tests {
    use object::Lens;

    use super::*;
    use crate::sample::{Sample, tree};

    #[test]
    fn fields_stand_in_the_order_of_their_declaration() {
        let object = tree(r#"{"spec":{"replicas":1,"containers":[{"name":"a","image":"i"}]}}"#);
        assert_eq!(
            to_go_json(Sample::SHAPE, &object),
            r#"{"spec":{"replicas":1,"containers":[{"name":"a","image":"i"}]}}"#
        );
    }

    #[test]
    fn misfits_in_the_words_of_who_restores() {
        for (object, said) in [
            (r#"{"spec":5}"#, "cannot restore struct from: int64"),
            (r#"{"spec":{"containers":"x"}}"#, "cannot restore slice from string"),
            (r#"{"spec":{"replicas":"x"}}"#, "unrecognized type: int32"),
            (r#"{"spec":{"replicas":1.5}}"#, "cannot convert float64 to int32"),
        ] {
            let done = from_unstructured("v1", Sample::SHAPE, &mut tree(object));
            assert_eq!(done, Err(said.to_owned()), "{object}");
        }
        let mut wide = tree(r#"{"spec":{"replicas":4294967297}}"#);
        assert_eq!(from_unstructured("v1", Sample::SHAPE, &mut wide), Ok(()));
        assert_eq!(wide, tree(r#"{"spec":{"replicas":1}}"#));
    }

    #[test]
    fn odd_operations_are_told() {
        let patch = tree(r#"[{"op":"test","path":"/a","value":1,"why":2}]"#);
        assert_eq!(
            strict_patch_errors(&patch, &["[0].op".to_owned()]),
            ["json patch unknown field \"[0].why\"", "json patch duplicate field \"[0].op\""]
        );
    }
}
