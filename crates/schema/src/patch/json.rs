//! JSON patch: a list of operations (RFC 6902), read as leniently as upstream's library does.
//!
//! A negative index counts from the end, and `replace` also adds a missing field.

use object::{Text, Value, to_json};

use super::{PatchError, delete, entry, json_type};

/// More operations than anybody needs in one request.
const OPERATIONS: usize = 10_000;
/// By how much `copy` may let an object grow.
const COPIED: usize = 3 * 1024 * 1024;

/// Applies the operations in their order; all of them, or none.
pub fn json(doc: &Value, patch: &Value) -> Result<Value, PatchError> {
    let Value::List(operations) = patch else {
        return Err(undecodable(patch, "value of type []handlers.jsonPatchOp"));
    };
    for operation in operations {
        check(operation)?;
    }
    if operations.len() > OPERATIONS {
        return Err(PatchError::TooLarge(format!(
            "The allowed maximum operations in a JSON patch is {OPERATIONS}, got {}",
            operations.len()
        )));
    }
    let (mut doc, mut copied) = (doc.unpacked(), 0);
    for operation in operations {
        apply(&mut doc, operation, &mut copied).map_err(PatchError::Unfit)?;
    }
    Ok(doc)
}

fn check(operation: &Value) -> Result<(), PatchError> {
    if !operation.is_object() && !operation.is_null() {
        return Err(undecodable(operation, "value of type handlers.jsonPatchOp"));
    }
    let text = |name: &&str| !matches!(operation.get(name), Value::Null | Value::Text(_));
    match ["op", "path", "from"].iter().find(|name| text(name)) {
        None => Ok(()),
        Some(name) => {
            let into = format!("struct field jsonPatchOp.{name} of type string");
            Err(undecodable(operation.get(name), &into))
        }
    }
}

fn undecodable(found: &Value, into: &str) -> PatchError {
    let found = json_type(found);
    PatchError::Malformed(format!(
        "error decoding patch: json: cannot unmarshal {found} into Go {into}"
    ))
}

fn apply(doc: &mut Value, operation: &Value, copied: &mut usize) -> Result<(), String> {
    let kind = operation.get("op").as_str().unwrap_or("unknown");
    let path = |name: &str| {
        let path = operation.get(name).as_str();
        path.ok_or_else(|| format!("{kind} operation failed to decode {name}: missing value"))
    };
    let value = entry(operation, "value");
    match kind {
        "add" => {
            let path = path("path")?;
            let words = Words::quoted(kind, path);
            put(doc, path, value.cloned().unwrap_or_default(), Put::Add, &words)
        }
        "remove" => {
            let path = path("path")?;
            take(doc, path, &Words::quoted(kind, path)).map(drop)
        }
        "replace" => match (path("path")?, value.cloned().unwrap_or_default()) {
            ("", value @ (Value::List(_) | Value::Object(_) | Value::Map(_))) => {
                *doc = value;
                Ok(())
            }
            ("", _) => Err("replace operation value must be object or array".to_owned()),
            (path, value) => {
                put(doc, path, value, Put::Replace, &Words::new(kind, "doc is missing path", path))
            }
        },
        "move" => {
            let (from, path) = (path("from")?, path("path")?);
            let value = take(doc, from, &Words::new(kind, "doc is missing from path", from))?;
            let words = Words::new(kind, "doc is missing destination path", path);
            put(doc, path, value, Put::Add, &words)
        }
        "copy" => {
            let (from, path) = (path("from")?, path("path")?);
            let words = Words::new(kind, "doc is missing from path", from);
            let value = look(doc, from, &words)?.unwrap_or_default();
            *copied += to_json(&value).len();
            if *copied > COPIED {
                return Err(format!(
                    "Unable to complete the copy, the accumulated size increase of copy is \
                     {copied}, exceeding the limit {COPIED}"
                ));
            }
            let words = Words::new(kind, "doc is missing destination path", path);
            put(doc, path, value, Put::Add, &words)
        }
        "test" => {
            let path = path("path")?;
            let words = Words::new(kind, "is missing path", path);
            let found = if path.is_empty() { Some(doc.clone()) } else { look(doc, path, &words)? };
            if found.unwrap_or_default() == *value.unwrap_or(&Value::Null) {
                return Ok(());
            }
            Err(format!("testing value {path} failed: test failed"))
        }
        kind => Err(format!("Unexpected kind: {kind}")),
    }
}

