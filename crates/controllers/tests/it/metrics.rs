//! The controllers' own metrics, under upstream's names: each is counted where it happens.

use api::{
    apps::{Deployment, ReplicaSet, StatefulSet},
    autoscaling::HorizontalPodAutoscaler,
    batch::{CronJob, Job},
    core::{Endpoints, Namespace, Node, Pod, Service},
    discovery::EndpointSlice,
    resource::ResourceClaimTemplate,
};
use controllers::Config;

use crate::World;

const TEMPLATE: &str = r#""template":{"spec":{"restartPolicy":"Never",
    "containers":[{"name":"c","image":"i"}]}}"#;

fn job(name: &str, spec: &str) -> String {
    format!(r#"{{"metadata":{{"name":"{name}"}},"spec":{{{spec}{TEMPLATE}}}}}"#)
}

/// The active pods of `default`, once there are so many.
async fn pods(world: &World, count: usize) -> Vec<Pod> {
    let active = |pods: &[Pod]| pods.iter().filter(|pod| pod.is_active()).count() == count;
    let all = world.until_all::<Pod>("pods", active).await;
    all.into_iter().filter(Pod::is_active).collect()
}

#[tokio::test]
async fn jobs_that_succeed() {
    let world = World::start(&["job", "ttl-after-finished"]).await;
    let spec = r#""completions":2,"parallelism":2,"completionMode":"Indexed",
        "ttlSecondsAfterFinished":0,"#;
    world.make::<Job>(&job("j", spec)).await;
    for pod in pods(&world, 2).await {
        world.phase(&pod, "Succeeded", false).await;
    }
    world
        .until_metrics(&[
            r#"job_controller_job_syncs_total{action="pods_created",completion_mode="Indexed",result="success"} +"#,
            r#"job_controller_job_sync_duration_seconds_count{action="pods_created",completion_mode="Indexed",result="success"} +"#,
            r#"job_controller_jobs_finished_total{completion_mode="Indexed",reason="CompletionsReached",result="succeeded"} 1"#,
            r#"job_controller_job_pods_finished_total{completion_mode="Indexed",result="succeeded"} 2"#,
            r#"job_controller_job_finished_indexes_total{backoffLimit="global",status="succeeded"} 2"#,
            r#"job_controller_job_pods_creation_total{reason="new",status="succeeded"} 2"#,
            r#"job_controller_terminated_pods_tracking_finalizer_total{event="add"} 2"#,
            r#"job_controller_terminated_pods_tracking_finalizer_total{event="delete"} 2"#,
            "ttl_after_finished_controller_job_deletion_duration_seconds_count 1",
        ])
        .await;
    world.stop().await;
}

#[tokio::test]
async fn jobs_that_fail_and_jobs_of_others() {
    let world = World::start(&["job"]).await;
    let policy = r#""backoffLimit":3,"podFailurePolicy":{"rules":[{"action":"FailJob",
        "onPodConditions":[{"type":"Ready","status":"False"}]}]},"#;
    world.make::<Job>(&job("bad", policy)).await;
    world.phase(&pods(&world, 1).await[0], "Failed", false).await;
    world
        .until_metrics(&[
            r#"job_controller_jobs_finished_total{completion_mode="NonIndexed",reason="PodFailurePolicy",result="failed"} 1"#,
            r#"job_controller_job_pods_finished_total{completion_mode="NonIndexed",result="failed"} 1"#,
            r#"job_controller_pod_failures_handled_by_failure_policy_total{action="FailJob"} 1"#,
        ])
        .await;
    world.make::<Job>(&job("again", r#""backoffLimit":3,"#)).await;
    world.phase(&pods(&world, 1).await[0], "Failed", false).await;
    let again = r#"job_controller_job_pods_creation_total{reason="recreate_terminating_or_failed",status="succeeded"} 1"#;
    world.until_metrics(&[again]).await;
    world.make::<Job>(&job("theirs", r#""managedBy":"example.com/queue","#)).await;
    let theirs = r#"job_controller_jobs_by_external_controller_total{controller_name="example.com/queue"} 1"#;
    world.until_metrics(&[theirs]).await;
    world.stop().await;
}

#[tokio::test]
async fn cron_jobs() {
    let world = World::start(&["cronjob"]).await;
    let text = format!(
        r#"{{"metadata":{{"name":"c"}},"spec":{{"schedule":"@every 1s",
        "jobTemplate":{{"spec":{{{TEMPLATE}}}}}}}}}"#
    );
    world.make::<CronJob>(&text).await;
    let skew = "cronjob_controller_job_creation_skew_duration_seconds_count +";
    world.until_metrics(&[skew]).await;
    world.stop().await;
}

