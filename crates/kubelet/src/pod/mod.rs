//! Pods on this node: one worker each, from the first sandbox to the last file.

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

use self::plan::{Ending, Failure, SECOND};
pub(crate) use self::status::{OWN_CONDITIONS, TERMINATION_BY_KUBELET};
use crate::{Host, resize, source};

/// What a worker is to bring about.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Wish {
    pub(crate) pod: Pod,
    pub(crate) ending: Option<Ending>,
    /// Of a file or URL: the API has only its image.
    pub(crate) is_static: bool,
    /// The node has refused the pod, or wants it to go.
    pub(crate) failure: Option<Failure>,
    /// The API no longer has it: nobody counts on what it takes.
    pub(crate) is_gone: bool,
    /// Why the pod does not have the resources that it asks for: reason and message. `pod`
    /// says what it has.
    pub(crate) pending: Option<(String, String)>,
}

#[derive(Clone, Debug)]
struct Handle {
    wish: watch::Sender<Wish>,
    wake: Arc<Notify>,
}

/// Workers by the uid of their pod.
#[derive(Debug, Default)]
pub(crate) struct Pods {
    workers: Mutex<HashMap<String, Handle>>,
}

impl Pods {
    /// Tells the pod's worker what is wanted; makes one if need be. Of two grace periods
    /// the shorter counts.
    pub(crate) fn want(&self, host: &Arc<Host>, pod: Pod, grace: Option<i64>, is_static: bool) {
        let uid = pod.metadata().uid().to_owned();
        let ending = grace.map(|grace| Ending { since: host.nanos(), grace: grace.max(0) });
        let mut workers = self.workers();
        let others = || others(&workers, &uid);
        if let Some(handle) = workers.get(&uid) {
            handle.wish.send_if_modified(|wish| {
                let mut next = Wish { ending, ..wish.clone() };
                next.take(host, pod, others);
                if let Some(known) = wish.ending {
                    let until = |ending: Ending| {
                        ending.since.saturating_add(ending.grace.saturating_mul(SECOND))
                    };
                    let sooner = ending.filter(|new| until(*new) < until(known));
                    next.ending = Some(sooner.unwrap_or(known));
                }
                let changed = *wish != next;
                *wish = next;
                changed
            });
            return;
        }
        let before = source::api::remembered(host, &uid).filter(|_| !is_static);
        let lives = pod.is_finished() || ending.is_some() || before.is_some();
        let known =
            before.as_ref().map_or_else(|| pod.clone(), |before| resize::granted(&pod, before));
        let mut wish =
            Wish { pod: known, ending, is_static, failure: None, is_gone: false, pending: None };
        if !lives {
            wish.failure = host.admit(&wish.pod, is_static, &others()).err();
        }
        wish.take(host, pod, others);
        let (wish, wishes) = watch::channel(wish);
        let wake = Arc::new(Notify::new());
        workers.insert(uid, Handle { wish, wake: wake.clone() });
        let worker = host.clone();
        host.cx.keep("pod", move || worker::run(worker.clone(), wishes.clone(), wake.clone()));
    }

    /// Has a pod end as failed. `false`: there is none, or it has failed already.
    pub(crate) fn fail(&self, uid: &str, failure: Failure) -> bool {
        let workers = self.workers();
        let Some(handle) = workers.get(uid) else { return false };
        handle.wish.send_if_modified(|wish| {
            let fresh = wish.failure.is_none();
            wish.failure.get_or_insert(failure);
            fresh
        })
    }

    /// Tries again what did not fit, now that there may be room.
    fn retry_pending(&self, host: &Arc<Host>) {
        let Some(api) = &host.api_pods else { return };
        let waiting = self.all().into_iter().filter(|wish| wish.pending.is_some());
        for wish in waiting.collect::<Vec<_>>() {
            let key = object::Key::of(wish.pod.metadata());
            let same = |pod: &Pod| pod.metadata().uid() == wish.pod.metadata().uid();
            if let Some(pod) = api.get(&key).filter(same) {
                self.want(host, pod, None, false);
            }
        }
    }

