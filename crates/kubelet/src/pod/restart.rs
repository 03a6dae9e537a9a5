//! Restart decisions: which exited containers run again, by the pod's `restartPolicy`, the container's own policy and
//! its `restartPolicyRules`.

use std::collections::BTreeMap;

use api::core::{Container as Spec, ContainerRestartRule, Pod};
use object::{Lens, Value};

use super::observe::{ContainerRunState, RuntimeContainer, RuntimePodState};

/// The rule action that restarts all containers of the pod.
const ALL: &str = "RestartAllContainers";
/// The termination reason of containers that were removed because of such a rule.
pub(crate) const RESTARTING_ALL: &str = "RestartingAllContainers";

/// Status of containers that the runtime may no longer have, by name. Restart counts continue from it, and containers
/// that finished for good are not started again.
pub type Past = BTreeMap<String, Value>;

/// Whether a container that exited with this code runs again.
pub fn restarts(pod: &Pod, container: &Spec, exit_code: i32) -> bool {
    if matching_rule(container, exit_code).is_some() {
        return true;
    }
    match container.restart_policy().unwrap_or_else(|| pod.spec().restart_policy()) {
        "Never" => false,
        "OnFailure" => exit_code != 0,
        _ => true,
    }
}

/// Whether any container of the pod may run again, so that a lost sandbox is replaced.
pub fn can_restart(pod: &Pod) -> bool {
    let own = |container: &Spec| {
        let policy = container.restart_policy();
        !container.restart_policy_rules().is_empty() || policy.is_some_and(|own| own != "Never")
    };
    pod.spec().restart_policy() != "Never" || pod.spec().containers().iter().any(own)
}

/// Whether any rule of the pod can restart all containers.
pub fn can_restart_all(pod: &Pod) -> bool {
    let is_all = |rule: &ContainerRestartRule| rule.action() == ALL;
    pod.spec().all_containers().any(|one| one.restart_policy_rules().iter().any(is_all))
}

/// Whether the exit of this container triggers a restart of all containers.
pub fn triggers_all(container: &Spec, found: &RuntimeContainer) -> bool {
    let rule = matching_rule(container, found.exit_code);
    found.state == ContainerRunState::Exited && rule.is_some_and(|rule| rule.action() == ALL)
}

/// The container whose exit triggers a restart of all containers.
pub fn trigger<'a>(pod: &Pod, seen: &'a RuntimePodState) -> Option<&'a RuntimeContainer> {
    let mut all = pod.spec().all_containers();
    all.find_map(|spec| seen.newest(spec.name()).filter(|found| triggers_all(spec, found)))
}

/// The container statuses in the pod's status, for containers that have run.
pub fn past(pod: &Pod) -> Past {
    let status = pod.status();
    let lists = [status.init_container_statuses(), status.container_statuses()];
    let all = lists.into_iter().flat_map(object::List::iter);
    let ran = all.filter(|one| {
        one.restart_count() > 0
            || !one.container_id().is_empty()
            || one.last_state().terminated().is_some()
    });
    ran.map(|one| (one.name().to_owned(), one.tree().clone())).collect()
}

/// The `terminated` state of a container that the runtime no longer has. For a waiting container that is its last
/// state.
pub fn ended(past: &Value) -> Option<&Value> {
    let is_waiting = !past["state"]["waiting"].is_null();
    let terminated = &past[if is_waiting { "lastState" } else { "state" }]["terminated"];
    Some(terminated).filter(|terminated| !terminated.is_null())
}

/// Whether a container that the runtime no longer has finished for good.
pub fn is_done(pod: &Pod, container: &Spec, past: &Value) -> bool {
    let Some(ended) = ended(past) else { return false };
    let code = ended["exitCode"].as_i64().and_then(|code| i32::try_from(code).ok());
    !is_by_rule(past) && code.is_some_and(|code| !restarts(pod, container, code))
}

/// Whether the container was terminated by a restart of all containers.
pub fn is_by_rule(past: &Value) -> bool {
    ended(past).is_some_and(|ended| ended["reason"].as_str() == Some(RESTARTING_ALL))
}

