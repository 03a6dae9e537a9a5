//! JSON merge patch (RFC 7386): objects are merged, `null` removes a field, other values replace.

use super::{PatchError, lazy::LazyNode};

/// Merges a patch into an object, both as JSON text.
pub fn apply_merge_patch_text(doc: &str, patch: &str) -> Result<String, PatchError> {
    let (mut doc, mut patch) = (LazyNode::new(doc), LazyNode::new(patch));
    match patch.expand() {
        LazyNode::Null | LazyNode::Raw(_) => {
            return Err(PatchError::Malformed("Invalid JSON Patch".to_owned()));
        }
        LazyNode::List(_) => {
            patch.prune();
            doc = patch;
        }
        LazyNode::Object(_) => merge_node(&mut doc, patch),
    }
    Ok(doc.text())
}

fn merge_node<'a>(doc: &mut LazyNode<'a>, mut patch: LazyNode<'a>) {
    let LazyNode::Object(old) = doc.expand() else {
        patch.prune();
        *doc = patch;
        return;
    };
    match patch.expand() {
        LazyNode::Object(changes) => {
            for (name, change) in std::mem::take(changes) {
                match change {
                    LazyNode::Null => drop(old.remove(&name)),
                    change => merge_node(old.entry(name).or_insert(LazyNode::Null), change),
                }
            }
        }
        _ => *doc = patch,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merges_as_the_standard_shows() {
        for (doc, patch, result) in [
            (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#),
            (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#),
            (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":{"b":"c"}}"#, r#"{"a":{"b":"d","c":null}}"#, r#"{"a":{"b":"d"}}"#),
            (r#"{"a":"foo"}"#, r#"{"a":{"b":{"c":null}}}"#, r#"{"a":{"b":{}}}"#),
            (r#"{"a":[1,2]}"#, r#"{"a":[{"x":null}]}"#, r#"{"a":[{}]}"#),
            (r#"{"e":null}"#, r#"{"a":1}"#, r#"{"a":1,"e":null}"#),
            (
                r#"{"o":{"z":1,"y":1}}"#,
                r#"{"a":{"z":1.0,"y":1}}"#,
                r#"{"a":{"y":1,"z":1.0},"o":{"z":1,"y":1}}"#,
            ),
        ] {
            assert_eq!(apply_merge_patch_text(doc, patch).as_deref(), Ok(result), "{patch}");
        }
        assert_eq!(apply_merge_patch_text("{}", "5").expect_err("no object").code(), 400);
    }
}
