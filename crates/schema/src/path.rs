//! Field paths for error messages. A path is formatted only when it is printed.

use std::fmt;

/// The path of a field in an object, as a list linked to the parent path.
#[derive(Clone, Copy, Debug)]
pub enum FieldPath<'a> {
    Root,
    Field(&'a FieldPath<'a>, &'a str),
    Index(&'a FieldPath<'a>, usize),
    Key(&'a FieldPath<'a>, &'a str),
}

impl FieldPath<'static> {
    pub const METADATA: Self = Self::Root.field("metadata");
    pub const SPEC: Self = Self::Root.field("spec");
    pub const STATUS: Self = Self::Root.field("status");
}

impl<'a> FieldPath<'a> {
    /// The field `name` of this object: `spec.replicas`.
    pub const fn field(&'a self, name: &'a str) -> Self {
        Self::Field(self, name)
    }

    /// The item `at` of this list: `containers[0]`.
    pub const fn index(&'a self, at: usize) -> Self {
        Self::Index(self, at)
    }

    /// Calls `check` with each item of this list and its path.
    pub fn for_each_item<T>(
        &self,
        items: impl Iterator<Item = T>,
        mut check: impl FnMut(T, &FieldPath),
    ) {
        items.enumerate().for_each(|(at, item)| check(item, &self.index(at)));
    }

    /// Calls `check` with the field `name` and its path, if it is set.
    pub fn if_present<T>(&self, name: &str, value: Option<T>, check: impl FnOnce(T, &FieldPath)) {
        if let Some(value) = value {
            check(value, &self.field(name));
        }
    }

    /// The entry `name` of this map: `labels[app]`.
    pub const fn key(&'a self, name: &'a str) -> Self {
        Self::Key(self, name)
    }
}

impl fmt::Display for FieldPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(Self::Root, name) => f.write_str(name),
            Self::Field(parent, name) => write!(f, "{parent}.{name}"),
            Self::Index(parent, at) => write!(f, "{parent}[{at}]"),
            Self::Key(parent, name) => write!(f, "{parent}[{name}]"),
        }
    }
}
