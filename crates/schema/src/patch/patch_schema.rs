//! Where in a shape a strategic patch is, and Go's way to print what is wrong there.

use object::{FieldSchema, StructSchema, Type, Value};

use super::PatchError;

/// What the value being merged is, as far as the shape knows.
#[derive(Clone, Copy, Debug)]
pub(super) enum PatchSchema<'a> {
    Struct(&'a StructSchema),
    /// A map, with this type of values.
    Map(&'a Type),
    /// Anything that has no named fields.
    Other(&'a Type),
}

/// How an object is merged.
#[derive(Clone, Copy, Debug)]
pub(super) struct ObjectPatchMeta<'a> {
    pub(super) of: PatchSchema<'a>,
    /// Not merged at all.
    pub(super) replace: bool,
    pub(super) retain_keys: bool,
}

/// The one object that a strategic merge patch replaces rather than merges.
pub(crate) fn is_replaced(shape: &str, field: &str) -> bool {
    shape == "PodDisruptionBudgetSpec" && field == "selector"
}

/// How a list is merged.
#[derive(Clone, Copy, Debug)]
pub(super) struct ListPatchMeta<'a> {
    pub(super) of: PatchSchema<'a>,
    /// Merged item by item, not replaced.
    pub(super) merge: bool,
    /// By what items are told apart; empty for plain values.
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

    /// As Go names the kind of the type.
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

/// A float as Go's `%v` prints it.
pub(crate) fn go_float(n: f64) -> String {
    let text = format!("{n:e}");
    let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
    match power.parse::<i32>() {
        Ok(power) if !(-4..6).contains(&power) => format!("{digits}e{power:+03}"),
        _ => format!("{n}"),
    }
}

/// A value as Go's `%v` prints it.
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

/// A value as Go's `%s` prints it.
pub(super) fn format_go_s(value: &Value) -> String {
    match value {
        Value::Bool(_) => format!("%!s(bool={})", format_go_v(value)),
        Value::Int(_) => format!("%!s(int64={})", format_go_v(value)),
        Value::Float(_) => format!("%!s(float64={})", format_go_v(value)),
        Value::Null => "%!s(<nil>)".to_owned(),
        other => format_go_v(other),
    }
}

/// Go's name for the type of a decoded value.
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
