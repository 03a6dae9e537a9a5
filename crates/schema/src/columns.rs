//! The columns of a kind's tables, and the fields that field selectors can use.

use object::Value;

use crate::Kind;

/// A column of `kubectl get`.
#[derive(Debug)]
pub struct TableColumn<K: 'static> {
    pub name: &'static str,
    /// `string`, `integer`, `boolean`, `date`.
    pub ty: &'static str,
    pub format: &'static str,
    /// 0: always shown; 1: only with `-o wide`.
    pub priority: i32,
    /// Computes the cell at this time (seconds since 1970).
    pub cell: fn(&K, i64) -> Value,
}

impl<K> TableColumn<K> {
    pub const fn new(name: &'static str, ty: &'static str, cell: fn(&K, i64) -> Value) -> Self {
        Self { name, ty, format: "", priority: 0, cell }
    }

    /// A column of type string.
    pub const fn text(name: &'static str, cell: fn(&K, i64) -> Value) -> Self {
        Self::new(name, "string", cell)
    }

    /// A column of type string that is shown only with `-o wide`.
    pub const fn wide_text(name: &'static str, cell: fn(&K, i64) -> Value) -> Self {
        Self::text(name, cell).wide()
    }

    /// Shows the column only with `-o wide`.
    pub const fn wide(self) -> Self {
        Self { priority: 1, ..self }
    }
}

impl<K: Kind> TableColumn<K> {
    pub const NAME: Self = Self {
        format: "name",
        ..Self::new("Name", "string", |object, _| object.meta().name().into())
    };
    pub const AGE: Self = Self::new("Age", "string", |object, now| {
        crate::age(object.meta().creation_timestamp(), now).into()
    });
    /// The second column of kinds without columns of their own.
    pub const CREATED_AT: Self =
        Self::new("Created At", "date", |object, _| object.meta().creation_timestamp().into());
}

/// A field that field selectors can use, besides name and namespace. The server selects and watches
/// by it, and caches have an index of it.
#[derive(Debug)]
pub struct SelectableField<K: 'static> {
    /// Name of the field in field selectors.
    pub name: &'static str,
    pub value: fn(&K) -> String,
    /// Whether the watch cache keeps a separate topic for it; otherwise watches only filter.
    pub watch_topic: bool,
}

impl<K> SelectableField<K> {
    /// A field with its own topic in the watch cache, for fields that many watches select.
    pub const fn with_watch_topic(name: &'static str, of: fn(&K) -> String) -> Self {
        Self { name, value: of, watch_topic: true }
    }

    /// A field that watches only filter by.
    pub const fn filter_only(name: &'static str, of: fn(&K) -> String) -> Self {
        Self { name, value: of, watch_topic: false }
    }
}
