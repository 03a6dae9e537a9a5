//! Computes the next steps for a pod: a function of the desired pod, the containers and sandboxes that the runtime
//! reports, and the worker's own state (back-offs, probe results).
//!
//! ```text
//!  pod desired, no sandbox      PrepareVolumes, CreateSandbox
//!  sandbox ready                StartContainer for the next init container, or for all others
//!  a container has exited       StartContainer after its back-off, or nothing
//!  the pod is terminating       KillContainer, sidecars last; StopSandbox, RemoveSandbox, CleanUp
//! ```

mod planner;
mod teardown;

use std::collections::{BTreeMap, HashMap};

use api::core::{Container as Spec, Pod};

pub(crate) use self::teardown::halt;
use self::{
    planner::Planner,
    teardown::{plan_completion, plan_sandbox, plan_termination, restart_all},
};
use super::{
    observe::{ContainerRunState, RuntimePodState},
    restart::{Past, is_done, restarts},
};

/// Nanoseconds per second; CRI timestamps are in nanoseconds.
pub(crate) const SECOND: i64 = 1_000_000_000;
const INITIAL_BACKOFF: i64 = 10;
const MAX_BACKOFF: i64 = 300;

/// Which kind of container of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerType {
    Init,
    Sidecar,
    Regular,
    Ephemeral,
}

impl ContainerType {
    /// The label value for this type in metrics.
    pub(crate) fn metric_name(self) -> &'static str {
        match self {
            Self::Init | Self::Sidecar => "init_container",
            Self::Regular => "container",
            Self::Ephemeral => "ephemeral_container",
        }
    }
}

/// One step of a plan, executed by `steps`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Creates directories, volumes and the pod's cgroup.
    PrepareVolumes,
    CreateSandbox {
        attempt: u32,
    },
    StartContainer {
        name: String,
        role: ContainerType,
        restarts: i32,
    },
    /// Consecutive kills in a plan run in parallel.
    KillContainer {
        id: String,
        name: String,
        grace: i64,
        why: String,
    },
    /// Applies the pod's resource limits to running containers, given by id and name.
    Resize {
        containers: Vec<(String, String)>,
    },
    RemoveContainer {
        id: String,
    },
    StopSandbox {
        id: String,
    },
    RemoveSandbox {
        id: String,
    },
    /// Removes volumes, directories and the cgroup.
    CleanUp,
}

/// The steps to execute now, and when to plan again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    pub steps: Vec<Step>,
    /// When to plan again even if nothing happens.
    pub next_at: Option<i64>,
    /// After these steps nothing of the pod is left.
    pub terminated: bool,
    /// The steps remove all containers, so that all of them start again.
    pub restarts_all: bool,
}

/// The termination of a pod: when it began, and its grace period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Termination {
    pub since: i64,
    /// Seconds.
    pub grace: i64,
}

/// State of a pod worker between plans.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkerState {
    /// Whether the volumes are mounted.
    pub volumes_ready: bool,
    pub backoffs: HashMap<String, Backoff>,
    /// Why containers are waiting: reason and message, by name.
    pub waiting_reasons: BTreeMap<String, (String, String)>,
    /// Time of the next retry of what failed, by container name or back-off key.
    pub retry_at: HashMap<String, i64>,
    /// Probe results by container id.
    pub probes: HashMap<String, ProbeResults>,
    pub failure: Option<Failure>,
    /// A resize was granted that is not applied yet.
    pub resize_in_progress: bool,
    /// Why applying the resize failed.
    pub resize_error: Option<String>,
    /// Containers that the runtime may have removed, known from the pod's status.
    pub past: Past,
}

/// Why the whole pod has failed: rejected at admission, evicted, or past its deadline.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    pub reason: String,
    pub message: String,
    /// Grace period in seconds; `None`: that of the pod.
    pub grace: Option<i64>,
    /// The pod was rejected at admission and never started.
    pub rejected: bool,
    /// The pod was evicted because of node pressure: sets the `DisruptionTarget` condition.
    pub disruption_target: bool,
}

