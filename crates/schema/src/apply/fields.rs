//! Field sets: the fields of an object that a manager owns.
//!
//! ```text
//! {"f:spec": {"f:replicas": {}, "f:containers": {"k:{\"name\":\"web\"}": {".": {}, "f:image": {}}}}}
//! ```
//!
//! `f:` is a field or an entry of a map, `k:` an item of a list by its keys, `v:` one by its value.
//! A path without children is in the set; a path with children is in the set only if it has `"."`.

#![deny(clippy::indexing_slicing, clippy::string_slice, clippy::unwrap_used, clippy::expect_used)]

use std::{borrow::Cow, cmp::Ordering, fmt::Write, iter::Peekable, mem, slice};

use object::{
    FieldId, Text, Value, depth::MAX, from_json, quote::quote, to_json, write_json,
    write_json_string,
};

/// The name of a field or map entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntryName<'a> {
    pub(super) word: Option<FieldId>,
    pub(super) text: &'a str,
}

impl<'a> EntryName<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        Self { word: FieldId::lookup(text), text }
    }
}

/// One element of a field path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum PathElement {
    /// A field with an interned name.
    Interned(FieldId),
    /// Any other element, as it is encoded: `f:app`, `k:{"name":"web"}`.
    Text(Text),
}

impl PathElement {
    /// The element for a field or a map entry.
    pub(super) fn field(name: EntryName) -> Self {
        name.word.map_or_else(|| Self::Text(["f:", name.text].concat().into()), Self::Interned)
    }

    /// The element for the list item with these keys, which are sorted by name.
    pub(super) fn keys<'a>(keys: impl Iterator<Item = (&'a str, &'a Value)>) -> Self {
        let mut text = Vec::with_capacity(64);
        text.extend_from_slice(b"k:{");
        for (name, value) in keys {
            if text.len() > 3 {
                text.push(b',');
            }
            write_json_string(name, &mut text);
            text.push(b':');
            write_json(value, &mut text);
        }
        text.push(b'}');
        Self::Text(json(&text).into())
    }

    /// The element for the set item with this value.
    pub(super) fn value(value: &Value) -> Self {
        let mut text = b"v:".to_vec();
        write_json(value, &mut text);
        Self::Text(json(&text).into())
    }

    pub(super) fn index(at: usize) -> Self {
        Self::Text(format!("i:{at}").into())
    }

    /// The prefix of the element, and the rest.
    fn parts(&self) -> (&str, &str) {
        match self {
            Self::Interned(word) => ("f:", word.as_str()),
            Self::Text(text) => text.split_at_checked(2).unwrap_or(("", text)),
        }
    }

    /// The name, if the element is a field or map entry.
    pub(super) fn name(&self) -> Option<EntryName<'_>> {
        match (self, self.parts()) {
            (Self::Interned(word), (_, text)) => Some(EntryName { word: Some(*word), text }),
            (_, ("f:", text)) => Some(EntryName { word: None, text }),
            _ => None,
        }
    }

    /// Parses an element to its canonical form. `None`: an unknown kind of element, which is
    /// ignored.
    fn parse(text: &str) -> Result<Option<Self>, String> {
        let (prefix, rest) =
            text.split_at_checked(2).ok_or_else(|| "key must be 2 characters long:".to_owned())?;
        let json = || from_json(rest.as_bytes()).map_err(|error| error.to_string());
        match prefix {
            "f:" => Ok(Some(Self::field(EntryName::of(rest)))),
            "v:" => Ok(Some(Self::value(&json()?))),
            "k:" if is_plain(rest) => Ok(Some(Self::Text(text.into()))),
            "k:" => {
                let keys = json()?;
                if !keys.is_object() {
                    return Err(format!("keys must be an object: {text}"));
                }
                Ok(Some(Self::keys(keys.entries())))
            }
            "i:" => {
                rest.parse::<i64>().map_err(|_| format!("index must be a number: {text}"))?;
                Ok(Some(Self::Text(text.into())))
            }
            _ if prefix.ends_with(':') => Ok(None),
            _ => Err(format!("missing colon: {text}")),
        }
    }
}