#[tokio::test]
async fn endpoint_slices_and_when_their_change_began() {
    const TRIGGER: &str = "endpoints.kubernetes.io/last-change-trigger-time";
    let world =
        World::start(&["endpointslice", "endpointslicemirroring", "endpoints-controller"]).await;
    let service = r#"{"metadata":{"name":"web"},"spec":{"selector":{"app":"web"},
        "trafficDistribution":"PreferSameZone","ports":[{"port":80}]}}"#;
    let service = world.make::<Service>(service).await;
    let trigger =
        |slice: &EndpointSlice| slice.metadata().annotations().get(TRIGGER).map(str::to_owned);
    let slice = async |what: &str, endpoints: usize| {
        let is = |slice: &EndpointSlice| {
            slice.metadata().generate_name() == "web-" && slice.endpoints().len() == endpoints
        };
        let all = world.until_all::<EndpointSlice>(what.to_owned(), move |all| all.iter().any(is));
        all.await.into_iter().find(is).expect("it was found")
    };
    let created = service.metadata().creation_timestamp();
    let made = slice("a slice", 0).await;
    assert_eq!(trigger(&made).as_deref(), Some(created), "a new service");
    let pod = r#"{"metadata":{"name":"p","labels":{"app":"web"}},
        "spec":{"containers":[{"name":"c","image":"i"}]}}"#;
    let pod = world.make::<Pod>(pod).await;
    let status = r#"{"status":{"podIP":"10.0.0.1","podIPs":[{"ip":"10.0.0.1"}],"phase":"Running",
        "conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2026-01-02T03:04:05Z"}]}}"#;
    let key = object::NamespacedName::from_meta(pod.metadata());
    let patch = client::Patch::Merge(crate::world::tree(status));
    world.api::<Pod>().patch_status(&key, &patch).await.expect("a status");
    assert_eq!(
        trigger(&slice("an endpoint", 1).await).as_deref(),
        Some("2026-01-02T03:04:05Z"),
        "a pod is ready"
    );
    let annotated = |endpoints: &Endpoints| {
        endpoints.metadata().annotations().get(TRIGGER) == Some("2026-01-02T03:04:05Z")
    };
    world.until_one::<Endpoints>("web", "the same of Endpoints", annotated).await;
    world
        .until_metrics(&[
            r#"endpoint_slice_controller_changes{operation="create"} 1"#,
            r#"endpoint_slice_controller_changes{operation="update"} 1"#,
            "endpoint_slice_controller_endpoints_added_per_sync_sum 1",
            "endpoint_slice_controller_endpoints_desired 1",
            "endpoint_slice_controller_num_endpoint_slices 1",
            "endpoint_slice_controller_desired_endpoint_slices 1",
            r#"endpoint_slice_controller_syncs{result="success"} +"#,
            r#"endpoint_slice_controller_endpointslices_changed_per_sync_sum{topology="Disabled",traffic_distribution="PreferSameZone"} 2"#,
            r#"endpoint_slice_controller_services_count_by_traffic_distribution{traffic_distribution="PreferSameZone"} 1"#,
        ])
        .await;

    world.make::<Service>(r#"{"metadata":{"name":"own"},"spec":{"ports":[{"port":80}]}}"#).await;
    let endpoints = r#"{"metadata":{"name":"own"},"subsets":[{"addresses":[{"ip":"10.0.0.2"},
        {"ip":"10.0.0.3"}],"ports":[{"port":80}]}]}"#;
    world.make::<Endpoints>(endpoints).await;
    world
        .until_metrics(&[
            r#"endpoint_slice_mirroring_controller_changes{operation="create"} 1"#,
            "endpoint_slice_mirroring_controller_endpoints_added_per_sync_sum 2",
            "endpoint_slice_mirroring_controller_endpoints_desired 2",
            "endpoint_slice_mirroring_controller_num_endpoint_slices 1",
            "endpoint_slice_mirroring_controller_desired_endpoint_slices 1",
            "endpoint_slice_mirroring_controller_endpoints_sync_duration_count +",
            "endpoint_slice_mirroring_controller_addresses_skipped_per_sync_sum 0",
        ])
        .await;
    world.delete::<Service>("web").await;
    world.until_metrics(&["endpoint_slice_controller_endpoints_desired 0"]).await;
    world.stop().await;
}

