//! JSON patch: a list of operations (RFC 6902), as lenient as upstream's library.
//!
//! A negative index counts from the end, and `replace` also adds a missing field.

use std::collections::BTreeMap;

use object::{Value, depth::MAX_DOCUMENT, from_json};

use super::{PatchError, json_type, lazy::LazyNode, read, written};

/// Maximum number of operations in a request.
const MAX_OPERATIONS: usize = 10_000;
/// Maximum growth of an object by `copy`, in bytes.
const MAX_COPIED_BYTES: usize = 3 * 1024 * 1024;
/// Maximum work of all operations together: items that are moved and bytes that are scanned, except
/// for resolving paths. Inserting at the front of a list moves all of it.
const WORK: usize = 1 << 28;

/// The copied bytes and the work of the operations of one patch.
#[derive(Default)]
struct Used {
    copied: usize,
    work: usize,
}

/// Why an operation failed.
enum Stop {
    /// It does not apply to the document.
    Unfit(String),
    /// A `test` found another value.
    TestFailed(String),
    /// It exceeds a limit.
    TooLarge(String),
}

impl From<String> for Stop {
    fn from(why: String) -> Self {
        Self::Unfit(why)
    }
}

impl Used {
    fn work(&mut self, amount: usize) -> Result<(), Stop> {
        self.work = self.work.saturating_add(amount);
        if self.work > WORK {
            return Err(Stop::TooLarge("the operations of the JSON patch move too much".into()));
        }
        Ok(())
    }

    /// Rejects a value that would nest too deeply at this path.
    fn depth(&mut self, path: &str, value: &LazyNode) -> Result<(), Stop> {
        let (height, looked_at) = value.height(MAX_DOCUMENT);
        self.work(looked_at)?;
        if path.matches('/').count() + height > MAX_DOCUMENT {
            return Err(Stop::TooLarge(format!("exceeded max depth of {MAX_DOCUMENT}")));
        }
        Ok(())
    }
}

/// Applies the operations in order; all of them, or none.
pub fn apply_json_patch(doc: &Value, patch: &Value) -> Result<Value, PatchError> {
    read(&apply_json_patch_text(&written(doc), &written(patch), false)?)
}

/// Like `apply_json_patch`, for JSON text. With `strict`, all operations are checked before the
/// first is applied.
pub fn apply_json_patch_text(doc: &str, patch: &str, strict: bool) -> Result<String, PatchError> {
    let count = check(&read(patch)?, strict)?;
    if count > MAX_OPERATIONS {
        return Err(PatchError::TooLarge(format!(
            "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {count}"
        )));
    }
    let (mut doc, mut patch, mut used) =
        (LazyNode::new(doc), LazyNode::new(patch), Used::default());
    doc.expand();
    if let LazyNode::List(operations) = patch.expand() {
        for operation in operations {
            let nothing = &mut BTreeMap::new();
            let fields =
                if let LazyNode::Object(fields) = operation.expand() { fields } else { nothing };
            apply(&mut doc, fields, &mut used).map_err(|stop| match stop {
                Stop::Unfit(why) => PatchError::Unprocessable(why),
                Stop::TestFailed(why) => PatchError::TestFailed(why),
                Stop::TooLarge(why) => PatchError::TooLarge(why),
            })?;
        }
    }
    Ok(doc.text())
}

/// The number of operations, if all are well-formed.
fn check(patch: &Value, strict: bool) -> Result<usize, PatchError> {
    let (before, whole, one) = if strict {
        ("error decoding patch: ", "[]handlers.jsonPatchOp", "handlers.jsonPatchOp")
    } else {
        ("", "jsonpatch.Patch", "jsonpatch.Operation")
    };
    let refused = |found: &Value, into: String| {
        let found = json_type(found);
        PatchError::Malformed(format!("{before}json: cannot unmarshal {found} into Go {into}"))
    };
    if !matches!(patch, Value::List(_) | Value::Null) {
        return Err(refused(patch, format!("value of type {whole}")));
    }
    for operation in patch.items() {
        if !operation.is_object() && !operation.is_null() {
            return Err(refused(operation, format!("value of type {one}")));
        }
        let text = |name: &&str| matches!(operation.get(name), Value::Null | Value::Text(_));
        if let Some(name) = ["op", "path", "from"].iter().find(|name| strict && !text(name)) {
            let into = format!("struct field jsonPatchOp.{name} of type string");
            return Err(refused(operation.get(name), into));
        }
    }
    Ok(patch.items().len())
}

