//! The loop: takes the next pod, chooses, and binds in a task of its own, so that the
//! next choice need not wait for the API.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::{
    core::{Binding, Namespace, Node, ObjectReference, Pod},
    policy::PodDisruptionBudget,
};
use object::{Key, Lens, Text, Value};
use runtime::{Cache, Context, Objects, Recorder};
use schema::Kind;
use tokio::{
    sync::{Notify, Semaphore},
    time::{Instant, sleep_until},
};
use tracing::{debug, error, warn};

use crate::{
    Config, PodInfo, Sacrifice, Unschedulable,
    claims::Claims,
    cycle::schedule_measured,
    metrics::{Attempt, AttemptResult, Point, SchedulerMetrics},
    peers::Peers,
    preempt,
    state::State,
    waiting::Next,
};

/// Starts scheduling; it goes on until `cx` stops.
pub fn start(cx: &Context, config: Config) {
    let scheduler = Arc::new(Scheduler {
        pods: cx.objects(),
        budgets: cx.cache(),
        peers: Peers::new(cx),
        claims: Claims::new(cx),
        events: Recorder::start(cx, &config.name, ""),
        state: Mutex::default(),
        wake: Notify::new(),
        bindings: Arc::new(Semaphore::new(config.bindings.max(1))),
        metrics: SchedulerMetrics::new(cx.metrics(), &config.name),
        config,
    });
    cx.metrics().on_read(&scheduler, |scheduler, _| scheduler.metrics.report(&scheduler.state()));
    let this = scheduler.clone();
    cx.cache::<Node>().on_change(move |old, new| {
        this.state().node(old, new);
        this.wake.notify_one();
    });
    let this = scheduler.clone();
    cx.cache::<Namespace>().on_change(move |old, new| {
        this.state().namespace(old, new);
        this.wake.notify_one();
    });
    let this = scheduler.clone();
    cx.cache::<Pod>().on_change(move |old, new| {
        let ours = new.is_some_and(|pod| pod.spec().scheduler_name() == this.config.name);
        this.state().pod(old, new, ours);
        this.wake.notify_one();
    });
    let this = scheduler.clone();
    scheduler.claims.on_change(move || {
        this.state().waiting.changed("PersistentVolumeClaimUpdate", Instant::now());
        this.wake.notify_one();
    });
    let task = cx.clone();
    cx.spawn("scheduler", async move { scheduler.run(&task).await });
}

#[derive(Debug)]
pub(crate) struct Scheduler {
    pub(crate) pods: Objects<Pod>,
    pub(crate) events: Recorder,
    pub(crate) config: Config,
    pub(crate) wake: Notify,
    budgets: Arc<Cache<PodDisruptionBudget>>,
    peers: Peers,
    claims: Claims,
    state: Mutex<State>,
    bindings: Arc<Semaphore>,
    metrics: SchedulerMetrics,
}

/// What a cycle ends with.
enum Outcome {
    Chosen(Text),
    /// Chosen, but its volumes must be made first.
    Unmade(Text, Vec<Key>),
    Refused(Unschedulable, Result<Sacrifice, String>),
}

impl Scheduler {
    async fn run(self: Arc<Self>, cx: &Context) {
        cx.synced().await;
        for turn in 0.. {
            let Next { uid, key, queued, attempts } = self.next().await;
            let permit = self.bindings.clone().acquire_owned().await.expect("never closed");
            // What waits is what the cache has; it may be gone or placed by now.
            let Some(pod) = self.pods.get(&key).filter(|pod| pod.metadata().uid() == uid) else {
                self.state().waiting.remove(&uid);
                continue;
            };
            let attempt = Attempt { began: Instant::now(), queued, number: attempts };
            let Ok(outcome) = panics::catch("scheduler", || self.decide(&pod, turn)) else {
                self.metrics.attempted(&attempt, AttemptResult::Error);
                self.again(&pod);
                continue;
            };
            let this = self.clone();
            cx.spawn("bind", async move {
                let done = async {
                    match outcome {
                        Outcome::Chosen(node) => this.bind(&pod, &node).await,
                        Outcome::Unmade(node, claims) => {
                            this.provision(&pod, &claims, &node).await;
                            AttemptResult::Unschedulable
                        }
                        Outcome::Refused(none, room) => {
                            let plugins = none.plugins.iter().copied();
                            this.state().waiting.reject(pod.metadata().uid(), plugins);
                            this.refuse(&pod, &none, room).await;
                            AttemptResult::Unschedulable
                        }
                    }
                };
                let result = panics::contain("bind", done).await;
                if result.is_err() {
                    this.again(&pod);
                }
                this.metrics.attempted(&attempt, result.unwrap_or(AttemptResult::Error));
                drop(permit);
            });
        }
    }

    /// A panic is this pod's alone: it counts on no node, and is tried again later.
    fn again(&self, pod: &Pod) {
        let uid = Text::from(pod.metadata().uid());
        error!(pod = %Key::of(pod.metadata()), "scheduling failed; will retry");
        let mut state = self.state();
        state.forget(&uid);
        state.waiting.failed(&uid, false, Instant::now());
        drop(state);
        self.wake.notify_one();
    }

