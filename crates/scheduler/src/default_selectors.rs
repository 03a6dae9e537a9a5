//! Default selector of topology spreading for pods without constraints: combines the selectors of
//! the services and of the controller that select the pod.

use std::sync::Arc;

use api::{
    apps::{ReplicaSet, StatefulSet},
    core::{Pod, ReplicationController, Service},
};
use object::{
    NamespacedName,
    selector::{Requirement, Selector},
};
use runtime::{Cache, Context};

use crate::affinity_terms::selector;

/// The informers that the default selector is computed from.
#[derive(Debug)]
pub(crate) struct DefaultSelectors {
    services: Arc<Cache<Service>>,
    controllers: Arc<Cache<ReplicationController>>,
    replica_sets: Arc<Cache<ReplicaSet>>,
    stateful_sets: Arc<Cache<StatefulSet>>,
}

impl DefaultSelectors {
    pub(crate) fn new(cx: &Context) -> Self {
        Self {
            services: cx.cache(),
            controllers: cx.cache(),
            replica_sets: cx.cache(),
            stateful_sets: cx.cache(),
        }
    }

    /// The default selector of a pod; `None` if nothing selects it.
    pub(crate) fn for_pod(&self, pod: &Pod) -> Option<Selector> {
        let meta = pod.metadata();
        let mut all =
            self.controller_selector(pod).map(|of| of.requirements().to_vec()).unwrap_or_default();
        for service in self.services.in_namespace(meta.namespace()) {
            let selects = Selector::from_labels(service.spec().selector().iter());
            if !selects.is_empty() && selects.matches(meta.labels()) {
                merge(&mut all, selects.requirements());
            }
        }
        (!all.is_empty()).then(|| Selector::new(all))
    }

    fn controller_selector(&self, pod: &Pod) -> Option<Selector> {
        let owner = pod.metadata().controller_ref()?;
        let key = NamespacedName::new(pod.metadata().namespace(), owner.name());
        match (owner.api_version(), owner.kind()) {
            ("apps/v1", "ReplicaSet") => {
                self.replica_sets.get(&key).map(|set| selector(set.spec().selector()))
            }
            ("apps/v1", "StatefulSet") => {
                self.stateful_sets.get(&key).map(|set| selector(set.spec().selector()))
            }
            ("v1", "ReplicationController") => self
                .controllers
                .get(&key)
                .map(|set| Selector::from_labels(set.spec().selector().iter())),
            _ => None,
        }
    }
}

fn merge(all: &mut Vec<Requirement>, more: &[Requirement]) {
    for one in more {
        if !all.contains(one) {
            all.push(one.clone());
        }
    }
}
