//! A cache of bounded size that keeps recently used entries.

use std::{borrow::Borrow, collections::HashMap, hash::Hash, mem};

/// A cache with two generations. An entry that is read moves to the young generation. When that has half of the allowed
/// size, it becomes the old generation, and the previous old one is dropped. So entries in use survive a flood of
/// others, and an insertion never takes long.
#[derive(Clone, Debug)]
pub struct Recent<K, V> {
    young: HashMap<K, (V, usize)>,
    old: HashMap<K, (V, usize)>,
    /// The weight of the young generation.
    weight: usize,
    limit: usize,
}

impl<K: Eq + Hash, V> Recent<K, V> {
    /// Creates a cache whose entries have at most this weight together.
    pub fn new(limit: usize) -> Self {
        Self { young: HashMap::new(), old: HashMap::new(), weight: 0, limit }
    }

    pub fn get<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        if let Some((key, (value, weight))) = self.old.remove_entry(key) {
            self.insert(key, value, weight);
        }
        self.young.get(key).map(|(value, _)| value)
    }

    /// Inserts an entry, unless its weight exceeds half of the limit.
    pub fn insert(&mut self, key: K, value: V, weight: usize) {
        let weight = weight.max(1);
        self.remove(&key);
        if weight > self.limit / 2 {
            return;
        }
        if self.weight + weight > self.limit / 2 {
            self.old = mem::take(&mut self.young);
            self.weight = 0;
        }
        self.weight += weight;
        self.young.insert(key, (value, weight));
    }

    pub fn remove<Q: Eq + Hash + ?Sized>(&mut self, key: &Q)
    where
        K: Borrow<Q>,
    {
        self.old.remove(key);
        if let Some((_, weight)) = self.young.remove(key) {
            self.weight -= weight;
        }
    }

    pub fn clear(&mut self) {
        (self.young, self.old, self.weight) = (HashMap::new(), HashMap::new(), 0);
    }

    pub fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_stays_while_others_come_by() {
        let mut cache = Recent::new(100);
        cache.insert("kept".to_owned(), 7, 1);
        for n in 0..10_000 {
            cache.insert(n.to_string(), n, 1);
            assert_eq!(cache.get("kept"), Some(&7));
            assert!(cache.len() <= 101);
        }
        assert_eq!(cache.get("0"), None);
        assert_eq!(cache.get("9999"), Some(&9999));
    }

    #[test]
    fn entries_count_by_their_weight() {
        let mut cache = Recent::new(100);
        cache.insert("heavy", 1, 51);
        assert!(cache.is_empty());
        for (name, weight) in [("a", 30), ("b", 30), ("c", 30)] {
            cache.insert(name, 0, weight);
        }
        assert!(cache.get("a").is_none() && cache.get("b").is_some() && cache.get("b").is_some());
        cache.insert("b", 1, 1);
        cache.remove("b");
        assert_eq!(cache.get("b"), None);
    }
}
