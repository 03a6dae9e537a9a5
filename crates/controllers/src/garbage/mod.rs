//! Garbage collector: deletes objects whose owners are deleted, and implements foreground and
//! orphan deletion.
//!
//! ```text
//!  owner deleted, Background   it is deleted; then its dependents, which have no owner any more
//!  owner deleted, Foreground   it waits (finalizer foregroundDeletion) until the dependents that
//!                              block it are deleted; the collector deletes them
//!  owner deleted, Orphan       it waits (finalizer orphan) until no object refers to it
//! ```
//!
//! `monitors.rs` watches every resource, `graph.rs` keeps the ownership graph, and `decision.rs`
//! decides. Irreversible decisions do not rely on caches alone: an owner counts as absent only if
//! the API server says so, and the `orphan` finalizer is removed only after a list from the API
//! server shows no reference to the owner.

mod decision;
mod graph;
mod monitors;

use std::{
    collections::HashSet,
    slice,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use client::{
    Api, DeleteParams, DiscoveredResource, Error, ListParams, Patch, Propagation, RestMapper,
    Selectors,
};
use object::{List, NamespacedName, OwnerReference, Status, Text, Value, WriteCause};
use runtime::{
    Context, DynamicObject, WorkQueue,
    metrics::{Counter, Family},
};
use tokio::sync::watch;
use tracing::{debug, warn};

use self::{
    decision::{FOREGROUND, GcDecision, ORPHAN, OwnerState, decide},
    graph::{Graph, Node},
    monitors::is_followed,
};
use crate::Config;

const WORKERS: usize = 20;
/// Maximum size of the cache of owners known to be absent; a full cache is cleared.
const ABSENT_OWNER_CACHE_SIZE: usize = 500;
/// Page size of lists.
const PAGE: u32 = 500;

const SYNC_ERRORS: Family = Family::counter(
    "garbagecollector_controller_resources_sync_error_total",
    "[ALPHA] Number of garbage collector resources sync errors",
    &[],
);

pub(crate) fn start(cx: &Context, _: &Config) {
    // Separate caches: a resource that cannot be listed must not block other controllers.
    let part = cx.child();
    let collector = Arc::new(Collector {
        cx: part.clone(),
        graph: Mutex::default(),
        queue: Arc::default(),
        mapper: Mutex::default(),
        absent: Mutex::default(),
        ready: watch::channel(false).0,
        sync_errors: cx.metrics().counter(&SYNC_ERRORS, &[]),
    });
    collector.queue.measure("garbage_collector_attempt_to_delete", cx.metrics());
    let this = collector.clone();
    part.keep("garbage-collector", move || this.clone().discover());
    for _ in 0..WORKERS {
        let this = collector.clone();
        part.spawn("garbage-collector", async move { this.work().await });
    }
}

/// State of the garbage collector.
#[derive(Debug)]
struct Collector {
    cx: Context,
    graph: Mutex<Graph>,
    /// Uids of objects to process.
    queue: Arc<WorkQueue<Text>>,
    mapper: Mutex<Arc<RestMapper>>,
    absent: Mutex<HashSet<Absent>>,
    /// Whether all caches have synced, as far as they can.
    ready: watch::Sender<bool>,
    /// Counts failures to discover resources or to list one of them.
    sync_errors: Arc<Counter>,
}

/// An owner reference of one object: the object's namespace, then apiVersion, kind, name and uid of
/// the owner. Another object's reference to the same uid may differ.
type Absent = [Text; 5];

impl Collector {
    async fn work(&self) {
        let mut ready = self.ready.subscribe();
        loop {
            let uid = self.queue.next().await;
            let _ = ready.wait_for(|ready| *ready).await; // the sender lives as long as `self`
            let done = panics::contain("garbage-collector", self.process_item(&uid)).await;
            let done = done.unwrap_or_else(|why| Err(Error::Invalid(why.to_string())));
            match &done {
                Err(error) if error.is_conflict() => {
                    debug!(%uid, %error, "conflict with another write; will retry");
                }
                Err(error) => warn!(%uid, %error, "cannot collect an object; will retry"),
                Ok(()) => {}
            }
            self.queue.done(uid, done.is_ok());
        }
    }

    async fn process_item(&self, uid: &str) -> Result<(), Error> {
        let Some((node, dependents)) = self.graph().get(uid) else { return Ok(()) };
        let mut owners = Vec::new();
        for owner in &node.owners {
            owners.push((owner.uid().into(), self.look_up(&node, owner).await?));
        }
        match decide(&node, &owners, &dependents) {
            GcDecision::Keep => Ok(()),
            GcDecision::Delete(propagation, why) => self.delete(&node, propagation, why).await,
            GcDecision::BreakCycle => {
                let node = self.clear_block_owner_deletion(&node).await?;
                let why = "its owner waits for it";
                self.delete(&node, Propagation::Foreground, why).await
            }
            GcDecision::RemoveOwnerReferences(gone) => {
                self.remove_owner_references(&node, &gone, "an owner is gone").await
            }
            GcDecision::Orphan => {
                for one in self.referring(&node).await? {
                    self.remove_owner_references(
                        &one,
                        slice::from_ref(&node.uid),
                        "its owner orphans it",
                    )
                    .await?;
                }
                self.remove_finalizer(&node, ORPHAN).await
            }
            GcDecision::RemoveFinalizer => self.remove_finalizer(&node, FOREGROUND).await,
            GcDecision::Wait(others) => {
                for other in others {
                    self.queue.add(other);
                }
                Ok(())
            }
        }
    }

    /// The state of an owner. The graph may lag behind, so its absence is confirmed by the API
    /// server.
    async fn look_up(&self, node: &Node, owner: &OwnerReference) -> Result<OwnerState, Error> {
        let known = self.graph().get(owner.uid()).map(|(owner, _)| owner);
        if let Some(known) = known {
            return Ok(match (known.can_own(node), known.is_waiting()) {
                (false, _) => OwnerState::Gone,
                (true, true) => OwnerState::WaitingForDependents,
                (true, false) => OwnerState::Solid,
            });
        }
        let reference =
            [&node.key.namespace, owner.api_version(), owner.kind(), owner.name(), owner.uid()]
                .map(Text::from);
        if self.absent().contains(&reference) {
            return Ok(OwnerState::Gone);
        }
        let found = self.exists(node, owner).await?;
        if !found {
            let mut absent = self.absent();
            if absent.len() >= ABSENT_OWNER_CACHE_SIZE {
                absent.clear();
            }
            absent.insert(reference);
        }
        Ok(if found { OwnerState::Solid } else { OwnerState::Gone })
    }

    /// Looks an owner up on the API server, in the version that serves its kind now.
    async fn exists(&self, node: &Node, owner: &OwnerReference) -> Result<bool, Error> {
        let (mapper, kind) = (self.mapper(), owner.kind());
        let group = owner.api_version().split_once('/').map_or("", |(group, _)| group);
        let found = mapper.of_kind(owner.api_version(), kind);
        let Some(found) = found.or_else(|| mapper.preferred(group, kind)) else {
            let version = owner.api_version();
            return Err(Error::Invalid(format!("no resource has {version} {kind}")));
        };
        let namespace = if found.resource.namespaced { &*node.key.namespace } else { "" };
        if found.resource.namespaced && namespace.is_empty() {
            return Err(Error::Invalid(
                "a cluster-wide object is owned by one in a namespace".into(),
            ));
        }
        let api = Api::<DynamicObject>::for_resource(self.cx.client(), found.resource.clone());
        match api.get(&NamespacedName::new(namespace, owner.name())).await {
            Ok(found) => Ok(found.metadata().uid() == owner.uid()),
            Err(error) if is_missing(&error, owner.name()) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// All objects that refer to the object as their owner, listed from the API server. Fails if a
    /// resource cannot be listed, because it may contain dependents.
    async fn referring(&self, node: &Node) -> Result<Vec<Node>, Error> {
        let (mapper, namespace) = (self.mapper(), &*node.key.namespace);
        let mut found = Vec::new();
        for DiscoveredResource { resource, .. } in
            mapper.found.iter().filter(|found| is_followed(found))
        {
            if !namespace.is_empty() && !resource.namespaced {
                continue; // a namespaced object cannot own cluster-scoped ones
            }
            let api = Api::<DynamicObject>::for_resource(self.cx.client(), resource.clone())
                .namespaced(namespace);
            let mut page = ListParams { limit: PAGE, ..ListParams::default() };
            loop {
                let list = api.list(&Selectors::default(), &page).await?;
                let all = list.items.iter().map(|object| Node::new(resource, object.metadata()));
                found.extend(all.filter(|one| one.owners.iter().any(|o| o.uid() == node.uid)));
                if list.continue_.is_empty() {
                    break;
                }
                page.continue_ = list.continue_;
            }
        }
        Ok(found)
    }

    async fn delete(&self, node: &Node, how: Propagation, why: &str) -> Result<(), Error> {
        let delete = DeleteParams {
            uid: node.uid.clone(),
            resource_version: node.revision.to_string().into(),
            propagation: Some(how),
            ..DeleteParams::default()
        };
        ignore_not_found(self.api(node, why).delete(&node.key, &delete).await)
    }

    /// Removes the references to `owners`.
    async fn remove_owner_references(
        &self,
        node: &Node,
        owners: &[Text],
        why: &str,
    ) -> Result<(), Error> {
        let gone: HashSet<&str> = owners.iter().map(|uid| &**uid).collect();
        let stay = node.owners.iter().filter(|owner| !gone.contains(owner.uid()));
        let stay: List<OwnerReference> = stay.cloned().collect();
        self.patch(node, "ownerReferences", stay.into(), why).await
    }

    /// Clears blockOwnerDeletion of all its owner references. Returns the updated object.
    async fn clear_block_owner_deletion(&self, node: &Node) -> Result<Node, Error> {
        let free = |owner: &OwnerReference| owner.clone().with_block_owner_deletion(false);
        let owners: List<OwnerReference> = node.owners.iter().map(free).collect();
        let mut body = Value::object();
        body["metadata"]["uid"] = node.uid.clone().into();
        body["metadata"]["ownerReferences"] = owners.into();
        let api = self.api(node, "owners wait in a circle");
        let answer = api.patch(&node.key, &Patch::Merge(body)).await?;
        Ok(Node::new(&node.resource, answer.metadata()))
    }

    /// Removes a finalizer of the garbage collector.
    async fn remove_finalizer(&self, node: &Node, finalizer: &str) -> Result<(), Error> {
        let stay: List<String> =
            node.finalizers.iter().filter(|name| *name != finalizer).cloned().collect();
        self.patch(node, "finalizers", stay.into(), "its dependents are deleted or orphaned").await
    }

    async fn patch(&self, node: &Node, field: &str, to: Value, why: &str) -> Result<(), Error> {
        let mut body = Value::object();
        body["metadata"]["uid"] = node.uid.clone().into();
        body["metadata"]["resourceVersion"] = node.revision.to_string().as_str().into();
        *body["metadata"].get_mut(field) = to;
        ignore_not_found(self.api(node, why).patch(&node.key, &Patch::Merge(body)).await)
    }

    fn api(&self, node: &Node, why: &str) -> Api<DynamicObject> {
        let because = WriteCause {
            reason: why.into(),
            kind: node.resource.kind.clone(),
            key: node.key.clone(),
            uid: node.uid.clone(),
            revision: node.revision,
        };
        Api::for_resource(self.cx.client(), node.resource.clone()).with_cause(&because)
    }

    fn mapper(&self) -> Arc<RestMapper> {
        self.mapper.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_mapper(&self, mapper: Arc<RestMapper>) {
        *self.mapper.lock().unwrap_or_else(PoisonError::into_inner) = mapper;
    }

    fn graph(&self) -> MutexGuard<'_, Graph> {
        self.graph.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn absent(&self) -> MutexGuard<'_, HashSet<Absent>> {
        self.absent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the error means that no object has this name. A 404 for a resource that is not served
/// says nothing about the object.
fn is_missing(error: &Error, name: &str) -> bool {
    let named = |status: &Status| status.details().is_some_and(|about| about.name() == name);
    error.is_not_found() && matches!(error, Error::Status(status) if named(status))
}

fn ignore_not_found<T>(done: Result<T, Error>) -> Result<(), Error> {
    match done {
        Err(error) if error.is_not_found() => Ok(()),
        done => done.map(drop),
    }
}
