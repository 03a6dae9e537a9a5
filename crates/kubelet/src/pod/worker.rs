//! The worker of one pod: observes, plans, acts, reports the status, then waits for the next change.

mod outcomes;
mod probes;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fs,
    sync::Arc,
    time::Duration,
};

use api::core::Pod;
use object::{Lens, Value, to_json};
use runtime::EventType;
use sys::durable_record;
use tokio::{
    sync::{Notify, mpsc, watch},
    task::{AbortHandle, JoinSet},
    time::{Instant, sleep, sleep_until},
};
use tracing::{debug, warn};

use super::{
    DesiredPod,
    observe::{ContainerRunState, RuntimePodState},
    plan::{
        Failure, Plan, ProbeResults, RESIZE_BACKOFF_KEY, SECOND, Step, WorkerState, halt, plan,
    },
    restart,
    status::{StatusContext, status},
    steps::{StepContext, execute},
    termination_message,
};
use crate::{
    KubeletContext,
    probe::ProbeEvent,
    resize,
    volumes::{self, MountedVolumes},
};

/// How often volumes are refreshed with changed ConfigMaps, Secrets and tokens.
const VOLUME_REFRESH_PERIOD: Duration = Duration::from_secs(50);
const RETRY: Duration = Duration::from_secs(2);
const FIRST_BACKOFF: i64 = 10;
const LAST_BACKOFF: i64 = 300;

/// Runs the worker of a pod until the pod has terminated.
pub(crate) async fn run(
    host: Arc<KubeletContext>,
    desired_updates: watch::Receiver<DesiredPod>,
    wake: Arc<Notify>,
) {
    let desired = desired_updates.borrow().clone();
    let (finding_sender, findings) = mpsc::channel(16);
    let mut worker = Worker {
        host,
        desired_updates,
        wake,
        desired,
        state: WorkerState::default(),
        observed: RuntimePodState::default(),
        mounted_volumes: None,
        probers: HashMap::new(),
        tasks: JoinSet::new(),
        finding_sender,
        findings,
        recorded_reasons: BTreeMap::new(),
        replaced: HashSet::new(),
        refresh: Instant::now() + VOLUME_REFRESH_PERIOD,
        checkpointed_probes: HashMap::new(),
        halting: false,
        ending: watch::channel(false).0,
    };
    worker.state.past = restart::past(&worker.desired.pod);
    worker.write_checkpoint(worker.desired.pod.tree());
    worker.weigh();
    worker.run().await;
}

/// The worker of one pod.
struct Worker {
    host: Arc<KubeletContext>,
    desired_updates: watch::Receiver<DesiredPod>,
    wake: Arc<Notify>,
    desired: DesiredPod,
    state: WorkerState,
    observed: RuntimePodState,
    mounted_volumes: Option<MountedVolumes>,
    probers: HashMap<String, AbortHandle>,
    tasks: JoinSet<()>,
    finding_sender: mpsc::Sender<(String, ProbeEvent)>,
    findings: mpsc::Receiver<(String, ProbeEvent)>,
    /// Waiting reasons that events were recorded for, by container.
    recorded_reasons: BTreeMap<String, String>,
    /// Containers that are being killed to be replaced. While there are any, no status is reported, so that the moment
    /// in between stays invisible.
    replaced: HashSet<String>,
    refresh: Instant,
    /// Probe results at the time of the last checkpoint.
    checkpointed_probes: HashMap<String, ProbeResults>,
    /// Whether the steps being executed are those of a node shutdown.
    halting: bool,
    /// Whether the pod is terminating; watched by its probers.
    ending: watch::Sender<bool>,
}

impl Worker {
    async fn run(&mut self) {
        loop {
            let next = self.desired_updates.borrow_and_update().clone();
            self.apply_desired(next);
            if let Err(error) = self.observe().await {
                warn!(pod = self.name(), %error, "the runtime did not respond; will retry");
                sleep(RETRY).await;
                continue;
            }
            self.check_deadline();
            let now = self.host.nanos();
            self.halting = self.host.is_halting() && self.desired.ending.is_none();
            self.ending.send_replace(self.halting || self.desired.ending.is_some());
            let next = match self.halting {
                true => halt(&self.desired.pod, &self.observed),
                false => plan(
                    &self.desired.pod,
                    self.desired.ending,
                    &self.observed,
                    &mut self.state,
                    now,
                ),
            };
            self.record_backoff_events();
            if next.steps.is_empty() {
                self.replaced.clear();
                self.sync_status(false);
                self.wait(&next).await;
                continue;
            }
            debug!(pod = self.name(), steps = ?next.steps, "steps");
            let ended = next.terminated;
            if ended {
                // reported before the containers are removed, and their termination messages with them
                self.sync_status(true);
            }
            if !ended && self.replaced.is_empty() {
                // steps may take long: the status is reported first
                self.sync_status(false);
            }
            if next.restarts_all {
                let status = self.status(false);
                let past = restart::past_of_all(&self.desired.pod, &status, &self.observed);
                self.state.past.extend(past);
            }
            if self.execute_plan(next).await && ended {
                self.finish();
                return;
            }
        }
    }

