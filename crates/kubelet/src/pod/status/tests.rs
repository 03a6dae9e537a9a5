use object::yaml::from_yaml;

use super::*;
use crate::pod::{observe::Sandbox, plan::ProbeResults};

fn pod(policy: &str) -> Pod {
    let text = format!(
        "metadata: {{name: p}}\nspec: {{restartPolicy: {policy}, containers: [{{name: a, image: i}}]}}"
    );
    Pod::from(from_yaml(&text).unwrap())
}

fn seen(state: ContainerRunState, exit_code: i32) -> RuntimePodState {
    let sandbox =
        Sandbox { id: "s".into(), ready: true, ips: vec!["10.0.0.9".into()], ..Sandbox::default() };
    let container = RuntimeContainer {
        id: "c".into(),
        name: "a".into(),
        state,
        exit_code,
        ..RuntimeContainer::default()
    };
    RuntimePodState { sandboxes: vec![sandbox], containers: vec![container] }
}

fn around() -> StatusContext {
    let host_ips = vec!["10.1.1.1".into()];
    let now = 1_900_000_000 * SECOND;
    StatusContext { host_ips, runtime_name: "r".into(), now, ..StatusContext::default() }
}

fn condition<'a>(status: &'a Value, name: &str) -> &'a Value {
    let found = status["conditions"].items().iter();
    found.into_iter().find(|one| one["type"].as_str() == Some(name)).unwrap()
}

#[test]
fn phases_follow_containers_and_policy() {
    for (policy, state, code, want) in [
        ("Always", ContainerRunState::Created, 0, "Pending"),
        ("Always", ContainerRunState::Running, 0, "Running"),
        ("Always", ContainerRunState::Exited, 1, "Running"),
        ("OnFailure", ContainerRunState::Exited, 1, "Running"),
        ("OnFailure", ContainerRunState::Exited, 0, "Succeeded"),
        ("Never", ContainerRunState::Exited, 0, "Succeeded"),
        ("Never", ContainerRunState::Exited, 1, "Failed"),
    ] {
        let got = status(&pod(policy), &seen(state, code), &WorkerState::default(), &around());
        assert_eq!(got["phase"].as_str(), Some(want), "{policy} {state:?} {code}");
    }
}

#[test]
fn readiness_is_what_probes_say() {
    let (pod, seen) = (pod("Always"), seen(ContainerRunState::Running, 0));
    let mut memory = WorkerState::default();
    let got = status(&pod, &seen, &memory, &around());
    let ready = condition(&got, "Ready");
    assert_eq!(ready["status"].as_str(), Some("False"));
    assert_eq!(ready["message"].as_str(), Some("containers with unready status: [a]"));
    memory.probes.insert("c".into(), ProbeResults { started: true, ready: true, failed: None });
    let got = status(&pod, &seen, &memory, &around());
    assert_eq!(condition(&got, "Ready")["status"].as_str(), Some("True"));
    assert_eq!(got["podIP"].as_str(), Some("10.0.0.9"));
    assert_eq!(got["containerStatuses"].items()[0]["containerID"].as_str(), Some("r://c"));
}

#[test]
fn a_container_that_waits_shows_why_and_how_it_ended() {
    let mut memory = WorkerState::default();
    memory.waiting_reasons.insert("a".into(), ("CrashLoopBackOff".into(), "m".into()));
    let got = status(&pod("Always"), &seen(ContainerRunState::Exited, 3), &memory, &around());
    let container = &got["containerStatuses"].items()[0];
    let waiting = &container["state"]["waiting"];
    assert_eq!(waiting["reason"].as_str(), Some("CrashLoopBackOff"));
    assert_eq!(container["lastState"]["terminated"]["exitCode"].as_i64(), Some(3));
    assert_eq!(container["lastState"]["terminated"]["reason"].as_str(), Some("Error"));
}

#[test]
fn a_refused_pod_says_why_and_nothing_else() {
    let failed = Some(Failure {
        reason: "OutOfcpu".into(),
        message: "Pod was rejected: m".into(),
        rejected: true,
        ..Failure::default()
    });
    let memory = WorkerState { failure: failed, ..WorkerState::default() };
    let got = status(&pod("Always"), &RuntimePodState::default(), &memory, &around());
    let names: Vec<&str> = got.entries().map(|(name, _)| name).collect();
    assert_eq!(got["phase"].as_str(), Some("Failed"));
    assert_eq!(got["reason"].as_str(), Some("OutOfcpu"));
    assert!(!names.contains(&"containerStatuses"), "{names:?}");
}

#[test]
fn an_evicted_pod_has_failed_once_its_containers_have_ended() {
    let failed = Some(Failure {
        reason: "Evicted".into(),
        message: "m".into(),
        disruption_target: true,
        ..Failure::default()
    });
    let memory = WorkerState { failure: failed, ..WorkerState::default() };
    let got = status(&pod("Always"), &seen(ContainerRunState::Running, 0), &memory, &around());
    assert_eq!(got["phase"].as_str(), Some("Running"));
    assert_eq!(got["reason"].as_str(), Some("Evicted"));
    let got = status(&pod("Always"), &seen(ContainerRunState::Exited, 137), &memory, &around());
    assert_eq!(got["phase"].as_str(), Some("Failed"));
    let target = condition(&got, "DisruptionTarget");
    assert_eq!(target["reason"].as_str(), Some("TerminationByKubelet"));
}

