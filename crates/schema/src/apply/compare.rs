//! Which fields an object has, and which differ between two.

use std::collections::BTreeMap;

use object::{NULL, Value};

use super::{
    fields::{Fields, Node, Step, field},
    form::Form,
};

/// The fields of an object.
pub(super) fn fields_of(form: Form, object: &Value) -> Fields {
    node_of(form, object).below
}

/// Named fields that only have fields below them are themselves in the set, too.
pub(super) fn with_parents(form: Form, fields: &Fields) -> Fields {
    let nodes = fields.0.iter().map(|(step, node)| {
        let (inner, named) = match step.strip_prefix("f:") {
            Some(name) => form.entry(name),
            None => (form.item(), false),
        };
        let member = node.member || named && !node.below.is_empty();
        (step.clone(), Node { member, below: with_parents(inner, &node.below) })
    });
    Fields(nodes.collect())
}

/// What has changed from one object to another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) added: Fields,
    pub(super) modified: Fields,
    pub(super) removed: Fields,
}

pub(super) fn compare(form: Form, old: &Value, new: &Value) -> Change {
    let mut change = Change::default();
    change.walk(form, Some(old), Some(new), &mut Vec::new());
    change
}

impl Change {
    /// Without certain fields and what is below them.
    pub(super) fn cut(&self, fields: &Fields) -> Self {
        Self {
            added: self.added.cut(fields),
            modified: self.modified.cut(fields),
            removed: self.removed.cut(fields),
        }
    }

    fn walk(&mut self, form: Form, old: Option<&Value>, new: Option<&Value>, path: &mut Vec<Step>) {
        if old == new {
            return;
        }
        let form = form.for_value(new.or(old).unwrap_or(&NULL));
        let empty = |value: Option<&Value>| value.is_none_or(is_hollow);
        if form.is_leaf() || empty(old) && empty(new) {
            return self.leaf(old, new, path);
        }
        if form.is_list() {
            self.items(form, old, new, path);
        } else {
            for name in names(old, new) {
                path.push(field(name));
                self.walk(form.entry(name).0, entry(old, name), entry(new, name), path);
                path.pop();
            }
        }
        match (old, new) {
            (None, _) => self.added.insert(path),
            (_, None) => self.removed.insert(path),
            _ => {}
        }
    }

    fn leaf(&mut self, old: Option<&Value>, new: Option<&Value>, path: &[Step]) {
        match (old, new) {
            (None, _) => self.added.insert(path),
            (_, None) => self.removed.insert(path),
            _ => self.modified.insert(path),
        }
    }

    /// Items that a list has twice are not looked into: they count as one leaf.
    fn items(
        &mut self,
        form: Form,
        old: Option<&Value>,
        new: Option<&Value>,
        path: &mut Vec<Step>,
    ) {
        let mut all: BTreeMap<Step, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
        for item in old.unwrap_or(&NULL).items() {
            if let Ok(step) = form.step(item) {
                all.entry(step).or_default().0.push(item);
            }
        }
        for item in new.unwrap_or(&NULL).items() {
            if let Ok(step) = form.step(item) {
                all.entry(step).or_default().1.push(item);
            }
        }
        for (step, (old, new)) in all {
            path.push(step);
            match (&*old, &*new) {
                ([] | [_], [] | [_]) => {
                    self.walk(form.item(), old.first().copied(), new.first().copied(), path);
                }
                (old, new) if old == new => {}
                ([_, _, ..], [_, _, ..]) => self.modified.insert(path),
                ([_, _, ..], new) => {
                    self.walk(form.item(), None, new.first().copied(), path);
                    self.removed.insert(path);
                }
                (old, _) => {
                    self.walk(form.item(), old.first().copied(), None, path);
                    self.added.insert(path);
                }
            }
            path.pop();
        }
    }
}

fn node_of(form: Form, value: &Value) -> Node {
    let form = form.for_value(value);
    if form.is_leaf() {
        return Node { member: true, below: Fields::default() };
    }
    let mut below = Fields::default();
    if form.is_list() {
        for item in value.items() {
            let Ok(step) = form.step(item) else { continue };
            let node = match below.0.get(&step) {
                None => Node { member: true, ..node_of(form.item(), item) },
                Some(_) => Node { member: true, below: Fields::default() },
            };
            below.0.insert(step, node);
        }
        return Node { member: false, below };
    }
    for (name, inner) in value.entries() {
        let (form, named) = form.entry(name);
        let mut node = node_of(form, inner);
        let nothing = inner.is_null() || inner.is_object() && inner.entries().len() == 0;
        node.member |= nothing || !named;
        if !node.is_empty() {
            below.0.insert(field(name), node);
        }
    }
    Node { member: false, below }
}

/// Nothing, or something with nothing in it.
fn is_hollow(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::List(items) => items.is_empty(),
        object => object.is_object() && object.entries().len() == 0,
    }
}

/// An entry, be it an explicit `null`.
pub(super) fn entry<'a>(object: Option<&'a Value>, name: &str) -> Option<&'a Value> {
    object.map(|object| object.get(name)).filter(|value| !std::ptr::eq(*value, &raw const NULL))
}

/// The names in either object, each once.
pub(super) fn names<'a>(a: Option<&'a Value>, b: Option<&'a Value>) -> Vec<&'a str> {
    let of = |object: Option<&'a Value>| object.into_iter().flat_map(|o| o.entries().map(|e| e.0));
    let mut names: Vec<_> = of(a).chain(of(b)).collect();
    names.sort_unstable();
    names.dedup();
    names
}