/// The statuses before a restart of all containers: containers that have not exited count as killed now.
pub fn past_of_all(pod: &Pod, statuses: &Value, seen: &RuntimePodState) -> Past {
    let lists = [&statuses["initContainerStatuses"], &statuses["containerStatuses"]];
    let all = lists.into_iter().flat_map(Value::items);
    let all = all.filter_map(|status| {
        let name = status["name"].as_str()?;
        let spec = pod.spec().all_containers().find(|one| one.name() == name)?;
        let found = seen.newest(name)?;
        let mut status = status.clone();
        if triggers_all(spec, found) {
            return Some((name.to_owned(), status));
        }
        let mut ended = status["state"]["terminated"].clone();
        if ended.is_null() {
            ended = Value::object();
            ended["exitCode"] = 137.into();
            (ended["startedAt"], ended["finishedAt"]) = (Value::Null, Value::Null);
            ended["containerID"] = status["containerID"].clone();
            ended["message"] =
                "The container is removed because RestartAllContainers in place".into();
        }
        ended["reason"] = RESTARTING_ALL.into();
        status["state"] = Value::object();
        status["state"]["terminated"] = ended;
        Some((name.to_owned(), status))
    });
    all.collect()
}

/// Restart count of the next container with this name.
pub fn next_count(past: &Value) -> i32 {
    let count = past["restartCount"].as_i64().and_then(|count| i32::try_from(count).ok());
    // a container that has not exited keeps its count when it is recreated
    count.unwrap_or_default().saturating_add(i32::from(ended(past).is_some()))
}

fn matching_rule(container: &Spec, exit_code: i32) -> Option<&ContainerRestartRule> {
    container.restart_policy_rules().iter().find(|rule| {
        rule.exit_codes().is_some_and(|codes| {
            let listed = codes.values().iter().any(|code| code == exit_code);
            match codes.operator() {
                "In" => listed,
                "NotIn" => !listed,
                _ => false,
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use object::yaml::from_yaml;

    use super::*;

    fn pod(policy: &str, container: &str) -> Pod {
        let text = format!(
            "spec: {{restartPolicy: {policy}, containers: [{{name: a, image: i, {container}}}]}}"
        );
        Pod::from(from_yaml(&text).unwrap())
    }

    #[test]
    fn the_containers_own_policy_counts_more_than_the_pods_and_rules_count_most() {
        let rule = |operator: &str| {
            format!(
                "restartPolicy: Never, restartPolicyRules: [{{action: Restart, exitCodes: \
                 {{operator: {operator}, values: [42, 43]}}}}]"
            )
        };
        for (policy, container, code, want) in [
            ("Always", "restartPolicy: Never", 1, false),
            ("Never", "restartPolicy: Always", 0, true),
            ("Never", "restartPolicy: OnFailure", 0, false),
            ("Never", "restartPolicy: OnFailure", 1, true),
            ("Never", &*rule("In"), 43, true),
            ("Always", &rule("In"), 1, false),
            ("Never", &rule("NotIn"), 1, true),
            ("Never", &rule("NotIn"), 42, false),
            ("Never", &rule("Other"), 42, false),
        ] {
            let pod = pod(policy, container);
            let spec = pod.spec().containers().iter().next().unwrap().clone();
            assert_eq!(restarts(&pod, &spec, code), want, "{policy} {container} {code}");
        }
        assert!(can_restart(&pod("Never", &rule("In"))) && !can_restart(&pod("Never", "")));
    }

    #[test]
    fn containers_that_are_gone_are_counted_on() {
        let next = |text: &str| next_count(&from_yaml(text).unwrap());
        assert_eq!(next("{restartCount: 3, state: {running: {}}}"), 3);
        assert_eq!(next("{restartCount: 3, state: {terminated: {exitCode: 1}}}"), 4);
        let waits = "{restartCount: 3, state: {waiting: {reason: CrashLoopBackOff}}, lastState: {terminated: {exitCode: 1}}}";
        assert_eq!(next(waits), 4);
        assert_eq!(next("{restartCount: 0, state: {waiting: {reason: ContainerCreating}}}"), 0);
    }
}
