use object::{IntOrString, Lens};
use schema::{GracefulDeletion, Kind};

use super::{ContainerState, ContainerStateWaiting, ContainerStatus, Pod};
use crate::testing::{cell, create_errors, created_from_json, update_errors};

const WEB: &str = r#"{
    "metadata": {"name": "web", "namespace": "n"},
    "spec": {"containers": [{"name": "c", "image": "nginx", "ports": [{"containerPort": 80}],
        "readinessProbe": {"httpGet": {"port": "http"}},
        "resources": {"limits": {"cpu": "1", "memory": "64Mi"}}}]}
}"#;

fn web() -> Pod {
    created_from_json(WEB)
}

#[test]
fn what_nobody_asked_for_is_filled_in() {
    let pod = web();
    let (spec, json) = (pod.spec(), object::to_json(pod.tree()));
    let json = String::from_utf8_lossy(&json).into_owned();
    for part in [
        r#""restartPolicy":"Always""#,
        r#""dnsPolicy":"ClusterFirst""#,
        r#""terminationGracePeriodSeconds":30"#,
        r#""schedulerName":"default-scheduler""#,
        r#""securityContext":{}"#,
        r#""enableServiceLinks":true"#,
        r#""terminationMessagePath":"/dev/termination-log""#,
        r#""imagePullPolicy":"Always""#,
        r#""protocol":"TCP""#,
        r#""requests":{"cpu":"1","memory":"64Mi"}"#,
        r#""phase":"Pending""#,
        r#""qosClass":"Guaranteed""#,
    ] {
        assert!(json.contains(part), "{part} is not in {json}");
    }
    let probe = spec.containers().iter().next().and_then(|c| c.readiness_probe()).expect("given");
    assert_eq!((probe.period_seconds(), probe.failure_threshold()), (10, 3));
    let http = probe.probe_handler().http_get().expect("given");
    assert_eq!((http.path(), http.scheme()), ("/", "HTTP"));
    assert_eq!(http.port(), IntOrString::from("http"));
    assert!(create_errors(&pod).is_empty(), "{:?}", create_errors(&pod));
}

#[test]
fn every_broken_rule_is_told() {
    let mut pod = web();
    let spec = pod.spec_mut();
    spec.set_restart_policy("Sometimes");
    spec.set_hostname("Not_A_Label");
    spec.containers_mut().iter_mut().for_each(|container| container.set_image(" x"));
    let found = create_errors(&pod);
    assert_eq!(found.len(), 3, "{found:?}");
    assert_eq!(
        found[0],
        "spec.restartPolicy: Unsupported value: \"Sometimes\": supported values: \"Always\", \
         \"OnFailure\", \"Never\""
    );
}

#[test]
fn a_volume_must_be_there_to_be_mounted() {
    let pod: Pod = created_from_json(
        r#"{"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i",
        "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]}}"#,
    );
    assert_eq!(create_errors(&pod), ["spec.containers[0].volumeMounts[0].name: Not found: \"v\""]);
}

#[test]
fn only_images_and_a_few_more_can_change() {
    let old = web();
    let mut new = old.clone();
    new.spec_mut().containers_mut().iter_mut().for_each(|container| container.set_image("b"));
    assert!(update_errors(&new, &old).is_empty());
    new.spec_mut().set_node_name("n1");
    let found = update_errors(&new, &old);
    assert_eq!(found.len(), 1);
    assert!(found[0].starts_with(
        "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`"
    ));
}

#[test]
fn what_a_pod_may_use_follows_from_its_containers() {
    let pod = |second: &str| -> Pod {
        created_from_json(&format!(
            r#"{{"metadata": {{"name": "a"}}, "spec": {{"resources": {{"requests": {{"cpu": "3"}}}},
            "containers": [
                {{"name": "c", "image": "i", "resources": {{"limits": {{"cpu": "1", "memory": "1Gi"}}}}}},
                {{"name": "d", "image": "i", "resources": {{"limits": {{{second}}}}}}}]}}}}"#
        ))
    };
    let limit =
        |pod: &Pod, name| pod.spec().resources()?.limits().get(name).map(|it| it.to_string());
    let both = pod(r#""cpu": "1", "memory": "1Gi""#);
    assert_eq!(limit(&both, "cpu").as_deref(), Some("3"));
    assert_eq!(limit(&both, "memory").as_deref(), Some("2Gi"));
    assert_eq!(limit(&pod(r#""cpu": "1""#), "memory"), None);
}

#[test]
fn a_pod_that_runs_nowhere_goes_at_once() {
    let mut pod = web();
    assert_eq!(pod.grace(Some(60)), GracefulDeletion::Seconds(0));
    pod.spec_mut().set_node_name("n1");
    assert_eq!(pod.grace(None), GracefulDeletion::Seconds(30));
    assert_eq!(pod.grace(Some(5)), GracefulDeletion::Seconds(5));
    assert_eq!(pod.grace(Some(-1)), GracefulDeletion::Seconds(1));
    pod.status_mut().set_phase("Succeeded");
    assert_eq!(pod.grace(None), GracefulDeletion::Seconds(0));
}

#[test]
fn init_containers_count_only_if_they_need_more() {
    let pod: Pod = created_from_json(
        r#"{"metadata": {"name": "a"}, "spec": {
        "initContainers": [
            {"name": "s", "image": "i", "restartPolicy": "Always",
             "resources": {"requests": {"cpu": "100m"}}},
            {"name": "i", "image": "i", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}],
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}],
        "overhead": {"memory": "1Gi"}}}"#,
    );
    let requests = pod.requests();
    assert_eq!(requests["cpu"].to_string(), "2100m");
    assert_eq!(requests["memory"].to_string(), "2Gi");
    assert_eq!(pod.qos_class(), "Burstable");
}

#[test]
fn the_status_column_says_what_holds_a_pod_up() {
    let mut pod = web();
    assert_eq!(cell(&pod, "Status"), "Pending");
    assert_eq!(cell(&pod, "Ready"), "0/1");
    let waiting = ContainerStateWaiting::new().with_reason("ImagePullBackOff");
    let status = ContainerStatus::new()
        .with_name("c")
        .with_state(ContainerState::new().with_waiting(waiting));
    pod.status_mut().set_container_statuses([status]);
    assert_eq!(cell(&pod, "Status"), "ImagePullBackOff");
    pod.metadata_mut().set_deletion_timestamp("2030-03-17T17:46:40Z");
    assert_eq!(cell(&pod, "Status"), "Terminating");
}