impl Ord for PathElement {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Interned(a), Self::Interned(b)) => a.cmp(b), // ids sort like their names
            _ => self.parts().cmp(&other.parts()),
        }
    }
}

impl PartialOrd for PathElement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Whether this is an object with one plain name and string, in canonical form: nearly all are.
fn is_plain(keys: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'/');
    let inner = keys.strip_prefix("{\"").and_then(|keys| keys.strip_suffix("\"}"));
    let parts = inner.and_then(|inner| inner.split_once("\":\""));
    parts.is_some_and(|(name, value)| name.bytes().chain(value.bytes()).all(plain))
}

/// The bytes, which are JSON that was just written, as a string.
fn json(text: &[u8]) -> &str {
    str::from_utf8(text).unwrap_or_default()
}

/// A set of field paths, as a tree sorted by path element.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet(pub(super) Vec<(PathElement, FieldSetNode)>);

/// A node of the tree: whether its path is in the set, and its children.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FieldSetNode {
    pub(super) member: bool,
    pub(super) children: FieldSet,
}

impl FieldSetNode {
    pub(super) fn is_empty(&self) -> bool {
        !self.member && self.children.is_empty()
    }

    pub(super) fn is_within(&self, other: &Self) -> bool {
        (other.member || !self.member) && self.children.is_subset(&other.children)
    }
}

impl FieldSet {
    /// Decodes `fieldsV1`.
    pub fn decode(encoded: &Value) -> Result<Self, String> {
        let read = |text: &[u8]| Reader { rest: text }.fields(MAX).map(|node| node.children);
        match encoded {
            Value::Null => Ok(Self::default()),
            // Another writer may have added white space.
            Value::Raw(text) => read(text.as_bytes()).or_else(|_| read(&to_json(encoded))),
            other => read(&to_json(other)),
        }
    }

    /// Encodes the set as `fieldsV1`.
    pub fn encode(&self) -> Value {
        let mut text = Vec::with_capacity(1024);
        self.write(false, &mut text);
        Value::Raw(json(&text).into())
    }

