//! Pods of this node: each has a pod worker, from the creation of its sandbox to the removal of its last file.

mod container;
pub mod observe;
pub mod plan;
pub mod restart;
pub(crate) mod sandbox;
pub mod status;
pub(crate) mod steps;
mod termination_message;
pub(crate) mod worker;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use api::core::Pod;
use tokio::sync::{Notify, watch};

use self::plan::{Failure, SECOND, Termination};
pub(crate) use self::status::{KUBELET_CONDITIONS, TERMINATION_BY_KUBELET};
use crate::{KubeletContext, resize, source};

/// The desired state of one pod, which its worker brings about.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DesiredPod {
    pub(crate) pod: Pod,
    pub(crate) ending: Option<Termination>,
    /// A static pod, from a file or URL: the API has a mirror pod only.
    pub(crate) is_static: bool,
    /// Why the pod was rejected at admission or evicted.
    pub(crate) failure: Option<Failure>,
    /// Deleted from the API: its resources are free again.
    pub(crate) is_gone: bool,
    /// Why a resize is deferred or infeasible: reason and message. `pod` has the resources that
    /// were granted.
    pub(crate) pending: Option<(String, String)>,
}

/// Channels to the worker of a pod.
#[derive(Clone, Debug)]
struct WorkerHandle {
    desired: watch::Sender<DesiredPod>,
    wake: Arc<Notify>,
}

/// The pod workers, by pod uid.
#[derive(Debug, Default)]
pub(crate) struct PodWorkers {
    workers: Mutex<HashMap<String, WorkerHandle>>,
}

impl PodWorkers {
    /// Sends the desired state to the worker of a pod, which is started if there is none. Of two
    /// grace periods the shorter one applies.
    pub(crate) fn update_pod(
        &self,
        host: &Arc<KubeletContext>,
        pod: Pod,
        grace: Option<i64>,
        is_static: bool,
    ) {
        let uid = pod.metadata().uid().to_owned();
        let ending = grace.map(|grace| Termination { since: host.nanos(), grace: grace.max(0) });
        let mut workers = self.workers();
        let others = || other_active_pods(&workers, &uid);
        if let Some(handle) = workers.get(&uid) {
            handle.desired.send_if_modified(|desired| {
                let mut next = DesiredPod { ending, ..desired.clone() };
                next.take(host, pod, others);
                if let Some(known) = desired.ending {
                    let until = |ending: Termination| {
                        ending.since.saturating_add(ending.grace.saturating_mul(SECOND))
                    };
                    let sooner = ending.filter(|new| until(*new) < until(known));
                    next.ending = Some(sooner.unwrap_or(known));
                }
                let changed = *desired != next;
                *desired = next;
                changed
            });
            return;
        }
        let before = source::api::read_checkpoint(host, &uid).filter(|_| !is_static);
        let lives = pod.is_finished() || ending.is_some() || before.is_some();
        let known = before
            .as_ref()
            .map_or_else(|| pod.clone(), |before| resize::with_allocated_resources(&pod, before));
        let mut desired = DesiredPod {
            pod: known,
            ending,
            is_static,
            failure: None,
            is_gone: false,
            pending: None,
        };
        if !lives {
            desired.failure = host.admit(&desired.pod, is_static, &others()).err();
        }
        desired.take(host, pod, others);
        let (desired, desired_updates) = watch::channel(desired);
        let wake = Arc::new(Notify::new());
        workers.insert(uid, WorkerHandle { desired, wake: wake.clone() });
        let worker = host.clone();
        host.cx.keep("pod", move || {
            worker::run(worker.clone(), desired_updates.clone(), wake.clone())
        });
    }

    /// Terminates a pod as failed. Returns `false` if there is no such pod, or it has already failed.
    pub(crate) fn fail_pod(&self, uid: &str, failure: Failure) -> bool {
        let workers = self.workers();
        let Some(handle) = workers.get(uid) else { return false };
        handle.desired.send_if_modified(|desired| {
            let fresh = desired.failure.is_none();
            desired.failure.get_or_insert(failure);
            fresh
        })
    }

    /// Retries deferred resizes, now that resources may have become free.
    fn retry_pending(&self, host: &Arc<KubeletContext>) {
        let Some(api) = &host.api_pods else { return };
        let waiting = self.all().into_iter().filter(|desired| desired.pending.is_some());
        for desired in waiting.collect::<Vec<_>>() {
            let key = object::NamespacedName::from_meta(desired.pod.metadata());
            let same = |pod: &Pod| pod.metadata().uid() == desired.pod.metadata().uid();
            if let Some(pod) = api.get(&key).filter(same) {
                self.update_pod(host, pod, None, false);
            }
        }
    }

