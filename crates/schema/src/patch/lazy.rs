//! JSON that is parsed only where a patch touches it. The rest stays as written, including the
//! order of names and the notation of numbers; parsed objects are written with sorted names.

use std::collections::BTreeMap;

use object::{depth::json_depth, from_json, to_json};

/// A JSON value that is parsed on demand.
#[derive(Clone, Debug)]
pub(super) enum LazyNode<'a> {
    Null,
    /// Well-formed JSON.
    Raw(&'a str),
    Object(BTreeMap<String, LazyNode<'a>>),
    List(Vec<LazyNode<'a>>),
}

impl<'a> LazyNode<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        match text.trim_ascii() {
            "null" => Self::Null,
            text => Self::Raw(text),
        }
    }

    /// Parses an object or list one level deep.
    pub(super) fn expand(&mut self) -> &mut Self {
        if let Self::Raw(text) = *self {
            match text.as_bytes().first() {
                Some(b'{') => {
                    let name =
                        |name: &str| from_json(name.as_bytes()).ok()?.as_str().map(String::from);
                    let entries = parts(text);
                    let (pairs, _) = entries.as_chunks();
                    let entry = |[key, value]: &[&'a str; 2]| {
                        (name(key).unwrap_or_default(), Self::new(value))
                    };
                    *self = Self::Object(pairs.iter().map(entry).collect());
                }
                Some(b'[') => *self = Self::List(parts(text).into_iter().map(Self::new).collect()),
                _ => {}
            }
        }
        self
    }

    /// The number of items of a list, all of which an insertion at its front moves.
    pub(super) fn items(&self) -> usize {
        if let Self::List(items) = self { items.len() } else { 0 }
    }

    /// The nesting depth, up to `most`, and the number of bytes and values that were scanned.
    pub(super) fn height(&self, most: usize) -> (usize, usize) {
        let below = |sum: (usize, usize), node: &Self| {
            let (height, looked_at) = node.height(most.saturating_sub(1));
            (sum.0.max(height + 1), sum.1 + looked_at + 1)
        };
        match self {
            Self::Null => (0, 0),
            Self::Raw(text) => (json_depth(text), text.len()),
            _ if most == 0 => (1, 1),
            Self::Object(entries) => entries.values().fold((1, 1), below),
            Self::List(items) => items.iter().fold((1, 1), below),
        }
    }

    /// Whether two values are equal, ignoring the order of names. Scalars are compared by their
    /// text.
    pub(super) fn same(&mut self, other: &mut Self) -> bool {
        match (self.expand(), other.expand()) {
            (Self::Object(a), Self::Object(b)) => {
                a.len() == b.len() && a.iter_mut().zip(b).all(|(a, b)| a.0 == b.0 && a.1.same(b.1))
            }
            (Self::List(a), Self::List(b)) => {
                a.len() == b.len() && a.iter_mut().zip(b).all(|(a, b)| a.same(b))
            }
            (Self::Raw(a), Self::Raw(b)) => a == b,
            (Self::Null, Self::Null) => true,
            _ => false,
        }
    }

    pub(super) fn text(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Raw(text) => compact(text, out),
            Self::Object(entries) => {
                for (i, (name, value)) in entries.iter().enumerate() {
                    out.push(if i == 0 { '{' } else { ',' });
                    out.push_str(&String::from_utf8_lossy(&to_json(&name.as_str().into())));
                    out.push(':');
                    value.write(out);
                }
                out.push_str(if entries.is_empty() { "{}" } else { "}" });
            }
            Self::List(items) => {
                for (i, item) in items.iter().enumerate() {
                    out.push(if i == 0 { '[' } else { ',' });
                    item.write(out);
                }
                out.push_str(if items.is_empty() { "[]" } else { "]" });
            }
        }
    }

    /// Parses the whole value and removes entries that are `null`.
    pub(super) fn prune(&mut self) {
        match self.expand() {
            Self::List(items) => items.iter_mut().for_each(Self::prune),
            Self::Object(entries) => entries.retain(|_, value| {
                value.prune();
                !matches!(value, Self::Null)
            }),
            _ => {}
        }
    }
}

/// Splits an object into names and values, or a list into items.
fn parts(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 1, 0);
    let (mut quoted, mut escaped) = (false, false);
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'{' | b'[' => depth += 1,
            b',' | b':' | b'}' | b']' if depth == 0 => {
                let part = text.get(start..at).map(str::trim_ascii);
                parts.extend(part.filter(|part| !part.is_empty()));
                start = at + 1;
            }
            b'}' | b']' => depth -= 1,
            _ => {}
        }
    }
    parts
}

/// Writes the JSON without white space and with HTML characters escaped.
fn compact(text: &str, out: &mut String) {
    let (mut quoted, mut escaped) = (false, false);
    for c in text.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            ' ' | '\n' | '\r' | '\t' if !quoted => {}
            c => out.push(c),
        }
        quoted ^= c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_touched_stays_as_it_was_written() {
        let text =
            r#"{ "z" : {"b": 1.0, "a,}": "\"x <é\\"}, "a": [ 1, {"y":0 ,"x":[]}], "n":null}"#;
        let mut node = LazyNode::new(text);
        assert_eq!(
            node.text(),
            r#"{"z":{"b":1.0,"a,}":"\"x \u003cé\\"},"a":[1,{"y":0,"x":[]}],"n":null}"#
        );
        node.expand();
        assert_eq!(
            node.text(),
            r#"{"a":[1,{"y":0,"x":[]}],"n":null,"z":{"b":1.0,"a,}":"\"x \u003cé\\"}}"#
        );
        let again = node.text();
        assert!(LazyNode::new(text).same(&mut node.clone()));
        assert!(!node.same(&mut LazyNode::new(&again)), "`<` is not its escape");
        node.prune();
        assert_eq!(node.text(), r#"{"a":[1,{"x":[],"y":0}],"z":{"a,}":"\"x \u003cé\\","b":1.0}}"#);
    }
}
