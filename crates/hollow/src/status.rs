//! The status that a kubelet would write for a pod at a stage.

use std::net::Ipv4Addr;

use api::core::{Container, ContainerStatus, Pod};
use object::{Time, Value};

use crate::stages::Stage;

/// Where a pod runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placement {
    pub(crate) host: Ipv4Addr,
    pub(crate) pod: Option<Ipv4Addr>,
}

/// The status patch of a pod that enters `stage` at `now` (seconds since 1970).
pub(crate) fn patch(pod: &Pod, stage: &Stage, place: Placement, now: i64) -> Value {
    let mut status = Value::object();
    let (phase, ready) = match stage {
        Stage::Wait { .. } => ("Pending", false),
        Stage::Start { ready } => ("Running", *ready),
        Stage::Ready | Stage::Restart { .. } => ("Running", true),
        Stage::End { exit_code: 0 } => ("Succeeded", false),
        Stage::End { .. } => ("Failed", false),
        Stage::Remove => (pod.status().phase(), false),
    };
    status["phase"] = phase.into();
    status["hostIP"] = place.host.to_string().into();
    status["hostIPs"] = one_ip(place.host);
    if let Some(ip) = place.pod {
        status["podIP"] = ip.to_string().into();
        status["podIPs"] = one_ip(ip);
    }
    if pod.status().start_time().is_none() {
        status["startTime"] = Time::format(now).into();
    }
    let starting = !matches!(stage, Stage::Wait { .. });
    let ended = matches!(stage, Stage::End { .. });
    let conditions = [
        ("PodReadyToStartContainers", starting && !ended),
        ("Initialized", starting),
        ("ContainersReady", ready),
        ("Ready", ready),
    ];
    let conditions = conditions.map(|(name, holds)| condition(pod, name, holds, stage, now));
    status["conditions"] = conditions.into_iter().collect();
    let containers = pod.spec().containers().iter();
    status["containerStatuses"] =
        containers.map(|container| container_status(pod, container, stage, ready, now)).collect();
    status
}

fn one_ip(ip: Ipv4Addr) -> Value {
    let mut entry = Value::object();
    entry["ip"] = ip.to_string().into();
    std::iter::once(entry).collect()
}

/// A condition; its transition time changes only with its status.
fn condition(pod: &Pod, name: &str, holds: bool, stage: &Stage, now: i64) -> Value {
    let status = if holds { "True" } else { "False" };
    let old = pod.status().conditions().find(|own| own.type_() == name && own.status() == status);
    let since = old.map(|own| own.last_transition_time().to_owned());
    let mut condition = Value::object();
    condition["type"] = name.into();
    condition["status"] = status.into();
    condition["lastTransitionTime"] = since.unwrap_or_else(|| Time::format(now).to_string()).into();
    if !holds {
        let reason = match stage {
            Stage::End { exit_code: 0 } => "PodCompleted",
            Stage::End { .. } => "PodFailed",
            _ => "ContainersNotReady",
        };
        condition["reason"] = reason.into();
    }
    condition
}

fn container_status(
    pod: &Pod,
    container: &Container,
    stage: &Stage,
    ready: bool,
    now: i64,
) -> Value {
    let old = pod.status().container_statuses().find(|own| own.name() == container.name());
    let (uid, time) = (pod.metadata().uid(), Time::format(now));
    let mut status = Value::object();
    status["name"] = container.name().into();
    status["image"] = container.image().into();
    let restarts = old.map_or(0, ContainerStatus::restart_count);
    status["restartCount"] = restarts.into();
    status["ready"] = ready.into();
    if let Stage::Wait { reason, message } = stage {
        status["imageID"] = "".into();
        status["started"] = false.into();
        status["state"]["waiting"]["reason"] = reason.as_str().into();
        if !message.is_empty() {
            status["state"]["waiting"]["message"] = message.as_str().into();
        }
        return status;
    }
    status["imageID"] = container.image().into();
    status["containerID"] = format!("hollow://{uid}-{}-{restarts}", container.name()).into();
    status["started"] = (!matches!(stage, Stage::End { .. })).into();
    let running = old.and_then(|own| own.state().running());
    let since = running.map(|running| running.started_at().to_owned());
    let since = since.filter(|since| !since.is_empty()).unwrap_or_else(|| time.to_string());
    let exited = |exit_code: i32| {
        let mut terminated = Value::object();
        terminated["exitCode"] = exit_code.into();
        terminated["reason"] = if exit_code == 0 { "Completed" } else { "Error" }.into();
        terminated["startedAt"] = since.as_str().into();
        terminated["finishedAt"] = time.as_str().into();
        terminated
    };
    match stage {
        Stage::End { exit_code } => status["state"]["terminated"] = exited(*exit_code),
        Stage::Restart { exit_code } => {
            status["restartCount"] = restarts.saturating_add(1).into();
            status["lastState"]["terminated"] = exited(*exit_code);
            status["state"]["running"]["startedAt"] = time.as_str().into();
        }
        _ => status["state"]["running"]["startedAt"] = since.as_str().into(),
    }
    status
}
