//! Adopts and releases objects by controller reference. A matching object without a controller is
//! adopted; an owned object whose labels no longer match is released.

use api::{
    apps::{DaemonSet, Deployment, ReplicaSet, StatefulSet},
    batch::Job,
    core::ReplicationController,
};
use client::{Error, Patch};
use object::{Lens, NamespacedName, ObjectMeta, Text, Value, selector::Selector};
use runtime::CachedApi;
use schema::Kind;

/// The name of the index that `index_orphans` adds.
const ORPHAN_INDEX: &str = "orphans";

/// The objects of an owner, and those to adopt and to release.
#[derive(Debug)]
struct ClaimResult<K> {
    /// Objects that the owner controls and that match its selector.
    owned: Vec<K>,
    adopt: Vec<K>,
    release: Vec<K>,
}

/// A workload that controls objects by a label selector.
pub(crate) trait HasSelector: Kind {
    fn label_selector(&self) -> Selector;
}

impl HasSelector for Deployment {
    fn label_selector(&self) -> Selector {
        selector(self.spec().selector())
    }
}

impl HasSelector for ReplicaSet {
    fn label_selector(&self) -> Selector {
        selector(self.spec().selector())
    }
}

impl HasSelector for DaemonSet {
    fn label_selector(&self) -> Selector {
        selector(self.spec().selector())
    }
}

impl HasSelector for StatefulSet {
    fn label_selector(&self) -> Selector {
        selector(self.spec().selector())
    }
}

impl HasSelector for Job {
    fn label_selector(&self) -> Selector {
        selector(self.spec().selector())
    }
}

impl HasSelector for ReplicationController {
    fn label_selector(&self) -> Selector {
        let labels = self.spec().selector();
        if labels.is_empty() { Selector::nothing() } else { Selector::from_labels(labels.iter()) }
    }
}

/// Parses the selector of a workload. An invalid one selects nothing: the API server rejects it.
pub(crate) fn selector(selector: Option<&object::LabelSelector>) -> Selector {
    selector
        .and_then(|selector| Selector::from_label_selector(selector.tree()).ok())
        .unwrap_or_else(Selector::nothing)
}

/// Adds the index by namespace with which `claim` finds objects that have no controller.
pub(crate) fn index_orphans<K: Kind>(objects: &CachedApi<K>) {
    objects.cache().add_index(ORPHAN_INDEX, |object| {
        let meta = object.meta();
        let orphan = meta.controller_ref().is_none() && !meta.is_terminating();
        orphan.then(|| Text::from(meta.namespace())).into_iter().collect()
    });
}

/// The workloads that could adopt an object; none if it has a controller.
pub(crate) fn potential_owners<O: HasSelector, K: Kind>(
    object: &K,
    owners: &CachedApi<O>,
) -> Vec<NamespacedName> {
    if object.meta().controller_ref().is_some() {
        return Vec::new();
    }
    let all = owners.in_namespace(object.meta().namespace()).into_iter();
    all.filter(|owner| owner.label_selector().matches(object.meta().labels()))
        .map(|owner| NamespacedName::from_meta(owner.meta()))
        .collect()
}

/// Adopts and releases objects, and returns those that the owner controls.
pub(crate) async fn claim_owned<O: HasSelector, K: Kind>(
    owner: &O,
    owners: &CachedApi<O>,
    objects: &CachedApi<K>,
) -> Result<Vec<K>, Error> {
    claim_owned_if(owner, owners, objects, |_| true).await
}

/// Like `claim_owned`, for the objects that satisfy `can`; others are neither adopted nor returned.
pub(crate) async fn claim_owned_if<O: HasSelector, K: Kind>(
    owner: &O,
    owners: &CachedApi<O>,
    objects: &CachedApi<K>,
    can: impl Fn(&K) -> bool,
) -> Result<Vec<K>, Error> {
    let mut claim = claim(owner, objects);
    claim.adopt.retain(&can);
    let mut mine = adopt_and_release(owner, owners, claim, objects).await?;
    mine.retain(can);
    Ok(mine)
}

fn claim<O: HasSelector, K: Kind>(owner: &O, objects: &CachedApi<K>) -> ClaimResult<K> {
    let selector = &owner.label_selector();
    let orphans = if owner.is_terminating() || selector.is_empty() {
        Vec::new()
    } else {
        objects.by_index(ORPHAN_INDEX, owner.meta().namespace())
    };
    classify(selector, objects.owned_by(owner), orphans)
}

fn classify<K: Kind>(
    selector: &Selector,
    controlled: Vec<K>,
    mut orphans: Vec<K>,
) -> ClaimResult<K> {
    let matches = |object: &K| selector.matches(object.meta().labels());
    orphans.retain(matches);
    let (mine, mut release): (Vec<K>, Vec<K>) = controlled.into_iter().partition(matches);
    release.retain(|object| !object.is_terminating());
    ClaimResult { owned: mine, adopt: orphans, release }
}

/// Carries out a claim; returns the owned objects, including the adopted ones.
async fn adopt_and_release<O: Kind, K: Kind>(
    owner: &O,
    owners: &CachedApi<O>,
    claim: ClaimResult<K>,
    objects: &CachedApi<K>,
) -> Result<Vec<K>, Error> {
    let ClaimResult { owned: mut mine, adopt, release } = claim;
    for object in &release {
        let objects = objects.with_cause(&owner.write_cause("labels no longer match"));
        ignore_missing(
            objects
                .patch(&NamespacedName::from_meta(object.meta()), &release_patch(owner, object))
                .await,
        )?;
    }
    if !adopt.is_empty() && can_adopt(owner, owners).await? {
        for object in &adopt {
            let objects =
                objects.with_cause(&owner.write_cause("its labels match and it has no controller"));
            let adopted = objects
                .patch(&NamespacedName::from_meta(object.meta()), &adopt_patch(owner, object))
                .await;
            mine.extend(ignore_missing(adopted)?);
        }
    }
    Ok(mine)
}

/// Whether the owner still exists with the same uid and is not terminating, by the API server. An
/// owner that the cache has and the server does not must not adopt objects.
async fn can_adopt<O: Kind>(owner: &O, owners: &CachedApi<O>) -> Result<bool, Error> {
    match owners.api().get(&NamespacedName::from_meta(owner.meta())).await {
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

fn adopt_patch<O: Kind, K: Kind>(owner: &O, object: &K) -> Patch {
    let mut meta = ObjectMeta::new().with_uid(object.meta().uid());
    meta.set_owner_references([owner.controller_ref()]);
    patch(meta.into())
}

fn release_patch<O: Kind, K: Kind>(owner: &O, object: &K) -> Patch {
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
        let selector = Selector::from_labels([("app", "web")]);
        let claim = classify(
            &selector,
            vec![pod("a", "web"), pod("b", "db")],
            vec![pod("c", "web"), pod("d", "db")],
        );
        let names = |pods: &[Pod]| {
            pods.iter().map(|pod| pod.metadata().name().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(names(&claim.owned), ["a"]);
        assert_eq!(names(&claim.adopt), ["c"]);
        assert_eq!(names(&claim.release), ["b"]);
    }
}
