//! The pods of all hollow nodes: one watch, and a timer for each pod whose next stage is due later.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use api::core::Pod;
use client::{Api, DeleteParams, Error, Patch, Selectors, WatchEvent, WatchStart};
use object::{Clock as _, NamespacedName, SystemClock, Value};
use runtime::{Backoff, Context};
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep_until},
};
use tracing::{debug, warn};

use crate::{
    CONCURRENCY,
    addresses::PodAddresses,
    nodes::Nodes,
    stages::{self, Stage},
    status::{self, Placement},
};

const FIRST_RETRY: Duration = Duration::from_millis(200);
const LAST_RETRY: Duration = Duration::from_secs(30);

pub(crate) fn start(cx: &Context, nodes: Arc<Nodes>) {
    let host = cx.clone();
    cx.keep("hollow pods", move || run(host.clone(), nodes.clone()));
}

/// A pod that waits for its next stage.
#[derive(Debug)]
struct Waiting {
    pod: Pod,
    stage: Stage,
    due: Instant,
    /// Identifies the timer: an older one of the same pod is ignored.
    timer: u64,
}

/// What is known of the pods.
#[derive(Debug)]
struct Pods {
    cx: Context,
    api: Api<Pod>,
    nodes: Arc<Nodes>,
    limit: Arc<Semaphore>,
    addresses: Arc<Mutex<PodAddresses>>,
    waiting: HashMap<String, Waiting>,
    timers: BinaryHeap<Reverse<(Instant, u64, String)>>,
    last_timer: u64,
}

async fn run(cx: Context, nodes: Arc<Nodes>) {
    let mut pods = Pods {
        api: cx.api::<Pod>(),
        cx,
        nodes,
        limit: Arc::new(Semaphore::new(CONCURRENCY)),
        addresses: Arc::default(),
        waiting: HashMap::new(),
        timers: BinaryHeap::new(),
        last_timer: 0,
    };
    let mut retry = Backoff::new(FIRST_RETRY, LAST_RETRY);
    let mut from = WatchStart::List;
    loop {
        match pods.follow(&mut from).await {
            Ok(()) => retry.reset(),
            Err(error) => {
                warn!(%error, "the watch of pods ended; will retry");
                from = WatchStart::List;
                tokio::time::sleep(retry.next_delay()).await;
            }
        }
    }
}

impl Pods {
    /// Follows one watch until the server ends it.
    async fn follow(&mut self, from: &mut WatchStart) -> Result<(), Error> {
        let mut watch = self.api.watch(&Selectors::fields("spec.nodeName!="), *from).await?;
        loop {
            let due = self.timers.peek().map(|Reverse((due, ..))| *due);
            tokio::select! {
                event = watch.next() => match event? {
                    Some(WatchEvent::Added(pod) | WatchEvent::Modified(pod)) => self.plan(pod),
                    Some(WatchEvent::Deleted(pod)) => self.forget(&pod),
                    Some(WatchEvent::Bookmark { .. }) => {}
                    None => {
                        *from = WatchStart::After(watch.revision());
                        return Ok(());
                    }
                },
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => self.fire(),
            }
        }
    }

    /// Sets the timer of a pod that was seen.
    fn plan(&mut self, pod: Pod) {
        if self.nodes.address(pod.spec().node_name()).is_none() {
            return;
        }
        if !pod.status().pod_ip().is_empty() {
            self.addresses().take(pod.status().pod_ip());
        }
        let uid = pod.metadata().uid().to_owned();
        let Some((stage, after)) = stages::next(&pod) else {
            self.waiting.remove(&uid);
            return;
        };
        // a change of something else does not begin the delay anew
        let old = self.waiting.get(&uid).filter(|old| old.stage == stage);
        let due = old.map_or_else(|| Instant::now() + object::bounded_wait(after), |old| old.due);
        self.last_timer += 1;
        self.timers.push(Reverse((due, self.last_timer, uid.clone())));
        self.waiting.insert(uid, Waiting { pod, stage, due, timer: self.last_timer });
    }

    fn forget(&mut self, pod: &Pod) {
        self.waiting.remove(pod.metadata().uid());
        if self.nodes.address(pod.spec().node_name()).is_some() {
            self.addresses().release(pod.status().pod_ip());
        }
    }

    /// Begins the stages that are due.
    fn fire(&mut self) {
        let now = Instant::now();
        while let Some(Reverse((due, ..))) = self.timers.peek() {
            if *due > now {
                return;
            }
            let Some(Reverse((_, timer, uid))) = self.timers.pop() else { return };
            if self.waiting.get(&uid).is_none_or(|waiting| waiting.timer != timer) {
                continue;
            }
            if let Some(Waiting { pod, stage, .. }) = self.waiting.remove(&uid) {
                self.enter(pod, stage);
            }
        }
    }

    /// Writes a stage, in a task of its own. A failure is retried.
    fn enter(&self, pod: Pod, stage: Stage) {
        let Some(host) = self.nodes.address(pod.spec().node_name()) else { return };
        let known = pod.status().pod_ip().parse().ok();
        let is_start = matches!(stage, Stage::Start { .. });
        let ip = known.or_else(|| {
            is_start.then(|| self.addresses().allocate(pod.metadata().uid())).flatten()
        });
        let (api, limit) = (self.api.clone(), self.limit.clone());
        self.cx.spawn("hollow pod", async move {
            let mut retry = Backoff::new(FIRST_RETRY, LAST_RETRY);
            loop {
                let turn = limit.acquire().await;
                let written = write(&api, &pod, &stage, Placement { host, pod: ip }).await;
                drop(turn);
                match written {
                    Ok(()) => return,
                    // deleted, or another pod of this name: the watch has told or will tell
                    Err(error) if error.is_not_found() || error.is_conflict() => {
                        debug!(%error, "a pod has changed");
                        return;
                    }
                    Err(error) => {
                        warn!(pod = pod.metadata().name(), %error, "a pod's status cannot be written");
                        tokio::time::sleep(retry.next_delay()).await;
                    }
                }
            }
        });
    }

    fn addresses(&self) -> std::sync::MutexGuard<'_, PodAddresses> {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn write(api: &Api<Pod>, pod: &Pod, stage: &Stage, place: Placement) -> Result<(), Error> {
    let key = NamespacedName::from_meta(pod.metadata());
    let uid = pod.metadata().uid();
    if *stage == Stage::Remove {
        let now = DeleteParams { grace_seconds: Some(0), ..DeleteParams::with_uid(uid) };
        return api.delete(&key, &now).await.map(drop);
    }
    let mut patch = Value::object();
    patch["metadata"]["uid"] = uid.into();
    patch["status"] = status::patch(pod, stage, place, SystemClock.now());
    api.patch_status(&key, &Patch::Strategic(patch)).await.map(drop)
}