#[expect(clippy::too_many_lines, reason = "an arm for each operation")]
fn apply<'a>(
    doc: &mut LazyNode<'a>,
    operation: &BTreeMap<String, LazyNode<'a>>,
    used: &mut Used,
) -> Result<(), Stop> {
    let text = |name: &str| match operation.get(name) {
        Some(LazyNode::Raw(text)) => from_json(text.as_bytes()).ok()?.as_str().map(String::from),
        _ => None,
    };
    let kind = text("op").unwrap_or_else(|| "unknown".to_owned());
    let path = |name: &str| {
        text(name).ok_or_else(|| format!("{kind} operation failed to decode {name}: missing value"))
    };
    let missing = |what: &str, path: &str| {
        format!("{kind} operation does not apply: {what}: {path}: missing value")
    };
    let within = |path: &str, error: String| format!("error in {kind} for path: '{path}': {error}");
    let value = || operation.get("value").cloned().unwrap_or(LazyNode::Null);
    match &*kind {
        "add" | "remove" => {
            let (path, value) = (path("path")?, value());
            used.depth(&path, &value)?;
            let found = parent(doc, &path);
            let (parent, key) =
                found.ok_or_else(|| missing("doc is missing path", &format!("{path:?}")))?;
            used.work(parent.items())?;
            let done =
                if kind == "add" { add(parent, key, value) } else { take(parent, &key).map(drop) };
            done.map_err(|error| within(&path, error).into())
        }
        "replace" => {
            let (path, mut value) = (path("path")?, value());
            if path.is_empty() {
                if !matches!(value.expand(), LazyNode::Object(_) | LazyNode::List(_)) {
                    return Err("replace operation value must be object or array"
                        .to_owned()
                        .into());
                }
                *doc = value;
                return Ok(());
            }
            used.depth(&path, &value)?;
            match parent(doc, &path).ok_or_else(|| missing("doc is missing path", &path))? {
                (LazyNode::List(items), key) => {
                    let at = parse_index(&key, items.len())
                        .map_err(|_| missing("doc is missing key", &path))?;
                    if let Some(item) = items.get_mut(at) {
                        *item = value;
                    }
                    Ok(())
                }
                (parent, key) => add(parent, key, value).map_err(Stop::Unfit),
            }
        }
        "move" | "copy" => {
            let (from, path) = (path("from")?, path("path")?);
            if kind == "copy" {
                parent(doc, &path); // expands the destination before the value is copied into it
            }
            let (source, key) =
                parent(doc, &from).ok_or_else(|| missing("doc is missing from path", &from))?;
            let named = if kind == "move" { &key } else { &from };
            used.work(source.items())?;
            let value = if kind == "move" { take(source, &key) } else { look(source, &key) };
            let value = value.map_err(|error| within(named, error))?;
            used.depth(&path, &value)?;
            let (parent, key) = parent(doc, &path)
                .ok_or_else(|| missing("doc is missing destination path", &path))?;
            if kind == "copy" {
                used.copied += value.text().len();
                if used.copied > MAX_COPIED_BYTES {
                    return Err(Stop::Unfit(format!(
                        "Unable to complete the copy, the accumulated size increase of copy is \
                         {}, exceeding the limit {MAX_COPIED_BYTES}",
                        used.copied
                    )));
                }
            }
            used.work(parent.items())?;
            add(parent, key, value).map_err(|error| within(&path, error).into())
        }
        "test" => {
            let path = path("path")?;
            let mut found = match parent(doc, &path) {
                _ if path.is_empty() => doc.clone(),
                Some((parent, key)) => look(parent, &key).map_err(|error| within(&path, error))?,
                None => return Err(missing("is missing path", &path).into()),
            };
            let passes = found.same(&mut value());
            if passes {
                return Ok(());
            }
            Err(Stop::TestFailed(format!("testing value {path} failed: test failed")))
        }
        kind => Err(format!("Unexpected kind: {kind}").into()),
    }
}

fn add<'a>(parent: &mut LazyNode<'a>, key: String, value: LazyNode<'a>) -> Result<(), String> {
    match parent {
        LazyNode::List(items) if key == "-" => items.push(value),
        LazyNode::List(items) => items.insert(parse_index(&key, items.len() + 1)?, value),
        LazyNode::Object(entries) => drop(entries.insert(key, value)),
        _ => {}
    }
    Ok(())
}

