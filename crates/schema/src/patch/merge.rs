//! JSON merge patch: objects are merged, `null` removes, all else replaces (RFC 7386).

use object::Value;

use super::delete;

/// Merges `patch` into `doc`.
pub fn merge(doc: &mut Value, patch: &Value) {
    if let Value::Raw(_) = doc {
        *doc = doc.unpacked();
    }
    if !doc.is_object() || !patch.is_object() {
        *doc = patch.clone();
        return prune(doc);
    }
    for (name, change) in patch.entries() {
        match change {
            Value::Null => delete(doc, name),
            change => merge(doc.get_mut(name), change),
        }
    }
}

/// A `null` removes what is not there yet either.
fn prune(value: &mut Value) {
    match value {
        Value::List(items) => items.make_mut().iter_mut().for_each(prune),
        value => value.retain(|_, value| {
            prune(value);
            !value.is_null()
        }),
    }
}

#[cfg(test)]
mod tests {
    use object::from_json;

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
        ] {
            let mut doc = from_json(doc.as_bytes()).unwrap();
            merge(&mut doc, &from_json(patch.as_bytes()).unwrap());
            assert_eq!(doc, from_json(result.as_bytes()).unwrap(), "{patch}");
        }
    }
}