    /// Takes over the desired state and records events about what it changes.
    fn apply_desired(&mut self, next: DesiredPod) {
        if let Some(failure) = &next.failure
            && self.state.failure.is_none()
        {
            if failure.rejected {
                let why = failure.message.trim_start_matches("Pod was rejected: ");
                self.host.record_event(
                    &next.pod,
                    "",
                    EventType::Warning,
                    &failure.reason,
                    why.into(),
                );
            }
            self.state.failure = Some(failure.clone());
        }
        if !resize::matches_allocated(&next.pod, &self.desired.pod) {
            self.state.resize_in_progress = true;
            self.state.retry_at.remove(RESIZE_BACKOFF_KEY);
            self.state.backoffs.remove(RESIZE_BACKOFF_KEY);
            let message = resize::event_message(&next.pod, "started", None);
            self.host.record_event(&next.pod, "", EventType::Normal, "ResizeStarted", message);
        }
        if let Some((reason, why)) =
            next.pending.as_ref().filter(|_| next.pending != self.desired.pending)
        {
            let message = resize::event_message(&next.pod, reason, Some(why));
            let event = format!("Resize{reason}");
            self.host.record_event(&next.pod, "", EventType::Warning, &event, message);
        }
        let granted = resize::matches_allocated(&next.pod, &self.desired.pod);
        let weighs_other = !granted || next.is_active() != self.desired.is_active();
        self.desired = next;
        if weighs_other {
            self.weigh();
        }
        if !granted {
            self.write_checkpoint(self.desired.pod.tree()); // allocated resources must survive a restart
        }
    }

    /// Updates the QoS cgroup: the pod's CPU request counts while the pod is active.
    fn weigh(&self) {
        if self.desired.is_active() {
            self.host.tiers.set(&self.desired.pod);
        } else {
            self.host.tiers.remove(self.desired.pod.metadata().uid());
        }
    }

    fn finish(&mut self) {
        let uid = self.desired.pod.metadata().uid().to_owned();
        self.host.tiers.remove(&uid);
        self.host.api_reader.forget(&uid);
        self.host.probe_metrics.forget(&uid);
        self.host.pods.forget(&self.host, &uid);
        self.host.statuses.mark_terminated(&uid);
        if self.desired.is_static {
            self.host.mirror_pods_changed.notify_one(); // its mirror pod can be deleted now
        }
    }

    fn name(&self) -> String {
        let meta = self.desired.pod.metadata();
        format!("{}/{}", meta.namespace(), meta.name())
    }

    /// Writes the pod to disk, so that a restarted kubelet knows it without the API server.
    fn write_checkpoint(&self, pod: &Value) {
        let folder = self.host.config.pod_folder(self.desired.pod.metadata().uid());
        if self.desired.is_static || self.desired.ending.is_some() || self.desired.failure.is_some()
        {
            return;
        }
        // not synced to disk: after a power failure no container runs that the checkpoint would be needed for
        let file = folder.join("pod.json");
        let written = fs::create_dir_all(&folder).and_then(|()| {
            durable_record::write(&file, &to_json(pod), durable_record::Durability::None)
        });
        if let Err(error) = written {
            warn!(pod = self.name(), %error, "cannot write the checkpoint of a pod");
        }
    }

    async fn observe(&mut self) -> Result<(), tonic::Status> {
        let uid = self.desired.pod.metadata().uid().to_owned();
        let mut seen = RuntimePodState::of(&self.host.runtime, &uid).await?;
        let folder = self.host.config.pod_folder(&uid).join("containers");
        for container in
            seen.containers.iter_mut().filter(|one| one.state == ContainerRunState::Exited)
        {
            let file = folder.join(&container.name).join(container.restarts.to_string());
            termination_message::read(&self.desired.pod, container, &file);
        }
        self.observed = seen;
        self.sync_probers();
        Ok(())
    }

    fn check_deadline(&mut self) {
        let pod = &self.desired.pod;
        let Some(allowed) = pod.spec().active_deadline_seconds() else { return };
        let Some(start) = pod.status().start_time().and_then(object::Time::parse_seconds) else {
            return;
        };
        let over = self.host.nanos() / SECOND >= start.saturating_add(allowed);
        if over
            && self.state.failure.is_none()
            && !pod.is_finished()
            && self.desired.ending.is_none()
        {
            let message = "Pod was active on the node longer than the specified deadline";
            self.host.record_event(pod, "", EventType::Normal, "DeadlineExceeded", message.into());
            self.state.failure = Some(Failure {
                reason: "DeadlineExceeded".into(),
                message: message.into(),
                ..Failure::default()
            });
        }
    }

