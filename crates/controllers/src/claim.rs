//! Whose an object is. One that carries the right labels and has no controller is
//! adopted; one that no longer carries them is released.

use api::{
    apps::{DaemonSet, Deployment, ReplicaSet, StatefulSet},
    batch::Job,
    core::ReplicationController,
};
use client::{Error, Patch};
use object::{Key, Lens, ObjectMeta, Text, Value, selector::Selector};
use runtime::Objects;
use schema::Kind;

/// The name of the index that `index_orphans` adds.
const ORPHANS: &str = "orphans";

/// What belongs to an owner, and what shall.
#[derive(Debug)]
struct Claim<K> {
    /// It controls them and they match.
    mine: Vec<K>,
    adopt: Vec<K>,
    release: Vec<K>,
}

/// A workload: it controls what carries the labels it selects.
pub(crate) trait Selects: Kind {
    fn selects(&self) -> Selector;
}

impl Selects for Deployment {
    fn selects(&self) -> Selector {
        selector(self.spec().selector())
    }
}

impl Selects for ReplicaSet {
    fn selects(&self) -> Selector {
        selector(self.spec().selector())
    }
}

impl Selects for DaemonSet {
    fn selects(&self) -> Selector {
        selector(self.spec().selector())
    }
}

impl Selects for StatefulSet {
    fn selects(&self) -> Selector {
        selector(self.spec().selector())
    }
}

impl Selects for Job {
    fn selects(&self) -> Selector {
        selector(self.spec().selector())
    }
}

impl Selects for ReplicationController {
    fn selects(&self) -> Selector {
        let labels = self.spec().selector();
        if labels.is_empty() { Selector::nothing() } else { Selector::labels(labels.iter()) }
    }
}

/// The selector of a workload. One that cannot be read selects nothing: the server
/// has refused it.
pub(crate) fn selector(selector: Option<&object::LabelSelector>) -> Selector {
    selector
        .and_then(|selector| Selector::from_tree(selector.tree()).ok())
        .unwrap_or_else(Selector::nothing)
}

/// Lets `claim` find objects that nobody controls, by namespace.
pub(crate) fn index_orphans<K: Kind>(objects: &Objects<K>) {
    objects.cache().add_index(ORPHANS, |object| {
        let meta = object.meta();
        let orphan = meta.controller().is_none() && !meta.is_terminating();
        orphan.then(|| Text::from(meta.namespace())).into_iter().collect()
    });
}

/// The workloads that could adopt an object which nobody controls.
pub(crate) fn wanted_by<O: Selects, K: Kind>(object: &K, owners: &Objects<O>) -> Vec<Key> {
    if object.meta().controller().is_some() {
        return Vec::new();
    }
    let all = owners.in_namespace(object.meta().namespace()).into_iter();
    all.filter(|owner| owner.selects().matches(object.meta().labels()))
        .map(|owner| Key::of(owner.meta()))
        .collect()
}

/// What of `objects` is the owner's.
pub(crate) async fn claimed<O: Selects, K: Kind>(
    owner: &O,
    owners: &Objects<O>,
    objects: &Objects<K>,
) -> Result<Vec<K>, Error> {
    claimed_if(owner, owners, objects, |_| true).await
}

/// The same, of those objects that can be the owner's at all.
pub(crate) async fn claimed_if<O: Selects, K: Kind>(
    owner: &O,
    owners: &Objects<O>,
    objects: &Objects<K>,
    can: impl Fn(&K) -> bool,
) -> Result<Vec<K>, Error> {
    let mut claim = claim(owner, objects);
    claim.adopt.retain(&can);
    let mut mine = settle(owner, owners, claim, objects).await?;
    mine.retain(can);
    Ok(mine)
}

fn claim<O: Selects, K: Kind>(owner: &O, objects: &Objects<K>) -> Claim<K> {
    let selector = &owner.selects();
    let orphans = if owner.is_terminating() || selector.is_empty() {
        Vec::new()
    } else {
        objects.by(ORPHANS, owner.meta().namespace())
    };
    sort(selector, objects.owned_by(owner), orphans)
}

fn sort<K: Kind>(selector: &Selector, controlled: Vec<K>, mut orphans: Vec<K>) -> Claim<K> {
    let matches = |object: &K| selector.matches(object.meta().labels());
    orphans.retain(matches);
    let (mine, mut release): (Vec<K>, Vec<K>) = controlled.into_iter().partition(matches);
    release.retain(|object| !object.is_terminating());
    Claim { mine, adopt: orphans, release }
}

/// Carries out the claim; what was adopted is among what is given back.
async fn settle<O: Kind, K: Kind>(
    owner: &O,
    owners: &Objects<O>,
    claim: Claim<K>,
    objects: &Objects<K>,
) -> Result<Vec<K>, Error> {
    let Claim { mut mine, adopt, release } = claim;
    for object in &release {
        let objects = objects.because(&owner.causes("labels no longer match"));
        ignore_missing(objects.patch(&Key::of(object.meta()), &disown(owner, object)).await)?;
    }
    if !adopt.is_empty() && is_current(owner, owners).await? {
        for object in &adopt {
            let objects = objects.because(&owner.causes("labels match and nobody controls it"));
            let adopted = objects.patch(&Key::of(object.meta()), &own(owner, object)).await;
            mine.extend(ignore_missing(adopted)?);
        }
    }
    Ok(mine)
}

/// Whether the owner still is what the cache says: one that is gone must adopt nothing.
async fn is_current<O: Kind>(owner: &O, owners: &Objects<O>) -> Result<bool, Error> {
    match owners.api().get(&Key::of(owner.meta())).await {
        Ok(fresh) => Ok(fresh.meta().uid() == owner.meta().uid() && !fresh.is_terminating()),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error),
    }
}

fn ignore_missing<T>(done: Result<T, Error>) -> Result<Option<T>, Error> {
    match done {
        Err(error) if error.is_not_found() || error.is_invalid() || error.is_conflict() => Ok(None),
        done => done.map(Some),
    }
}

fn own<O: Kind, K: Kind>(owner: &O, object: &K) -> Patch {
    let mut meta = ObjectMeta::new().with_uid(object.meta().uid());
    meta.set_owner_references([owner.controls()]);
    patch(meta.into())
}

fn disown<O: Kind, K: Kind>(owner: &O, object: &K) -> Patch {
    let mut gone = Value::object();
    gone["$patch"] = "delete".into();
    gone["uid"] = owner.meta().uid().into();
    let mut meta = Value::from(ObjectMeta::new().with_uid(object.meta().uid()));
    meta["ownerReferences"] = Value::List([gone].into_iter().collect());
    patch(meta)
}

fn patch(meta: Value) -> Patch {
    let mut body = Value::object();
    body["metadata"] = meta;
    Patch::Strategic(body)
}

#[cfg(test)]
mod tests {
    use api::core::Pod;

    use super::*;

    #[test]
    fn labels_decide_whose_a_pod_is() {
        let pod = |name: &str, app: &str| {
            Pod::new().with_metadata(ObjectMeta::new().with_name(name).with_labels([("app", app)]))
        };
        let selector = Selector::labels([("app", "web")]);
        let claim = sort(
            &selector,
            vec![pod("a", "web"), pod("b", "db")],
            vec![pod("c", "web"), pod("d", "db")],
        );
        let names = |pods: &[Pod]| {
            pods.iter().map(|pod| pod.metadata().name().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(names(&claim.mine), ["a"]);
        assert_eq!(names(&claim.adopt), ["c"]);
        assert_eq!(names(&claim.release), ["b"]);
    }
}