/// What is said when an operation does not apply.
struct Words {
    missing: String,
    within: String,
}

impl Words {
    fn new(kind: &str, missing: &str, path: &str) -> Self {
        Self {
            missing: format!("{kind} operation does not apply: {missing}: {path}: missing value"),
            within: format!("error in {kind} for path: '{path}'"),
        }
    }

    fn quoted(kind: &str, path: &str) -> Self {
        let missing = format!(
            "{kind} operation does not apply: doc is missing path: {path:?}: missing value"
        );
        Self { missing, ..Self::new(kind, "", path) }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Put {
    Add,
    Replace,
}

fn put(doc: &mut Value, path: &str, value: Value, how: Put, words: &Words) -> Result<(), String> {
    let (parent, key) = parent(doc, path, words)?;
    let place =
        |length: usize| place(&key, length).map_err(|error| format!("{}: {error}", words.within));
    let Value::List(items) = parent else {
        parent[&*key] = value;
        return Ok(());
    };
    match how {
        Put::Add if key == "-" => items.push(value),
        Put::Add => items.insert(place(items.len() + 1)?, value),
        Put::Replace => {
            let at = place(items.len())?;
            items.make_mut()[at] = value;
        }
    }
    Ok(())
}

fn take(doc: &mut Value, path: &str, words: &Words) -> Result<Value, String> {
    let within = &words.within;
    let (parent, key) = parent(doc, path, words)?;
    if let Value::List(items) = parent {
        let at = place(&key, items.len()).map_err(|error| format!("{within}: {error}"))?;
        return Ok(items.remove(at));
    }
    let taken = entry(parent, &key).cloned();
    delete(parent, &key);
    taken.ok_or_else(|| format!("{within}: Unable to remove nonexistent key: {key}: missing value"))
}

/// What is at `path`; `None` where its parent is there and it is not.
fn look(doc: &mut Value, path: &str, words: &Words) -> Result<Option<Value>, String> {
    let (parent, key) = parent(doc, path, words)?;
    match parent {
        Value::List(items) => {
            let at = place(&key, items.len());
            Ok(Some(items[at.map_err(|error| format!("{}: {error}", words.within))?].clone()))
        }
        parent => Ok(entry(parent, &key).cloned()),
    }
}

/// The object or list in which `path` ends, and the last name of the path.
fn parent<'a>(
    doc: &'a mut Value,
    path: &str,
    words: &Words,
) -> Result<(&'a mut Value, Text), String> {
    let missing = || words.missing.clone();
    let (_, inner) = path.split_once('/').ok_or_else(missing)?;
    let mut names: Vec<_> = inner.split('/').map(unescape).collect();
    let last = names.pop().expect("a split has at least one part");
    let mut here = doc;
    for name in names {
        here = match here {
            Value::List(items) => {
                let at = place(&name, items.len()).map_err(|_| missing())?;
                &mut items.make_mut()[at]
            }
            object if !object.get(&name).is_null() => object.get_mut(&name),
            _ => return Err(missing()),
        };
    }
    if here.is_object() || matches!(here, Value::List(_)) {
        Ok((here, last))
    } else {
        Err(missing())
    }
}

fn unescape(part: &str) -> Text {
    part.replace("~1", "/").replace("~0", "~").into()
}

/// The place in a list of this length that an index means.
fn place(index: &str, length: usize) -> Result<usize, String> {
    let number: i64 =
        index.parse().map_err(|_| format!("value was not a proper array index: '{index}'"))?;
    let from_end = |back: i64| length.checked_sub(usize::try_from(-back).ok()?);
    let at = if number < 0 { from_end(number) } else { usize::try_from(number).ok() };
    let invalid = || format!("Unable to access invalid index: {number}: invalid index referenced");
    at.filter(|at| *at < length).ok_or_else(invalid)
}

#[cfg(test)]
mod tests {
    use object::from_json;

    use super::*;

    fn tree(text: &str) -> Value {
        from_json(text.as_bytes()).expect("tests write JSON")
    }

