//! Failures show up in the pod's status, and are retried.

use api::core::{ConfigMap, Pod};

use crate::World;

/// Each failure: the call that fails, the pod's spec, and the waiting reason and message of its container.
#[tokio::test]
async fn each_failure_has_its_reason() {
    let world = World::start().await;
    let image = |name: &str, policy: &str| {
        format!(r#""containers":[{{"name":"c","image":"{name}","imagePullPolicy":"{policy}"}}]"#)
    };
    let usual = || image("present:1", "IfNotPresent");
    let config_map = r#""containers":[{"name":"c","image":"present:1",
        "envFrom":[{"configMapRef":{"name":"settings"}}]}]"#;
    let cases = [
        (
            "pull",
            "PullImage pull@ far:1",
            image("far:1", "Always"),
            "ErrImagePull",
            "failed to pull image \"far:1\": no route",
        ),
        (
            "never",
            "",
            image("far:2", "Never"),
            "ErrImageNeverPull",
            "Container image \"far:2\" is not present with pull policy of Never",
        ),
        ("create", "CreateContainer create/c#0", usual(), "CreateContainerError", "no route"),
        ("start", "StartContainer start/c#0", usual(), "RunContainerError", "no route"),
        (
            "config",
            "",
            config_map.to_owned(),
            "CreateContainerConfigError",
            "configmap \"settings\" not found",
        ),
    ];
    for (name, call, spec, ..) in &cases {
        for _ in 0..if call.is_empty() { 0 } else { 100 } {
            world.runtime.fail(call, "no route");
        }
        world.pod(name, spec).await;
    }
    for (name, _, _, reason, message) in &cases {
        let backoff = reason.replace("ErrImagePull", "ImagePullBackOff");
        let found = world
            .until::<Pod>(name, reason, |pod| {
                crate::world::waiting(pod)
                    .is_some_and(|(found, _)| found == *reason || found == backoff)
            })
            .await;
        let (found, said) = crate::world::waiting(&found).unwrap_or_default();
        if found == *reason {
            assert_eq!(said, *message, "{name}");
        }
        assert_eq!(world.get::<Pod>(name).await.status().phase(), "Pending", "{name}");
    }
    // The cause of the failure is removed.
    world.runtime.stop_failing();
    world.create::<ConfigMap>(r#"{"metadata":{"name":"settings"},"data":{"A":"1"}}"#).await;
    for name in ["config", "create"] {
        world.until::<Pod>(name, "ready", Pod::is_ready).await;
    }
    world.until_event("pull", "Failed").await;
    world.stop().await;
}

#[tokio::test]
async fn a_sandbox_that_fails_is_tried_again_and_its_pod_can_be_deleted() {
    let world = World::start().await;
    let one = r#""containers":[{"name":"c","image":"present:1"}]"#;
    world.runtime.fail("RunPodSandbox late#0", "no address");
    world.pod("late", one).await;
    let event = world.until_event("late", "FailedCreatePodSandBox").await;
    assert!(event.message().contains("no address"), "{}", event.message());
    world.until::<Pod>("late", "ready", Pod::is_ready).await;

    for _ in 0..100 {
        world.runtime.fail("RunPodSandbox never#0", "no address");
    }
    world.pod("never", one).await;
    world.until_call("never", "RunPodSandbox never#0").await;
    world.delete::<Pod>("never").await;
    world.until_gone::<Pod>("never").await;

    // A pod that does not fit on the node fails, and nothing is created for it.
    let huge = r#""containers":[{"name":"c","image":"present:1","resources":{"requests":{"cpu":"9999"}}}]"#;
    world.pod("huge", huge).await;
    let pod = world.until_phase("huge", "Failed").await;
    assert_eq!(pod.status().reason(), "OutOfcpu");
    assert_eq!(world.runtime.calls("huge"), Vec::<String>::new());
    world.stop().await;
}

/// activeDeadlineSeconds: running containers are killed, and the pod fails.
#[tokio::test]
async fn a_deadline_ends_a_pod() {
    let world = World::start().await;
    let spec = r#""activeDeadlineSeconds":2,"terminationGracePeriodSeconds":4,
        "containers":[{"name":"c","image":"present:1"}]"#;
    world.pod("p", spec).await;
    world.until_call("p", "StopContainer p/c#0 4").await;
    let pod = world.until_phase("p", "Failed").await;
    assert_eq!(pod.status().reason(), "DeadlineExceeded");
    assert!(world.runtime.running().is_empty());
    world.stop().await;
}