/// Probe results of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProbeResults {
    pub started: bool,
    pub ready: bool,
    /// Why a failed probe kills the container, and the probe's own grace period, if it has one.
    pub failed: Option<(String, Option<i64>)>,
}

/// Restart back-off of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    pub seconds: i64,
    pub updated: i64,
}

/// Back-off key of the sandbox.
pub const SANDBOX_BACKOFF_KEY: &str = "";
/// Back-off key of restarts of all containers. It is not a valid container name.
pub const ALL: &str = "all containers";
/// Back-off key of resizes.
pub const RESIZE_BACKOFF_KEY: &str = "resize";

/// Computes the plan for a pod at the time `now` (nanoseconds).
pub fn plan(
    pod: &Pod,
    ending: Option<Termination>,
    seen: &RuntimePodState,
    memory: &mut WorkerState,
    now: i64,
) -> Plan {
    if let Some(ending) = ending {
        return plan_termination(pod, ending, seen, now);
    }
    if memory.failure.is_some() || pod.is_finished() || is_complete(pod, seen, &memory.past) {
        let grace = memory.failure.as_ref().and_then(|failed| failed.grace);
        return plan_completion(pod, seen, grace);
    }
    let Some(sandbox) = seen.sandbox() else { return plan_sandbox(pod, seen, memory, now) };
    if let Some(plan) = restart_all(pod, seen, memory, now) {
        return plan;
    }
    let sandbox = sandbox.id.clone();
    let mut planner =
        Planner { pod, seen, memory, now, sandbox, resized: Vec::new(), plan: Plan::default() };
    if planner.init() {
        planner.regular();
        planner.ephemeral();
    }
    planner.resize();
    planner.plan_removals();
    planner.plan
}

/// Whether the pod has finished: no container will run again.
pub fn is_complete(pod: &Pod, seen: &RuntimePodState, past: &Past) -> bool {
    let done = |container: &Spec| match seen.newest(container.name()) {
        Some(last) => {
            last.state == ContainerRunState::Exited && !restarts(pod, container, last.exit_code)
        }
        None => past.get(container.name()).is_some_and(|past| is_done(pod, container, past)),
    };
    let broken = pod.spec().init_containers().iter().any(|container| {
        !container.is_sidecar()
            && seen.newest(container.name()).is_some_and(|last| last.exit_code != 0)
            && done(container)
    });
    broken || pod.spec().containers().iter().all(done)
}

/// Checks the restart back-off of a container that finished at `finished`. If a restart is due, doubles the back-off;
/// otherwise returns the time when it is due.
fn check_backoff(memory: &mut WorkerState, name: &str, finished: i64, now: i64) -> Result<(), i64> {
    let last = memory.backoffs.get(name).copied();
    let stale =
        |backoff: &Backoff| finished.saturating_sub(backoff.updated) > 2 * MAX_BACKOFF * SECOND;
    match last.filter(|backoff| !stale(backoff)) {
        Some(backoff) if now < finished.saturating_add(backoff.seconds * SECOND) => {
            Err(finished.saturating_add(backoff.seconds * SECOND))
        }
        Some(backoff) => {
            let seconds = (backoff.seconds * 2).min(MAX_BACKOFF);
            memory.backoffs.insert(name.into(), Backoff { seconds, updated: now });
            Ok(())
        }
        None => {
            let fresh = Backoff { seconds: INITIAL_BACKOFF, updated: now };
            memory.backoffs.insert(name.into(), fresh);
            Ok(())
        }
    }
}

/// Hash of the fields of a container that cannot change in place: name and image. A different hash restarts the
/// container.
pub fn hash(container: &Spec) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in format!("{}\0{}", container.name(), container.image()).bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    format!("{hash:x}")
}

/// Formats seconds as Go prints a duration: `10s`, `1m20s`, `5m0s`.
pub(crate) fn go_seconds(seconds: i64) -> String {
    object::Duration::format_nanos(seconds.saturating_mul(SECOND)).to_string()
}

#[cfg(test)]
mod tests;
