//! The contents of a cache, merged from two sources: watch events, which arrive late, and the responses to this
//! process's own writes, which are available at once. A reconcile therefore always sees the writes of the previous one,
//! and controllers need no expectations.
//!
//! ```text
//!  we create a    a is in the cache at once; the later watch event changes nothing
//!  we delete a    response "terminating": a stays in the cache, terminating
//!                 response "deleted": a is removed, and a tombstone with its uid is kept until the watch or a
//!                 list shows the deletion, because older events of it may still arrive
//! ```

use std::collections::{HashMap, HashSet};

use client::WatchEvent;
use object::{NamespacedName, Text};

use crate::{DynamicObject, indexed::Indexer};

/// The old and the new object.
pub(super) type ObjectChange = (Option<DynamicObject>, Option<DynamicObject>);

/// The objects of a cache and its tombstones.
pub(super) struct CacheState {
    pub(super) objects: Indexer,
    /// Tombstones: uids that our deletes have removed and the watch has not yet, with the newest revision that we had
    /// of each.
    tombstones: HashMap<Text, u64>,
    /// The revision that the watch has reached.
    pub(super) watch_revision: u64,
}

impl CacheState {
    pub(super) fn new(objects: Indexer) -> Self {
        Self { objects, tombstones: HashMap::new(), watch_revision: 0 }
    }

    /// Applies our own write, unless the watch has already passed it.
    pub(super) fn apply_write(&mut self, object: &DynamicObject) -> Option<ObjectChange> {
        if object.is_removed() {
            self.apply_removal(object) // the write that removed the last finalizer
        } else if object.metadata().revision() > self.watch_revision {
            self.upsert_if_newer(object)
        } else {
            None
        }
    }

    /// Applies our own delete, which removed the object.
    pub(super) fn apply_removal(&mut self, object: &DynamicObject) -> Option<ObjectChange> {
        let (key, uid) = (NamespacedName::from_meta(object.metadata()), object.metadata().uid());
        let known = self.objects.get(&key).filter(|known| known.metadata().uid() == uid)?;
        self.tombstones.insert(uid.into(), known.metadata().revision());
        Some((self.objects.remove(&key), None))
    }

    /// Applies a watch event.
    pub(super) fn apply_watch_event(
        &mut self,
        notice: &WatchEvent<DynamicObject>,
    ) -> Option<ObjectChange> {
        match notice {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                self.watch_revision = self.watch_revision.max(object.metadata().revision());
                self.upsert_if_newer(object)
            }
            WatchEvent::Deleted(object) => {
                let (key, revision) =
                    (NamespacedName::from_meta(object.metadata()), object.metadata().revision());
                self.watch_revision = self.watch_revision.max(revision);
                self.tombstones.remove(object.metadata().uid());
                self.remove_if_not_newer(&key, revision)
            }
            WatchEvent::Bookmark { revision, .. } => {
                self.watch_revision = self.watch_revision.max(*revision);
                None
            }
        }
    }

    /// Replaces the contents with a list at `revision`, which must not be before `watch_revision`; otherwise objects
    /// that the watch has shown as deleted would come back.
    pub(super) fn replace_with_list(
        &mut self,
        revision: u64,
        items: &[DynamicObject],
    ) -> Vec<ObjectChange> {
        debug_assert!(revision >= self.watch_revision, "the caller has refused such a list");
        self.watch_revision = revision;
        let uids: HashSet<&str> = items.iter().map(|item| item.metadata().uid()).collect();
        self.tombstones.retain(|uid, known| *known > revision || uids.contains(&**uid));
        let listed: HashSet<NamespacedName> =
            items.iter().map(|item| NamespacedName::from_meta(item.metadata())).collect();
        let keys = self.objects.iter().map(|known| NamespacedName::from_meta(known.metadata()));
        let lost: Vec<NamespacedName> = keys.filter(|key| !listed.contains(key)).collect();
        let mut changes: Vec<_> =
            items.iter().filter_map(|item| self.upsert_if_newer(item)).collect();
        changes.extend(lost.iter().filter_map(|key| self.remove_if_not_newer(key, revision)));
        changes
    }

    /// Inserts the object, unless the cache has a newer version or a tombstone.
    fn upsert_if_newer(&mut self, object: &DynamicObject) -> Option<ObjectChange> {
        let meta = object.metadata();
        let known = self
            .objects
            .get(&NamespacedName::from_meta(meta))
            .map_or(0, |known| known.metadata().revision());
        if known >= meta.revision() || self.tombstones.contains_key(meta.uid()) {
            return None;
        }
        Some((self.objects.insert(object.clone()), Some(object.clone())))
    }

    /// Removes an object that is not newer than `revision`: our own writes may be newer.
    fn remove_if_not_newer(&mut self, key: &NamespacedName, revision: u64) -> Option<ObjectChange> {
        self.objects.get(key).filter(|known| known.metadata().revision() <= revision)?;
        Some((self.objects.remove(key), None))
    }
}

