use object::yaml::from_yaml;

use super::*;
use crate::{
    cgroup::ContainerLimits,
    pod::{
        observe::{RuntimeContainer, Sandbox},
        restart,
    },
};

fn pod(text: &str) -> Pod {
    Pod::from(from_yaml(text).unwrap())
}

fn one(policy: &str) -> Pod {
    pod(&format!(
        "metadata: {{name: p, namespace: ns, uid: u}}\nspec: {{restartPolicy: {policy}, containers: [{{name: a, image: i}}]}}"
    ))
}

fn sandbox() -> Sandbox {
    Sandbox { id: "s".into(), ready: true, ..Sandbox::default() }
}

fn container(name: &str, state: ContainerRunState, exit_code: i32) -> RuntimeContainer {
    RuntimeContainer {
        id: format!("id-{name}"),
        name: name.into(),
        sandbox: "s".into(),
        state,
        exit_code,
        ..RuntimeContainer::default()
    }
}

fn seen(containers: &[RuntimeContainer]) -> RuntimePodState {
    RuntimePodState { sandboxes: vec![sandbox()], containers: containers.to_vec() }
}

fn steps(pod: &Pod, seen: &RuntimePodState) -> Vec<Step> {
    plan(pod, None, seen, &mut WorkerState::default(), 100 * SECOND).steps
}

fn start(name: &str, role: ContainerType, restarts: i32) -> Step {
    Step::StartContainer { name: name.into(), role, restarts }
}

#[test]
fn a_new_pod_gets_volumes_then_a_sandbox() {
    let nothing = RuntimePodState::default();
    assert_eq!(
        steps(&one("Always"), &nothing),
        [Step::PrepareVolumes, Step::CreateSandbox { attempt: 0 }]
    );
    assert_eq!(steps(&one("Always"), &seen(&[])), [start("a", ContainerType::Regular, 0)]);
    let running = [container("a", ContainerRunState::Running, 0)];
    assert_eq!(steps(&one("Always"), &seen(&running)), []);
}

#[test]
fn policies_decide_what_runs_again() {
    let stop = Step::StopSandbox { id: "s".into() };
    let again = start("a", ContainerType::Regular, 1);
    for (policy, code, want) in [
        ("Always", 0, &again),
        ("Always", 1, &again),
        ("OnFailure", 0, &stop),
        ("OnFailure", 1, &again),
        ("Never", 0, &stop),
        ("Never", 1, &stop),
    ] {
        let exited = [container("a", ContainerRunState::Exited, code)];
        assert_eq!(
            steps(&one(policy), &seen(&exited)),
            *std::slice::from_ref(want),
            "{policy} {code}"
        );
    }
}

#[test]
fn restarts_wait_longer_each_time() {
    let (pod, mut memory) = (one("Always"), WorkerState::default());
    let mut at = |finished: i64, now: i64| {
        let mut last = container("a", ContainerRunState::Exited, 1);
        last.finished = finished * SECOND;
        let plan = plan(&pod, None, &seen(&[last]), &mut memory, now * SECOND);
        (plan.steps.len(), plan.next_at.map(|at| at / SECOND))
    };
    assert_eq!(at(100, 100), (1, None), "at once, the first time");
    assert_eq!(at(101, 101), (0, Some(111)));
    assert_eq!(at(101, 111), (1, None));
    assert_eq!(at(112, 113), (0, Some(132)));
    assert_eq!(memory.waiting_reasons["a"].0, "CrashLoopBackOff");
    assert_eq!(
        memory.waiting_reasons["a"].1,
        "back-off 20s restarting failed container=a pod=p_ns(u)"
    );
}

#[test]
fn init_containers_run_one_after_the_other() {
    let pod = pod(
        "spec: {initContainers: [{name: x, image: i}, {name: side, image: i, restartPolicy: Always}, {name: z, image: i}], containers: [{name: a, image: i}]}",
    );
    assert_eq!(steps(&pod, &seen(&[])), [start("x", ContainerType::Init, 0)]);
    let x = container("x", ContainerRunState::Exited, 0);
    assert_eq!(
        steps(&pod, &seen(std::slice::from_ref(&x))),
        [start("side", ContainerType::Sidecar, 0)]
    );
    let side = container("side", ContainerRunState::Running, 0);
    let both = seen(&[side.clone(), x.clone()]);
    assert_eq!(steps(&pod, &both), [], "it has not started yet");
    let mut memory = WorkerState::default();
    memory
        .probes
        .insert("id-side".into(), ProbeResults { started: true, ..ProbeResults::default() });
    let next = plan(&pod, None, &both, &mut memory, 0).steps;
    assert_eq!(next, [start("z", ContainerType::Init, 0)]);
    let z = container("z", ContainerRunState::Exited, 0);
    let all = seen(&[z, side, x]);
    let next = plan(&pod, None, &all, &mut memory, 0).steps;
    assert_eq!(next, [start("a", ContainerType::Regular, 0)]);
}

