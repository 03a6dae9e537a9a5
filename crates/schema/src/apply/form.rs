//! How a value is merged, by its type and its field's rules.

use std::borrow::Cow;

use object::{Field, ListType, Rules, Struct, Type, Value};

use super::fields::{Name, Step};
use crate::published::default_of;

/// The name of a field that stands for all entries of a map whose values have rules.
pub(crate) const ENTRY: &str = "*";
/// The name of a field that stands for the items of a list that have rules, being lists.
pub(crate) const ITEM: &str = "[]";

#[derive(Clone, Copy, Debug)]
pub(super) enum Form<'a> {
    /// A plain value, or one of which nothing is known.
    Leaf,
    /// Something with parts, and yet taken whole or not at all.
    Whole,
    /// Named fields. `root`: besides them there are `apiVersion` and `kind`.
    Struct { shape: &'a Struct, root: bool },
    /// Entries with this type, and these rules.
    Map(&'a Type, Option<&'a Rules>),
    /// A list of different plain values.
    Set(&'a Type),
    /// A list of objects that are told apart by these fields.
    Keyed(&'a Type, &'static [&'static str]),
    /// Nobody knows; each value tells by itself.
    Any,
}

impl<'a> Form<'a> {
    pub(super) fn root(shape: &'a Struct) -> Self {
        Self::Struct { shape, root: true }
    }

    pub(super) fn of(ty: &'a Type, rules: Option<&Rules>) -> Self {
        let atomic = rules.is_some_and(|rules| rules.atomic);
        match ty {
            // Raw JSON is one value, unless a definition says that its parts are to be told apart.
            Type::Any if rules.is_some_and(|rules| rules.granular) => Self::Any,
            Type::Object(shape) => {
                let granular = rules.is_some_and(|rules| rules.granular);
                if (atomic || shape.atomic) && !granular {
                    Self::Whole
                } else {
                    Self::inside(shape)
                }
            }
            Type::Map(_) if atomic => Self::Whole,
            Type::Map(item) => Self::Map(item, None),
            Type::List(item) => match rules.map_or(ListType::Atomic, |rules| rules.list) {
                ListType::Atomic => Self::Whole,
                ListType::Set => Self::Set(item),
                ListType::Map(keys) => Self::Keyed(item, keys),
            },
            _ => Self::Leaf,
        }
    }

    /// The form of an object of this shape, be it taken whole or not.
    pub(super) fn inside(shape: &'a Struct) -> Self {
        match &*shape.fields {
            [entry] if entry.name == ENTRY => Self::Map(&entry.ty, Some(&entry.rules)),
            [item] if item.name == ITEM => Self::of(&item.ty, Some(&item.rules)),
            _ => Self::Struct { shape, root: shape.is_kind() },
        }
    }

    /// The form of the entry `name`, and whether it is a field with a name of its own.
    pub(super) fn entry(self, name: Name) -> (Self, bool) {
        match self {
            Self::Struct { shape, root } => {
                if let Some(field) = field(shape, name) {
                    return (Self::of(&field.ty, Some(&field.rules)), true);
                }
                let says = root && matches!(name.text, "apiVersion" | "kind");
                (if shape.open && !says { Self::Any } else { Self::Leaf }, says)
            }
            Self::Map(item, rules) => (Self::of(item, rules), false),
            _ => (Self::Any, false),
        }
    }

    /// The form of a list's items.
    pub(super) fn item(self) -> Self {
        match self {
            Self::Set(item) | Self::Keyed(item, _) => Self::of(item, None),
            _ => Self::Any,
        }
    }

    /// What it is for this value: a map of anything, or a leaf.
    pub(super) fn for_value(self, value: &Value) -> Self {
        match self {
            Self::Any if !value.is_object() => Self::Leaf,
            form => form,
        }
    }

    pub(super) fn is_list(self) -> bool {
        matches!(self, Self::Set(_) | Self::Keyed(..))
    }

    pub(super) fn is_leaf(self) -> bool {
        matches!(self, Self::Leaf | Self::Whole)
    }

    /// The step to an item of a list.
    pub(super) fn step(self, item: &Value) -> Result<Step, String> {
        let Self::Keyed(ty, keys) = self else {
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
                plain => Ok(Step::value(plain)),
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
            let value = known.map_or_else(|| item.get(name), |field| field.of(item));
            let given = !value.is_null() || item.entries().any(|(given, _)| given == *name);
            let default = known.filter(|_| !given).and_then(default_of);
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
        Ok(Step::keys(found.iter().map(|(name, value)| (*name, &**value))))
    }
}

pub(super) fn field<'a>(shape: &'a Struct, name: Name) -> Option<&'a Field> {
    name.word.map_or_else(|| shape.field(name.text), |word| shape.field_of(word))
}
