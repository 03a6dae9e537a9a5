//! Evaluates a Job's podFailurePolicy and successPolicy.

use api::{
    batch::{
        Job, PodFailurePolicy, PodFailurePolicyOnExitCodesRequirement,
        PodFailurePolicyOnPodConditionsPattern, PodFailurePolicyRule, SuccessPolicy,
    },
    core::{ContainerStateTerminated, ContainerStatus, Pod, PodStatus},
};
use object::{List, NamespacedName};

use super::indexes::Indexes;

/// What a pod's failure leads to.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum FailureAction {
    /// It counts toward the backoff limit.
    Counts,
    Ignored,
    /// The pod's index fails.
    FailsIndex,
    /// The Job fails, with this message.
    FailsJob(String),
}

/// The action of the first rule of the podFailurePolicy that matches the pod.
pub(super) fn failure(job: &Job, pod: &Pod) -> FailureAction {
    job.spec()
        .pod_failure_policy()
        .map_or(FailureAction::Counts, |policy| match_failure_policy(policy, pod))
}

/// The action of the podFailurePolicy rule that matches the pod; `None` if none does.
pub(super) fn policy_action<'a>(job: &'a Job, pod: &Pod) -> Option<&'a str> {
    let (_, rule, _) = matching_rule(job.spec().pod_failure_policy()?, pod)?;
    Some(rule.action())
}

/// The message that names the first rule of the successPolicy that is met.
pub(super) fn success(
    policy: &SuccessPolicy,
    succeeded: &Indexes,
    completions: i32,
) -> Option<String> {
    if succeeded.total() == 0 {
        return None;
    }
    let at = policy.rules().iter().position(|rule| match rule.succeeded_indexes() {
        Some(text) => {
            let wanted = Indexes::parse(text, completions);
            let done = wanted.common(succeeded);
            wanted.total() > 0
                && (done == wanted.total() || rule.succeeded_count().is_some_and(|n| done >= n))
        }
        None => rule.succeeded_count().is_some_and(|count| succeeded.total() >= count),
    })?;
    Some(format!("Matched rules at index {at}"))
}

fn match_failure_policy(policy: &PodFailurePolicy, pod: &Pod) -> FailureAction {
    let Some((at, rule, why)) = matching_rule(policy, pod) else { return FailureAction::Counts };
    match rule.action() {
        "Ignore" => FailureAction::Ignored,
        "FailIndex" => FailureAction::FailsIndex,
        "FailJob" => FailureAction::FailsJob(format!("{why} matching FailJob rule at index {at}")),
        _ => FailureAction::Counts,
    }
}

/// The first rule that matches the pod: its index, the rule, and what matched.
fn matching_rule<'a>(
    policy: &'a PodFailurePolicy,
    pod: &Pod,
) -> Option<(usize, &'a PodFailurePolicyRule, String)> {
    let key = NamespacedName::from_meta(pod.metadata());
    policy.rules().iter().enumerate().find_map(|(at, rule)| {
        if !matches!(rule.action(), "Ignore" | "FailIndex" | "Count" | "FailJob") {
            return None; // an action that this version does not know
        }
        let found = match rule.on_exit_codes() {
            Some(codes) => exited(pod.status(), codes).map(|container| {
                let name = container.name();
                let code =
                    container.state().terminated().map_or(0, ContainerStateTerminated::exit_code);
                format!("Container {name} for pod {key} failed with exit code {code}")
            }),
            None => condition(pod.status(), rule.on_pod_conditions())
                .map(|name| format!("Pod {key} has condition {name}")),
        };
        found.map(|why| (at, rule, why))
    })
}

/// The container whose exit code matches the rule.
fn exited<'a>(
    status: &'a PodStatus,
    wanted: &PodFailurePolicyOnExitCodesRequirement,
) -> Option<&'a ContainerStatus> {
    let matches = |container: &&ContainerStatus| {
        let named = wanted.container_name().is_none_or(|name| name == container.name());
        let code = container.state().terminated().map_or(0, ContainerStateTerminated::exit_code);
        let listed = wanted.values().iter().any(|value| value == code);
        named
            && code != 0
            && match wanted.operator() {
                "In" => listed,
                "NotIn" => !listed,
                _ => false,
            }
    };
    let all = status.container_statuses().iter().chain(status.init_container_statuses().iter());
    all.into_iter().find(matches)
}

fn condition<'a>(
    status: &'a PodStatus,
    patterns: &List<PodFailurePolicyOnPodConditionsPattern>,
) -> Option<&'a str> {
    let wanted = |name: &str, verdict: &str| {
        patterns.iter().any(|one| one.type_() == name && one.status() == verdict)
    };
    let found = status.conditions().find(|one| wanted(one.type_(), one.status()))?;
    Some(found.type_())
}

#[cfg(test)]
mod tests {
    use object::{View, from_json};

    use super::*;

    #[test]
    fn the_first_rule_that_matches_decides() {
        let policy = from_json(
            br#"{"rules":[
            {"action":"Ignore","onPodConditions":[{"type":"DisruptionTarget","status":"True"}]},
            {"action":"FailJob","onExitCodes":{"containerName":"a","operator":"In","values":[42]}},
            {"action":"FailIndex","onExitCodes":{"operator":"NotIn","values":[1,42]}}]}"#,
        );
        let policy = PodFailurePolicy::from(policy.unwrap());
        let judged = |name: &str, code: i32, disrupted: bool| {
            let text = format!(
                r#"{{"metadata":{{"name":"p","namespace":"n"}},"status":{{
                "conditions":[{{"type":"DisruptionTarget","status":"{}"}}],
                "containerStatuses":[{{"name":"{name}",
                "state":{{"terminated":{{"exitCode":{code}}}}}}}]}}}}"#,
                if disrupted { "True" } else { "False" }
            );
            match_failure_policy(&policy, Pod::view(&from_json(text.as_bytes()).unwrap()))
        };
        let why =
            "Container a for pod n/p failed with exit code 42 matching FailJob rule at index 1";
        assert_eq!(judged("a", 42, false), FailureAction::FailsJob(why.into()));
        assert_eq!(judged("a", 42, true), FailureAction::Ignored);
        assert_eq!(judged("b", 42, false), FailureAction::Counts);
        assert_eq!(judged("b", 7, false), FailureAction::FailsIndex);
        assert_eq!(judged("b", 0, false), FailureAction::Counts);
    }

    #[test]
    fn success_is_by_indexes_and_by_number() {
        let policy = from_json(
            br#"{"rules":[{"succeededIndexes":"0,2-3","succeededCount":2},{"succeededCount":4}]}"#,
        );
        let policy = SuccessPolicy::from(policy.unwrap());
        let met = |text: &str| success(&policy, &Indexes::parse(text, 10), 10);
        assert_eq!(met(""), None);
        assert_eq!(met("0,5,6"), None);
        assert_eq!(met("0,3").as_deref(), Some("Matched rules at index 0"));
        assert_eq!(met("4-7").as_deref(), Some("Matched rules at index 1"));
    }
}