#[tokio::test]
async fn nodes_and_the_pods_that_leave_them() {
    let controllers = ["nodelifecycle", "taint-eviction-controller", "podgc", "nodeipam"];
    let world = World::start_with(Config {
        controllers: controllers.map(str::to_owned).to_vec(),
        cluster_cidr: "10.244.0.0/22".into(),
        ..Config::default()
    })
    .await;
    let zone = r#"{"metadata":{"name":"n","labels":{"topology.kubernetes.io/zone":"a"}}}"#;
    world.make::<Node>(zone).await;
    world
        .until_metrics(&[
            "node_collector_zone_size{zone=\":\0:a\"} 1",
            "node_collector_unhealthy_nodes_in_zone{zone=\":\0:a\"} 1",
            "node_collector_zone_health{zone=\":\0:a\"} 0",
            "node_collector_evictions_total{zone=\":\0:a\"} 0",
            "node_collector_update_node_health_duration_seconds_count +",
            r#"node_ipam_controller_cidrset_cidrs_allocations_total{clusterCIDR="10.244.0.0/22"} 1"#,
            r#"node_ipam_controller_cirdset_max_cidrs{clusterCIDR="10.244.0.0/22"} 4"#,
            r#"node_ipam_controller_cidrset_usage_cidrs{clusterCIDR="10.244.0.0/22"} 0.25"#,
            r#"node_ipam_controller_cidrset_allocation_tries_per_request_count{clusterCIDR="10.244.0.0/22"} 1"#,
        ])
        .await;
    let pod = r#"{"metadata":{"name":"p"},"spec":{"nodeName":"n","tolerations":[],
        "containers":[{"name":"c","image":"i"}]}}"#;
    world.make::<Pod>(pod).await;
    world.change::<Node>("n", r#"{"spec":{"taints":[{"key":"k","effect":"NoExecute"}]}}"#).await;
    world
        .until_metrics(&[
            "taint_eviction_controller_pod_deletions_total 1",
            "taint_eviction_controller_pod_deletion_duration_seconds_count 1",
        ])
        .await;
    let held = r#"{"metadata":{"name":"q","finalizers":["example.com/f"]},
        "spec":{"containers":[{"name":"c","image":"i"}]}}"#;
    world.make::<Pod>(held).await;
    world.delete::<Pod>("q").await;
    let forced =
        r#"pod_gc_collector_force_delete_pods_total{namespace="default",reason="unscheduled"} +"#;
    world.until_metrics(&[forced]).await;
    world.delete::<Node>("n").await;
    world
        .until_metrics(&[
            r#"node_ipam_controller_cidrset_cidrs_releases_total{clusterCIDR="10.244.0.0/22"} 1"#,
            r#"node_ipam_controller_cidrset_usage_cidrs{clusterCIDR="10.244.0.0/22"} 0"#,
        ])
        .await;
    world.stop().await;
}

/// The Ready condition is from the kubelet, and says since when the node has not been ready.
#[tokio::test]
async fn nodes_that_are_lost() {
    let world = World::start(&["nodelifecycle"]).await;
    for (name, ready) in [("good", "True"), ("bad", "False")] {
        world.make::<Node>(&format!(r#"{{"metadata":{{"name":"{name}"}}}}"#)).await;
        let status = format!(
            r#"{{"status":{{"conditions":[{{"type":"Ready","status":"{ready}",
            "lastHeartbeatTime":"{0}","lastTransitionTime":"{0}"}}]}}}}"#,
            object::Time::format(object::Clock::now(&object::SystemClock))
        );
        let patch = client::Patch::Strategic(crate::world::tree(&status));
        let key = object::NamespacedName::new("", name);
        world.api::<Node>().patch_status(&key, &patch).await.expect("a status");
    }
    world
        .until_metrics(&[
            r#"node_collector_evictions_total{zone=""} 1"#,
            r#"node_collector_zone_health{zone=""} 50"#,
        ])
        .await;
    world.stop().await;
}

