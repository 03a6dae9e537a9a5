//! Computes the status of a Deployment: counts and the conditions Available, Progressing and
//! ReplicaFailure.

use std::time::Duration;

use api::apps::{
    Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet, ReplicaSetCondition,
};
use object::{Time, seconds_left};

use super::rollout::{self, RolloutBounds};
use crate::conditions::Conditions;

/// The value of `progressDeadlineSeconds` that means no deadline, as in upstream.
const NO_DEADLINE: i32 = i32::MAX;

/// The counts and the conditions Available and ReplicaFailure. `new` is the ReplicaSet of the
/// current template.
pub(super) fn status(
    deployment: &Deployment,
    new: Option<&ReplicaSet>,
    sets: &[&ReplicaSet],
    now: i64,
) -> DeploymentStatus {
    let old = deployment.status();
    let sum = |of: fn(&ReplicaSet) -> i32| rollout::sum(sets.iter().map(|set| of(set)));
    let wanted = sum(|set| set.spec().replicas());
    let available = sum(|set| set.status().available_replicas());
    let mut status = DeploymentStatus::new()
        .with_observed_generation(deployment.metadata().generation())
        .with_replicas(sum(|set| set.status().replicas()))
        .with_updated_replicas(new.map_or(0, |new| new.status().replicas()))
        .with_ready_replicas(sum(|set| set.status().ready_replicas()))
        .with_available_replicas(available)
        .with_unavailable_replicas(wanted.saturating_sub(available).max(0))
        .with_terminating_replicas(sum(|set| {
            set.status().terminating_replicas().unwrap_or_default()
        }))
        .with_conditions(old.conditions().clone());
    if let Some(collisions) = old.collision_count() {
        status.set_collision_count(collisions);
    }
    if available >= RolloutBounds::of(deployment).min_available() {
        let why = "Deployment has minimum availability.";
        put(&mut status, ("Available", "True", "MinimumReplicasAvailable"), why.into(), now);
    } else {
        let why = "Deployment does not have minimum availability.";
        put(&mut status, ("Available", "False", "MinimumReplicasUnavailable"), why.into(), now);
    }
    failure(&mut status, new, sets, now);
    status
}

/// Updates the condition Progressing.
pub(super) fn update_progress(
    status: &mut DeploymentStatus,
    deployment: &Deployment,
    new: Option<&ReplicaSet>,
    now: i64,
) {
    if !has_deadline(deployment) {
        return status.conditions_mut().remove_condition("Progressing");
    }
    let current = deployment.status().conditions().condition("Progressing");
    let is_done = current.is_some_and(|c| c.reason() == "NewReplicaSetAvailable");
    if status.replicas() == status.updated_replicas() && is_done {
        return; // a pod that becomes unready later is no rollout
    }
    let what = match new {
        Some(new) => format!("ReplicaSet {:?}", new.metadata().name()),
        None => format!("Deployment {:?}", deployment.metadata().name()),
    };
    if is_complete(deployment, status) {
        let why = format!("{what} has successfully progressed.");
        progress(status, "True", "NewReplicaSetAvailable", why, now);
    } else if has_moved(deployment.status(), status) {
        let why = format!("{what} is progressing.");
        drop_condition_unless_true(status);
        progress(status, "True", "ReplicaSetUpdated", why, now);
        reset_progress_deadline(status, now);
    } else if deadline(deployment, now).is_some_and(|left| left.is_zero()) {
        let why = format!("{what} has timed out progressing.");
        progress(status, "False", "ProgressDeadlineExceeded", why, now);
    }
}

/// Sets the condition Progressing, unless it has this status and reason.
pub(super) fn progress(
    status: &mut DeploymentStatus,
    verdict: &str,
    reason: &str,
    why: String,
    now: i64,
) {
    put(status, ("Progressing", verdict, reason), why, now);
}

/// Whether the rollout is complete: all pods have the current template and are available.
pub(super) fn is_complete(deployment: &Deployment, status: &DeploymentStatus) -> bool {
    let replicas = deployment.spec().replicas();
    status.updated_replicas() == replicas
        && status.replicas() == replicas
        && status.available_replicas() == replicas
        && status.observed_generation() >= deployment.metadata().generation()
}

/// The time left until the progress deadline; `None` when no deadline applies.
pub(super) fn deadline(deployment: &Deployment, now: i64) -> Option<Duration> {
    let current = deployment.status().conditions().condition("Progressing")?;
    let waits = !matches!(
        current.reason(),
        "NewReplicaSetAvailable" | "ProgressDeadlineExceeded" | "DeploymentPaused"
    );
    if !has_deadline(deployment) || deployment.spec().paused() || !waits {
        return None;
    }
    let since = Time::parse_seconds(current.last_update_time())?;
    let allowed = deployment.spec().progress_deadline_seconds().into();
    Some(super::seconds(seconds_left(since, allowed, now)))
}

