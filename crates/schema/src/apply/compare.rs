//! Computes the field set of an object, and the difference between two objects.

#![deny(clippy::indexing_slicing, clippy::string_slice, clippy::unwrap_used, clippy::expect_used)]

use std::cmp::Ordering;

use object::{NULL, Value};

use super::{
    fields::{EntryName, FieldSet, FieldSetNode, PathElement},
    merge_type::MergeType,
};

/// The field set of an object.
pub(super) fn to_field_set(form: MergeType, object: &Value) -> FieldSet {
    node_of(form, object).children
}

/// Adds named fields that have fields below them to the set.
pub(super) fn ensure_named_fields_are_members(form: MergeType, fields: &FieldSet) -> FieldSet {
    let nodes = fields.0.iter().map(|(step, node)| {
        let (inner, named) = match step.name() {
            Some(name) => form.of_entry(name),
            None => (form.of_item(), false),
        };
        let member = node.member || named && !node.children.is_empty();
        (
            step.clone(),
            FieldSetNode {
                member,
                children: ensure_named_fields_are_members(inner, &node.children),
            },
        )
    });
    FieldSet(nodes.collect())
}

/// Replaces parts of fields that are atomic in the current schema by the whole field; returns
/// whether there were any.
pub(super) fn collapse_to_atomic(form: MergeType, fields: &mut FieldSet) -> bool {
    let mut melted = false;
    for (step, node) in fields.0.iter_mut().filter(|(_, node)| !node.children.is_empty()) {
        let inner = step.name().map_or_else(|| form.of_item(), |name| form.of_entry(name).0);
        if let MergeType::Atomic = inner {
            *node = FieldSetNode { member: true, ..FieldSetNode::default() };
            melted = true;
        } else {
            melted |= collapse_to_atomic(inner, &mut node.children);
        }
    }
    melted
}

/// The fields that differ between two objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Comparison {
    pub(super) added: FieldSet,
    pub(super) modified: FieldSet,
    pub(super) removed: FieldSet,
}

/// Compares two objects.
pub(super) fn compare(form: MergeType, old: &Value, new: &Value) -> Comparison {
    let NodeComparison { added, modified, removed } = parts(form, Some(old), Some(new));
    Comparison { added: added.children, modified: modified.children, removed: removed.children }
}

impl Comparison {
    /// Removes these fields and all fields below them.
    pub(super) fn exclude_fields(self, fields: &FieldSet) -> Self {
        let Self { added, modified, removed } = self;
        Self {
            added: added.recursive_difference(fields),
            modified: modified.recursive_difference(fields),
            removed: removed.recursive_difference(fields),
        }
    }

    /// All changed fields.
    pub(super) fn changed_fields(&self) -> FieldSet {
        self.modified.clone().union(&self.added).union(&self.removed)
    }
}

/// The differences at one field and below it.
#[derive(Default)]
struct NodeComparison {
    added: FieldSetNode,
    modified: FieldSetNode,
    removed: FieldSetNode,
}

impl NodeComparison {
    /// Marks the field itself as added, removed or modified.
    fn mark(&mut self, old: bool, new: bool) {
        match (old, new) {
            (false, _) => self.added.member = true,
            (_, false) => self.removed.member = true,
            _ => self.modified.member = true,
        }
    }

    /// Adds the differences below a path element.
    fn below(&mut self, step: &dyn Fn() -> PathElement, parts: Self) {
        for (all, node) in [
            (&mut self.added, parts.added),
            (&mut self.modified, parts.modified),
            (&mut self.removed, parts.removed),
        ] {
            if !node.is_empty() {
                all.children.0.push((step(), node));
            }
        }
    }
}

fn parts(form: MergeType, old: Option<&Value>, new: Option<&Value>) -> NodeComparison {
    let mut found = NodeComparison::default();
    if old == new {
        return found;
    }
    let form = form.resolve(new.or(old).unwrap_or(&NULL));
    let empty = |value: Option<&Value>| value.is_none_or(is_null_or_empty);
    if form.is_leaf() || empty(old) && empty(new) {
        found.mark(old.is_some(), new.is_some());
        return found;
    }
    if form.is_list() {
        items(form, old, new, &mut found);
    } else {
        for (name, old, new) in zip_entries(old, new) {
            found.below(&|| PathElement::field(name), parts(form.of_entry(name).0, old, new));
        }
    }
    if old.is_none() || new.is_none() {
        found.mark(old.is_some(), new.is_some());
    }
    found
}

