//! Which fields an object has, and which differ between two.

#![deny(clippy::indexing_slicing, clippy::string_slice, clippy::unwrap_used, clippy::expect_used)]

use std::cmp::Ordering;

use object::{NULL, Value};

use super::{
    fields::{Fields, Name, Node, Step},
    form::Form,
};

/// The fields of an object.
pub(super) fn fields_of(form: Form, object: &Value) -> Fields {
    node_of(form, object).below
}

/// Named fields that only have fields below them are themselves in the set, too.
pub(super) fn with_parents(form: Form, fields: &Fields) -> Fields {
    let nodes = fields.0.iter().map(|(step, node)| {
        let (inner, named) = match step.name() {
            Some(name) => form.entry(name),
            None => (form.item(), false),
        };
        let member = node.member || named && !node.below.is_empty();
        (step.clone(), Node { member, below: with_parents(inner, &node.below) })
    });
    Fields(nodes.collect())
}

/// Who held parts of what is taken whole today, holds all of it; whether anybody did.
pub(super) fn melt(form: Form, fields: &mut Fields) -> bool {
    let mut melted = false;
    for (step, node) in fields.0.iter_mut().filter(|(_, node)| !node.below.is_empty()) {
        let inner = step.name().map_or_else(|| form.item(), |name| form.entry(name).0);
        if let Form::Whole = inner {
            *node = Node { member: true, ..Node::default() };
            melted = true;
        } else {
            melted |= melt(inner, &mut node.below);
        }
    }
    melted
}

/// What has changed from one object to another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) added: Fields,
    pub(super) modified: Fields,
    pub(super) removed: Fields,
}

pub(super) fn compare(form: Form, old: &Value, new: &Value) -> Change {
    let Parts { added, modified, removed } = parts(form, Some(old), Some(new));
    Change { added: added.below, modified: modified.below, removed: removed.below }
}

impl Change {
    /// Without certain fields and what is below them.
    pub(super) fn cut(self, fields: &Fields) -> Self {
        let Self { added, modified, removed } = self;
        Self {
            added: added.cut(fields),
            modified: modified.cut(fields),
            removed: removed.cut(fields),
        }
    }

    /// All that has changed.
    pub(super) fn all(&self) -> Fields {
        self.modified.clone().union(&self.added).union(&self.removed)
    }
}

/// What has changed at one place and below it.
#[derive(Default)]
struct Parts {
    added: Node,
    modified: Node,
    removed: Node,
}

impl Parts {
    /// Of something that is there or not, and differs.
    fn mark(&mut self, old: bool, new: bool) {
        match (old, new) {
            (false, _) => self.added.member = true,
            (_, false) => self.removed.member = true,
            _ => self.modified.member = true,
        }
    }

    /// Adds what has changed below, step by step.
    fn below(&mut self, step: &dyn Fn() -> Step, parts: Self) {
        for (all, node) in [
            (&mut self.added, parts.added),
            (&mut self.modified, parts.modified),
            (&mut self.removed, parts.removed),
        ] {
            if !node.is_empty() {
                all.below.0.push((step(), node));
            }
        }
    }
}

fn parts(form: Form, old: Option<&Value>, new: Option<&Value>) -> Parts {
    let mut found = Parts::default();
    if old == new {
        return found;
    }
    let form = form.for_value(new.or(old).unwrap_or(&NULL));
    let empty = |value: Option<&Value>| value.is_none_or(is_hollow);
    if form.is_leaf() || empty(old) && empty(new) {
        found.mark(old.is_some(), new.is_some());
        return found;
    }
    if form.is_list() {
        items(form, old, new, &mut found);
    } else {
        for (name, old, new) in both(old, new) {
            found.below(&|| Step::field(name), parts(form.entry(name).0, old, new));
        }
    }
    if old.is_none() || new.is_none() {
        found.mark(old.is_some(), new.is_some());
    }
    found
}

/// Items that a list has twice are not looked into: they count as one leaf.
fn items(form: Form, old: Option<&Value>, new: Option<&Value>, found: &mut Parts) {
    let mut all = Vec::new();
    for (list, is_new) in [(old, false), (new, true)] {
        let items = list.unwrap_or(&NULL).items().iter();
        all.extend(items.filter_map(|item| Some((form.step(item).ok()?, is_new, item))));
    }
    all.sort_by(|a, b| a.0.cmp(&b.0));
    for same in all.chunk_by(|a, b| a.0 == b.0) {
        let (old, new) = same.split_at(same.iter().take_while(|item| !item.1).count());
        let (first, last) = (old.first().map(|item| item.2), new.first().map(|item| item.2));
        let parts = match (old, new) {
            ([] | [_], [] | [_]) => parts(form.item(), first, last),
            (old, new) if old.iter().map(|item| item.2).eq(new.iter().map(|item| item.2)) => {
                continue;
            }
            ([_, _, ..], [_, _, ..]) => {
                Parts { modified: Node { member: true, ..Node::default() }, ..Parts::default() }
            }
            ([_, _, ..], _) => {
                let mut parts = parts(form.item(), None, last);
                parts.removed.member = true;
                parts
            }
            _ => {
                let mut parts = parts(form.item(), first, None);
                parts.added.member = true;
                parts
            }
        };
        if let Some((step, ..)) = same.first() {
            found.below(&|| step.clone(), parts);
        }
    }
}

fn node_of(form: Form, value: &Value) -> Node {
    let form = form.for_value(value);
    if form.is_leaf() {
        return Node { member: true, below: Fields::default() };
    }
    let mut below = Vec::new();
    if form.is_list() {
        below.reserve(value.items().len());
        for item in value.items() {
            let Ok(step) = form.step(item) else { continue };
            below.push((step, Node { member: true, ..node_of(form.item(), item) }));
        }
        below.sort_by(|a: &(Step, _), b| a.0.cmp(&b.0));
        below.dedup_by(|again, first| {
            let same = again.0 == first.0;
            if same {
                first.1.below = Fields::default();
            }
            same
        });
        return Node { member: false, below: Fields(below) };
    }
    below.reserve(value.entries().len());
    for (name, inner) in named(value) {
        let (form, named) = form.entry(name);
        let mut node = node_of(form, inner);
        let nothing = inner.is_null() || inner.is_object() && inner.entries().len() == 0;
        node.member |= nothing || !named;
        if !node.is_empty() {
            below.push((Step::field(name), node));
        }
    }
    Node { member: false, below: Fields(below) }
}

/// Nothing, or something with nothing in it.
pub(super) fn is_hollow(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::List(items) => items.is_empty(),
        object => object.is_object() && object.entries().len() == 0,
    }
}

/// The entries of an object by name.
fn named(object: &Value) -> impl ExactSizeIterator<Item = (Name<'_>, &Value)> {
    let words = object.words();
    object.entries().enumerate().map(|(at, (text, value))| {
        let word = words.get(at).map(|field| field.0);
        (Name { word: word.or_else(|| Name::of(text).word), text }, value)
    })
}

/// The entries of either object by name, be they an explicit `null`.
pub(super) fn both<'a>(
    old: Option<&'a Value>,
    new: Option<&'a Value>,
) -> impl Iterator<Item = (Name<'a>, Option<&'a Value>, Option<&'a Value>)> {
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