/// Whether the Deployment has a progress deadline.
pub(super) fn has_deadline(deployment: &Deployment) -> bool {
    deployment.spec().progress_deadline_seconds() != NO_DEADLINE
}

fn has_moved(old: &DeploymentStatus, new: &DeploymentStatus) -> bool {
    let outdated =
        |status: &DeploymentStatus| status.replicas().saturating_sub(status.updated_replicas());
    new.updated_replicas() > old.updated_replicas()
        || outdated(new) < outdated(old)
        || new.ready_replicas() > old.ready_replicas()
        || new.available_replicas() > old.available_replicas()
}

/// Copies the condition ReplicaFailure from a ReplicaSet, the new one first.
fn failure(
    status: &mut DeploymentStatus,
    new: Option<&ReplicaSet>,
    sets: &[&ReplicaSet],
    now: i64,
) {
    let failed = |set: &ReplicaSet| -> Option<ReplicaSetCondition> {
        set.status().conditions().find(|c| c.type_() == "ReplicaFailure").cloned()
    };
    let found = new.and_then(failed).or_else(|| sets.iter().find_map(|set| failed(set)));
    match found {
        Some(c) => put(status, (c.type_(), c.status(), c.reason()), c.message().into(), now),
        None => status.conditions_mut().remove_condition("ReplicaFailure"),
    }
}

fn put(status: &mut DeploymentStatus, what: (&str, &str, &str), why: String, now: i64) {
    let (name, verdict, reason) = what;
    let old = status.conditions().condition(name);
    if old.is_some_and(|old| old.status() == verdict && old.reason() == reason) {
        return;
    }
    let new = DeploymentCondition::new()
        .with_type(name)
        .with_status(verdict)
        .with_last_update_time(Time::format(now))
        .with_reason(reason)
        .with_message(why);
    status.conditions_mut().set_last_condition(new, now);
}

fn drop_condition_unless_true(status: &mut DeploymentStatus) {
    if status.conditions().condition("Progressing").is_some_and(|c| c.status() != "True") {
        status.conditions_mut().remove_condition("Progressing");
    }
}

/// Sets the time of the last progress to now: the deadline starts again.
fn reset_progress_deadline(status: &mut DeploymentStatus, now: i64) {
    for condition in status.conditions_mut().iter_mut() {
        if condition.type_() == "Progressing" {
            condition.set_last_update_time(Time::format(now));
        }
    }
}

#[cfg(test)]
mod tests {
    use api::apps::{DeploymentSpec, ReplicaSetSpec, ReplicaSetStatus};
    use object::ObjectMeta;

    use super::*;

    fn deployment(status: DeploymentStatus) -> Deployment {
        Deployment::new()
            .with_metadata(ObjectMeta::new().with_name("web"))
            .with_spec(DeploymentSpec::new().with_replicas(2))
            .with_status(status)
    }

    fn set(size: i32, available: i32) -> ReplicaSet {
        let status = ReplicaSetStatus::new()
            .with_replicas(size)
            .with_ready_replicas(available)
            .with_available_replicas(available);
        ReplicaSet::new()
            .with_metadata(ObjectMeta::new().with_name("web-1"))
            .with_spec(ReplicaSetSpec::new().with_replicas(size))
            .with_status(status)
    }

    fn after(deployment: &Deployment, set: &ReplicaSet, now: i64) -> DeploymentStatus {
        let mut status = status(deployment, Some(set), &[set], now);
        update_progress(&mut status, deployment, Some(set), now);
        status
    }

    fn says(status: &DeploymentStatus, name: &str) -> (String, String) {
        let found = status.conditions().condition(name).expect("it has one");
        (found.status().into(), found.reason().into())
    }

    #[test]
    fn a_rollout_moves_completes_or_times_out() {
        let first = after(&deployment(DeploymentStatus::new()), &set(2, 1), 100);
        assert_eq!(says(&first, "Progressing"), ("True".into(), "ReplicaSetUpdated".into()));
        assert_eq!(says(&first, "Available").0, "False");
        let done = after(&deployment(first.clone()), &set(2, 2), 200);
        assert_eq!(says(&done, "Progressing"), ("True".into(), "NewReplicaSetAvailable".into()));
        assert_eq!(says(&done, "Available").0, "True");
        let worse = after(&deployment(done), &set(2, 1), 9000);
        assert_eq!(says(&worse, "Progressing").1, "NewReplicaSetAvailable", "no rollout");
        let waiting = deployment(first.clone());
        assert_eq!(deadline(&waiting, 650), Some(Duration::from_secs(50)));
        let late = after(&waiting, &set(2, 1), 800);
        assert_eq!(says(&late, "Progressing"), ("False".into(), "ProgressDeadlineExceeded".into()));
    }
}
