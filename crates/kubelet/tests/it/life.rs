//! The life of a pod, from its first sandbox to the removal of its last file.

use api::core::Pod;
use testkit::condition;

use crate::{
    World,
    runtime::{POD_IP, Runtime},
};

const ONE: &str = r#""containers":[{"name":"c","image":"present:1"}]"#;

#[tokio::test]
async fn init_containers_run_first_and_everything_ends_in_order() {
    let world = World::start().await;
    let spec = r#""terminationGracePeriodSeconds":7,
        "initContainers":[{"name":"first","image":"absent:1"},{"name":"second","image":"present:1"}],
        "containers":[{"name":"c","image":"present:1","lifecycle":{"preStop":{"exec":{"command":["say","bye"]}}}}]"#;
    world.pod("p", spec).await;
    let mut calls = vec![
        "RunPodSandbox p#0",
        "PullImage p@ absent:1",
        "CreateContainer p/first#0",
        "StartContainer p/first#0",
    ];
    world.until_calls("p", &calls).await;
    let pod = world.until::<Pod>("p", "the address", |pod| pod.status().pod_ip() == POD_IP).await;
    assert_eq!(pod.status().phase(), "Pending");
    assert_eq!(condition(&pod, "Initialized").map(|found| found.0).as_deref(), Some("False"));

    world.runtime.exit("p", "first", 0);
    calls.extend(["CreateContainer p/second#0", "StartContainer p/second#0"]);
    world.until_calls("p", &calls).await;
    world.runtime.exit("p", "second", 0);
    calls.extend(["CreateContainer p/c#0", "StartContainer p/c#0"]);
    world.until_calls("p", &calls).await;
    let pod = world.until::<Pod>("p", "ready", Pod::is_ready).await;
    assert_eq!((pod.status().phase(), pod.status().host_ip()), ("Running", "192.0.2.7"));
    for (about, message) in [
        ("Pulling", "Pulling image \"absent:1\""),
        ("Created", "Container created"),
        ("Started", "Container started"),
    ] {
        assert_eq!(world.until_event("p", about).await.message(), message);
    }

    let uid = pod.metadata().uid().to_owned();
    let own = world.folder.path().join("root/pods").join(&uid);
    assert!(own.join("etc-hosts").is_file(), "the pod has files of its own");
    world.delete::<Pod>("p").await;
    world.until_gone::<Pod>("p").await;
    let ended = world.runtime.calls("p").split_off(calls.len());
    // The preStop hook runs first and uses up part of the grace period; removed containers are gone from the runtime.
    assert_eq!(ended[0], "ExecSync p/c#0 say bye", "{ended:?}");
    let stop = ended[1].strip_prefix("StopContainer p/c#0 ").expect("then it is stopped");
    assert!((1..=7).contains(&stop.parse::<i64>().expect("seconds")), "{ended:?}");
    let at = |call: &str| ended.iter().position(|one| one == call);
    assert!(at("StopPodSandbox p#0") < at("RemovePodSandbox p#0"), "{ended:?}");
    assert!(at("RemovePodSandbox p#0").is_some(), "{ended:?}");
    assert!(world.runtime.running().is_empty());
    assert!(!own.exists(), "its files are gone");
    world.stop().await;
}

/// A restarted kubelet leaves running containers alone, and terminates pods that were deleted meanwhile.
#[tokio::test]
async fn a_kubelet_that_starts_again_keeps_what_runs() {
    let mut world = World::start().await;
    for name in ["kept", "deleted"] {
        world.pod(name, ONE).await;
        world.until::<Pod>(name, "ready", Pod::is_ready).await;
    }
    let (kept, deleted) = (world.runtime.calls("kept"), world.runtime.calls("deleted"));
    world.stop_kubelet().await;
    world.delete_now::<Pod>("deleted").await;
    world.start_kubelet().await;
    world.until_call("deleted", "RemovePodSandbox deleted#0").await;
    assert!(world.runtime.calls("deleted").len() > deleted.len());
    // A pod that is created after the restart is run, and the other one was left alone meanwhile.
    world.pod("later", ONE).await;
    world.until::<Pod>("later", "ready", Pod::is_ready).await;
    assert_eq!(world.runtime.calls("kept"), kept);
    let pod = world.get::<Pod>("kept").await;
    assert!(pod.is_ready());
    assert_eq!(world.runtime.running(), ["kept/c#0", "later/c#0"]);
    world.stop().await;
}

/// A runtime without events is polled, and changes are noticed all the same.
#[tokio::test]
async fn a_runtime_without_events_is_asked() {
    let world = World::start_with(Runtime::new().without_events()).await;
    world.pod("p", &format!(r#""restartPolicy":"Never",{ONE}"#)).await;
    world.until::<Pod>("p", "ready", Pod::is_ready).await;
    world.runtime.exit("p", "c", 3);
    let pod = world.until_phase("p", "Failed").await;
    let status = pod.status();
    let ended =
        status.container_statuses().iter().next().and_then(|one| one.state().terminated().cloned());
    assert_eq!(ended.map(|ended| ended.exit_code()), Some(3));
    world.stop().await;
}

/// A pod from a file runs, has a mirror pod in the API server, and is terminated when the file is deleted.
#[tokio::test]
async fn a_static_pod_has_a_mirror() {
    let world = World::start().await;
    let file = world.folder.path().join("manifests/web.yaml");
    let manifest = "{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: default}, \
        spec: {containers: [{name: c, image: 'present:1'}]}}";
    std::fs::write(&file, manifest).expect("room");
    let mirror = world.until::<Pod>("web-n", "ready", Pod::is_ready).await;
    assert_eq!(mirror.spec().node_name(), "n");
    assert!(mirror.metadata().annotations().get("kubernetes.io/config.mirror").is_some());
    assert_eq!(world.runtime.running(), ["web-n/c#0"]);
    // Deleting the mirror pod does not terminate the pod: the mirror is created again.
    let uid = mirror.metadata().uid().to_owned();
    world.delete_now::<Pod>("web-n").await;
    world.until::<Pod>("web-n", "another mirror", |pod| pod.metadata().uid() != uid).await;
    assert_eq!(world.runtime.running(), ["web-n/c#0"]);
    std::fs::remove_file(&file).expect("it was there");
    world.until_gone::<Pod>("web-n").await;
    world.until_call("web-n", "RemovePodSandbox web-n#0").await;
    world.stop().await;
}
