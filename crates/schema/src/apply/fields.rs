//! A set of fields: which parts of an object somebody manages.
//!
//! ```text
//! {"f:spec": {"f:replicas": {}, "f:containers": {"k:{\"name\":\"web\"}": {".": {}, "f:image": {}}}}}
//! ```
//!
//! `f:` is a field or an entry of a map, `k:` an item of a list by its keys, `v:` one by
//! its value. Something without anything below it is in the set; what has something
//! below it is in the set itself only if it says `"."`.

use std::{collections::BTreeMap, fmt::Write};

use object::{Text, Value, from_json, quote::quote, to_json};

/// One step of a path, as it is written: `f:spec`.
pub(super) type Step = Text;

/// A set of paths, as a tree of steps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields(pub(super) BTreeMap<Step, Node>);

/// Where one step leads to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) member: bool,
    pub(super) below: Fields,
}

impl Node {
    pub(super) fn is_empty(&self) -> bool {
        !self.member && self.below.is_empty()
    }
}

impl Fields {
    /// Reads what `fieldsV1` holds.
    pub fn decode(encoded: &Value) -> Result<Self, String> {
        let mut fields = Self::default();
        for (name, below) in encoded.entries() {
            if name == "." {
                continue; // the caller's
            }
            let Some(step) = canonical(name)? else { continue };
            let below_fields = Self::decode(below)?;
            let member = below.entries().len() == 0
                || !std::ptr::eq(below.get("."), &raw const object::NULL);
            fields.0.insert(step, Node { member, below: below_fields });
        }
        if encoded.is_object() || encoded.is_null() {
            Ok(fields)
        } else {
            Err("a set of fields must be an object".to_owned())
        }
    }

    /// What `fieldsV1` holds.
    pub fn encode(&self) -> Value {
        let mut encoded = Value::object();
        for (step, node) in &self.0 {
            let mut below = node.below.encode();
            if node.member && !node.below.is_empty() {
                below["."] = Value::object();
            }
            encoded[step.as_str()] = below;
        }
        encoded
    }

    pub fn is_empty(&self) -> bool {
        self.0.values().all(Node::is_empty)
    }

    /// Adds one path. The whole object is not part of any set.
    pub(super) fn insert(&mut self, path: &[Step]) {
        match path {
            [] => {}
            [last] => self.0.entry(last.clone()).or_default().member = true,
            [first, rest @ ..] => self.0.entry(first.clone()).or_default().below.insert(rest),
        }
    }

    /// Whether the path is in the set.
    pub(super) fn has(&self, path: &[Step]) -> bool {
        match path {
            [] => false,
            [last] => self.0.get(last).is_some_and(|node| node.member),
            [first, rest @ ..] => self.0.get(first).is_some_and(|node| node.below.has(rest)),
        }
    }

    pub(super) fn union(mut self, other: &Self) -> Self {
        for (step, node) in &other.0 {
            let mine = self.0.entry(step.clone()).or_default();
            mine.member |= node.member;
            mine.below = std::mem::take(&mut mine.below).union(&node.below);
        }
        self
    }

    pub(super) fn intersection(&self, other: &Self) -> Self {
        self.with(other, |mine, other| Node {
            member: mine.member && other.is_some_and(|other| other.member),
            below: other.map(|other| mine.below.intersection(&other.below)).unwrap_or_default(),
        })
    }

    /// Without the paths of `other`; what is below them stays.
    pub(super) fn difference(&self, other: &Self) -> Self {
        self.with(other, |mine, other| match other {
            None => mine.clone(),
            Some(other) => Node {
                member: mine.member && !other.member,
                below: mine.below.difference(&other.below),
            },
        })
    }

    /// Without the paths of `other` and all that is below them.
    pub(super) fn cut(&self, other: &Self) -> Self {
        self.with(other, |mine, other| match other {
            None => mine.clone(),
            Some(other) if other.member => Node::default(),
            Some(other) => Node { member: mine.member, below: mine.below.cut(&other.below) },
        })
    }

    fn with(&self, other: &Self, new: impl Fn(&Node, Option<&Node>) -> Node) -> Self {
        let nodes = self.0.iter().map(|(step, node)| (step.clone(), new(node, other.0.get(step))));
        Self(nodes.filter(|(_, node)| !node.is_empty()).collect())
    }

    /// All paths, in their order.
    pub(super) fn paths(&self) -> Vec<Vec<Step>> {
        let (mut paths, mut path) = (Vec::new(), Vec::new());
        self.visit(&mut path, &mut paths);
        paths
    }