#[test]
fn what_was_granted_shows_before_it_is_in_force() {
    let text = "{metadata: {name: p}, spec: {containers: [{name: a, image: i, resources: {requests: {cpu: 200m}}}]},
        status: {containerStatuses: [{name: a, containerID: 'r://c', resources: {requests: {cpu: 100m}}}]}}";
    let pod = Pod::from(from_yaml(text).unwrap());
    let mut seen = seen(ContainerRunState::Running, 0);
    seen.containers[0].limits =
        Some(ContainerLimits { cpu_shares: 102, ..ContainerLimits::default() });
    let got = status(&pod, &seen, &WorkerState::default(), &around());
    let container = &got["containerStatuses"].items()[0];
    assert_eq!(container["allocatedResources"]["cpu"].as_str(), Some("200m"));
    assert_eq!(container["resources"]["requests"]["cpu"].as_str(), Some("100m"));
    assert_eq!(condition(&got, "PodResizeInProgress")["status"].as_str(), Some("True"));
    seen.containers[0].limits =
        Some(ContainerLimits { cpu_shares: 204, ..ContainerLimits::default() });
    let got = status(&pod, &seen, &WorkerState::default(), &around());
    let container = &got["containerStatuses"].items()[0];
    assert_eq!(container["resources"]["requests"]["cpu"].as_str(), Some("200m"));
    let names = got["conditions"].items().iter().filter_map(|one| one["type"].as_str());
    assert!(!names.into_iter().any(|name| name.starts_with("PodResize")));
}

#[test]
fn phases_follow_the_restart_policies_of_containers() {
    let rule = "restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [3]}}]";
    for (policy, container, code, want) in [
        ("Always", "restartPolicy: Never".to_owned(), 1, "Failed"),
        ("Always", "restartPolicy: Never".to_owned(), 0, "Succeeded"),
        ("Never", "restartPolicy: OnFailure".to_owned(), 1, "Running"),
        ("Never", format!("restartPolicy: Never, {rule}"), 3, "Running"),
        ("Never", format!("restartPolicy: Never, {rule}"), 4, "Failed"),
    ] {
        let text = format!(
            "spec: {{restartPolicy: {policy}, containers: [{{name: a, image: i, {container}}}]}}"
        );
        let pod = Pod::from(from_yaml(&text).unwrap());
        let mut memory = WorkerState::default();
        let got = status(&pod, &seen(ContainerRunState::Exited, code), &memory, &around());
        assert_eq!(got["phase"].as_str(), Some(want), "{policy} {container} {code}");
        if want == "Running" {
            memory.waiting_reasons.insert("a".into(), ("CrashLoopBackOff".into(), "m".into()));
            let got = status(&pod, &seen(ContainerRunState::Exited, code), &memory, &around());
            assert_eq!(got["phase"].as_str(), Some(want), "{policy} {container} {code}, waiting");
        }
    }
}

#[test]
fn a_pod_that_begins_again_says_so() {
    let text = "metadata: {name: p}
spec: {restartPolicy: Never, initContainers: [{name: x, image: i}], containers: [{name: a, image: i, restartPolicy: Never, \
restartPolicyRules: [{action: RestartAllContainers, exitCodes: {operator: In, values: [42]}}]}]}
status: {conditions: [{type: Initialized, status: 'True'}]}";
    let pod = Pod::from(from_yaml(text).unwrap());
    let ended = seen(ContainerRunState::Exited, 42);
    let got = status(&pod, &ended, &WorkerState::default(), &around());
    let condition_of = |status: &Value| {
        let found = condition(status, "AllContainersRestarting");
        (found["status"].as_str().map(str::to_owned), found["reason"].as_str().map(str::to_owned))
    };
    let (started, reason) = condition_of(&got);
    assert_eq!(started.as_deref(), Some("True"));
    assert_eq!(reason.as_deref(), Some("RestartAllContainersStarted"));
    assert_eq!(got["phase"].as_str(), Some("Running"));

    let past = crate::pod::restart::past_of_all(&pod, &got, &ended);
    let memory = WorkerState { past, ..WorkerState::default() };
    let mut empty = ended;
    empty.containers.clear();
    let got = status(&pod, &empty, &memory, &around());
    assert_eq!(condition_of(&got).0.as_deref(), Some("False"));
    assert_eq!(condition(&got, "Initialized")["status"].as_str(), Some("True"));
    let container = &got["containerStatuses"].items()[0];
    assert_eq!(container["lastState"]["terminated"]["exitCode"].as_i64(), Some(42));
}

#[test]
fn the_last_state_outlives_the_runtimes_memory() {
    let text = "metadata: {name: p}
spec: {containers: [{name: a, image: i}]}
status: {containerStatuses: [{name: a, restartCount: 2, containerID: c, state: {running: {}}, lastState: {terminated: {exitCode: 7}}}]}";
    let pod = Pod::from(from_yaml(text).unwrap());
    let memory = WorkerState { past: crate::pod::restart::past(&pod), ..WorkerState::default() };
    let mut seen = seen(ContainerRunState::Running, 0);
    seen.containers[0].restarts = 2;
    for seen in [RuntimePodState::default(), seen] {
        let got = status(&pod, &seen, &memory, &around());
        let container = &got["containerStatuses"].items()[0];
        assert_eq!(container["restartCount"].as_i64(), Some(2));
        assert_eq!(container["lastState"]["terminated"]["exitCode"].as_i64(), Some(7));
    }
}
