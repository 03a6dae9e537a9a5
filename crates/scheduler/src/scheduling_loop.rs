//! The scheduling loop: takes the next pod from the queue, runs a scheduling cycle, and binds the
//! pod in a separate task, so that the next cycle does not wait for the API.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::{
    core::{Binding, Namespace, Node, ObjectReference, Pod},
    policy::PodDisruptionBudget,
};
use object::{Lens, NamespacedName, Text, Value};
use runtime::{Cache, CachedApi, Context, EventRecorder};
use schema::Kind;
use tokio::{
    sync::{Notify, Semaphore},
    time::{Instant, sleep_until},
};
use tracing::{debug, error, warn};

use crate::{
    Config, PodInfo, PreemptionCandidate, Unschedulable,
    claims::VolumeBinder,
    cycle::schedule_measured,
    default_selectors::DefaultSelectors,
    metrics::{Attempt, AttemptResult, Point, SchedulerMetrics},
    preempt,
    scheduling_queue::Next,
    state::SchedulerState,
};

/// Starts the scheduler; it runs until `cx` stops.
pub fn start(cx: &Context, config: Config) {
    let scheduler = Arc::new(Scheduler {
        pods: cx.cached_api(),
        budgets: cx.cache(),
        default_selectors: DefaultSelectors::new(cx),
        volume_binder: VolumeBinder::new(cx),
        events: EventRecorder::start(cx, &config.scheduler_name, ""),
        state: Mutex::default(),
        wake: Notify::new(),
        bindings: Arc::new(Semaphore::new(config.max_concurrent_bindings.max(1))),
        metrics: SchedulerMetrics::new(cx.metrics(), &config.scheduler_name),
        config,
    });
    cx.metrics().on_read(&scheduler, |scheduler, _| scheduler.metrics.report(&scheduler.state()));
    let this = scheduler.clone();
    cx.cache::<Node>().on_change(move |old, new| {
        this.state().on_node_change(old, new);
        this.wake.notify_one();
    });
    let this = scheduler.clone();
    cx.cache::<Namespace>().on_change(move |old, new| {
        this.state().on_namespace_change(old, new);
        this.wake.notify_one();
    });
    let this = scheduler.clone();
    cx.cache::<Pod>().on_change(move |old, new| {
        let ours = new.is_some_and(|pod| pod.spec().scheduler_name() == this.config.scheduler_name);
        this.state().on_pod_change(old, new, ours);
        this.wake.notify_one();
    });
    let this = scheduler.clone();
    scheduler.volume_binder.on_change(move || {
        this.state()
            .queue
            .move_unschedulable_to_backoff("PersistentVolumeClaimUpdate", Instant::now());
        this.wake.notify_one();
    });
    let task = cx.clone();
    cx.spawn("scheduler", async move { scheduler.run(&task).await });
}

/// The scheduler.
#[derive(Debug)]
pub(crate) struct Scheduler {
    pub(crate) pods: CachedApi<Pod>,
    pub(crate) events: EventRecorder,
    pub(crate) config: Config,
    pub(crate) wake: Notify,
    budgets: Arc<Cache<PodDisruptionBudget>>,
    default_selectors: DefaultSelectors,
    volume_binder: VolumeBinder,
    state: Mutex<SchedulerState>,
    bindings: Arc<Semaphore>,
    metrics: SchedulerMetrics,
}

/// The result of a scheduling cycle.
enum Outcome {
    Bind(Text),
    /// A node is selected, but volumes must be provisioned for it first.
    Provision(Text, Vec<NamespacedName>),
    Unschedulable(Box<Unschedulable>, Result<PreemptionCandidate, String>),
}