    fn visit(&self, path: &mut Vec<Step>, paths: &mut Vec<Vec<Step>>) {
        for (step, node) in &self.0 {
            path.push(step.clone());
            if node.member {
                paths.push(path.clone());
            }
            node.below.visit(path, paths);
            path.pop();
        }
    }
}

/// The step to a field or to an entry of a map.
pub(super) fn field(name: &str) -> Step {
    let mut step = Step::const_new("f:");
    step.push_str(name);
    step
}

/// The step to the item of a list that has these keys.
pub(super) fn key(keys: &Value) -> Step {
    format!("k:{}", String::from_utf8_lossy(&to_json(keys))).into()
}

/// The step to the item of a set that is this value.
pub(super) fn value(value: &Value) -> Step {
    format!("v:{}", String::from_utf8_lossy(&to_json(value))).into()
}

/// The set of these paths of field names.
pub(super) fn of_names(paths: &[&[&str]]) -> Fields {
    let mut fields = Fields::default();
    for path in paths {
        let path: Vec<_> = path.iter().map(|name| field(name)).collect();
        fields.insert(&path);
    }
    fields
}

/// A path as messages show it: `.spec.containers[name="web"].image`.
pub(super) fn shown(path: &[Step]) -> String {
    let mut text = String::new();
    for step in path {
        let (prefix, rest) = step.split_at_checked(2).unwrap_or(("", step));
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
        other => String::from_utf8_lossy(&to_json(other)).into_owned(),
    }
}

/// One form for each step. `None`: a kind of step that is not known, and ignored.
fn canonical(name: &str) -> Result<Option<Step>, String> {
    let (prefix, rest) =
        name.split_at_checked(2).ok_or_else(|| "key must be 2 characters long:".to_owned())?;
    let json = || from_json(rest.as_bytes()).map_err(|error| error.to_string());
    match prefix {
        "f:" => Ok(Some(name.into())),
        "v:" => Ok(Some(value(&json()?))),
        "k:" => {
            let keys = json()?;
            if !keys.is_object() {
                return Err(format!("keys must be an object: {name}"));
            }
            Ok(Some(key(&keys)))
        }
        "i:" => {
            rest.parse::<i64>().map_err(|_| format!("index must be a number: {name}"))?;
            Ok(Some(name.into()))
        }
        _ if prefix.ends_with(':') => Ok(None),
        _ => Err(format!("missing colon: {name}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::tree;

    fn fields(text: &str) -> Fields {
        Fields::decode(&tree(text)).expect("tests write sets")
    }

    #[test]
    fn reads_what_it_writes() {
        let text = r#"{"f:a":{},"f:b":{".":{},"k:{\"n\":\"x\",\"p\":80}":{"f:c":{}}},"f:s":{"v:\"w\"":{}}}"#;
        let set = fields(text);
        assert_eq!(set.encode(), tree(text));
        let paths: Vec<_> = set.paths().iter().map(|path| shown(path)).collect();
        assert_eq!(paths, [".a", ".b", r#".b[n="x",p=80].c"#, r#".s[="w"]"#]);
        assert_eq!(
            fields(r#"{"k:{\"p\":80,\"n\":1}":{}}"#),
            fields(r#"{"k:{\"n\":1,\"p\":80}":{}}"#)
        );
        assert!(fields(r#"{"x:unknown":{}}"#).is_empty());
    }

    #[test]
    fn refuses_what_is_no_set() {
        for text in
            ["5", r#"{"f":{}}"#, r#"{"fa":{}}"#, r#"{"k:5":{}}"#, r#"{"v:{":{}}"#, r#"{"f:a":5}"#]
        {
            assert!(Fields::decode(&tree(text)).is_err(), "{text}");
        }
    }

    #[test]
    fn damaged_sets_are_errors_at_worst() {
        let text = r#"{"f:b":{".":{},"k:{\"n\":\"x\",\"p\":80}":{"f:c":{}}},"f:s":{"v:\"w\"":{}}}"#;
        for at in 0..text.len() {
            for byte in [b'"', b'{', b':', b'0', 0xc3] {
                let mut bytes = text.as_bytes().to_vec();
                bytes[at] = byte;
                if let Ok(set) = from_json(&bytes) {
                    let _ = Fields::decode(&set).map(|set| set.paths().len());
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
        assert_eq!(left.intersection(&right), fields(r#"{"f:a":{}}"#));
        assert_eq!(left.difference(&right), fields(r#"{"f:a":{"f:b":{}},"f:c":{}}"#));
        assert_eq!(left.cut(&right), fields(r#"{"f:c":{}}"#));
    }
}
