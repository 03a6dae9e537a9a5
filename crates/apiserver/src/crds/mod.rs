//! The CustomResourceDefinition controller: serves the declared kinds, writes the status, and
//! deletes the custom resources before their definition.
//!
//! ```text
//!  CRD event ─► plan: names, conditions ─► serve the kind ─► write the status
//!                └─ terminating ─► delete its objects ─► remove the finalizer ─► withdraw
//! ```

mod convert;
mod plan;
mod rules;

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use api::{
    apiextensions::{CustomResourceDefinition, accept_names},
    autoscaling::v1::SCALE,
};
use object::{Lens, Object, Status, Value, View};
use schema::{
    Kind as _,
    custom::{CelRuleCompiler, crd_definitions},
};
use server::{
    DeleteRequest, ListOptions, Registry, RequestContext, Selection, ServedResource, Server,
    UserInfo, Watch, WatchEvent, WatchStart,
};
use tokio::time::sleep;
use tracing::{error, warn};

use self::plan::{NextStep, plan};
pub(crate) use self::{convert::ConversionWebhooks, rules::with_rules};

/// Interval before an unfinished reconcile is retried.
const AGAIN: Duration = Duration::from_secs(1);

/// Keeps the served custom resources in line with the definitions.
#[derive(Debug)]
pub(crate) struct CrdController {
    registry: Arc<Registry>,
    compile: Arc<dyn CelRuleCompiler>,
    kind: ServedResource,
    /// The spec and accepted names that each CRD is served with.
    served_specs: HashMap<String, (Value, Value)>,
}

impl CrdController {
    /// Serves every established CRD, so that none is missing at the first request.
    pub(crate) fn open(
        registry: &Arc<Registry>,
        compile: Arc<dyn CelRuleCompiler>,
    ) -> Result<Self, Status> {
        let names = CustomResourceDefinition::NAMES;
        let kind = registry.kind(names.group, names.plural)?;
        let mut this =
            Self { registry: registry.clone(), compile, kind, served_specs: HashMap::new() };
        for crd in this.all()? {
            if crd.is_true("Established") {
                let _ = panics::catch("definition", || this.serve(&crd)); // a panic does not stop the others
            }
        }
        Ok(this)
    }

    /// Watches the definitions while the server runs.
    pub(crate) fn run(self, server: &Arc<Server>) {
        let stopped = server.stopped();
        server.spawn(async move {
            tokio::select! {
                () = stopped => {}
                () = self.follow() => {}
            }
        });
    }

    async fn follow(mut self) {
        let mut left = BTreeSet::new();
        loop {
            let watch = self.registry.watch(
                &self.kind,
                Selection::default(),
                WatchStart::List { bookmark: false },
            );
            match watch {
                Ok(mut watch) => self.watch(&mut watch, &mut left).await,
                Err(status) => {
                    error!(message = status.message(), "cannot watch CustomResourceDefinitions");
                }
            }
            sleep(AGAIN).await;
        }
    }

    /// Reconciles until the watch ends. `left` contains the CRDs to retry.
    async fn watch(&mut self, watch: &mut Watch, left: &mut BTreeSet<String>) {
        loop {
            let notice = tokio::select! {
                notice = watch.next() => match notice {
                    Some(Ok(notice)) => Some(notice),
                    _ => return,
                },
                () = sleep(AGAIN), if !left.is_empty() => None,
            };
            let mut due = std::mem::take(left);
            if let Some(
                WatchEvent::Added(_, found)
                | WatchEvent::Modified(_, found)
                | WatchEvent::Deleted(_, found),
            ) = notice
            {
                let crd = CustomResourceDefinition::view(&found.object);
                due.insert(crd.metadata().name().to_owned());
                due.extend(self.name_conflicts(crd.spec().group()));
            }
            for name in due {
                let done = panics::contain("definition", self.reconcile(&name)).await;
                match done.unwrap_or_else(|why| Err(Status::internal(why.to_string()))) {
                    Ok(true) => {}
                    Ok(false) => drop(left.insert(name)),
                    Err(status) => {
                        warn!(
                            crd = name,
                            message = status.message(),
                            "cannot process a CustomResourceDefinition; will retry"
                        );
                        left.insert(name);
                    }
                }
            }
        }
    }

    /// Reconciles one CRD. Returns false if it must be retried.
    async fn reconcile(&mut self, name: &str) -> Result<bool, Status> {
        loop {
            let found = match self.registry.get(&self.kind, "", name) {
                Ok(found) => found,
                Err(status) if status.code() == 404 => {
                    self.withdraw(name);
                    return Ok(true);
                }
                Err(status) => return Err(status),
            };
            let crd = CustomResourceDefinition::view(&found.object);
            if crd.is_true("Established") {
                self.serve(crd);
            }
            match self.next(crd)? {
                NextStep::Done => return Ok(true),
                NextStep::Status => self.write(name).await?,
                NextStep::DeleteInstances => {
                    if !self.delete_instances(crd).await? {
                        return Ok(false);
                    }
                    self.write_emptied(name).await?;
                }
            }
        }
    }

