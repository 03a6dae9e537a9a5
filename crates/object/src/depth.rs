//! Limits of the nesting depth of objects, for everything that decodes, changes, stores or encodes a value.
//!
//! Go's decoders stop at 10,000 levels, on stacks that grow. Rust's stacks do not grow, and most code that walks a
//! value recurses, so a value must be shallow enough for the smallest stack of any thread. In a debug build 2 MiB do
//! not suffice for every code path yet.

use crate::Value;

/// Maximum nesting depth of a stored object.
pub const MAX: usize = 200;

/// Maximum nesting depth of a document that contains such an object: a list, a watch event, a review or a table. What
/// has been stored can always be read.
pub const MAX_DOCUMENT: usize = MAX + 16;

/// Whether a value nests deeper than `limit` levels. Stops at that depth.
pub fn exceeds(value: &Value, limit: usize) -> bool {
    match value {
        Value::List(items) => limit == 0 || items.iter().any(|item| exceeds(item, limit - 1)),
        Value::Object(fields) => {
            limit == 0 || fields.iter().any(|(_, value)| exceeds(value, limit - 1))
        }
        Value::Map(entries) => {
            limit == 0 || entries.iter().any(|(_, value)| exceeds(value, limit - 1))
        }
        Value::Raw(text) => json_exceeds(text, limit),
        _ => false,
    }
}

/// Whether well-formed JSON nests deeper than `limit` levels.
pub fn json_exceeds(text: &str, limit: usize) -> bool {
    // Nearly all documents have fewer brackets than the limit, and counting brackets is fast.
    let opens = |byte: &&u8| matches!(**byte, b'{' | b'[');
    text.len() > limit
        && text.as_bytes().iter().filter(opens).count() > limit
        && json_depth(text) > limit
}

/// The nesting depth of well-formed JSON.
pub fn json_depth(text: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let (mut quoted, mut escaped) = (false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{from_json, from_json_raw};

    #[test]
    fn brackets_within_texts_do_not_nest() {
        assert_eq!(json_depth(r#"{"a[[\"{":["]","\\"],"b":{}}"#), 2);
        assert_eq!(json_depth("5"), 0);
    }

    #[test]
    fn a_tree_is_as_deep_as_its_text() {
        for text in ["1", "[]", r#"{"a":[{"name":1}]}"#, r#"[[],[[[]]],{"x":{}}]"#] {
            let (tree, raw) = (from_json(text.as_bytes()), from_json_raw(text.as_bytes()));
            for limit in 0..6 {
                let deeper = json_depth(text) > limit;
                assert_eq!(tree.as_ref().map(|tree| exceeds(tree, limit)), Ok(deeper), "{text}");
                assert_eq!(raw.as_ref().map(|raw| exceeds(raw, limit)), Ok(deeper), "{text}");
            }
        }
    }
}
