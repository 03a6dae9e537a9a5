//! How `kubectl get pods` shows a pod.

use object::Time;
use schema::{TableColumn, age};

use super::{ContainerState, ContainerStatus, Pod};
use crate::columns::{NONE, text_or_none};

pub(super) const COLUMNS: &[TableColumn<Pod>] = &[
    TableColumn::NAME,
    TableColumn::text("Ready", |pod, _| {
        let summary = Summary::of(pod);
        format!("{}/{}", summary.ready, summary.total).into()
    }),
    TableColumn::text("Status", |pod, _| Summary::of(pod).reason.into()),
    TableColumn::text("Restarts", |pod, now| Summary::of(pod).restarts(now).into()),
    TableColumn::AGE,
    TableColumn::wide_text("IP", |pod: &Pod, _| text_or_none(pod.status().ip())),
    TableColumn::wide_text("Node", |pod: &Pod, _| text_or_none(pod.spec().node_name())),
    TableColumn::wide_text("Nominated Node", |pod: &Pod, _| {
        text_or_none(pod.status().nominated_node_name())
    }),
    TableColumn::wide_text("Readiness Gates", |pod: &Pod, _| readiness_gates(pod).into()),
];

/// What the states of all containers come to.
struct Summary {
    ready: usize,
    total: usize,
    reason: String,
    restarts: i32,
    /// When a container last ended before it was started again.
    restarted: Option<String>,
}

impl Summary {
    fn of(pod: &Pod) -> Self {
        let (spec, status) = (pod.spec(), pod.status());
        let mut this = Self {
            ready: 0,
            total: spec.containers().len() + spec.sidecars().count(),
            reason: pod.plain_reason(),
            restarts: 0,
            restarted: None,
        };
        let initializing = this.read_init_containers(pod);
        if !initializing || status.is_true("Initialized") {
            this.restart_count_of_sidecars(pod);
            this.read_containers(pod);
        }
        if pod.metadata().is_terminating() {
            if status.reason() == "NodeLost" {
                this.reason = "Unknown".into();
            } else if !pod.is_finished() {
                this.reason = "Terminating".into();
            }
        }
        this
    }

    /// Says whether the pod is still busy with its init containers.
    fn read_init_containers(&mut self, pod: &Pod) -> bool {
        let all = pod.spec().init_containers().len();
        for (at, container) in pod.status().init_container_statuses().iter().enumerate() {
            self.count(container);
            let state = container.state();
            let sidecar = pod.spec().sidecars().any(|sidecar| sidecar.name() == container.name());
            match (state.terminated(), state.waiting()) {
                (Some(ended), _) if ended.exit_code() == 0 => continue,
                _ if sidecar && container.started() == Some(true) => {
                    self.ready += usize::from(container.ready());
                    continue;
                }
                (Some(_), _) => self.reason = format!("Init:{}", end(state)),
                (None, Some(waiting)) if !matches!(waiting.reason(), "" | "PodInitializing") => {
                    self.reason = format!("Init:{}", waiting.reason());
                }
                _ => self.reason = format!("Init:{at}/{all}"),
            }
            return true;
        }
        false
    }

    fn restart_count_of_sidecars(&mut self, pod: &Pod) {
        (self.restarts, self.restarted) = (0, None);
        for container in pod.status().init_container_statuses().iter() {
            if pod.spec().sidecars().any(|sidecar| sidecar.name() == container.name()) {
                self.count(container);
            }
        }
    }

    fn read_containers(&mut self, pod: &Pod) {
        let (mut running, mut failure) = (false, None);
        for container in pod.status().container_statuses().iter().rev() {
            self.count(container);
            let state = container.state();
            match (state.waiting(), state.terminated()) {
                (Some(waiting), _) if !waiting.reason().is_empty() => {
                    self.reason = waiting.reason().into();
                }
                (_, Some(ended)) => {
                    self.reason = end(state);
                    if ended.exit_code() != 0 {
                        failure = Some(self.reason.clone());
                    }
                }
                _ if container.ready() && state.running().is_some() => {
                    running = true;
                    self.ready += 1;
                }
                _ => {}
            }
        }
        if self.reason == "Completed" {
            if running && pod.status().is_true("Ready") {
                self.reason = "Running".into();
            } else if let Some(failure) = failure {
                self.reason = failure;
            } else if running {
                self.reason = "NotReady".into();
            }
        }
    }

    fn count(&mut self, container: &ContainerStatus) {
        self.restarts = self.restarts.saturating_add(container.restart_count());
        let Some(ended) = container.last_state().terminated() else { return };
        let seconds = Time::parse_seconds(ended.finished_at());
        if seconds > self.restarted.as_deref().and_then(Time::parse_seconds) {
            self.restarted = Some(ended.finished_at().into());
        }
    }

    fn restarts(&self, now: i64) -> String {
        match &self.restarted {
            Some(last) if self.restarts != 0 => {
                format!("{} ({} ago)", self.restarts, age(last, now))
            }
            _ => self.restarts.to_string(),
        }
    }
}

/// How a container ended.
fn end(state: &ContainerState) -> String {
    let Some(ended) = state.terminated() else { return String::new() };
    match (ended.reason(), ended.signal()) {
        ("", 0) => format!("ExitCode:{}", ended.exit_code()),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.into(),
    }
}

impl Pod {
    /// The phase, unless something more telling is known.
    fn plain_reason(&self) -> String {
        let status = self.status();
        let gated = |condition: &super::PodCondition| {
            condition.type_() == "PodScheduled" && condition.reason() == "SchedulingGated"
        };
        let reason = match status.reason() {
            _ if status.conditions().find(gated).is_some() => "SchedulingGated",
            "" => status.phase(),
            reason => reason,
        };
        reason.into()
    }
}

fn readiness_gates(pod: &Pod) -> String {
    let gates = pod.spec().readiness_gates();
    if gates.is_empty() {
        return NONE.into();
    }
    let met = gates.iter().filter(|gate| pod.status().is_true(gate.condition_type())).count();
    format!("{met}/{}", gates.len())
}
