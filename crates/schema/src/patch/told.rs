//! How upstream tells that what came of a patch is no object of its kind.

use object::{Field, Struct, Type, Value, to_json};

/// The patched object in JSON. What the patch has not touched is as Go writes it, field
/// by field; where it has, names are sorted.
pub fn as_written(shape: &Struct, before: &Value, given: &Value) -> String {
    let mut text = String::new();
    let shape = Some(shape).filter(|shape| !shape.module.is_empty()); // Go has no custom types
    write_object(shape, Some(before), given, &mut text);
    text
}

/// What keeps the object from being read back, in the words of who restores objects from
/// maps. `None`: nothing that it would notice.
pub fn misfit(shape: &Struct, value: &Value) -> Option<String> {
    if !value.is_object() {
        return Some(format!("cannot restore struct from: {}", go_kind(value)));
    }
    shape.written().into_iter().find_map(|field| {
        let inner = value.get(&field.name);
        if inner.is_null() { None } else { of_type(&field.ty, field.rules.go, inner) }
    })
}

/// What is odd about the operations of a JSON patch. `twice`: the paths that it has twice.
pub fn odd_operations(patch: &Value, twice: &[String]) -> Vec<String> {
    let strays = patch.items().iter().enumerate().flat_map(|(i, operation)| {
        let names = operation.entries().map(|(name, _)| name);
        names
            .filter(|name| !matches!(*name, "op" | "path" | "from" | "value"))
            .map(move |name| format!("json patch unknown field \"[{i}].{name}\""))
    });
    let twice = twice.iter().map(|path| format!("json patch duplicate field {path:?}"));
    strays.chain(twice).collect()
}

fn write(ty: Option<&Type>, before: Option<&Value>, value: &Value, text: &mut String) {
    match (ty, value) {
        (_, Value::Object(_) | Value::Map(_)) => {
            let shape = match ty {
                Some(Type::Object(shape)) => Some(&**shape),
                _ => None,
            };
            write_object(shape, before, value, text);
        }
        (_, Value::List(items)) => {
            let item = match ty {
                Some(Type::List(item)) => Some(&**item),
                _ => None,
            };
            let same = before == Some(value);
            text.push('[');
            for (i, inner) in items.iter().enumerate() {
                text.push_str(if i == 0 { "" } else { "," });
                let old = before.and_then(|before| before.items().get(i));
                write(item, if same { Some(inner) } else { old }, inner, text);
            }
            text.push(']');
        }
        _ => text.push_str(&String::from_utf8_lossy(&to_json(value))),
    }
}

fn write_object(shape: Option<&Struct>, before: Option<&Value>, value: &Value, text: &mut String) {
    let mut entries: Vec<_> = value.entries().collect();
    entries.sort_unstable_by_key(|entry| entry.0);
    if let Some(shape) = shape.filter(|_| before == Some(value)) {
        let fields = shape.written();
        let place = |name: &str| fields.iter().position(|field| field.name == name);
        entries.sort_by_key(|entry| place(entry.0));
    }
    text.push('{');
    for (i, (name, inner)) in entries.into_iter().enumerate() {
        text.push_str(if i == 0 { "" } else { "," });
        text.push_str(&String::from_utf8_lossy(&to_json(&name.into())));
        text.push(':');
        let ty = shape.and_then(|shape| shape.field(name)).map(|field: &Field| &*field.ty);
        write(ty, before.map(|before| before.get(name)), inner, text);
    }
    text.push('}');
}

fn of_type(ty: &Type, go: Option<&'static str>, value: &Value) -> Option<String> {
    let kind = go_kind(value);
    match (ty, value) {
        (Type::Bytes | Type::Text | Type::Enum(_), Value::Text(_))
        | (Type::Bool, Value::Bool(_))
        | (Type::Int32 | Type::Int64 | Type::Float, Value::Int(_) | Value::UInt(_))
        | (Type::Float, Value::Float(_)) => None,
        (Type::Object(shape), _) => misfit(shape, value),
        (Type::Map(item), Value::Object(_) | Value::Map(_)) => {
            let go = go.and_then(|go| go.split_once(']')).map(|(_, item)| item);
            value.entries().find_map(|(_, inner)| of_type(item, go, inner))
        }
        (Type::Map(_), _) => Some(format!("cannot restore map from {kind}")),
        (Type::List(item), Value::List(items)) => {
            let go = go.and_then(|go| go.strip_prefix("[]"));
            items.iter().filter(|item| !item.is_null()).find_map(|inner| of_type(item, go, inner))
        }
        (Type::List(_) | Type::Bytes, _) => Some(format!("cannot restore slice from {kind}")),
        (Type::Text | Type::Enum(_), Value::Int(_) | Value::UInt(_)) => {
            Some(format!("cannot convert {kind} to {}", go.unwrap_or("string")))
        }
        (Type::Int32 | Type::Int64, Value::Float(_)) => {
            Some(format!("cannot convert {kind} to {}", plain(ty)))
        }
        (Type::Text | Type::Enum(_) | Type::Bool | Type::Int32 | Type::Int64 | Type::Float, _) => {
            Some(format!("unrecognized type: {}", plain(ty)))
        }
        _ => None,
    }
}

/// What Go calls a plain type.
fn plain(ty: &Type) -> &'static str {
    match ty {
        Type::Bool => "bool",
        Type::Int32 => "int32",
        Type::Int64 => "int64",
        Type::Float => "float64",
        _ => "string",
    }
}

/// What Go calls the kind of a value that no type is known of.
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
    fn untouched_parts_keep_the_order_of_their_fields() {
        let before = tree(r#"{"spec":{"replicas":1,"containers":[{"name":"a","image":"i"}]}}"#);
        let mut given = before.clone();
        given["spec"]["replicas"] = "x".into();
        assert_eq!(
            as_written(Sample::SHAPE, &before, &given),
            r#"{"spec":{"containers":[{"name":"a","image":"i"}],"replicas":"x"}}"#
        );
    }

    #[test]
    fn misfits_in_the_words_of_who_restores() {
        for (object, said) in [
            (r#"{"spec":5}"#, Some("cannot restore struct from: int64")),
            (r#"{"spec":{"containers":"x"}}"#, Some("cannot restore slice from string")),
            (r#"{"spec":{"replicas":"x"}}"#, Some("unrecognized type: int32")),
            (r#"{"spec":{"replicas":1}}"#, None),
        ] {
            assert_eq!(misfit(Sample::SHAPE, &tree(object)).as_deref(), said, "{object}");
        }
    }

    #[test]
    fn odd_operations_are_told() {
        let patch = tree(r#"[{"op":"test","path":"/a","value":1,"why":2}]"#);
        assert_eq!(
            odd_operations(&patch, &["[0].op".to_owned()]),
            ["json patch unknown field \"[0].why\"", "json patch duplicate field \"[0].op\""]
        );
    }
}