/// Compares lists. Items with duplicate keys are compared as one leaf.
fn items(form: MergeType, old: Option<&Value>, new: Option<&Value>, found: &mut NodeComparison) {
    let mut all = Vec::new();
    for (list, is_new) in [(old, false), (new, true)] {
        let items = list.unwrap_or(&NULL).items().iter();
        all.extend(items.filter_map(|item| Some((form.path_element(item).ok()?, is_new, item))));
    }
    all.sort_by(|a, b| a.0.cmp(&b.0));
    for same in all.chunk_by(|a, b| a.0 == b.0) {
        let (old, new) = same.split_at(same.iter().take_while(|item| !item.1).count());
        let (first, last) = (old.first().map(|item| item.2), new.first().map(|item| item.2));
        let parts = match (old, new) {
            ([] | [_], [] | [_]) => parts(form.of_item(), first, last),
            (old, new) if old.iter().map(|item| item.2).eq(new.iter().map(|item| item.2)) => {
                continue;
            }
            ([_, _, ..], [_, _, ..]) => NodeComparison {
                modified: FieldSetNode { member: true, ..FieldSetNode::default() },
                ..NodeComparison::default()
            },
            ([_, _, ..], _) => {
                let mut parts = parts(form.of_item(), None, last);
                parts.removed.member = true;
                parts
            }
            _ => {
                let mut parts = parts(form.of_item(), first, None);
                parts.added.member = true;
                parts
            }
        };
        if let Some((step, ..)) = same.first() {
            found.below(&|| step.clone(), parts);
        }
    }
}

fn node_of(form: MergeType, value: &Value) -> FieldSetNode {
    let form = form.resolve(value);
    if form.is_leaf() {
        return FieldSetNode { member: true, children: FieldSet::default() };
    }
    let mut below = Vec::new();
    if form.is_list() {
        below.reserve(value.items().len());
        for item in value.items() {
            let Ok(step) = form.path_element(item) else { continue };
            below.push((step, FieldSetNode { member: true, ..node_of(form.of_item(), item) }));
        }
        below.sort_by(|a: &(PathElement, _), b| a.0.cmp(&b.0));
        below.dedup_by(|again, first| {
            let same = again.0 == first.0;
            if same {
                first.1.children = FieldSet::default();
            }
            same
        });
        return FieldSetNode { member: false, children: FieldSet(below) };
    }
    below.reserve(value.entries().len());
    for (name, inner) in named(value) {
        let (form, named) = form.of_entry(name);
        let mut node = node_of(form, inner);
        let nothing = inner.is_null() || inner.is_object() && inner.entries().len() == 0;
        node.member |= nothing || !named;
        if !node.is_empty() {
            below.push((PathElement::field(name), node));
        }
    }
    FieldSetNode { member: false, children: FieldSet(below) }
}

/// Whether a value is null or an empty list or object.
pub(super) fn is_null_or_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::List(items) => items.is_empty(),
        object => object.is_object() && object.entries().len() == 0,
    }
}

/// The entries of an object by name.
fn named(object: &Value) -> impl ExactSizeIterator<Item = (EntryName<'_>, &Value)> {
    let words = object.interned_fields();
    object.entries().enumerate().map(|(at, (text, value))| {
        let word = words.get(at).map(|field| field.0);
        (EntryName { word: word.or_else(|| EntryName::of(text).word), text }, value)
    })
}

/// The entries of both objects by name, including explicit `null`s.
pub(super) fn zip_entries<'a>(
    old: Option<&'a Value>,
    new: Option<&'a Value>,
) -> impl Iterator<Item = (EntryName<'a>, Option<&'a Value>, Option<&'a Value>)> {
    let mut old = named(old.unwrap_or(&NULL)).peekable();
    let mut new = named(new.unwrap_or(&NULL)).peekable();
    std::iter::from_fn(move || {
        let order = match (old.peek(), new.peek()) {
            (Some((old, _)), Some((new, _))) => match (old.word, new.word) {
                (Some(old), Some(new)) => old.cmp(&new),
                _ => old.text.cmp(new.text),
            },
            (Some(_), None) => Ordering::Less,
            _ => Ordering::Greater,
        };
        let old = old.next_if(|_| order.is_le());
        let new = new.next_if(|_| order.is_ge());
        let (name, _) = old.or(new)?;
        Some((name, old.map(|entry| entry.1), new.map(|entry| entry.1)))
    })
}
