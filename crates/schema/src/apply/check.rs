//! Validates an apply configuration against the schema, with upstream's messages.

use std::collections::BTreeSet;

use object::{Type, Value};

use crate::patch::{go_type, printed};

use super::{
    fields::{EntryName, PathElement, format_path},
    merge_type::{LIST_ITEM, MergeType},
};

/// The errors of `applied`; `None` if there are none.
pub(super) fn validate_applied(form: MergeType, applied: &Value) -> Option<String> {
    let mut errors = Vec::new();
    object(form, applied, &mut Vec::new(), &mut errors);
    match &*errors {
        [] => None,
        [one] => Some(one.clone()),
        many => Some(format!("errors:\n  {}", many.join("\n  "))),
    }
}

fn push_error(path: &[PathElement], message: impl AsRef<str>, errors: &mut Vec<String>) {
    let message = message.as_ref();
    let at = format_path(path);
    errors.push(if at.is_empty() { message.to_owned() } else { format!("{at}: {message}") });
}

fn object(form: MergeType, value: &Value, path: &mut Vec<PathElement>, errors: &mut Vec<String>) {
    if value.is_null() {
        return;
    } else if !value.is_object() {
        return push_error(path, format!("expected map, got &{{{}}}", printed(value)), errors);
    }
    for (name, inner) in value.entries() {
        path.push(PathElement::field(EntryName::of(name)));
        match form {
            MergeType::Struct { shape, root } => match shape.field(name) {
                Some(field) => {
                    self::value(
                        &field.ty,
                        MergeType::of(&field.ty, Some(&field.attributes)),
                        inner,
                        path,
                        errors,
                    );
                }
                None if root && matches!(name, "apiVersion" | "kind") => {
                    self::value(&Type::Text, MergeType::Leaf, inner, path, errors);
                }
                None if shape.preserve_unknown_fields || shape.fields.is_empty() => {}
                // Upstream stops at the first unknown field.
                None => {
                    push_error(path, "field not declared in schema", errors);
                    path.pop();
                    return;
                }
            },
            MergeType::Map(item, rules) => {
                self::value(item, MergeType::of(item, rules), inner, path, errors);
            }
            _ => {}
        }
        path.pop();
    }
}

fn value(
    ty: &Type,
    form: MergeType,
    value: &Value,
    path: &mut Vec<PathElement>,
    errors: &mut Vec<String>,
) {
    let got = || format!("&{{{}}}", printed(value));
    match (ty, value) {
        // Invalid strings and numbers of these types are reported when the object is coerced.
        (Type::Any | Type::StructOr(..) | Type::IntOrString, _)
        | (_, Value::Null)
        | (Type::Bool, Value::Bool(_)) => {}
        (Type::Object(shape), _) => match &*shape.fields {
            [item] if item.name == LIST_ITEM => {
                self::value(&item.ty, MergeType::of_struct(shape), value, path, errors);
            }
            _ => object(MergeType::of_struct(shape), value, path, errors),
        },
        (Type::Map(item), _) => object(MergeType::Map(item, None), value, path, errors),
        (Type::List(item), Value::List(_)) => items(item, form, value, path, errors),
        (Type::List(_), _) => push_error(path, format!("expected list, got {}", got()), errors),
        (Type::Bool, _) => push_error(path, format!("expected boolean, got {}", got()), errors),
        (Type::Int32 | Type::Int64 | Type::UInt64 | Type::Float, value) => {
            if !matches!(value, Value::Int(_) | Value::UInt(_) | Value::Float(_)) {
                let message = format!("expected numeric (int or float), got {}", go_type(value));
                push_error(path, message, errors);
            }
        }
        (Type::Quantity | Type::Time | Type::MicroTime, value) => {
            if value.is_object() || matches!(value, Value::List(_)) {
                push_error(path, format!("expected any scalar, got {}", got()), errors);
            }
        }
        (_, Value::Text(_)) => {}
        (_, value) => {
            let got = format!("&value.valueUnstructured{{Value:{}}}", go_syntax(value));
            push_error(path, format!("expected string, got {got}"), errors);
        }
    }
}

fn items(
    ty: &Type,
    form: MergeType,
    list: &Value,
    path: &mut Vec<PathElement>,
    errors: &mut Vec<String>,
) {
    let mut seen = BTreeSet::new();
    for (at, item) in list.items().iter().enumerate() {
        let step =
            match if form.is_list() { form.path_element(item) } else { Ok(PathElement::index(at)) }
            {
                Ok(step) => step,
                Err(error) => return push_error(path, format!("element {at}: {error}"), errors),
            };
        if form.is_list() && !seen.insert(step.clone()) {
            let key = format_path(std::slice::from_ref(&step));
            push_error(path, format!("duplicate entries for key {key}"), errors);
        }
        path.push(step);
        value(ty, MergeType::of(ty, None), item, path, errors);
        path.pop();
    }
}

/// Formats a value like Go's `%#v`.
fn go_syntax(value: &Value) -> String {
    let joined = |parts: Vec<String>| parts.join(", ");
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::Text(text) => format!("{text:?}"),
        Value::List(items) => {
            format!("[]interface {{}}{{{}}}", joined(items.iter().map(go_syntax).collect()))
        }
        Value::Object(_) | Value::Map(_) => {
            let entries =
                value.entries().map(|(name, inner)| format!("{name:?}:{}", go_syntax(inner)));
            format!("map[string]interface {{}}{{{}}}", joined(entries.collect()))
        }
        plain => printed(plain),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::tree;

    #[test]
    fn values_as_go_prints_them() {
        assert_eq!(
            go_syntax(&tree(r#"[null,"x",5]"#)),
            r#"[]interface {}{interface {}(nil), "x", 5}"#
        );
        assert_eq!(
            go_syntax(&tree(r#"{"k":{}}"#)),
            r#"map[string]interface {}{"k":map[string]interface {}{}}"#
        );
    }
}