    /// Terminates a pod that was deleted from its source.
    pub(crate) fn terminate_pod(&self, host: &Arc<KubeletContext>, uid: &str) {
        let known = self.workers().get(uid).map(|handle| handle.desired.borrow().clone());
        if let Some(desired) = known {
            let meta = desired.pod.metadata();
            let grace = meta
                .deletion_grace_period_seconds()
                .unwrap_or_else(|| desired.pod.spec().termination_grace_period_seconds());
            self.update_pod(host, desired.pod, Some(grace), desired.is_static);
        }
        if let Some(handle) = self.workers().get(uid) {
            handle
                .desired
                .send_if_modified(|desired| !std::mem::replace(&mut desired.is_gone, true));
        }
    }

    /// Wakes the worker of a pod, because one of its containers has changed.
    pub(crate) fn wake(&self, uid: &str) {
        if let Some(handle) = self.workers().get(uid) {
            handle.wake.notify_one();
        }
    }

    pub(crate) fn wake_all(&self) {
        self.workers().values().for_each(|handle| handle.wake.notify_one());
    }

    /// Drops the worker of a pod that is gone, and retries deferred resizes.
    pub(crate) fn forget(&self, host: &Arc<KubeletContext>, uid: &str) {
        self.workers().remove(uid);
        self.retry_pending(host);
    }

    pub(crate) fn has(&self, uid: &str) -> bool {
        self.workers().contains_key(uid)
    }

    pub(crate) fn all(&self) -> Vec<DesiredPod> {
        self.workers().values().map(|handle| handle.desired.borrow().clone()).collect()
    }

    /// The pod with this name; `uid`, if not empty, must match too.
    pub(crate) fn find(&self, namespace: &str, name: &str, uid: &str) -> Option<Pod> {
        let all = self.all().into_iter().map(|desired| desired.pod);
        let mut all = all.filter(|pod| {
            let meta = pod.metadata();
            meta.namespace() == namespace
                && meta.name() == name
                && (uid.is_empty() || meta.uid() == uid)
        });
        all.next()
    }

    fn workers(&self) -> MutexGuard<'_, HashMap<String, WorkerHandle>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DesiredPod {
    /// Whether the pod counts against the node's resources.
    pub(crate) fn is_active(&self) -> bool {
        self.failure.is_none() && !self.pod.is_finished() && !self.is_gone
    }

    /// Takes over a new spec. A resize is applied only if the node has the resources; otherwise it becomes pending.
    fn take(&mut self, host: &KubeletContext, pod: Pod, others: impl FnOnce() -> Vec<Pod>) {
        self.pending = None;
        if self.is_static || resize::matches_allocated(&pod, &self.pod) {
            self.pod = pod;
            return;
        }
        match host.check_resize(&pod, &others()) {
            Ok(()) => self.pod = pod,
            Err(why) => {
                self.pending = Some(why);
                self.pod = resize::with_allocated_resources(&pod, &self.pod);
            }
        }
    }
}

/// All other active pods.
fn other_active_pods(workers: &HashMap<String, WorkerHandle>, uid: &str) -> Vec<Pod> {
    let all = workers.iter().filter(|(other, _)| *other != uid);
    let desired_updates = all.map(|(_, handle)| handle.desired.borrow());
    desired_updates
        .filter(|desired| desired.is_active())
        .map(|desired| desired.pod.clone())
        .collect()
}

/// Finished and deleted pods do not count against the node.
#[test]
fn only_pods_that_are_here_count() {
    let pod = |phase: &str| {
        let text = format!("{{metadata: {{name: p}}, status: {{phase: {phase}}}}}");
        Pod::from(object::yaml::from_yaml(&text).unwrap())
    };
    let desired = |phase| DesiredPod {
        pod: pod(phase),
        ending: None,
        is_static: false,
        failure: None,
        is_gone: false,
        pending: None,
    };
    let ending = Some(Termination { since: 0, grace: 30 });
    assert!(desired("Running").is_active());
    assert!(DesiredPod { ending, ..desired("Running") }.is_active(), "its containers still run");
    assert!(!DesiredPod { ending, is_gone: true, ..desired("Running") }.is_active());
    assert!(!desired("Succeeded").is_active() && !desired("Failed").is_active());
    let failure = Some(Failure::default());
    assert!(!DesiredPod { failure, ..desired("Pending") }.is_active());
}