    fn write(&self, member: bool, out: &mut Vec<u8>) {
        out.extend_from_slice(if member { b"{\".\":{}" } else { b"{" });
        for (at, (step, node)) in self.0.iter().enumerate() {
            if at > 0 || member {
                out.push(b',');
            }
            match step {
                PathElement::Interned(word) => {
                    out.extend_from_slice(b"\"f:");
                    out.extend_from_slice(word.as_str().as_bytes());
                    out.push(b'"');
                }
                PathElement::Text(text) => write_json_string(text, out),
            }
            out.push(b':');
            node.children.write(node.member && !node.children.0.is_empty(), out);
        }
        out.push(b'}');
    }

    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|(_, node)| node.is_empty())
    }

    /// Builds a set from unsorted nodes. Of duplicates the last one counts.
    pub(super) fn from_nodes(mut nodes: Vec<(PathElement, FieldSetNode)>) -> Self {
        if !nodes.is_sorted_by(|a, b| a.0 < b.0) {
            nodes.reverse();
            nodes.sort_by(|a, b| a.0.cmp(&b.0));
            nodes.dedup_by(|a, b| a.0 == b.0);
        }
        Self(nodes)
    }

    pub(super) fn get(&self, step: &PathElement) -> Option<&FieldSetNode> {
        let at = self.0.binary_search_by(|node| node.0.cmp(step)).ok()?;
        self.0.get(at).map(|(_, node)| node)
    }

    /// Whether the path is in the set.
    pub(super) fn contains(&self, path: &[PathElement]) -> bool {
        match path {
            [] => false,
            [last] => self.get(last).is_some_and(|node| node.member),
            [first, rest @ ..] => self.get(first).is_some_and(|node| node.children.contains(rest)),
        }
    }

    /// Whether all paths are also in the other set.
    pub(super) fn is_subset(&self, other: &Self) -> bool {
        let mut others = NodeCursor(other.0.iter().peekable());
        self.0.iter().all(|(step, node)| match others.seek(step) {
            Some(other) => node.is_within(other),
            None => node.is_empty(),
        })
    }

    /// Whether the sets have a common path; fastest if `other` is small.
    pub(super) fn intersects(&self, other: &Self) -> bool {
        !other.clone().intersection(self).is_empty()
    }

    pub(super) fn union(self, other: &Self) -> Self {
        if self.0.is_empty() || other.0.is_empty() {
            return if self.0.is_empty() { other.clone() } else { self };
        }
        let mut all = Vec::with_capacity(self.0.len() + other.0.len());
        let mut others = other.0.iter().peekable();
        for (step, mut node) in self.0 {
            while let Some(other) = others.next_if(|other| other.0 < step) {
                all.push(other.clone());
            }
            if let Some((_, other)) = others.next_if(|other| other.0 == step) {
                node.member |= other.member;
                node.children = node.children.union(&other.children);
            }
            all.push((step, node));
        }
        all.extend(others.cloned());
        Self(all)
    }

    pub(super) fn intersection(self, other: &Self) -> Self {
        self.zip_nodes(other, |node, other| {
            node.member &= other.is_some_and(|other| other.member);
            let below = mem::take(&mut node.children);
            node.children =
                other.map(|other| below.intersection(&other.children)).unwrap_or_default();
        })
    }

    /// Removes the paths of `other`, but not the paths below them.
    pub(super) fn difference(self, other: &Self) -> Self {
        self.zip_nodes(other, |node, other| {
            if let Some(other) = other {
                node.member &= !other.member;
                node.children = mem::take(&mut node.children).difference(&other.children);
            }
        })
    }

    /// Removes the paths of `other` and all paths below them.
    pub(super) fn recursive_difference(self, other: &Self) -> Self {
        self.zip_nodes(other, |node, other| match other {
            None => {}
            Some(other) if other.member => *node = FieldSetNode::default(),
            Some(other) => {
                node.children = mem::take(&mut node.children).recursive_difference(&other.children);
            }
        })
    }

    /// Changes each node, given the node of `other` at the same path.
    fn zip_nodes(
        mut self,
        other: &Self,
        change: impl Fn(&mut FieldSetNode, Option<&FieldSetNode>),
    ) -> Self {
        let mut others = NodeCursor(other.0.iter().peekable());
        self.0.retain_mut(|(step, node)| {
            change(node, others.seek(step));
            !node.is_empty()
        });
        self
    }

    /// The first `most` paths: at each level first the members, then their children.
    pub(super) fn paths(&self, most: usize) -> Vec<Vec<PathElement>> {
        let (mut paths, mut path) = (Vec::new(), Vec::new());
        self.visit(&mut path, &mut paths, most);
        paths
    }

    fn visit(&self, path: &mut Vec<PathElement>, paths: &mut Vec<Vec<PathElement>>, most: usize) {
        let ends = self.0.iter().filter(|(_, node)| node.member);
        paths.extend(
            ends.take(most - paths.len())
                .map(|(step, _)| path.iter().chain([step]).cloned().collect()),
        );
        for (step, node) in &self.0 {
            path.push(step.clone());
            node.children.visit(path, paths, most);
            path.pop();
        }
    }
}

/// Iterates over another set in parallel with the first.
struct NodeCursor<'a>(Peekable<slice::Iter<'a, (PathElement, FieldSetNode)>>);

impl<'a> NodeCursor<'a> {
    fn seek(&mut self, step: &PathElement) -> Option<&'a FieldSetNode> {
        while self.0.next_if(|other| other.0 < *step).is_some() {}
        self.0.next_if(|other| other.0 == *step).map(|(_, node)| node)
    }
}

