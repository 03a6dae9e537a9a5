//! Deletes what nobody owns any more, and keeps the order in which owners and what they
//! own go.
//!
//! ```text
//!  owner deleted, Background   it goes; those it owned have no owner: they are deleted
//!  owner deleted, Foreground   it waits (finalizer foregroundDeletion) until those that
//!                              block it are gone; they are deleted because it waits
//!  owner deleted, Orphan       it waits (finalizer orphan) until nobody refers to it
//! ```
//!
//! `graph.rs` knows who owns whom, from the caches of all resources; `verdict.rs` decides.

mod graph;
mod verdict;

use std::{
    collections::HashSet,
    slice,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use client::{Api, Delete, Error, Found, Mapper, Patch, Propagation, Resource, Selection};
use object::{Cause, Key, List, OwnerReference, Text, Value};
use runtime::{Any, Context, Queue};
use tokio::time::sleep;
use tracing::{debug, warn};

use self::{
    graph::{Graph, Node},
    verdict::{FOREGROUND, ORPHAN, Owner, Verdict, judge},
};
use crate::Config;

const WORKERS: usize = 20;
/// How often to look for new resources.
const REDISCOVER: Duration = Duration::from_secs(30);
/// Owners that are known not to exist; more are asked for again.
const ABSENT: usize = 500;

pub(crate) fn start(cx: &Context, _: &Config) {
    // Caches of its own: a resource that cannot be listed must not hold others back.
    let part = cx.part();
    let collector = Arc::new(Collector {
        cx: part.clone(),
        graph: Mutex::default(),
        queue: Queue::default(),
        mapper: Mutex::default(),
        absent: Mutex::default(),
    });
    let this = collector.clone();
    part.spawn("garbage-collector", async move { this.discover().await });
    for _ in 0..WORKERS {
        let this = collector.clone();
        part.spawn("garbage-collector", async move { this.work().await });
    }
}

#[derive(Debug)]
struct Collector {
    cx: Context,
    graph: Mutex<Graph>,
    /// Uids of those that may have to go, or to be let go.
    queue: Queue<Text>,
    mapper: Mutex<Arc<Mapper>>,
    absent: Mutex<HashSet<Text>>,
}

impl Collector {
    /// Follows every resource whose objects can be deleted, also those that come later.
    async fn discover(self: Arc<Self>) {
        let mut known = HashSet::new();
        loop {
            match self.cx.client().discover().await {
                Ok(mapper) => {
                    let mapper = Arc::new(mapper);
                    *self.mapper.lock().expect("not poisoned") = mapper.clone();
                    for found in mapper.found.iter().filter(|found| is_followed(found)) {
                        let resource = &found.resource;
                        if known.insert((resource.group.clone(), resource.plural.clone())) {
                            self.clone().follow(resource.clone());
                        }
                    }
                }
                Err(error) => warn!(%error, "cannot discover resources; will retry"),
            }
            sleep(REDISCOVER).await;
        }
    }

    fn follow(self: Arc<Self>, resource: Resource) {
        let cache = self.cx.cache_any(&resource, &Selection::default());
        cache.on_change(move |old, new| {
            let touched = match (old, new) {
                (_, Some(new)) => self.graph().put(Node::new(&resource, new.metadata())),
                (Some(old), None) => self.graph().remove(old.metadata().uid()),
                (None, None) => return,
            };
            for uid in touched {
                self.queue.add(uid);
            }
        });
    }

    async fn work(&self) {
        self.cx.synced().await;
        loop {
            let uid = self.queue.next().await;
            let done = self.attend(&uid).await;
            match &done {
                Err(error) if error.is_conflict() => debug!(%uid, %error, "will look again"),
                Err(error) => warn!(%uid, %error, "cannot collect; will retry"),
                Ok(()) => {}
            }
            self.queue.done(uid, done.is_ok());
        }
    }

    async fn attend(&self, uid: &str) -> Result<(), Error> {
        let Some((node, dependents)) = self.graph().get(uid) else { return Ok(()) };
        let mut owners = Vec::new();
        for owner in &node.owners {
            owners.push((owner.uid().into(), self.look_up(&node, owner).await?));
        }
        match judge(&node, &owners, &dependents) {
            Verdict::Keep => Ok(()),
            Verdict::Delete(propagation, why) => self.delete(&node, propagation, why).await,
            Verdict::BreakCircle => {
                let node = self.unblock(&node).await?;
                let why = "its owner waits for it";
                self.delete(&node, Propagation::Foreground, why).await
            }
            Verdict::Disown(gone) => self.disown(&node, &gone, "an owner is gone").await,
            Verdict::Orphan => {
                for one in dependents {
                    self.disown(&one, slice::from_ref(&node.uid), "its owner orphans it").await?;
                }
                self.let_go(&node, ORPHAN).await
            }
            Verdict::LetGo => self.let_go(&node, FOREGROUND).await,
            Verdict::Wait(others) => {
                for other in others {
                    self.queue.add(other);
                }
                Ok(())
            }
        }
    }

    /// Whether an owner exists: the graph may be late, so its absence is asked for.
    async fn look_up(&self, node: &Node, owner: &OwnerReference) -> Result<Owner, Error> {
        let known = self.graph().get(owner.uid()).map(|(owner, _)| owner);
        if let Some(known) = known {
            let foreign =
                !known.key.namespace.is_empty() && known.key.namespace != node.key.namespace;
            return Ok(match (foreign, known.is_waiting()) {
                (true, _) => Owner::Gone,
                (false, true) => Owner::Waiting,
                (false, false) => Owner::Solid,
            });
        }
        if self.absent().contains(owner.uid()) {
            return Ok(Owner::Gone);
        }
        let mapper = self.mapper.lock().expect("not poisoned").clone();
        let Some(found) = mapper.of_kind(owner.api_version(), owner.kind()) else {
            let (kind, version) = (owner.kind(), owner.api_version());
            return Err(Error::Invalid(format!("no resource has {version} {kind}")));
        };
        let namespace = if found.resource.namespaced { &*node.key.namespace } else { "" };
        if found.resource.namespaced && namespace.is_empty() {
            return Err(Error::Invalid(
                "a cluster-wide object is owned by one in a namespace".into(),
            ));
        }
        let api = Api::<Any>::of(self.cx.client(), found.resource.clone());
        let found = match api.get(&Key::new(namespace, owner.name())).await {
            Ok(found) => found.metadata().uid() == owner.uid(),
            Err(error) if error.is_not_found() => false,
            Err(error) => return Err(error),
        };
        if !found {
            let mut absent = self.absent();
            if absent.len() >= ABSENT {
                absent.clear();
            }
            absent.insert(owner.uid().into());
        }
        Ok(if found { Owner::Solid } else { Owner::Gone })
    }

    async fn delete(&self, node: &Node, how: Propagation, why: &str) -> Result<(), Error> {
        let delete = Delete {
            uid: node.uid.clone(),
            resource_version: node.revision.to_string().into(),
            propagation: Some(how),
            ..Delete::default()
        };
        missing_is_fine(self.api(node, why).delete(&node.key, &delete).await)
    }

    /// Takes the references to `owners` off.
    async fn disown(&self, node: &Node, owners: &[Text], why: &str) -> Result<(), Error> {
        let stay = node.owners.iter().filter(|owner| !owners.iter().any(|uid| uid == owner.uid()));
        let stay: List<OwnerReference> = stay.cloned().collect();
        self.patch(node, "ownerReferences", stay.into(), why).await
    }

    /// Its owners need not wait for it. Gives the object as it is then.
    async fn unblock(&self, node: &Node) -> Result<Node, Error> {
        let free = |owner: &OwnerReference| owner.clone().with_block_owner_deletion(false);
        let owners: List<OwnerReference> = node.owners.iter().map(free).collect();
        let mut body = Value::object();
        body["metadata"]["uid"] = node.uid.clone().into();
        body["metadata"]["ownerReferences"] = owners.into();
        let api = self.api(node, "owners wait in a circle");
        let answer = api.patch(&node.key, &Patch::Merge(body)).await?;
        Ok(Node::new(&node.resource, answer.metadata()))
    }

    /// Takes our finalizer off.
    async fn let_go(&self, node: &Node, finalizer: &str) -> Result<(), Error> {
        let stay: List<String> =
            node.finalizers.iter().filter(|name| *name != finalizer).cloned().collect();
        self.patch(node, "finalizers", stay.into(), "what it owned is settled").await
    }

    async fn patch(&self, node: &Node, field: &str, to: Value, why: &str) -> Result<(), Error> {
        let mut body = Value::object();
        body["metadata"]["uid"] = node.uid.clone().into();
        body["metadata"]["resourceVersion"] = node.revision.to_string().as_str().into();
        *body["metadata"].get_mut(field) = to;
        missing_is_fine(self.api(node, why).patch(&node.key, &Patch::Merge(body)).await)
    }

    fn api(&self, node: &Node, why: &str) -> Api<Any> {
        let because = Cause {
            rule: why.into(),
            kind: node.resource.kind.clone(),
            key: node.key.clone(),
            uid: node.uid.clone(),
            revision: node.revision,
        };
        Api::of(self.cx.client(), node.resource.clone()).because(&because)
    }

    fn graph(&self) -> MutexGuard<'_, Graph> {
        self.graph.lock().expect("not poisoned")
    }

    fn absent(&self) -> MutexGuard<'_, HashSet<Text>> {
        self.absent.lock().expect("not poisoned")
    }
}

/// Events come and go by themselves, and own nothing.
fn is_followed(found: &Found) -> bool {
    let can = |verb: &str| found.verbs.iter().any(|known| known == verb);
    let usable = can("list") && can("watch") && can("delete");
    found.preferred && usable && found.resource.plural != "events"
}

fn missing_is_fine<T>(done: Result<T, Error>) -> Result<(), Error> {
    match done {
        Err(error) if error.is_not_found() => Ok(()),
        done => done.map(drop),
    }
}
