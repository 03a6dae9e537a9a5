//! How server-side apply merges a value, by its type and its field's attributes.

use std::borrow::Cow;

use object::{FieldAttributes, FieldSchema, ListType, StructSchema, Type, Value};

use super::fields::{EntryName, PathElement};
use crate::published::openapi_default;

/// Name of the pseudo field that describes all entries of a map whose values have merge attributes.
pub(crate) const MAP_VALUE: &str = "*";
/// Name of the pseudo field that describes the items of a list of lists.
pub(crate) const LIST_ITEM: &str = "[]";

/// How a value is merged.
#[derive(Clone, Copy, Debug)]
pub(super) enum MergeType<'a> {
    /// A scalar, or a value of unknown type.
    Leaf,
    /// A struct, list or map that has one owner as a whole.
    Atomic,
    /// A struct, field by field. A `root` also has `apiVersion` and `kind`.
    Struct { shape: &'a StructSchema, root: bool },
    /// A map whose entries have this type and these attributes.
    Map(&'a Type, Option<&'a FieldAttributes>),
    /// A list of distinct scalars.
    Set(&'a Type),
    /// A list of objects that are identified by these fields.
    AssociativeList(&'a Type, &'static [&'static str]),
    /// Unknown; each value decides by itself.
    Any,
}

impl<'a> MergeType<'a> {
    pub(super) fn root(shape: &'a StructSchema) -> Self {
        Self::Struct { shape, root: true }
    }

    pub(super) fn of(ty: &'a Type, rules: Option<&FieldAttributes>) -> Self {
        let atomic = rules.is_some_and(|rules| rules.atomic);
        match ty {
            // Raw JSON is one value, unless its field is granular.
            Type::Any if rules.is_some_and(|rules| rules.granular) => Self::Any,
            Type::Object(shape) => {
                let granular = rules.is_some_and(|rules| rules.granular);
                if (atomic || shape.atomic) && !granular {
                    Self::Atomic
                } else {
                    Self::of_struct(shape)
                }
            }
            Type::Map(_) if atomic => Self::Atomic,
            Type::Map(item) => Self::Map(item, None),
            Type::List(item) => match rules.map_or(ListType::Atomic, |rules| rules.list_type) {
                ListType::Atomic => Self::Atomic,
                ListType::Set => Self::Set(item),
                ListType::Map(keys) => Self::AssociativeList(item, keys),
            },
            _ => Self::Leaf,
        }
    }

    /// The merge type of a struct, ignoring whether it is atomic.
    pub(super) fn of_struct(shape: &'a StructSchema) -> Self {
        match &*shape.fields {
            [entry] if entry.name == MAP_VALUE => Self::Map(&entry.ty, Some(&entry.attributes)),
            [item] if item.name == LIST_ITEM => Self::of(&item.ty, Some(&item.attributes)),
            _ => Self::Struct { shape, root: shape.is_object() },
        }
    }

    /// The merge type of the entry `name`, and whether it is a declared field.
    pub(super) fn of_entry(self, name: EntryName) -> (Self, bool) {
        match self {
            Self::Struct { shape, root } => {
                if let Some(field) = field(shape, name) {
                    return (Self::of(&field.ty, Some(&field.attributes)), true);
                }
                let says = root && matches!(name.text, "apiVersion" | "kind");
                (if shape.preserve_unknown_fields && !says { Self::Any } else { Self::Leaf }, says)
            }
            Self::Map(item, rules) => (Self::of(item, rules), false),
            _ => (Self::Any, false),
        }
    }

    /// The merge type of the items of a list.
    pub(super) fn of_item(self) -> Self {
        match self {
            Self::Set(item) | Self::AssociativeList(item, _) => Self::of(item, None),
            _ => Self::Any,
        }
    }

    /// The merge type for this value: an untyped object is a map, other untyped values are leaves.
    pub(super) fn resolve(self, value: &Value) -> Self {
        match self {
            Self::Any if !value.is_object() => Self::Leaf,
            form => form,
        }
    }

    pub(super) fn is_list(self) -> bool {
        matches!(self, Self::Set(_) | Self::AssociativeList(..))
    }

    pub(super) fn is_leaf(self) -> bool {
        matches!(self, Self::Leaf | Self::Atomic)
    }

    /// The path element of a list item.
    pub(super) fn path_element(self, item: &Value) -> Result<PathElement, String> {
        let Self::AssociativeList(ty, keys) = self else {
            return match item {
                Value::Null => {
                    Err("associative list without keys has an element that's an explicit null"
                        .to_owned())
                }
                Value::List(_) => {
                    Err("not supported: associative list with lists as elements".to_owned())
                }
                Value::Object(_) | Value::Map(_) => {
                    Err("associative list without keys has an element that's a map type".to_owned())
                }
                plain => Ok(PathElement::value(plain)),
            };
        };
        if item.is_null() {
            return Err("associative list with keys may not have a null element".to_owned());
        } else if !item.is_object() {
            return Err("associative list with keys may not have non-map elements".to_owned());
        }
        let mut found = Vec::with_capacity(keys.len());
        for name in keys {
            let known = match ty {
                Type::Object(shape) => shape.field(name),
                _ => None,
            };
            let value = known.map_or_else(|| item.get(name), |field| field.get(item));
            let given = !value.is_null() || item.entries().any(|(given, _)| given == *name);
            let default = known.filter(|_| !given).and_then(openapi_default);
            if given || default.is_some() {
                found.push((*name, default.map_or(Cow::Borrowed(value), Cow::Owned)));
            }
        }
        if found.is_empty() {
            let keys: Vec<_> = keys.iter().map(|key| format!("{key:?}")).collect();
            let keys = keys.join(" ");
            return Err(format!(
                "associative list with keys has an element that omits all key fields [{keys}] \
                 (and doesn't have default values for any key fields)"
            ));
        }
        found.sort_unstable_by_key(|(name, _)| *name);
        Ok(PathElement::keys(found.iter().map(|(name, value)| (*name, &**value))))
    }
}

pub(super) fn field<'a>(shape: &'a StructSchema, name: EntryName) -> Option<&'a FieldSchema> {
    name.word.map_or_else(|| shape.field(name.text), |word| shape.field_by_id(word))
}