/// Decodes a field set from JSON without white space.
struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Decodes the children of a path, at most `depth` levels deep, and whether the path itself is
    /// in the set.
    fn fields(&mut self, depth: usize) -> Result<FieldSetNode, String> {
        let depth = depth.checked_sub(1).ok_or("exceeded max depth")?;
        let wrong = || "a set of fields must be an object".to_owned();
        let rest = match self.rest {
            [b'{', rest @ ..] => rest,
            [b'n', b'u', b'l', b'l', rest @ ..] => {
                self.rest = rest;
                return Ok(FieldSetNode { member: true, ..FieldSetNode::default() });
            }
            _ => return Err(wrong()),
        };
        self.rest = rest;
        let (mut nodes, mut member) = (Vec::new(), self.rest.starts_with(b"}"));
        while !self.rest.starts_with(b"}") {
            let name = self.name().ok_or_else(wrong)?;
            if name == "." {
                self.fields(depth)?;
                member = true;
            } else if let (Some(step), node) = (PathElement::parse(&name)?, self.fields(depth)?) {
                nodes.push((step, node));
            }
            self.rest = self.rest.strip_prefix(b",").unwrap_or(self.rest);
        }
        self.rest = self.rest.get(1..).unwrap_or_default();
        Ok(FieldSetNode { member, children: FieldSet::from_nodes(nodes) })
    }

    /// A name and the colon after it.
    fn name(&mut self) -> Option<Cow<'a, str>> {
        let [b'"', rest @ ..] = self.rest else { return None };
        let mut end = rest.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
        let escaped = rest.get(end)? == &b'\\';
        loop {
            end += match rest.get(end)? {
                b'"' => break,
                b'\\' => 2,
                _ => 1,
            };
        }
        let (text, whole) = (rest.get(..end)?, self.rest.get(..end + 2)?);
        self.rest = rest.get(end + 1..)?.strip_prefix(b":")?;
        let text = str::from_utf8(text).ok()?;
        if !escaped {
            return Some(Cow::Borrowed(text));
        } else if text.split('\\').skip(1).all(|part| part.starts_with('"')) {
            return Some(Cow::Owned(text.replace('\\', "")));
        }
        from_json(whole).ok()?.as_str().map(|text| Cow::Owned(text.to_owned()))
    }
}

/// The set of these field paths.
pub(super) fn from_field_paths(paths: &[&[&str]]) -> FieldSet {
    let one = |path: &&[&str]| {
        path.iter().rev().fold(FieldSet::default(), |below, name| {
            let member = below.0.is_empty();
            FieldSet(vec![(
                PathElement::field(EntryName::of(name)),
                FieldSetNode { member, children: below },
            )])
        })
    };
    paths.iter().map(one).fold(FieldSet::default(), |all, one| all.union(&one))
}

/// Formats a path for messages: `.spec.containers[name="web"].image`.
pub(super) fn format_path(path: &[PathElement]) -> String {
    let mut text = String::new();
    for step in path {
        let (prefix, rest) = step.parts();
        let parsed = || from_json(rest.as_bytes()).unwrap_or_default();
        match prefix {
            "f:" => text.extend([".", rest]),
            "k:" => {
                let keys = parsed();
                let keys: Vec<_> = keys
                    .entries()
                    .map(|(name, value)| format!("{name}={}", plain(value)))
                    .collect();
                let _ = write!(text, "[{}]", keys.join(","));
            }
            "v:" => {
                let _ = write!(text, "[={}]", plain(&parsed()));
            }
            _ => {
                let _ = write!(text, "[{rest}]");
            }
        }
    }
    text
}