impl Scheduler {
    async fn run(self: Arc<Self>, cx: &Context) {
        cx.wait_for_cache_sync().await;
        for turn in 0.. {
            let Next { uid, key, queued, attempts } = self.next().await;
            let permit = self.bindings.clone().acquire_owned().await.expect("never closed");
            // The pod may have been deleted or bound since it was queued.
            let Some(pod) = self.pods.get(&key).filter(|pod| pod.metadata().uid() == uid) else {
                self.state().queue.remove(&uid);
                continue;
            };
            let attempt = Attempt { began: Instant::now(), queued, number: attempts };
            let Ok(outcome) = panics::catch("scheduler", || self.schedule_one(&pod, turn)) else {
                self.metrics.attempted(&attempt, AttemptResult::Error);
                self.again(&pod);
                continue;
            };
            let this = self.clone();
            cx.spawn("bind", async move {
                let done = async {
                    match outcome {
                        Outcome::Bind(node) => this.bind(&pod, &node).await,
                        Outcome::Provision(node, claims) => {
                            this.provision(&pod, &claims, &node).await;
                            AttemptResult::Unschedulable
                        }
                        Outcome::Unschedulable(none, room) => {
                            let plugins = none.plugins.iter().copied();
                            this.state().queue.reject(pod.metadata().uid(), plugins);
                            this.handle_failure(&pod, &none, room).await;
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

    /// Handles a panic, which concerns this pod only: it is no longer assumed on a node, and
    /// retried.
    fn again(&self, pod: &Pod) {
        let uid = Text::from(pod.metadata().uid());
        error!(pod = %NamespacedName::from_meta(pod.metadata()), "scheduling failed; will retry");
        let mut state = self.state();
        state.forget(&uid);
        state.queue.requeue_failed(&uid, false, Instant::now());
        drop(state);
        self.wake.notify_one();
    }

    /// Runs one scheduling cycle. Its decision is assumed in the cache at once.
    fn schedule_one(&self, pod: &Pod, turn: usize) -> Outcome {
        let info = PodInfo::new(pod).with_peers(self.default_selectors.for_pod(pod));
        let view = self.state().snapshot_for(&info);
        let info = match self.volume_binder.pod_volume_claims(pod) {
            Ok(claimed) => info.with_claimed(claimed),
            Err(why) => {
                let nodes = view.len();
                let plugins = ["VolumeBinding"].into();
                let pre_filter_message = Some(why);
                let none =
                    Unschedulable { nodes, pre_filter_message, plugins, ..Default::default() };
                let room = self.preempt(|| preempt(&info, &view, &none, &[]));
                return Outcome::Unschedulable(Box::new(none), room);
            }
        };
        let percentage = self.config.percentage_of_nodes_to_score;
        let began = Instant::now();
        let chosen = schedule_measured(&info, &view, (percentage, turn), Some(&self.metrics));
        self.metrics.algorithm(began.elapsed());
        match chosen.map(Text::from) {
            Ok(node) => {
                drop(view); // otherwise the next update would copy the snapshot
                if !info.volume_claims.unbound_delayed.is_empty() {
                    let claims = info.volume_claims.unbound_delayed.clone();
                    self.state().nominate(info.into(), &node);
                    return Outcome::Provision(node, claims);
                }
                self.state().assume(info, &node);
                Outcome::Bind(node)
            }
            Err(none) => {
                let room = self.preempt(|| preempt(&info, &view, &none, &self.budgets.all()));
                drop(view);
                match &room {
                    Ok(sacrifice) => self.state().nominate(info.into(), &sacrifice.node),
                    Err(_) => self.state().clear_nomination(info.uid()),
                }
                Outcome::Unschedulable(none, room)
            }
        }
    }

    /// Runs preemption and records its metrics.
    fn preempt(
        &self,
        preempt: impl FnOnce() -> Result<PreemptionCandidate, String>,
    ) -> Result<PreemptionCandidate, String> {
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

    /// Waits for the next pod to schedule.
    async fn next(&self) -> Next {
        loop {
            let due = {
                let mut state = self.state();
                if let Some(next) = state.queue.pop(Instant::now()) {
                    return next;
                }
                state.queue.next_due()
            };
            match due {
                Some(due) => {
                    tokio::select! { () = sleep_until(due) => (), () = self.wake.notified() => () }
                }
                None => self.wake.notified().await,
            }
        }
    }

    /// Requests provisioning. The pod is retried when its claims change.
    async fn provision(&self, pod: &Pod, claims: &[NamespacedName], node: &str) {
        let uid = Text::from(pod.metadata().uid());
        let selected = self.volume_binder.set_selected_node(pod, claims, node).await;
        if let Err(error) = &selected {
            warn!(pod = %NamespacedName::from_meta(pod.metadata()), %error, "cannot set the selected node of PersistentVolumeClaims; will retry");
        }
        self.state().queue.requeue_failed(&uid, selected.is_ok(), Instant::now());
        self.wake.notify_one();
    }

    async fn bind(&self, pod: &Pod, node: &str) -> AttemptResult {
        let meta = pod.metadata();
        let (key, uid) = (NamespacedName::from_meta(meta), Text::from(meta.uid()));
        let because = pod.write_cause(&format!("fits best on {node}"));
        let pods = self.pods.with_cause(&because);
        let began = Instant::now();
        let bound = pods.create_subresource(&key, "binding", &binding(pod, node)).await;
        self.metrics.ran(Point::Bind, began, bound.is_ok());
        match bound {
            Ok(_) => {
                self.state().queue.remove(&uid);
                let message = format!("Successfully assigned {key} to {node}");
                self.events.normal(pod, "Scheduled", message);
                AttemptResult::Scheduled
            }
            Err(error) => {
                let mut state = self.state();
                state.forget(&uid);
                if error.is_not_found() || error.is_conflict() {
                    debug!(%key, %error, "the pod was deleted or bound by another scheduler");
                    state.queue.requeue_failed(&uid, error.is_not_found(), Instant::now());
                } else {
                    warn!(%key, %error, "cannot bind; will retry");
                    state.queue.requeue_failed(&uid, false, Instant::now());
                }
                drop(state);
                self.wake.notify_one();
                AttemptResult::Error
            }
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, SchedulerState> {
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