fn take<'a>(parent: &mut LazyNode<'a>, key: &str) -> Result<LazyNode<'a>, String> {
    let taken = match parent {
        LazyNode::List(items) => Some(items.remove(parse_index(key, items.len())?)),
        LazyNode::Object(entries) => entries.remove(key),
        _ => None,
    };
    taken.ok_or_else(|| format!("Unable to remove nonexistent key: {key}: missing value"))
}

/// The value at `key`; `null` if there is none.
fn look<'a>(parent: &LazyNode<'a>, key: &str) -> Result<LazyNode<'a>, String> {
    let found = match parent {
        LazyNode::List(items) => items.get(parse_index(key, items.len())?),
        LazyNode::Object(entries) => entries.get(key),
        _ => None,
    };
    Ok(found.cloned().unwrap_or(LazyNode::Null))
}

/// The object or list that contains the end of `path`, and the last name of the path.
fn parent<'n, 'a>(doc: &'n mut LazyNode<'a>, path: &str) -> Option<(&'n mut LazyNode<'a>, String)> {
    let (_, inner) = path.split_once('/')?;
    let unescape = |part: &str| part.replace("~1", "/").replace("~0", "~");
    let mut names: Vec<_> = inner.split('/').map(unescape).collect();
    let last = names.pop()?;
    let mut here = doc;
    for name in names {
        here = match here {
            LazyNode::List(items) => {
                let at = parse_index(&name, items.len()).ok()?;
                items.get_mut(at)?.expand()
            }
            LazyNode::Object(entries) => entries.get_mut(&name)?.expand(),
            _ => return None,
        };
    }
    matches!(here, LazyNode::Object(_) | LazyNode::List(_)).then_some((here, last))
}

/// The position that an index means in a list of this length.
fn parse_index(index: &str, length: usize) -> Result<usize, String> {
    let number: i64 =
        index.parse().map_err(|_| format!("value was not a proper array index: '{index}'"))?;
    let from_end = |back: i64| length.checked_sub(usize::try_from(back.unsigned_abs()).ok()?);
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
            assert_eq!(apply_json_patch(&tree(doc), &tree(patch)), Ok(tree(result)), "{patch}");
        }
    }

    #[test]
    fn what_does_not_apply_is_refused() {
        for (patch, code) in [
            (r#"{"op":"add"}"#, 400),
            ("[5]", 400),
            (r#"[{"op":"add","path":5}]"#, 422),
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
            let refused = apply_json_patch(&tree(r#"{"a":{"b":1},"l":[1,2,3]}"#), &tree(patch));
            assert_eq!(refused.expect_err(patch).code(), code, "{patch}");
        }
    }

    #[test]
    fn a_list_cannot_be_shifted_without_end() {
        let doc = format!(r#"{{"a":[{}]}}"#, vec!["1"; 300_000].join(","));
        let first = r#"{"op":"add","path":"/a/0","value":1}"#;
        let patch = format!("[{}]", vec![first; 9_000].join(","));
        // CPU time, which does not grow on a busy host.
        let spent = || {
            let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
            text.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0_u64)
        };
        let before = spent();
        let refused = apply_json_patch_text(&doc, &patch, false).expect_err("2,700 million items");
        assert_eq!(refused.code(), 413);
        assert!(spent() - before < 10_000_000_000, "{} ns", spent() - before);
    }

    #[test]
    fn an_object_cannot_be_copied_without_end() {
        let double = r#"{"op":"copy","from":"/a","path":"/a/-"}"#;
        let patch = tree(&format!("[{}]", [double; 24].join(",")));
        assert_eq!(
            apply_json_patch(&tree(r#"{"a":["x"]}"#), &patch).expect_err("2^24 items").code(),
            422
        );
        let deeper = r#"{"op":"copy","from":"/a","path":"/a/a/a/a/a"}"#;
        let patch = tree(&format!("[{}]", [deeper; 100].join(",")));
        let deep = apply_json_patch(&tree(r#"{"a":{"a":{"a":{"a":{}}}}}"#), &patch)
            .expect_err("400 levels");
        assert_eq!(deep, PatchError::TooLarge("exceeded max depth of 216".to_owned()));
        let patch: Value =
            vec![tree(r#"{"op":"test","path":"/n","value":null}"#); 10_001].into_iter().collect();
        assert_eq!(apply_json_patch(&tree("{}"), &patch).expect_err("one too many").code(), 413);
    }
}
