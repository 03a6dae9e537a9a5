//! What a pod needs next: a pure function of what is wanted, what the runtime shows and
//! what the worker remembers.
//!
//! ```text
//!  wanted, nothing there        Prepare, Sandbox
//!  sandbox ready                Start the next init container, or all others
//!  a container has exited       Start it again after its back-off, or leave it
//!  the pod is to end            Kill containers, then sidecars, StopSandbox, RemoveSandbox, Clean
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

/// Nanoseconds in a second: the runtime's times are in these.
pub(crate) const SECOND: i64 = 1_000_000_000;
const INITIAL_BACKOFF: i64 = 10;
const MAX_BACKOFF: i64 = 300;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerType {
    Init,
    Sidecar,
    Regular,
    Ephemeral,
}

impl ContainerType {
    /// What metrics call such a container.
    pub(crate) fn metric_name(self) -> &'static str {
        match self {
            Self::Init | Self::Sidecar => "init_container",
            Self::Regular => "container",
            Self::Ephemeral => "ephemeral_container",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Folders, volumes and the pod's group.
    PrepareVolumes,
    CreateSandbox {
        attempt: u32,
    },
    StartContainer {
        name: String,
        role: ContainerType,
        restarts: i32,
    },
    /// Neighbours in a plan happen together.
    KillContainer {
        id: String,
        name: String,
        grace: i64,
        why: String,
    },
    /// Gives running containers, by id and name, the limits that the pod now has.
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
    /// Volumes, folders and groups go.
    CleanUp,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    pub steps: Vec<Step>,
    /// When to look again though nothing has happened.
    pub next_at: Option<i64>,
    /// Nothing of the pod is left to do once the steps are done.
    pub terminated: bool,
    /// The steps remove all containers, for all to begin again.
    pub restarts_all: bool,
}

/// A pod on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Termination {
    pub since: i64,
    /// Seconds.
    pub grace: i64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkerState {
    /// Volumes are in place.
    pub volumes_ready: bool,
    pub backoffs: HashMap<String, Backoff>,
    /// Why containers wait: reason and message.
    pub waiting_reasons: BTreeMap<String, (String, String)>,
    /// What failed is not tried again before.
    pub retry_at: HashMap<String, i64>,
    /// By container id.
    pub probes: HashMap<String, ProbeResults>,
    pub failure: Option<Failure>,
    /// New limits were granted that are not in force yet.
    pub resize_in_progress: bool,
    /// What stands against them.
    pub resize_error: Option<String>,
    /// Containers that the runtime may no longer have.
    pub past: Past,
}

/// The pod has failed as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    pub reason: String,
    pub message: String,
    /// Seconds that its containers get, if not as many as the pod says.
    pub grace: Option<i64>,
    /// It was never let in.
    pub rejected: bool,
    /// It had to go for others.
    pub disruption_target: bool,
}

/// What probes say of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProbeResults {
    pub started: bool,
    pub ready: bool,
    /// Why it must be killed, and how long it gets if not as long as the pod.
    pub failed: Option<(String, Option<i64>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    pub seconds: i64,
    pub updated: i64,
}

/// The memory's key for the sandbox.
pub const SANDBOX_BACKOFF_KEY: &str = "";
/// The memory's key for restarts of all containers. No container is called so.
pub const ALL: &str = "all containers";
/// The memory's key for new limits.
pub const RESIZE_BACKOFF_KEY: &str = "resize";

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

/// Whether all that the pod was for has been done, or can no longer be.
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

/// When a container of this name may start again, having ended at `finished`; remembers
/// that it does.
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

/// What a container is made from; when it changes, so does the container.
pub fn hash(container: &Spec) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in format!("{}\0{}", container.name(), container.image()).bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    format!("{hash:x}")
}

/// As Go prints it: `10s`, `1m20s`, `5m0s`.
pub(crate) fn go_seconds(seconds: i64) -> String {
    object::Duration::format_nanos(seconds.saturating_mul(SECOND)).to_string()
}

#[cfg(test)]
mod tests;