fn plain(value: &Value) -> String {
    match value {
        Value::Text(text) => quote(text),
        Value::Object(_) | Value::Map(_) => {
            value.entries().map(|(name, value)| format!("{name}={}", plain(value))).collect()
        }
        Value::List(items) => {
            format!("[{}]", items.iter().map(plain).collect::<Vec<_>>().join(","))
        }
        other => String::from_utf8_lossy(&to_json(other)).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::tree;

    fn fields(text: &str) -> FieldSet {
        FieldSet::decode(&tree(text)).expect("tests write sets")
    }

    #[test]
    fn reads_what_it_writes() {
        let text = r#"{"f:a":{},"f:b":{".":{},"k:{\"n\":\"x\",\"p\":80}":{"f:c":{}}},"f:s":{"v:\"w\"":{}}}"#;
        let set = fields(text);
        assert_eq!(set.encode(), tree(text));
        let paths: Vec<_> = set.paths(9).iter().map(|path| format_path(path)).collect();
        assert_eq!(paths, [".a", ".b", r#".b[n="x",p=80].c"#, r#".s[="w"]"#]);
        assert_eq!(
            fields(r#"{"k:{\"p\":80,\"n\":1}":{}}"#),
            fields(r#"{"k:{\"n\":1,\"p\":80}":{}}"#)
        );
        let odd = fields(r#"{"k:{\"n\":{\"x\":[{}]},\"p\":null}":{}}"#);
        assert_eq!(format_path(&odd.paths(1)[0]), "[n=x=[],p=null]");
        assert!(fields(r#"{"x:unknown":{}}"#).is_empty());
        assert_eq!(fields(r#"{"f:a":null}"#), fields(r#"{"f:a":{}}"#));
        let set = fields(r#"{"f:a":{},"f:name":{".":{},"f:b":{},"f:kind":{}}}"#);
        assert!(
            set.is_subset(&set)
                && set.encode() == FieldSet::decode(&set.encode()).unwrap().encode()
        );
        assert!(!set.is_subset(&fields(r#"{"f:a":{},"f:name":{"f:b":{},"f:kind":{}}}"#)));
    }

    #[test]
    fn refuses_what_is_no_set() {
        for text in
            ["5", r#"{"f":{}}"#, r#"{"fa":{}}"#, r#"{"k:5":{}}"#, r#"{"v:{":{}}"#, r#"{"f:a":5}"#]
        {
            assert!(FieldSet::decode(&tree(text)).is_err(), "{text}");
        }
    }

    #[test]
    fn a_set_nests_no_deeper_than_objects_do() {
        let nested = |depth: usize| {
            let text = format!("{}{{}}{}", r#"{"f:a":"#.repeat(depth - 1), "}".repeat(depth - 1));
            FieldSet::decode(&object::from_json_raw(text.as_bytes()).expect("well formed"))
        };
        assert!(nested(MAX).is_ok_and(|set| set.paths(9).len() == 1));
        assert!(nested(MAX + 1).is_err());
        assert!(nested(9_999).is_err());
    }

    #[test]
    fn damaged_sets_are_errors_at_worst() {
        let text = r#"{"f:b":{".":{},"k:{\"n\":\"x\",\"p\":80}":{"f:c":{}}},"f:s":{"v:\"w\"":{}}}"#;
        for at in 0..text.len() {
            for byte in [b'"', b'{', b':', b'0', 0xc3] {
                let mut bytes = text.as_bytes().to_vec();
                bytes[at] = byte;
                if let Ok(set) = from_json(&bytes) {
                    let _ = FieldSet::decode(&set).map(|set| set.paths(9).len());
                }
            }
        }
    }

    #[test]
    fn counts_as_sets_do() {
        let (a, b) = (r#"{"f:a":{".":{},"f:b":{}},"f:c":{}}"#, r#"{"f:a":{},"f:d":{}}"#);
        let (left, right) = (fields(a), fields(b));
        assert_eq!(
            left.clone().union(&right),
            fields(r#"{"f:a":{".":{},"f:b":{}},"f:c":{},"f:d":{}}"#)
        );
        assert_eq!(left.clone().intersection(&right), fields(r#"{"f:a":{}}"#));
        assert_eq!(left.clone().difference(&right), fields(r#"{"f:a":{"f:b":{}},"f:c":{}}"#));
        assert_eq!(left.recursive_difference(&right), fields(r#"{"f:c":{}}"#));
    }
}