    #[test]
    fn each_operation_does_what_it_says() {
        let doc = r#"{"a":{"b":1},"l":[1,2,3],"x/y~":0}"#;
        for (patch, result) in [
            (
                r#"[{"op":"add","path":"/a/c","value":2}]"#,
                r#"{"a":{"b":1,"c":2},"l":[1,2,3],"x/y~":0}"#,
            ),
            (
                r#"[{"op":"add","path":"/l/-","value":4}]"#,
                r#"{"a":{"b":1},"l":[1,2,3,4],"x/y~":0}"#,
            ),
            (
                r#"[{"op":"add","path":"/l/0","value":0}]"#,
                r#"{"a":{"b":1},"l":[0,1,2,3],"x/y~":0}"#,
            ),
            (
                r#"[{"op":"add","path":"/l/-1","value":9}]"#,
                r#"{"a":{"b":1},"l":[1,2,3,9],"x/y~":0}"#,
            ),
            (r#"[{"op":"remove","path":"/l/-1"}]"#, r#"{"a":{"b":1},"l":[1,2],"x/y~":0}"#),
            (r#"[{"op":"remove","path":"/x~1y~0"}]"#, r#"{"a":{"b":1},"l":[1,2,3]}"#),
            (
                r#"[{"op":"replace","path":"/l/1","value":9}]"#,
                r#"{"a":{"b":1},"l":[1,9,3],"x/y~":0}"#,
            ),
            (
                r#"[{"op":"replace","path":"/n","value":9}]"#,
                r#"{"a":{"b":1},"l":[1,2,3],"n":9,"x/y~":0}"#,
            ),
            (r#"[{"op":"replace","path":"","value":{}}]"#, "{}"),
            (
                r#"[{"op":"move","from":"/a/b","path":"/l/0"}]"#,
                r#"{"a":{},"l":[1,1,2,3],"x/y~":0}"#,
            ),
            (
                r#"[{"op":"copy","from":"/a","path":"/c"}]"#,
                r#"{"a":{"b":1},"c":{"b":1},"l":[1,2,3],"x/y~":0}"#,
            ),
            (
                r#"[{"op":"test","path":"/a","value":{"b":1}},{"op":"remove","path":"/a"}]"#,
                r#"{"l":[1,2,3],"x/y~":0}"#,
            ),
            (r#"[{"op":"test","path":"/none","value":null}]"#, doc),
        ] {
            assert_eq!(json(&tree(doc), &tree(patch)), Ok(tree(result)), "{patch}");
        }
    }

    #[test]
    fn what_does_not_apply_is_refused() {
        for (patch, code) in [
            (r#"{"op":"add"}"#, 400),
            ("[5]", 400),
            (r#"[{"op":"add","path":5}]"#, 400),
            ("[null]", 422),
            (r#"[{"op":"merge","path":"/a"}]"#, 422),
            (r#"[{"op":"add","value":1}]"#, 422),
            (r#"[{"op":"add","path":"","value":1}]"#, 422),
            (r#"[{"op":"add","path":"/no/x","value":1}]"#, 422),
            (r#"[{"op":"add","path":"/a/b/x","value":1}]"#, 422),
            (r#"[{"op":"add","path":"/l/4","value":1}]"#, 422),
            (r#"[{"op":"add","path":"/l/x","value":1}]"#, 422),
            (r#"[{"op":"remove","path":"/none"}]"#, 422),
            (r#"[{"op":"remove","path":"/l/-4"}]"#, 422),
            (r#"[{"op":"replace","path":"/l/3","value":1}]"#, 422),
            (r#"[{"op":"replace","path":"","value":1}]"#, 422),
            (r#"[{"op":"move","from":"/none","path":"/x"}]"#, 422),
            (r#"[{"op":"test","path":"/a/b","value":2}]"#, 422),
        ] {
            let refused = json(&tree(r#"{"a":{"b":1},"l":[1,2,3]}"#), &tree(patch));
            assert_eq!(refused.expect_err(patch).code(), code, "{patch}");
        }
    }

    #[test]
    fn an_object_cannot_be_copied_without_end() {
        let double = r#"{"op":"copy","from":"/a","path":"/a/-"}"#;
        let patch = tree(&format!("[{}]", [double; 24].join(",")));
        assert_eq!(json(&tree(r#"{"a":["x"]}"#), &patch).expect_err("2^24 items").code(), 422);
        let patch: Value =
            vec![tree(r#"{"op":"test","path":"/n","value":null}"#); 10_001].into_iter().collect();
        assert_eq!(json(&tree("{}"), &patch).expect_err("one too many").code(), 413);
    }
}