    /// Executes the plan's steps. Returns `false` if a step failed, or if the pod was terminated or failed meanwhile.
    async fn execute_plan(&mut self, next: Plan) -> bool {
        let task = StepContext {
            host: self.host.clone(),
            pod: self.desired.pod.clone(),
            seen: self.observed.clone(),
            places: self.mounted_volumes.clone(),
        };
        if self.desired.ending.is_none() && self.state.failure.is_none() {
            self.replaced.extend(next.steps.iter().filter_map(|step| match step {
                Step::KillContainer { name, .. } => Some(name.clone()),
                _ => None,
            }));
        }
        let doing = execute(task, next.steps);
        tokio::pin!(doing);
        let outcomes = loop {
            tokio::select! {
                outcomes = &mut doing => break outcomes,
                () = self.wake.notified() => {
                    if self.host.is_halting() && !self.halting && self.desired.ending.is_none() {
                        return false; // node shutdown: abandon the steps, as for a termination
                    }
                    let seen = !next.terminated && self.observe().await.is_ok();
                    if seen && self.replaced.is_empty() {
                        self.sync_status(false);
                    }
                }
                changed = self.desired_updates.changed() => {
                    if changed.is_err() {
                        return false;
                    }
                    let desired = self.desired_updates.borrow().clone();
                    if desired.ending != self.desired.ending || desired.failure != self.desired.failure {
                        return false; // termination takes precedence over the current steps
                    }
                }
                Some((id, finding)) = self.findings.recv() => {
                    self.handle_probe_result(&id, finding);
                    if !next.terminated && self.replaced.is_empty() {
                        self.sync_status(false);
                    }
                }
            }
        };
        let mut good = true;
        for outcome in outcomes {
            good &= self.apply_outcome(outcome).await;
        }
        good
    }

    fn status(&self, ended: bool) -> Value {
        let around = StatusContext {
            host_ips: self.host.host_ips(),
            runtime_name: self.host.runtime.name.clone(),
            now: self.host.nanos(),
            ended,
            pending: self.desired.pending.clone(),
        };
        status(&self.desired.pod, &self.observed, &self.state, &around)
    }

    fn sync_status(&mut self, ended: bool) {
        let mut next = self.status(ended);
        let uid = self.desired.pod.metadata().uid();
        let old = self.host.statuses.get(uid);
        let old = old.unwrap_or_else(|| self.desired.pod.status().tree().clone());
        if self.desired.pod.status().start_time().is_none() && !old["startTime"].is_null() {
            next["startTime"] = old["startTime"].clone(); // reported already, though the watch has not shown it yet
        }
        self.host.counters.ended_between(&old, &next);
        if self.desired.is_static {
            // a static pod has no API object to read its last status from
            self.desired.pod = Pod::from(self.with_status(&next));
        } else if self.checkpointed_probes != self.state.probes {
            // a restarted kubelet takes containers as ready until its own probes say otherwise
            self.write_checkpoint(&self.with_status(&next));
            self.checkpointed_probes.clone_from(&self.state.probes);
        }
        self.host.statuses.report(&self.desired.pod, self.desired.is_static, next);
    }

    fn with_status(&self, status: &Value) -> Value {
        let mut tree = self.desired.pod.tree().clone();
        tree["status"] = status.clone();
        tree
    }

    async fn wait(&mut self, next: &Plan) {
        let now = self.host.nanos();
        let pod = &self.desired.pod;
        let mut until = None;
        let mut sooner = |at: i64| {
            until = Some(until.map_or(at, |known: i64| known.min(at)));
        };
        next.next_at.into_iter().for_each(&mut sooner);
        let start = pod.status().start_time().and_then(object::Time::parse_seconds);
        if let (Some(allowed), Some(start)) = (pod.spec().active_deadline_seconds(), start)
            && self.state.failure.is_none()
            && !pod.is_finished()
        {
            sooner(start.saturating_add(allowed).saturating_mul(SECOND));
        }
        let deadline = until.map(|at| {
            Instant::now() + Duration::from_nanos(at.saturating_sub(now).max(0).unsigned_abs())
        });
        let lives =
            self.desired.ending.is_none() && self.state.failure.is_none() && !pod.is_finished();
        let refreshes = lives && self.mounted_volumes.is_some() && volumes::needs_refresh(pod);
        tokio::select! {
            () = self.wake.notified() => {}
            changed = self.desired_updates.changed() => {
                if changed.is_err() {
                    std::future::pending::<()>().await; // the kubelet is being dropped
                }
                if refreshes {
                    self.refresh = Instant::now();
                }
            }
            Some((id, finding)) = self.findings.recv() => self.handle_probe_result(&id, finding),
            () = async {
                match deadline {
                    Some(deadline) => sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            } => {}
            () = sleep_until(self.refresh), if refreshes => {}
        }
        if refreshes && self.refresh <= Instant::now() {
            self.refresh = Instant::now() + VOLUME_REFRESH_PERIOD;
            match volumes::mount_volumes(&self.host, &self.desired.pod).await {
                Ok(places) => self.mounted_volumes = Some(places),
                Err(error) => self.record_failed_mount(error).await,
            }
        }
    }
}