#[test]
fn a_failed_init_container_ends_a_pod_that_must_not_retry() {
    let text = "spec: {restartPolicy: Never, initContainers: [{name: x, image: i}], containers: [{name: a, image: i}]}";
    let failed = [container("x", ContainerRunState::Exited, 1)];
    assert_eq!(steps(&pod(text), &seen(&failed)), [Step::StopSandbox { id: "s".into() }]);
    let retried = steps(&pod(&text.replace("Never", "Always")), &seen(&failed));
    assert_eq!(retried, [start("x", ContainerType::Init, 1)]);
}

#[test]
fn an_ending_pod_loses_containers_then_sidecars_then_all() {
    let pod = pod(
        "spec: {initContainers: [{name: side, image: i, restartPolicy: Always}], containers: [{name: a, image: i}]}",
    );
    let ending = Some(Termination { since: 0, grace: 30 });
    let (side, a) = (
        container("side", ContainerRunState::Running, 0),
        container("a", ContainerRunState::Running, 0),
    );
    let step = |containers: &[RuntimeContainer], now: i64| {
        plan(&pod, ending, &seen(containers), &mut WorkerState::default(), now * SECOND)
    };
    let kill = |name: &str, grace| Step::KillContainer {
        id: format!("id-{name}"),
        name: name.into(),
        grace,
        why: format!("Stopping container {name}"),
    };
    assert_eq!(step(&[a, side.clone()], 0).steps, [kill("a", 30)]);
    assert_eq!(step(&[side], 29).steps, [kill("side", 2)]);
    let last = step(&[], 30);
    let id = "s".to_owned();
    let want = [Step::StopSandbox { id: id.clone() }, Step::RemoveSandbox { id }, Step::CleanUp];
    assert_eq!((last.steps.as_slice(), last.terminated), (&want[..], true));
}

#[test]
fn a_lost_sandbox_is_replaced() {
    let mut seen = seen(&[container("a", ContainerRunState::Exited, 0)]);
    seen.sandboxes[0].ready = false;
    let mut memory = WorkerState { volumes_ready: true, ..WorkerState::default() };
    let next = plan(&one("Always"), None, &seen, &mut memory, 0).steps;
    assert_eq!(next, [Step::StopSandbox { id: "s".into() }, Step::CreateSandbox { attempt: 1 }]);
}

#[test]
fn a_failed_probe_kills() {
    let running = seen(&[container("a", ContainerRunState::Running, 0)]);
    let mut memory = WorkerState::default();
    let failed = Some(("why".to_owned(), Some(5)));
    memory.probes.insert("id-a".into(), ProbeResults { failed, ..ProbeResults::default() });
    let next = plan(&one("Never"), None, &running, &mut memory, 0).steps;
    let (id, name) = ("id-a".to_owned(), "a".to_owned());
    assert_eq!(next, [Step::KillContainer { id, name, grace: 5, why: "why".into() }]);
}

#[test]
fn granted_limits_are_given_to_what_runs() {
    let asking = |policy: &str| {
        pod(&format!(
            "metadata: {{name: p, uid: u}}\nspec: {{containers: [{{name: a, image: i, resizePolicy: [{policy}], resources: {{requests: {{cpu: 200m}}}}}}]}}"
        ))
    };
    let with = |cpu_shares| {
        let limits = Some(ContainerLimits { cpu_shares, ..ContainerLimits::default() });
        seen(&[RuntimeContainer { limits, ..container("a", ContainerRunState::Running, 0) }])
    };
    let alive = asking("");
    assert_eq!(steps(&alive, &with(204)), []);
    let containers = vec![("id-a".to_owned(), "a".to_owned())];
    assert_eq!(steps(&alive, &with(102)), [Step::Resize { containers }]);
    let restarts = asking("{resourceName: cpu, restartPolicy: RestartContainer}");
    assert!(
        matches!(&steps(&restarts, &with(102))[..], [Step::KillContainer { name, .. }] if name == "a")
    );
    let memory = asking("{resourceName: memory, restartPolicy: RestartContainer}");
    assert!(matches!(steps(&memory, &with(102))[..], [Step::Resize { .. }]));
}

#[test]
fn what_has_to_go_gets_no_longer_than_it_was_given() {
    let failed = Some(Failure { grace: Some(1), ..Failure::default() });
    let mut memory = WorkerState { failure: failed, ..WorkerState::default() };
    let running = seen(&[container("a", ContainerRunState::Running, 0)]);
    let got = plan(&one("Always"), None, &running, &mut memory, 0).steps;
    assert!(matches!(got[..], [Step::KillContainer { grace: 1, .. }]), "{got:?}");
}

