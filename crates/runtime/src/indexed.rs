//! Objects by key and by index, like client-go's Indexer.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Bound,
};

use object::{NamespacedName, Text};

use crate::DynamicObject;

/// The index by the uid of the controller, which every kind has.
pub(super) const CONTROLLER_UID_INDEX: &str = "owner";

/// Returns names and values of the indexes that an object's kind declares.
pub(super) type IndexValuesFn = fn(&DynamicObject) -> Vec<(&'static str, Text)>;
/// Returns the values of an added index.
pub(super) type IndexFn = Box<dyn Fn(&DynamicObject) -> Vec<Text> + Send>;

/// Objects by key, with their indexes.
pub(super) struct Indexer {
    objects: BTreeMap<NamespacedName, DynamicObject>,
    kind_indexes: IndexValuesFn,
    added_indexes: Vec<(&'static str, IndexFn)>,
    indexes: HashMap<(&'static str, Text), BTreeSet<NamespacedName>>,
}

impl Indexer {
    pub(super) fn new(declared: IndexValuesFn) -> Self {
        let (objects, indexes) = (BTreeMap::new(), HashMap::new());
        Self { objects, kind_indexes: declared, added_indexes: Vec::new(), indexes }
    }

    pub(super) fn get(&self, key: &NamespacedName) -> Option<&DynamicObject> {
        self.objects.get(key)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &DynamicObject> {
        self.objects.values()
    }

    pub(super) fn len(&self) -> usize {
        self.objects.len()
    }

    /// The objects of a namespace, sorted by name.
    pub(super) fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = &DynamicObject> {
        let from = Bound::Included(NamespacedName::new(namespace, ""));
        let all = self.objects.range((from, Bound::Unbounded));
        all.take_while(move |(key, _)| key.namespace == namespace).map(|(_, object)| object)
    }

    /// The objects with `value` in `index`, sorted by key.
    pub(super) fn by_index(&self, index: &'static str, value: &str) -> Vec<DynamicObject> {
        let keys = self.indexes.get(&(index, value.into())).into_iter().flatten();
        keys.filter_map(|key| self.objects.get(key)).cloned().collect()
    }

    /// Adds an index, unless one of that name exists.
    pub(super) fn add_index(&mut self, name: &'static str, of: IndexFn) {
        if self.added_indexes.iter().any(|(known, _)| *known == name) {
            return;
        }
        for (key, object) in &self.objects {
            for value in values(&of, object) {
                self.indexes.entry((name, value)).or_default().insert(key.clone());
            }
        }
        self.added_indexes.push((name, of));
    }

    pub(super) fn insert(&mut self, object: DynamicObject) -> Option<DynamicObject> {
        let key = NamespacedName::from_meta(object.metadata());
        let old = self.remove(&key);
        for entry in self.index_values(&object) {
            self.indexes.entry(entry).or_default().insert(key.clone());
        }
        self.objects.insert(key, object);
        old
    }

    pub(super) fn remove(&mut self, key: &NamespacedName) -> Option<DynamicObject> {
        let old = self.objects.remove(key)?;
        for entry in self.index_values(&old) {
            let Some(keys) = self.indexes.get_mut(&entry) else { continue };
            keys.remove(key);
            if keys.is_empty() {
                self.indexes.remove(&entry);
            }
        }
        Some(old)
    }

    fn index_values(&self, object: &DynamicObject) -> Vec<(&'static str, Text)> {
        let mut all =
            panics::catch("cache index", || (self.kind_indexes)(object)).unwrap_or_default();
        all.extend(
            object
                .metadata()
                .controller_ref()
                .map(|owner| (CONTROLLER_UID_INDEX, owner.uid().into())),
        );
        for (name, of) in &self.added_indexes {
            all.extend(values(of, object).into_iter().map(|value| (*name, value)));
        }
        all
    }
}

/// The values of an object in an added index; none if the function panics, so that the cache stays intact.
fn values(of: &IndexFn, object: &DynamicObject) -> Vec<Text> {
    panics::catch("cache index", || of(object)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use object::from_json;

    use super::*;

    fn object(text: &str) -> DynamicObject {
        from_json(text.as_bytes()).unwrap().into()
    }

    #[test]
    fn indexes_follow_their_objects() {
        let mut all = Indexer::new(|_| Vec::new());
        all.insert(object(
            r#"{"metadata":{"name":"a","namespace":"n","labels":{"app":"web"},
               "ownerReferences":[{"uid":"7","controller":true}]}}"#,
        ));
        let app = |any: &DynamicObject| any.metadata().labels().get("app").map(Text::from);
        all.add_index("app", Box::new(move |any| app(any).into_iter().collect()));
        all.insert(object(r#"{"metadata":{"name":"b","namespace":"n","labels":{"app":"web"}}}"#));
        all.insert(object(r#"{"metadata":{"name":"b","namespace":"na"}}"#));
        assert_eq!(
            (all.by_index("app", "web").len(), all.by_index(CONTROLLER_UID_INDEX, "7").len()),
            (2, 1)
        );
        assert_eq!(all.in_namespace("n").count(), 2);
        all.insert(object(r#"{"metadata":{"name":"a","namespace":"n","labels":{"app":"db"}}}"#));
        assert_eq!(
            (all.by_index("app", "web").len(), all.by_index(CONTROLLER_UID_INDEX, "7").len()),
            (1, 0)
        );
        all.remove(&NamespacedName::new("n", "a"));
        assert_eq!((all.by_index("app", "db").len(), all.len()), (0, 2));
    }
}