    /// One cycle. What it decides counts at once.
    fn decide(&self, pod: &Pod, turn: usize) -> Outcome {
        let info = PodInfo::new(pod).with_peers(self.peers.of(pod));
        let view = self.state().view(&info);
        let info = match self.claims.of(pod) {
            Ok(claimed) => info.with_claimed(claimed),
            Err(why) => {
                let nodes = view.len();
                let plugins = ["VolumeBinding"].into();
                let everywhere = Some(why);
                let none = Unschedulable { nodes, everywhere, plugins, ..Default::default() };
                let room = self.preempt(|| preempt(&info, &view, &none, &[]));
                return Outcome::Refused(none, room);
            }
        };
        let percentage = self.config.percentage_of_nodes_to_score;
        let began = Instant::now();
        let chosen = schedule_measured(&info, &view, (percentage, turn), Some(&self.metrics));
        self.metrics.algorithm(began.elapsed());
        match chosen.map(Text::from) {
            Ok(node) => {
                drop(view); // or the change would have to copy it
                if !info.claimed.unmade.is_empty() {
                    let claims = info.claimed.unmade.clone();
                    self.state().nominate(info.into(), &node);
                    return Outcome::Unmade(node, claims);
                }
                self.state().assume(info, &node);
                Outcome::Chosen(node)
            }
            Err(none) => {
                let room = self.preempt(|| preempt(&info, &view, &none, &self.budgets.all()));
                drop(view);
                match &room {
                    Ok(sacrifice) => self.state().nominate(info.into(), &sacrifice.node),
                    Err(_) => self.state().denominate(info.uid()),
                }
                Outcome::Refused(none, room)
            }
        }
    }

    /// Counts a preemption.
    fn preempt(
        &self,
        preempt: impl FnOnce() -> Result<Sacrifice, String>,
    ) -> Result<Sacrifice, String> {
        let began = Instant::now();
        let room = preempt();
        self.metrics.preemptions.add(1);
        self.metrics.ran(Point::PostFilter, began, room.is_ok());
        if let Ok(sacrifice) = &room {
            let victims = u32::try_from(sacrifice.victims.len()).unwrap_or(u32::MAX);
            self.metrics.victims.observe(f64::from(victims));
        }
        room
    }

    /// Waits for a pod to try.
    async fn next(&self) -> Next {
        loop {
            let due = {
                let mut state = self.state();
                if let Some(next) = state.waiting.pop(Instant::now()) {
                    return next;
                }
                state.waiting.due()
            };
            match due {
                Some(due) => {
                    tokio::select! { () = sleep_until(due) => (), () = self.wake.notified() => () }
                }
                None => self.wake.notified().await,
            }
        }
    }

    /// The pod is tried again when its claims change.
    async fn provision(&self, pod: &Pod, claims: &[Key], node: &str) {
        let uid = Text::from(pod.metadata().uid());
        let selected = self.claims.select(pod, claims, node).await;
        if let Err(error) = &selected {
            warn!(pod = %Key::of(pod.metadata()), %error, "cannot ask for volumes; will retry");
        }
        self.state().waiting.failed(&uid, selected.is_ok(), Instant::now());
        self.wake.notify_one();
    }

    async fn bind(&self, pod: &Pod, node: &str) -> AttemptResult {
        let meta = pod.metadata();
        let (key, uid) = (Key::of(meta), Text::from(meta.uid()));
        let because = pod.causes(&format!("fits best on {node}"));
        let pods = self.pods.because(&because);
        let began = Instant::now();
        let bound = pods.create_sub(&key, "binding", &binding(pod, node)).await;
        self.metrics.ran(Point::Bind, began, bound.is_ok());
        match bound {
            Ok(_) => {
                self.state().waiting.remove(&uid);
                let message = format!("Successfully assigned {key} to {node}");
                self.events.normal(pod, "Scheduled", message);
                AttemptResult::Scheduled
            }
            Err(error) => {
                let mut state = self.state();
                state.forget(&uid);
                if error.is_not_found() || error.is_conflict() {
                    debug!(%key, %error, "the pod is gone or placed");
                    state.waiting.failed(&uid, error.is_not_found(), Instant::now());
                } else {
                    warn!(%key, %error, "cannot bind; will retry");
                    state.waiting.failed(&uid, false, Instant::now());
                }
                drop(state);
                self.wake.notify_one();
                AttemptResult::Error
            }
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn binding(pod: &Pod, node: &str) -> Value {
    let meta = pod.metadata();
    let name = object::ObjectMeta::new()
        .with_name(meta.name())
        .with_namespace(meta.namespace())
        .with_uid(meta.uid());
    let target = ObjectReference::new().with_kind("Node").with_name(node);
    let mut body = Binding::new().with_metadata(name).with_target(target).tree().clone();
    body["apiVersion"] = "v1".into();
    body["kind"] = Binding::NAMES.kind.into();
    body
}