    fn next(&self, crd: &CustomResourceDefinition) -> Result<NextStep, Status> {
        Ok(self.planned(crd)?.1)
    }

    fn planned(
        &self,
        crd: &CustomResourceDefinition,
    ) -> Result<(CustomResourceDefinition, NextStep), Status> {
        let all = self.all()?;
        let others = all.iter().filter(|other| {
            other.spec().group() == crd.spec().group()
                && other.metadata().name() != crd.metadata().name()
        });
        Ok(plan(crd, accept_names(crd, others), self.registry.clock().now()))
    }

    /// Writes the planned status of the newest version; a CRD is served before it is reported as
    /// established.
    async fn write(&mut self, name: &str) -> Result<(), Status> {
        let found = self.registry.get(&self.kind, "", name)?;
        let (planned, _) = self.planned(CustomResourceDefinition::view(&found.object))?;
        if planned.is_true("Established") {
            self.serve(&planned);
        }
        self.store(name, |crd| {
            let (planned, _) = self.planned(crd)?;
            Ok(planned)
        })
        .await
    }

    async fn write_emptied(&self, name: &str) -> Result<(), Status> {
        let now = self.registry.clock().now();
        self.store(name, |crd| Ok(plan::after_instance_deletion(crd, now))).await
    }

    async fn store(
        &self,
        name: &str,
        change: impl Fn(&CustomResourceDefinition) -> Result<CustomResourceDefinition, Status>,
    ) -> Result<(), Status> {
        let change = |old: &store::Version<Value>| {
            change(CustomResourceDefinition::view(&old.object)).map(Value::from)
        };
        let mut call = own_call();
        match self
            .registry
            .guaranteed_update(&mut call, &self.kind, ("", name), "status", change)
            .await
        {
            Err(status) if status.code() == 404 => Ok(()),
            done => done.map(drop),
        }
    }

    /// Deletes the custom resources of a CRD; returns whether none is left.
    async fn delete_instances(&self, crd: &CustomResourceDefinition) -> Result<bool, Status> {
        let (group, plural) = (crd.spec().group(), crd.status().accepted_names().plural());
        let Some(kind) = self.registry.kinds().stored(group, plural) else { return Ok(true) };
        let all = |registry: &Registry| {
            registry.list(&kind, &Selection::default(), &ListOptions::default())
        };
        for version in all(&self.registry)?.items {
            let meta = Object::view(&version.object).metadata();
            let key = (meta.namespace(), meta.name());
            let delete = DeleteRequest { uid: Some(meta.uid().into()), ..DeleteRequest::default() };
            match self.registry.delete(&mut own_call(), &kind, key, &delete).await {
                Err(status) if status.code() != 404 => return Err(status),
                _ => {}
            }
        }
        Ok(all(&self.registry)?.items.is_empty())
    }

    /// Serves the CRD, unless it is already served like this.
    fn serve(&mut self, crd: &CustomResourceDefinition) {
        let name = crd.metadata().name().to_owned();
        let names = crd.status().accepted_names().tree().clone();
        let now = (crd.spec().tree().clone(), names);
        if self.served_specs.get(&name) == Some(&now) {
            return;
        }
        let compiled =
            server::expensive::aside(|| crd_definitions(crd.tree(), SCALE, &*self.compile));
        let declared = match compiled {
            Ok(Some(declared)) => declared,
            Ok(None) => return,
            Err(full) => return error!(crd = name, error = %full, "cannot serve a custom resource"),
        };
        match self.registry.register_custom(declared) {
            Ok(()) => drop(self.served_specs.insert(name, now)),
            Err(error) => error!(crd = name, %error, "cannot serve a custom resource"),
        }
    }

    fn withdraw(&mut self, name: &str) {
        if self.served_specs.remove(name).is_some()
            && let Some((plural, group)) = name.split_once('.')
        {
            self.registry.unregister_custom(group, plural);
        }
    }

    /// The CRDs of a group whose names are not accepted.
    fn name_conflicts(&self, group: &str) -> Vec<String> {
        let all = self.all().unwrap_or_default();
        let waits =
            all.iter().filter(|crd| crd.spec().group() == group && !crd.is_true("NamesAccepted"));
        waits.map(|crd| crd.metadata().name().to_owned()).collect()
    }

    fn all(&self) -> Result<Vec<CustomResourceDefinition>, Status> {
        let list =
            self.registry.list(&self.kind, &Selection::default(), &ListOptions::default())?;
        let crd = |version: &Arc<store::Version<Value>>| {
            CustomResourceDefinition::from(version.object.clone())
        };
        Ok(list.items.iter().map(crd).collect())
    }
}

fn own_call() -> RequestContext {
    RequestContext::new(UserInfo::new("system:apiserver", &["system:masters"]), "kube-apiserver")
}
