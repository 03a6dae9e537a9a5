//! Which containers run again after they have ended: by the pod's policy, by their own, by rules on exit codes.

use std::collections::BTreeMap;

use api::core::{Container as Spec, ContainerRestartRule, Pod};
use object::{Lens, Value};

use super::observe::{ContainerRunState, RuntimeContainer, RuntimePodState};

/// The action of a rule that has the whole pod begin again.
const ALL: &str = "RestartAllContainers";
/// The reason of containers that ended because of such a rule.
pub(crate) const RESTARTING_ALL: &str = "RestartingAllContainers";

/// The status of containers that the runtime may no longer know, by name: restarts are counted from there, and what
/// has ended for good does not begin again.
pub type Past = BTreeMap<String, Value>;

/// Whether a container that ended so is to run again.
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

/// Whether some containers of the pod may run again, so that it outlives its sandbox.
pub fn can_restart(pod: &Pod) -> bool {
    let own = |container: &Spec| {
        let policy = container.restart_policy();
        !container.restart_policy_rules().is_empty() || policy.is_some_and(|own| own != "Never")
    };
    pod.spec().restart_policy() != "Never" || pod.spec().containers().iter().any(own)
}

/// Whether some rule of the pod may have all containers begin again.
pub fn can_restart_all(pod: &Pod) -> bool {
    let is_all = |rule: &ContainerRestartRule| rule.action() == ALL;
    pod.spec().all_containers().any(|one| one.restart_policy_rules().iter().any(is_all))
}

/// Whether this end of the container has all containers begin again.
pub fn triggers_all(container: &Spec, found: &RuntimeContainer) -> bool {
    let rule = matching_rule(container, found.exit_code);
    found.state == ContainerRunState::Exited && rule.is_some_and(|rule| rule.action() == ALL)
}

/// The container whose end has all containers begin again.
pub fn trigger<'a>(pod: &Pod, seen: &'a RuntimePodState) -> Option<&'a RuntimeContainer> {
    let mut all = pod.spec().all_containers();
    all.find_map(|spec| seen.newest(spec.name()).filter(|found| triggers_all(spec, found)))
}

/// What the statuses of a pod say of containers that have run.
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

/// How a container ended that the runtime no longer has; one that waits ended before.
pub fn ended(past: &Value) -> Option<&Value> {
    let is_waiting = !past["state"]["waiting"].is_null();
    let terminated = &past[if is_waiting { "lastState" } else { "state" }]["terminated"];
    Some(terminated).filter(|terminated| !terminated.is_null())
}

/// Whether a container that the runtime no longer has ended for good.
pub fn is_done(pod: &Pod, container: &Spec, past: &Value) -> bool {
    let Some(ended) = ended(past) else { return false };
    let code = ended["exitCode"].as_i64().and_then(|code| i32::try_from(code).ok());
    !is_by_rule(past) && code.is_some_and(|code| !restarts(pod, container, code))
}

/// Whether the container ended for all to begin again.
pub fn is_by_rule(past: &Value) -> bool {
    ended(past).is_some_and(|ended| ended["reason"].as_str() == Some(RESTARTING_ALL))
}

/// The past of a pod that is about to begin again: containers that have not ended by themselves end now.
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

/// The number of the next container of a name, given the last.
pub fn next_count(past: &Value) -> i32 {
    let count = past["restartCount"].as_i64().and_then(|count| i32::try_from(count).ok());
    // one that did not end by itself is the same when it is made anew
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
