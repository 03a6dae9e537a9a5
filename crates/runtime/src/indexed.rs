//! Objects by key, and by every index that their kind declares.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Bound,
};

use object::{Key, Text};

use crate::Cached;

/// By the uid of the controlling owner: an index that every kind has.
pub(super) const OWNER: &str = "owner";

/// What one user of the cache looks objects up by.
pub(super) type Lookup<K> = fn(&K) -> Vec<Text>;

#[derive(Debug)]
pub(super) struct Indexed<K> {
    objects: BTreeMap<Key, K>,
    lookups: Vec<(&'static str, Lookup<K>)>,
    indexes: HashMap<(&'static str, Text), BTreeSet<Key>>,
}

impl<K> Default for Indexed<K> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), lookups: Vec::new(), indexes: HashMap::new() }
    }
}

impl<K: Cached> Indexed<K> {
    pub(super) fn get(&self, key: &Key) -> Option<&K> {
        self.objects.get(key)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &K> {
        self.objects.values()
    }

    pub(super) fn len(&self) -> usize {
        self.objects.len()
    }

    /// The objects of a namespace, in order of their names.
    pub(super) fn of_namespace(&self, namespace: &str) -> impl Iterator<Item = &K> {
        let from = Bound::Included(Key::new(namespace, ""));
        let all = self.objects.range((from, Bound::Unbounded));
        all.take_while(move |(key, _)| key.namespace == namespace).map(|(_, object)| object)
    }

    /// The objects that have `value` in `index`, in order of their keys.
    pub(super) fn by(&self, index: &'static str, value: &str) -> Vec<K> {
        let keys = self.indexes.get(&(index, value.into())).into_iter().flatten();
        keys.filter_map(|key| self.objects.get(key)).cloned().collect()
    }

    /// Adds an index, unless there is one of the name.
    pub(super) fn add_index(&mut self, name: &'static str, of: Lookup<K>) {
        if self.lookups.iter().any(|(known, _)| *known == name) {
            return;
        }
        self.lookups.push((name, of));
        for (key, object) in &self.objects {
            for value in of(object) {
                self.indexes.entry((name, value)).or_default().insert(key.clone());
            }
        }
    }

    pub(super) fn insert(&mut self, object: K) -> Option<K> {
        let key = Key::of(object.about());
        let old = self.remove(&key);
        for entry in self.entries(&object) {
            self.indexes.entry(entry).or_default().insert(key.clone());
        }
        self.objects.insert(key, object);
        old
    }

    pub(super) fn remove(&mut self, key: &Key) -> Option<K> {
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

    fn entries(&self, object: &K) -> Vec<(&'static str, Text)> {
        let mut all = object.entries();
        all.extend(object.about().controller().map(|owner| (OWNER, owner.uid().into())));
        for (name, of) in &self.lookups {
            all.extend(of(object).into_iter().map(|value| (*name, value)));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use object::from_json;

    use super::*;
    use crate::Any;

    fn object(text: &str) -> Any {
        from_json(text.as_bytes()).unwrap().into()
    }

    #[test]
    fn indexes_follow_their_objects() {
        let mut all = Indexed::<Any>::default();
        all.insert(object(
            r#"{"metadata":{"name":"a","namespace":"n","labels":{"app":"web"},
               "ownerReferences":[{"uid":"7","controller":true}]}}"#,
        ));
        let by_app: Lookup<Any> =
            |any| any.metadata().labels().get("app").map(Text::from).into_iter().collect();
        all.add_index("app", by_app);
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
