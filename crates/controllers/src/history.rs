//! The template history of a workload: a numbered ControllerRevision for each template. `kubectl
//! rollout history` lists them, `kubectl rollout undo` applies one as a patch.

use std::collections::HashSet;

use api::{apps::ControllerRevision, core::PodTemplateSpec};
use client::Error;
use object::{Lens, NamespacedName, ObjectMeta, Text, Value, WriteCause};
use runtime::CachedApi;
use schema::Kind;

use crate::template::encode_sum;

/// Label of pods, and of a DaemonSet's revisions, that identifies the template: the template's hash
/// for a DaemonSet, the name of the revision for a StatefulSet.
pub(crate) const HASH: &str = "controller-revision-hash";

/// The patch that restores this template.
pub(crate) fn patch(template: &PodTemplateSpec) -> Value {
    let mut replaced = template.tree().clone();
    replaced["$patch"] = "replace".into();
    let mut patch = Value::object();
    patch["spec"]["template"] = replaced;
    patch
}

/// The revisions of a workload, split into those of its current template and older ones.
#[derive(Debug, Default)]
pub(crate) struct RevisionHistory {
    /// Revisions that equal the current template; if there are several, they are duplicates.
    pub(crate) current: Vec<ControllerRevision>,
    /// Other revisions, the oldest first.
    pub(crate) old: Vec<ControllerRevision>,
}

impl RevisionHistory {
    /// Sorts the revisions and compares each with the current template's patch.
    pub(crate) fn new(mut revisions: Vec<ControllerRevision>, patch: &Value) -> Self {
        revisions.sort_by_key(|revision| {
            let meta = revision.metadata();
            let created = Text::from(meta.creation_timestamp());
            (revision.revision(), created, Text::from(meta.name()))
        });
        let patch = plain(patch);
        let (current, old) =
            revisions.into_iter().partition(|revision| plain(revision.data()) == patch);
        Self { current, old }
    }

    /// The number of the current revision.
    pub(crate) fn number(&self) -> i64 {
        self.old.last().map_or(0, ControllerRevision::revision).saturating_add(1)
    }

    /// Old revisions beyond the history limit, except those in use.
    pub(crate) fn outdated(
        &self,
        limit: i32,
        in_use: &HashSet<&str>,
        name: fn(&ControllerRevision) -> &str,
    ) -> Vec<&ControllerRevision> {
        let limit = usize::try_from(limit).unwrap_or_default();
        let idle = self.old.iter().filter(|revision| !in_use.contains(name(revision)));
        idle.take(self.old.len().saturating_sub(limit)).collect()
    }
}

/// Builds a revision of `owner` with this hash.
pub(crate) fn revision<O: Kind>(
    owner: &O,
    labels: &object::Map<String>,
    (hash, patch): (&str, Value),
    number: i64,
) -> ControllerRevision {
    let mut name = owner.meta().name().to_owned();
    name.truncate(223); // room for the hash
    let metadata = ObjectMeta::new()
        .with_name(format!("{name}-{hash}"))
        .with_namespace(owner.meta().namespace())
        .with_labels(labels.clone())
        .with_annotations(owner.meta().annotations().clone())
        .with_owner_references([owner.controller_ref()]);
    ControllerRevision::new().with_metadata(metadata).with_data(patch).with_revision(number)
}

/// Creates a revision. Returns `false` if its name is taken by a different revision; the next
/// attempt must use another name.
pub(crate) async fn create_revision(
    revisions: &CachedApi<ControllerRevision>,
    revision: ControllerRevision,
    because: &WriteCause,
) -> Result<bool, Error> {
    let (key, data) = (NamespacedName::from_meta(revision.metadata()), revision.data().clone());
    match revisions.with_cause(because).create(revision).await {
        Err(error) if error.is_already_exists() => {
            let other = revisions.api().get(&key).await?;
            let ours = same(other.data(), &data);
            if ours {
                revisions.cache().observe_write(&other); // created by us, not yet in the cache
            }
            Ok(ours)
        }
        Err(error) if error.is_namespace_terminating() => Ok(true),
        made => made.map(|_| true),
    }
}

/// The hash of a revision's patch.
pub(crate) fn hash(patch: &Value, collisions: Option<i32>) -> Text {
    let mut bytes = object::to_json(&plain(patch));
    bytes.extend(collisions.map(|n| n.to_string()).unwrap_or_default().bytes());
    encode_sum(&bytes)
}

/// Whether two patches are equal, where null fields and empty lists count as absent.
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    plain(a) == plain(b)
}

fn plain(value: &Value) -> Value {
    match value {
        Value::List(items) => Value::List(items.iter().map(plain).collect()),
        tree if tree.is_object() => {
            let mut new = Value::object();
            let empty = |value: &Value| matches!(value, Value::List(items) if items.is_empty());
            for (name, value) in tree.entries().filter(|(_, v)| !v.is_null() && !empty(v)) {
                *new.get_mut(name) = plain(value);
            }
            new
        }
        Value::Raw(_) => plain(&value.with_raw_expanded()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use object::from_json;

    use super::*;

    fn template(node: &str) -> PodTemplateSpec {
        let mut template = PodTemplateSpec::new();
        template.spec_mut().set_node_name(node);
        template
    }

    fn of(node: &str, number: i64) -> ControllerRevision {
        ControllerRevision::new()
            .with_metadata(ObjectMeta::new().with_name(node))
            .with_data(patch(&template(node)))
            .with_revision(number)
    }

    #[test]
    fn revisions_are_numbered_and_forgotten() {
        let all = vec![of("c", 3), of("a", 1), of("b", 2), of("d", 4)];
        let history = RevisionHistory::new(all.clone(), &patch(&template("b")));
        assert_eq!((history.current.len(), history.number()), (1, 5), "an old one is newest again");
        let history = RevisionHistory::new(all, &patch(&template("new")));
        let named = |limit, used: &[&str]| -> Vec<String> {
            let used = used.iter().copied().collect();
            let gone = history.outdated(limit, &used, |revision| revision.metadata().name());
            gone.iter().map(|revision| revision.metadata().name().to_owned()).collect()
        };
        assert_eq!(named(2, &[]), ["a", "b"]);
        assert_eq!(named(2, &["a"]), ["b", "c"]);
        assert_eq!(named(10, &[]), [""; 0]);
    }

    #[test]
    fn what_says_nothing_makes_no_difference() {
        let tree = |text: &str| from_json(text.as_bytes()).unwrap();
        let bare = tree(r#"{"spec":{"v":{"emptyDir":{}}}}"#);
        assert!(same(&bare, &tree(r#"{"spec":{"at":null,"l":[],"v":{"emptyDir":{}}}}"#)));
        assert!(!same(&bare, &tree(r#"{"spec":{"v":{}}}"#)));
    }
}