#[tokio::test]
async fn sets_autoscalers_and_claims() {
    let world = World::start(&[
        "replicaset",
        "statefulset",
        "horizontalpodautoscaling",
        "ephemeral-volume",
        "resourceclaim-controller",
    ])
    .await;
    let set = |kind: &str, replicas: u8| {
        format!(
            r#"{{"metadata":{{"name":"{kind}"}},"spec":{{"replicas":{replicas},
            "selector":{{"matchLabels":{{"app":"{kind}"}}}},"template":{{"metadata":
            {{"labels":{{"app":"{kind}"}}}},"spec":{{"containers":[{{"name":"c","image":"i"}}]}}}}}}}}"#
        )
    };
    world.make::<ReplicaSet>(&set("rs", 2)).await;
    pods(&world, 2).await;
    world.run_pods().await;
    let ready = |set: &ReplicaSet| set.status().ready_replicas() == 2;
    world.until_one::<ReplicaSet>("rs", "ready", ready).await;
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await; // the ages of pods are not 0
    world.change::<ReplicaSet>("rs", r#"{"spec":{"replicas":1}}"#).await;
    world.until_metrics(&["replicaset_controller_sorting_deletion_age_ratio_count 1"]).await;
    world.delete::<ReplicaSet>("rs").await;

    world.make::<StatefulSet>(&set("ss", 2)).await;
    let labels = r#"{pod_management_policy="OrderedReady",statefulset_name="ss",statefulset_namespace="default"}"#;
    let unavailable = format!("statefulset_controller_statefulset_unavailable_replicas{labels} 2");
    let most = format!("statefulset_controller_statefulset_max_unavailable{labels} 1");
    world.until_metrics(&[&unavailable, &most]).await;

    world.make::<Deployment>(&set("web", 1)).await;
    let scaler = r#"{"metadata":{"name":"web"},"spec":{"minReplicas":2,"maxReplicas":5,
        "scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"}}}"#;
    world.make::<HorizontalPodAutoscaler>(scaler).await;
    world
        .until_metrics(&[
            r#"horizontal_pod_autoscaler_controller_reconciliations_total{action="scale_up",error="none"} 1"#,
            r#"horizontal_pod_autoscaler_controller_reconciliation_duration_seconds_count{action="scale_up",error="none"} 1"#,
            r#"horizontal_pod_autoscaler_controller_metric_computation_total{action="none",error="internal",metric_type="Resource"} +"#,
            r#"horizontal_pod_autoscaler_controller_metric_computation_duration_seconds_count{action="none",error="internal",metric_type="Resource"} +"#,
            "horizontal_pod_autoscaler_controller_num_horizontal_pod_autoscalers 1",
            r#"horizontal_pod_autoscaler_controller_desired_replicas{hpa_name="web",namespace="default"} 2"#,
        ])
        .await;
    world.delete::<HorizontalPodAutoscaler>("web").await;
    let none = "horizontal_pod_autoscaler_controller_num_horizontal_pod_autoscalers 0";
    world.until_metrics(&[none]).await;

    let volume = r#"{"metadata":{"name":"eph"},"spec":{"containers":[{"name":"c","image":"i"}],
        "volumes":[{"name":"v","ephemeral":{"volumeClaimTemplate":{"spec":{"accessModes":
        ["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}}}]}}"#;
    world.make::<Pod>(volume).await;
    world.until_metrics(&["ephemeral_volume_controller_create_total 1"]).await;

    let template = r#"{"metadata":{"name":"t"},"spec":{"spec":{"devices":{
        "requests":[{"name":"r","exactly":{"deviceClassName":"gpu.example.com"}}]}}}}"#;
    world.make::<ResourceClaimTemplate>(template).await;
    let pod = r#"{"metadata":{"name":"gpu"},"spec":{"containers":[{"name":"c","image":"i",
        "resources":{"claims":[{"name":"g"}]}}],
        "resourceClaims":[{"name":"g","resourceClaimTemplateName":"t"}]}}"#;
    world.make::<Pod>(pod).await;
    world
        .until_metrics(&[
            r#"dynamic_resource_allocation_resourceclaim_creates_total{admin_access="false",owner_api_group="",owner_api_kind="Pod",status="success"} 1"#,
            r#"dynamic_resource_allocation_resource_claims{admin_access="false",allocated="false",source="resource_claim_template"} 1"#,
        ])
        .await;
    world.stop().await;
}

#[tokio::test]
async fn publishers_of_certificates() {
    let world = World::start_with(Config {
        controllers: vec!["root-ca-cert-publisher".into()],
        root_ca: "a certificate".into(),
        ..Config::default()
    })
    .await;
    world.make::<Namespace>(r#"{"metadata":{"name":"new"}}"#).await;
    world
        .until_metrics(&[
            r#"root_ca_cert_publisher_sync_total{code="200"} +"#,
            r#"root_ca_cert_publisher_sync_duration_seconds_count{code="200"} +"#,
        ])
        .await;
    world.stop().await;
}
