//! What a cache knows, from two sources: the watch, which is late, and the
//! answers to our own writes, which are not. So a reconcile always sees what the
//! last one did, and needs no "expectations".
//!
//! ```text
//!  we create a    a is known at once; the watch brings it later, and that changes nothing
//!  we delete a    answer "terminating": a stays, terminating, for all to see
//!                 answer "gone": a goes, and its uid is remembered until the watch or a list
//!                 shows that it went; for older news of it may still be on the way
//! ```

use std::collections::{HashMap, HashSet};

use client::Notice;
use object::{Key, Text};

use crate::{Any, indexed::Indexed};

/// What was, and what is.
pub(super) type Change = (Option<Any>, Option<Any>);

pub(super) struct Known {
    pub(super) objects: Indexed,
    /// Uids that our deletes have removed and the watch has not, with the newest
    /// revision that we had of each.
    gone: HashMap<Text, u64>,
    /// How far the watch has come.
    pub(super) seen: u64,
}

impl Known {
    pub(super) fn new(objects: Indexed) -> Self {
        Self { objects, gone: HashMap::new(), seen: 0 }
    }

    /// Our own write counts, unless the watch has been there already.
    pub(super) fn wrote(&mut self, object: &Any) -> Option<Change> {
        if object.is_final() {
            self.gone(object) // the write that took the last finalizer off
        } else if object.metadata().revision() > self.seen {
            self.put(object)
        } else {
            None
        }
    }

    /// Our own delete removed the object for good.
    pub(super) fn gone(&mut self, object: &Any) -> Option<Change> {
        let (key, uid) = (Key::of(object.metadata()), object.metadata().uid());
        let known = self.objects.get(&key).filter(|known| known.metadata().uid() == uid)?;
        self.gone.insert(uid.into(), known.metadata().revision());
        Some((self.objects.remove(&key), None))
    }

    /// What the watch says.
    pub(super) fn apply(&mut self, notice: &Notice<Any>) -> Option<Change> {
        match notice {
            Notice::Added(object) | Notice::Modified(object) => {
                self.seen = self.seen.max(object.metadata().revision());
                self.put(object)
            }
            Notice::Deleted(object) => {
                let (key, revision) = (Key::of(object.metadata()), object.metadata().revision());
                self.seen = self.seen.max(revision);
                self.gone.remove(object.metadata().uid());
                self.remove_until(&key, revision)
            }
            Notice::Bookmark { revision, .. } => {
                self.seen = self.seen.max(*revision);
                None
            }
        }
    }

    /// Takes in all there was at `revision`, which is not before `seen`: or what
    /// the watch has shown to be gone would be back.
    pub(super) fn replace(&mut self, revision: u64, items: &[Any]) -> Vec<Change> {
        debug_assert!(revision >= self.seen, "the caller has refused such a list");
        self.seen = revision;
        let uids: HashSet<&str> = items.iter().map(|item| item.metadata().uid()).collect();
        self.gone.retain(|uid, known| *known > revision || uids.contains(&**uid));
        let listed: HashSet<Key> = items.iter().map(|item| Key::of(item.metadata())).collect();
        let keys = self.objects.iter().map(|known| Key::of(known.metadata()));
        let lost: Vec<Key> = keys.filter(|key| !listed.contains(key)).collect();
        let mut changes: Vec<_> = items.iter().filter_map(|item| self.put(item)).collect();
        changes.extend(lost.iter().filter_map(|key| self.remove_until(key, revision)));
        changes
    }

    /// Takes the object in, unless we know better.
    fn put(&mut self, object: &Any) -> Option<Change> {
        let meta = object.metadata();
        let known = self.objects.get(&Key::of(meta)).map_or(0, |known| known.metadata().revision());
        if known >= meta.revision() || self.gone.contains_key(meta.uid()) {
            return None;
        }
        Some((self.objects.insert(object.clone()), Some(object.clone())))
    }

    /// Removes what is not newer than `revision`: our own writes may be.
    fn remove_until(&mut self, key: &Key, revision: u64) -> Option<Change> {
        self.objects.get(key).filter(|known| known.metadata().revision() <= revision)?;
        Some((self.objects.remove(key), None))
    }
}

#[cfg(test)]
mod tests {
    use object::{Object, ObjectMeta, Value};

    use super::*;

    fn pod(name: &str, uid: &str, revision: u64) -> Any {
        let meta = ObjectMeta::new().with_name(name).with_uid(uid);
        let meta = meta.with_resource_version(revision.to_string());
        Value::from(Object::new().with_metadata(meta)).into()
    }

    fn going(pod: Any) -> Any {
        let mut object = Object::from(Value::from(pod));
        object.metadata_mut().set_deletion_timestamp("2030-01-01T00:00:00Z");
        object.metadata_mut().set_deletion_grace_period_seconds(30);
        Value::from(object).into()
    }

    fn known(revision: u64, pods: &[Any]) -> Known {
        let mut known = Known::new(Indexed::new(|_| Vec::new()));
        known.replace(revision, pods);
        known
    }

    fn names(known: &Known) -> Vec<&str> {
        known.objects.iter().map(|pod| pod.metadata().name()).collect()
    }

    #[test]
    fn a_terminating_object_stays() {
        let mut known = known(5, &[pod("a", "1", 3)]);
        known.wrote(&going(pod("a", "1", 6)));
        known.apply(&Notice::Modified(pod("a", "1", 4))); // late news
        assert!(known.objects.iter().all(|pod| pod.metadata().is_terminating()));
        assert_eq!(names(&known), ["a"]);
    }

    #[test]
    fn what_we_removed_stays_away_until_the_watch_has_seen_it() {
        let mut known = known(5, &[pod("a", "1", 3)]);
        assert!(known.gone(&pod("a", "1", 3)).is_some());
        assert!(known.apply(&Notice::Modified(pod("a", "1", 6))).is_none(), "late news");
        known.apply(&Notice::Deleted(pod("a", "1", 7)));
        assert!(known.gone.is_empty(), "nothing to remember any more");
        known.apply(&Notice::Added(pod("a", "2", 8)));
        assert_eq!(names(&known), ["a"], "another of the same name");
    }

    #[test]
    fn a_list_does_not_bring_back_what_we_removed() {
        let mut known = known(5, &[pod("a", "1", 3)]);
        known.wrote(&pod("b", "2", 9));
        known.gone(&pod("a", "1", 3));
        known.gone(&pod("b", "2", 9));
        known.replace(6, &[pod("a", "1", 3)]); // taken before either was deleted
        assert_eq!(names(&known), [""; 0]);
        assert!(known.apply(&Notice::Added(pod("b", "2", 9))).is_none(), "nor does the watch");
        known.replace(12, &[]);
        assert!(known.gone.is_empty());
    }

    #[test]
    fn a_list_reports_removals_and_keeps_newer_writes() {
        let mut known = known(5, &[pod("a", "1", 3), pod("b", "2", 4)]);
        known.wrote(&pod("c", "3", 9));
        let changes = known.replace(7, &[pod("b", "2", 6)]);
        let told: Vec<_> =
            changes.iter().map(|(old, new)| (old.is_some(), new.is_some())).collect();
        assert_eq!(told, [(true, true), (true, false)], "b changed, a went");
        assert_eq!(names(&known), ["b", "c"]);
    }
}