    /// Ends a pod that nobody wants any more.
    pub(crate) fn unwant(&self, host: &Arc<Host>, uid: &str) {
        let known = self.workers().get(uid).map(|handle| handle.wish.borrow().clone());
        if let Some(wish) = known {
            let meta = wish.pod.metadata();
            let grace = meta
                .deletion_grace_period_seconds()
                .unwrap_or_else(|| wish.pod.spec().termination_grace_period_seconds());
            self.want(host, wish.pod, Some(grace), wish.is_static);
        }
        if let Some(handle) = self.workers().get(uid) {
            handle.wish.send_if_modified(|wish| !std::mem::replace(&mut wish.is_gone, true));
        }
    }

    /// Something happened to the pod's containers.
    pub(crate) fn wake(&self, uid: &str) {
        if let Some(handle) = self.workers().get(uid) {
            handle.wake.notify_one();
        }
    }

    pub(crate) fn wake_all(&self) {
        self.workers().values().for_each(|handle| handle.wake.notify_one());
    }

    pub(crate) fn forget(&self, host: &Arc<Host>, uid: &str) {
        self.workers().remove(uid);
        self.retry_pending(host);
    }

    pub(crate) fn has(&self, uid: &str) -> bool {
        self.workers().contains_key(uid)
    }

    pub(crate) fn all(&self) -> Vec<Wish> {
        self.workers().values().map(|handle| handle.wish.borrow().clone()).collect()
    }

    /// The pod of this name; a uid chooses among several.
    pub(crate) fn find(&self, namespace: &str, name: &str, uid: &str) -> Option<Pod> {
        let all = self.all().into_iter().map(|wish| wish.pod);
        let mut all = all.filter(|pod| {
            let meta = pod.metadata();
            meta.namespace() == namespace
                && meta.name() == name
                && (uid.is_empty() || meta.uid() == uid)
        });
        all.next()
    }

    fn workers(&self) -> MutexGuard<'_, HashMap<String, Handle>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wish {
    /// Whether the pod counts against what the node has.
    pub(crate) fn is_here(&self) -> bool {
        self.failure.is_none() && !self.pod.is_finished() && !self.is_gone
    }

    /// Takes in what the pod asks for now; new amounts only where the node has them.
    fn take(&mut self, host: &Host, pod: Pod, others: impl FnOnce() -> Vec<Pod>) {
        self.pending = None;
        if self.is_static || resize::is_granted(&pod, &self.pod) {
            self.pod = pod;
            return;
        }
        match host.grant(&pod, &others()) {
            Ok(()) => self.pod = pod,
            Err(why) => {
                self.pending = Some(why);
                self.pod = resize::granted(&pod, &self.pod);
            }
        }
    }
}

/// All pods that count, but this one.
fn others(workers: &HashMap<String, Handle>, uid: &str) -> Vec<Pod> {
    let all = workers.iter().filter(|(other, _)| *other != uid);
    let wishes = all.map(|(_, handle)| handle.wish.borrow());
    wishes.filter(|wish| wish.is_here()).map(|wish| wish.pod.clone()).collect()
}

/// Neither what has finished nor what is gone from the API takes room from others.
#[test]
fn only_pods_that_are_here_count() {
    let pod = |phase: &str| {
        let text = format!("{{metadata: {{name: p}}, status: {{phase: {phase}}}}}");
        Pod::from(object::yaml::from_yaml(&text).unwrap())
    };
    let wish = |phase| Wish {
        pod: pod(phase),
        ending: None,
        is_static: false,
        failure: None,
        is_gone: false,
        pending: None,
    };
    let ending = Some(Ending { since: 0, grace: 30 });
    assert!(wish("Running").is_here());
    assert!(Wish { ending, ..wish("Running") }.is_here(), "its containers still run");
    assert!(!Wish { ending, is_gone: true, ..wish("Running") }.is_here());
    assert!(!wish("Succeeded").is_here() && !wish("Failed").is_here());
    let failure = Some(Failure::default());
    assert!(!Wish { failure, ..wish("Pending") }.is_here());
}
