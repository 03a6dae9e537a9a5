//! Correlates the items of a map list before and after an update by their keys.

#![deny(clippy::indexing_slicing, clippy::string_slice, clippy::unwrap_used, clippy::expect_used)]

use std::collections::HashMap;

use object::Value;

/// The old items of a list by their keys. They are hashed once, so that looking up each item of the
/// new list does not take quadratic time.
#[derive(Debug)]
pub struct OldItems<'a> {
    keys: Vec<&'a str>,
    by_key: HashMap<Vec<&'a Value>, &'a Value>,
}

impl<'a> OldItems<'a> {
    /// `None`: there was no list, or its items have no keys.
    pub fn new(keys: Option<Vec<&'a str>>, old: Option<&'a Value>) -> Option<Self> {
        let (keys, old) = (keys?, old?);
        let mut by_key = HashMap::new();
        for item in old.items() {
            by_key.entry(key_values(&keys, item)).or_insert(item);
        }
        Some(Self { keys, by_key })
    }

    /// The first old item with the same keys as this one.
    pub fn find(&self, item: &Value) -> Option<&'a Value> {
        self.by_key.get(key_values(&self.keys, item).as_slice()).copied()
    }
}

fn key_values<'v>(keys: &[&str], item: &'v Value) -> Vec<&'v Value> {
    keys.iter().map(|key| item.get(key)).collect()
}

#[cfg(test)]
mod tests {
    use object::from_json;

    use super::*;

    #[test]
    fn items_are_found_by_all_of_their_keys() {
        let old = from_json(br#"[{"a":1,"b":"x","v":1},{"a":1,"v":2},{"a":1,"b":"x","v":3}]"#);
        let old = old.expect("JSON");
        let items = OldItems::new(Some(vec!["a", "b"]), Some(&old)).expect("there are keys");
        let found = |item: &str| {
            let item = from_json(item.as_bytes()).expect("JSON");
            items.find(&item).map(|found| found.get("v").as_i64())
        };
        assert_eq!(found(r#"{"a":1,"b":"x"}"#), Some(Some(1)), "the first of two");
        assert_eq!(found(r#"{"a":1}"#), Some(Some(2)), "a key that is missing");
        assert_eq!(found(r#"{"a":2,"b":"x"}"#), None);
        assert!(OldItems::new(None, Some(&old)).is_none());
        assert!(OldItems::new(Some(vec!["a"]), None).is_none());
    }
}
