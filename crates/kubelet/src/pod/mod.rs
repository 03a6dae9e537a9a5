//! Pods on this node: one worker each, from the first sandbox to the last file.

mod container;
pub mod observe;
pub mod plan;
pub(crate) mod sandbox;
pub mod status;
pub(crate) mod steps;
pub(crate) mod worker;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard},
};

use api::core::Pod;
use tokio::sync::{Notify, watch};

use self::plan::{Ending, SECOND};
use crate::Host;

/// What a worker is to bring about.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Wish {
    pub(crate) pod: Pod,
    pub(crate) ending: Option<Ending>,
    /// Of a file or URL: the API has only its image.
    pub(crate) is_static: bool,
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
        if let Some(handle) = workers.get(&uid) {
            handle.wish.send_if_modified(|wish| {
                let mut next = Wish { pod, ending, is_static };
                if let Some(known) = wish.ending {
                    let until = |ending: Ending| ending.since + ending.grace * SECOND;
                    let sooner = ending.filter(|new| until(*new) < until(known));
                    next.ending = Some(sooner.unwrap_or(known));
                }
                let changed = *wish != next;
                *wish = next;
                changed
            });
            return;
        }
        let (wish, wishes) = watch::channel(Wish { pod, ending, is_static });
        let wake = Arc::new(Notify::new());
        workers.insert(uid, Handle { wish, wake: wake.clone() });
        host.cx.spawn("pod", worker::run(host.clone(), wishes, wake));
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

    pub(crate) fn forget(&self, uid: &str) {
        self.workers().remove(uid);
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
        self.workers.lock().expect("not poisoned")
    }
}