/// After a reboot of the node the sandbox is new, and the runtime has no containers.
#[test]
fn an_ephemeral_container_that_has_ended_never_runs_again() {
    let with = |state: &str| {
        pod(&format!(
            "metadata: {{name: p, namespace: ns, uid: u}}\nspec: {{containers: [{{name: a, image: i}}], \
             ephemeralContainers: [{{name: e, image: i}}]}}\nstatus: {{ephemeralContainerStatuses: \
             [{{name: e, state: {{{state}}}}}]}}"
        ))
    };
    let running = [container("a", ContainerRunState::Running, 0)];
    assert_eq!(steps(&with("terminated: {exitCode: 0}"), &seen(&running)), []);
    let waiting = with("waiting: {reason: ContainerCreating}");
    assert_eq!(steps(&waiting, &seen(&running)), [start("e", ContainerType::Ephemeral, 0)]);
}

const RESTARTS_ALL: &str = "metadata: {name: p, namespace: ns, uid: u}
spec: {restartPolicy: Never, initContainers: [{name: x, image: i}], containers: [{name: a, image: i, restartPolicy: Never, \
restartPolicyRules: [{action: RestartAllContainers, exitCodes: {operator: In, values: [42]}}]}, {name: b, image: i}]}";

#[test]
fn a_rule_has_all_containers_begin_again_and_its_cause_goes_last() {
    let pod = pod(RESTARTS_ALL);
    let all = |code| {
        seen(&[
            container("a", ContainerRunState::Exited, code),
            container("b", ContainerRunState::Running, 0),
            container("x", ContainerRunState::Exited, 0),
        ])
    };
    assert_eq!(steps(&pod, &all(1)), [], "no rule of this exit code");
    let mut memory = WorkerState::default();
    let next = plan(&pod, None, &all(42), &mut memory, 100 * SECOND);
    let remove = |name: &str| Step::RemoveContainer { id: format!("id-{name}") };
    let why = "Stopping container b".to_owned();
    let kill = Step::KillContainer { id: "id-b".into(), name: "b".into(), grace: 0, why };
    assert_eq!(next.steps, [kill, remove("b"), remove("x"), remove("a")]);
    assert!(next.restarts_all);

    // only the restart count is kept, also for containers that had finished for good
    let text = "{containerStatuses: [{name: a, state: {terminated: {exitCode: 42}}, restartCount: 1}, \
                {name: b, state: {running: {}}, restartCount: 0}], \
                initContainerStatuses: [{name: x, state: {terminated: {exitCode: 0}}, restartCount: 0}]}";
    let statuses = from_yaml(text).unwrap();
    memory.past = restart::past_of_all(&pod, &statuses, &all(42));
    let again = plan(&pod, None, &seen(&[]), &mut memory, 101 * SECOND);
    assert_eq!(again.steps, [start("x", ContainerType::Init, 1)]);
    let initialized =
        RuntimeContainer { restarts: 1, ..container("x", ContainerRunState::Exited, 0) };
    let again = plan(&pod, None, &seen(&[initialized]), &mut memory, 102 * SECOND);
    assert_eq!(
        again.steps,
        [start("a", ContainerType::Regular, 2), start("b", ContainerType::Regular, 1)]
    );

    // the next restart has a longer back-off
    let mut cause = container("a", ContainerRunState::Exited, 42);
    cause.finished = 103 * SECOND;
    let waits = plan(&pod, None, &seen(&[cause]), &mut memory, 103 * SECOND);
    assert_eq!((waits.steps, waits.next_at), (vec![], Some(113 * SECOND)));
}

/// The node was down: the runtime no longer has any container of the pod.
#[test]
fn what_had_ended_for_good_stays_so_and_the_rest_is_counted_on() {
    let text = "metadata: {name: p, namespace: ns, uid: u}
spec: {restartPolicy: OnFailure, containers: [{name: a, image: i}, {name: b, image: i}]}
status: {containerStatuses: [{name: a, restartCount: 2, containerID: c, state: {running: {}}}, \
{name: b, restartCount: 0, containerID: c, state: {terminated: {exitCode: 0}}}]}";
    let pod = pod(text);
    let mut memory = WorkerState { past: restart::past(&pod), ..WorkerState::default() };
    let next = plan(&pod, None, &seen(&[]), &mut memory, 0);
    assert_eq!(next.steps, [start("a", ContainerType::Regular, 2)]);
    let done =
        Pod::from(from_yaml(&text.replace("running: {}", "terminated: {exitCode: 0}")).unwrap());
    let mut memory = WorkerState { past: restart::past(&done), ..WorkerState::default() };
    let next = plan(&done, None, &RuntimePodState::default(), &mut memory, 0);
    assert_eq!(next.steps, [], "all is done");
}
