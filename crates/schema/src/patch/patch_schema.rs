//! The schema position of a strategic merge patch, and Go's formatting of values in its errors.

use object::{FieldSchema, StructSchema, Type, Value};

use super::PatchError;

/// The type of the value being merged.
#[derive(Clone, Copy, Debug)]
pub(super) enum PatchSchema<'a> {
    Struct(&'a StructSchema),
    /// A map with values of this type.
    Map(&'a Type),
    /// A type without named fields.
    Other(&'a Type),
}

/// How an object is merged.
#[derive(Clone, Copy, Debug)]
pub(super) struct ObjectPatchMeta<'a> {
    pub(super) of: PatchSchema<'a>,
    /// The object is replaced, not merged.
    pub(super) replace: bool,
    pub(super) retain_keys: bool,
}

/// Whether a strategic merge patch replaces this object; it is the only one.
pub(crate) fn is_replaced(shape: &str, field: &str) -> bool {
    shape == "PodDisruptionBudgetSpec" && field == "selector"
}

/// How a list is merged.
#[derive(Clone, Copy, Debug)]
pub(super) struct ListPatchMeta<'a> {
    pub(super) of: PatchSchema<'a>,
    /// Whether the list is merged item by item; otherwise it is replaced.
    pub(super) merge: bool,
    /// The merge key; empty for scalars.
    pub(super) key: &'a str,
    pub(super) retain_keys: bool,
}

impl<'a> PatchSchema<'a> {
    fn of(ty: &'a Type) -> Self {
        match ty {
            Type::Object(shape) => Self::Struct(shape),
            Type::Map(item) => Self::Map(item),
            other => Self::Other(other),
        }
    }

    /// How the object at `name` is merged.
    pub(super) fn object(self, name: &str) -> Result<ObjectPatchMeta<'a>, PatchError> {
        let (ty, field) = self.find(name)?;
        let retain_keys = field.is_some_and(|field| field.attributes.retain_keys);
        Ok(ObjectPatchMeta { of: Self::of(ty), replace: self.replaces(name), retain_keys })
    }

    fn replaces(self, name: &str) -> bool {
        matches!(self, Self::Struct(shape) if is_replaced(&shape.name, name))
    }

    /// How the list at `name` is merged.
    pub(super) fn list(self, name: &str) -> Result<ListPatchMeta<'a>, PatchError> {
        let (ty, field) = self.find(name)?;
        let Type::List(item) = ty else {
            let message = format!("expected slice or array type, but got: {}", self.kind());
            return Err(PatchError::Failed(message));
        };
        let rules = field.map(|field| &field.attributes);
        Ok(ListPatchMeta {
            of: Self::of(item),
            merge: rules.is_some_and(|rules| rules.merge),
            key: rules.and_then(|rules| rules.merge_key).unwrap_or_default(),
            retain_keys: rules.is_some_and(|rules| rules.retain_keys),
        })
    }

    fn find(self, name: &str) -> Result<(&'a Type, Option<&'a FieldSchema>), PatchError> {
        let unknown = |shape: &str| {
            PatchError::Failed(format!(
                "unable to find api field in struct {shape} for the json field {name:?}"
            ))
        };
        match self {
            Self::Map(item) => Ok((item, None)),
            Self::Struct(shape) => match shape.field(name) {
                Some(field) => Ok((&field.ty, Some(field))),
                None => Err(unknown(&shape.name)),
            },
            Self::Other(Type::Any) => Err(unknown("RawExtension")),
            Self::Other(_) => Err(PatchError::Failed(format!(
                "merging an object in json but data type is not struct, instead is: {}",
                self.kind()
            ))),
        }
    }

    /// Go's reflect kind of the type.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::Map(_) => "map",
            Self::Other(Type::Bool) => "bool",
            Self::Other(Type::Int32) => "int32",
            Self::Other(Type::Int64) => "int64",
            Self::Other(Type::Text | Type::Enum(_)) => "string",
            Self::Other(Type::List(_) | Type::Bytes) => "slice",
            Self::Struct(_) | Self::Other(_) => "struct",
        }
    }
}

/// Formats a float like Go's `%v`.
pub(crate) fn go_float(n: f64) -> String {
    let text = format!("{n:e}");
    let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
    match power.parse::<i32>() {
        Ok(power) if !(-4..6).contains(&power) => format!("{digits}e{power:+03}"),
        _ => format!("{n}"),
    }
}

/// Formats a value like Go's `%v`.
pub fn format_go_v(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Text(text) => text.to_string(),
        Value::Float(n) => go_float(*n),
        Value::List(items) => shown_list(items),
        Value::Object(_) | Value::Map(_) => {
            let entries =
                value.entries().map(|(name, value)| format!("{name}:{}", format_go_v(value)));
            format!("map[{}]", entries.collect::<Vec<_>>().join(" "))
        }
        other => String::from_utf8_lossy(&object::to_json(other)).into_owned(),
    }
}

pub(super) fn shown_list(items: &[Value]) -> String {
    format!("[{}]", items.iter().map(format_go_v).collect::<Vec<_>>().join(" "))
}

/// Formats a value like Go's `%s`.
pub(super) fn format_go_s(value: &Value) -> String {
    match value {
        Value::Bool(_) => format!("%!s(bool={})", format_go_v(value)),
        Value::Int(_) => format!("%!s(int64={})", format_go_v(value)),
        Value::Float(_) => format!("%!s(float64={})", format_go_v(value)),
        Value::Null => "%!s(<nil>)".to_owned(),
        other => format_go_v(other),
    }
}

/// Go's type of a decoded value.
pub(crate) fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "%!s(<nil>)",
        Value::Bool(_) => "bool",
        Value::Int(_) | Value::UInt(_) => "int64",
        Value::Float(_) => "float64",
        Value::Text(_) => "string",
        Value::List(_) => "[]interface {}",
        Value::Object(_) | Value::Map(_) | Value::Raw(_) => "map[string]interface {}",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_read_as_go_prints_them() {
        for (n, text) in [(123_456.5, "123456.5"), (1e6, "1e+06"), (0.000_015, "1.5e-05")] {
            assert_eq!(go_float(n), text);
        }
    }
}