#[cfg(test)]
mod tests {
    use object::{Object, ObjectMeta, Value};

    use super::*;

    fn pod(name: &str, uid: &str, revision: u64) -> DynamicObject {
        let meta = ObjectMeta::new().with_name(name).with_uid(uid);
        let meta = meta.with_resource_version(revision.to_string());
        Value::from(Object::new().with_metadata(meta)).into()
    }

    fn going(pod: DynamicObject) -> DynamicObject {
        let mut object = Object::from(Value::from(pod));
        object.metadata_mut().set_deletion_timestamp("2030-01-01T00:00:00Z");
        object.metadata_mut().set_deletion_grace_period_seconds(30);
        Value::from(object).into()
    }

    fn known(revision: u64, pods: &[DynamicObject]) -> CacheState {
        let mut known = CacheState::new(Indexer::new(|_| Vec::new()));
        known.replace_with_list(revision, pods);
        known
    }

    fn names(known: &CacheState) -> Vec<&str> {
        known.objects.iter().map(|pod| pod.metadata().name()).collect()
    }

    #[test]
    fn a_terminating_object_stays() {
        let mut known = known(5, &[pod("a", "1", 3)]);
        known.apply_write(&going(pod("a", "1", 6)));
        known.apply_watch_event(&WatchEvent::Modified(pod("a", "1", 4))); // a late event
        assert!(known.objects.iter().all(|pod| pod.metadata().is_terminating()));
        assert_eq!(names(&known), ["a"]);
    }

    #[test]
    fn what_we_removed_stays_away_until_the_watch_has_seen_it() {
        let mut known = known(5, &[pod("a", "1", 3)]);
        assert!(known.apply_removal(&pod("a", "1", 3)).is_some());
        assert!(
            known.apply_watch_event(&WatchEvent::Modified(pod("a", "1", 6))).is_none(),
            "late news"
        );
        known.apply_watch_event(&WatchEvent::Deleted(pod("a", "1", 7)));
        assert!(known.tombstones.is_empty(), "nothing to remember any more");
        known.apply_watch_event(&WatchEvent::Added(pod("a", "2", 8)));
        assert_eq!(names(&known), ["a"], "another of the same name");
    }

    #[test]
    fn a_list_does_not_bring_back_what_we_removed() {
        let mut known = known(5, &[pod("a", "1", 3)]);
        known.apply_write(&pod("b", "2", 9));
        known.apply_removal(&pod("a", "1", 3));
        known.apply_removal(&pod("b", "2", 9));
        known.replace_with_list(6, &[pod("a", "1", 3)]); // taken before either was deleted
        assert_eq!(names(&known), [""; 0]);
        assert!(
            known.apply_watch_event(&WatchEvent::Added(pod("b", "2", 9))).is_none(),
            "nor does the watch"
        );
        known.replace_with_list(12, &[]);
        assert!(known.tombstones.is_empty());
    }

    #[test]
    fn a_list_reports_removals_and_keeps_newer_writes() {
        let mut known = known(5, &[pod("a", "1", 3), pod("b", "2", 4)]);
        known.apply_write(&pod("c", "3", 9));
        let changes = known.replace_with_list(7, &[pod("b", "2", 6)]);
        let told: Vec<_> =
            changes.iter().map(|(old, new)| (old.is_some(), new.is_some())).collect();
        assert_eq!(told, [(true, true), (true, false)], "b changed, a went");
        assert_eq!(names(&known), ["b", "c"]);
    }
}
