//! Restarts of containers that exit, fail their probes or lose their sandbox.

use api::core::{ContainerStateTerminated, ContainerStatus, Pod};

use crate::World;

fn first(pod: &Pod) -> Option<ContainerStatus> {
    pod.status().container_statuses().iter().next().cloned()
}

/// Every restart policy with every kind of exit code.
#[tokio::test]
async fn restart_policies() {
    let world = World::start().await;
    let cases = [
        ("always-0", "Always", 0, "Running"),
        ("always-1", "Always", 1, "Running"),
        ("onfailure-0", "OnFailure", 0, "Succeeded"),
        ("onfailure-1", "OnFailure", 1, "Running"),
        ("never-0", "Never", 0, "Succeeded"),
        ("never-1", "Never", 1, "Failed"),
    ];
    for (name, policy, ..) in cases {
        let spec = format!(
            r#""restartPolicy":"{policy}","containers":[{{"name":"c","image":"present:1"}}]"#
        );
        world.pod(name, &spec).await;
    }
    for (name, _, code, _) in cases {
        world.until::<Pod>(name, "ready", Pod::is_ready).await;
        world.runtime.exit(name, "c", code);
    }
    for (name, _, code, phase) in cases {
        let again = phase == "Running";
        let pod = world
            .until::<Pod>(name, phase, |pod| {
                let restarts = first(pod).map_or(0, |one| one.restart_count());
                pod.status().phase() == phase && restarts == i32::from(again)
            })
            .await;
        let one = first(&pod).expect("a status");
        let ended = if again { one.last_state().terminated() } else { one.state().terminated() };
        assert_eq!(ended.map(ContainerStateTerminated::exit_code), Some(code), "{name}");
        let calls = world.runtime.calls(name);
        let started = calls.iter().filter(|call| call.starts_with("StartContainer")).count();
        assert_eq!(started, 1 + usize::from(again), "{name}: {calls:?}");
        // a finished pod has no running container, and keeps its API object
        if !again {
            world.until_call(name, &format!("StopPodSandbox {name}#0")).await;
        }
    }
    // The second consecutive failure is delayed by the back-off.
    world.runtime.exit("always-1", "c", 1);
    let message = world.until_waiting("always-1", "CrashLoopBackOff").await;
    let uid = world.get::<Pod>("always-1").await.metadata().uid().to_owned();
    assert_eq!(
        message,
        format!("back-off 10s restarting failed container=c pod=always-1_default({uid})")
    );
    world.until_event("always-1", "BackOff").await;
    world.stop().await;
}

#[tokio::test]
async fn probes_decide_about_restarts_and_readiness() {
    let world = World::start().await;
    world.runtime.set_exit_code("ready?", 1);
    let probe = |command: &str| {
        format!(r#"{{"periodSeconds":1,"failureThreshold":1,"exec":{{"command":["{command}"]}}}}"#)
    };
    let spec = format!(
        r#""terminationGracePeriodSeconds":3,"containers":[{{"name":"c","image":"present:1",
        "livenessProbe":{},"readinessProbe":{}}}]"#,
        probe("alive?"),
        probe("ready?")
    );
    world.pod("p", &spec).await;
    world.until_call("p", "ExecSync p/c#0 ready?").await;
    let pod = world.until_phase("p", "Running").await;
    assert!(!pod.is_ready(), "its probe fails");
    world.until_event("p", "Unhealthy").await;
    world.runtime.set_exit_code("ready?", 0);
    world.until::<Pod>("p", "ready", Pod::is_ready).await;
    world.runtime.set_exit_code("ready?", 1);
    world.until::<Pod>("p", "not ready again", |pod| !pod.is_ready()).await;
    assert_eq!(world.runtime.running(), ["p/c#0"], "readiness restarts nothing");

    world.runtime.set_exit_code("alive?", 1);
    world.until_call("p", "StopContainer p/c#0 3").await;
    world.runtime.set_exit_code("alive?", 0);
    world.until_call("p", "StartContainer p/c#1").await;
    let event = world.until_event("p", "Killing").await;
    assert_eq!(event.message(), "Container c failed liveness probe, will be restarted");
    world
        .until::<Pod>("p", "counted", |pod| first(pod).is_some_and(|one| one.restart_count() == 1))
        .await;
    world.stop().await;
}

/// A pod survives the loss of its sandbox: its containers are started again in a new one.
#[tokio::test]
async fn a_sandbox_that_ends_is_replaced() {
    let world = World::start().await;
    let spec = r#""initContainers":[{"name":"init","image":"present:1"}],
        "containers":[{"name":"c","image":"present:1"}]"#;
    world.pod("p", spec).await;
    world.until_call("p", "StartContainer p/init#0").await;
    world.runtime.exit("p", "init", 0);
    world.until::<Pod>("p", "ready", Pod::is_ready).await;
    world.runtime.end_sandbox("p");
    world.until_call("p", "RunPodSandbox p#1").await;
    world.until_call("p", "StartContainer p/init#1").await;
    world.runtime.exit("p", "init", 0);
    world.until_call("p", "StartContainer p/c#1").await;
    // the pod may still be ready by its last status
    testkit::until("the new container runs", async || match world.runtime.running() {
        running if running == ["p/c#1"] => Ok(()),
        other => Err(other),
    })
    .await;
    world.until::<Pod>("p", "ready again", Pod::is_ready).await;
    world.until_event("p", "SandboxChanged").await;
    world.stop().await;
}
