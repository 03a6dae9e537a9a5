//! Objects by key, and by every index that their kind declares.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Bound,
};

use object::{Key, Text};

use crate::Any;

/// By the uid of the controlling owner: an index that every kind has.
pub(super) const OWNER: &str = "owner";

/// Names and values of the indexes that an object's kind declares.
pub(super) type Entries = fn(&Any) -> Vec<(&'static str, Text)>;
/// What one user of the cache looks objects up by.
pub(super) type Lookup = Box<dyn Fn(&Any) -> Vec<Text> + Send>;

pub(super) struct Indexed {
    objects: BTreeMap<Key, Any>,
    declared: Entries,
    lookups: Vec<(&'static str, Lookup)>,
    indexes: HashMap<(&'static str, Text), BTreeSet<Key>>,
}

impl Indexed {
    pub(super) fn new(declared: Entries) -> Self {
        let (objects, indexes) = (BTreeMap::new(), HashMap::new());
        Self { objects, declared, lookups: Vec::new(), indexes }
    }

    pub(super) fn get(&self, key: &Key) -> Option<&Any> {
        self.objects.get(key)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Any> {
        self.objects.values()
    }

    pub(super) fn len(&self) -> usize {
        self.objects.len()
    }

    /// The objects of a namespace, in order of their names.
    pub(super) fn of_namespace(&self, namespace: &str) -> impl Iterator<Item = &Any> {
        let from = Bound::Included(Key::new(namespace, ""));
        let all = self.objects.range((from, Bound::Unbounded));
        all.take_while(move |(key, _)| key.namespace == namespace).map(|(_, object)| object)
    }

    /// The objects that have `value` in `index`, in order of their keys.
    pub(super) fn by(&self, index: &'static str, value: &str) -> Vec<Any> {
        let keys = self.indexes.get(&(index, value.into())).into_iter().flatten();
        keys.filter_map(|key| self.objects.get(key)).cloned().collect()
    }

    /// Adds an index, unless there is one of the name.
    pub(super) fn add_index(&mut self, name: &'static str, of: Lookup) {
        if self.lookups.iter().any(|(known, _)| *known == name) {
            return;
        }
        for (key, object) in &self.objects {
            for value in values(&of, object) {
                self.indexes.entry((name, value)).or_default().insert(key.clone());
            }
        }
        self.lookups.push((name, of));
    }

    pub(super) fn insert(&mut self, object: Any) -> Option<Any> {
        let key = Key::of(object.metadata());
        let old = self.remove(&key);
        for entry in self.entries(&object) {
            self.indexes.entry(entry).or_default().insert(key.clone());
        }
        self.objects.insert(key, object);
        old
    }

    pub(super) fn remove(&mut self, key: &Key) -> Option<Any> {
        let old = self.objects.remove(key)?;
        for entry in self.entries(&old) {
            let Some(keys) = self.indexes.get_mut(&entry) else { continue };
            keys.remove(key);
            if keys.is_empty() {
                self.indexes.remove(&entry);
            }
        }
        Some(old)
    }

    fn entries(&self, object: &Any) -> Vec<(&'static str, Text)> {
        let mut all = panics::catch("cache index", || (self.declared)(object)).unwrap_or_default();
        all.extend(object.metadata().controller().map(|owner| (OWNER, owner.uid().into())));
        for (name, of) in &self.lookups {
            all.extend(values(of, object).into_iter().map(|value| (*name, value)));
        }
        all
    }
}

/// An object whose values cannot be had is found by none; the copy itself stays whole.
fn values(of: &Lookup, object: &Any) -> Vec<Text> {
    panics::catch("cache index", || of(object)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use object::from_json;

    use super::*;

    fn object(text: &str) -> Any {
        from_json(text.as_bytes()).unwrap().into()
    }

    #[test]
    fn indexes_follow_their_objects() {
        let mut all = Indexed::new(|_| Vec::new());
        all.insert(object(
            r#"{"metadata":{"name":"a","namespace":"n","labels":{"app":"web"},
               "ownerReferences":[{"uid":"7","controller":true}]}}"#,
        ));
        let app = |any: &Any| any.metadata().labels().get("app").map(Text::from);
        all.add_index("app", Box::new(move |any| app(any).into_iter().collect()));
        all.insert(object(r#"{"metadata":{"name":"b","namespace":"n","labels":{"app":"web"}}}"#));
        all.insert(object(r#"{"metadata":{"name":"b","namespace":"na"}}"#));
        assert_eq!((all.by("app", "web").len(), all.by(OWNER, "7").len()), (2, 1));
        assert_eq!(all.of_namespace("n").count(), 2);
        all.insert(object(r#"{"metadata":{"name":"a","namespace":"n","labels":{"app":"db"}}}"#));
        assert_eq!((all.by("app", "web").len(), all.by(OWNER, "7").len()), (1, 0));
        all.remove(&Key::new("n", "a"));
        assert_eq!((all.by("app", "db").len(), all.len()), (0, 2));
    }
}
