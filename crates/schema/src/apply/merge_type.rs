//! How a value is merged, by its type and its field's rules.

use std::borrow::Cow;

use object::{FieldAttributes, FieldSchema, ListType, StructSchema, Type, Value};

use super::fields::{EntryName, PathElement};
use crate::published::openapi_default;

/// The name of a field that stands for all entries of a map whose values have rules.
pub(crate) const MAP_VALUE: &str = "*";
/// The name of a field that stands for the items of a list that have rules, being lists.
pub(crate) const LIST_ITEM: &str = "[]";

#[derive(Clone, Copy, Debug)]
pub(super) enum MergeType<'a> {
    /// A plain value, or one of which nothing is known.
    Leaf,
    /// Something with parts, and yet taken whole or not at all.
    Atomic,
    /// Named fields. `root`: besides them there are `apiVersion` and `kind`.
    Struct { shape: &'a StructSchema, root: bool },
    /// Entries with this type, and these rules.
    Map(&'a Type, Option<&'a FieldAttributes>),
    /// A list of different plain values.
    Set(&'a Type),
    /// A list of objects that are told apart by these fields.
    AssociativeList(&'a Type, &'static [&'static str]),
    /// Nobody knows; each value tells by itself.
    Any,
}

impl<'a> MergeType<'a> {
    pub(super) fn root(shape: &'a StructSchema) -> Self {
        Self::Struct { shape, root: true }
    }

    pub(super) fn of(ty: &'a Type, rules: Option<&FieldAttributes>) -> Self {
        let atomic = rules.is_some_and(|rules| rules.atomic);
        match ty {
            // Raw JSON is one value, unless a definition says that its parts are to be told apart.
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

    /// The form of an object of this shape, be it taken whole or not.
    pub(super) fn of_struct(shape: &'a StructSchema) -> Self {
        match &*shape.fields {
            [entry] if entry.name == MAP_VALUE => Self::Map(&entry.ty, Some(&entry.attributes)),
            [item] if item.name == LIST_ITEM => Self::of(&item.ty, Some(&item.attributes)),
            _ => Self::Struct { shape, root: shape.is_object() },
        }
    }

    /// The form of the entry `name`, and whether it is a field with a name of its own.
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

    /// The form of a list's items.
    pub(super) fn of_item(self) -> Self {
        match self {
            Self::Set(item) | Self::AssociativeList(item, _) => Self::of(item, None),
            _ => Self::Any,
        }
    }

    /// What it is for this value: a map of anything, or a leaf.
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

    /// The step to an item of a list.
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
