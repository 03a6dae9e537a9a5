//! Tests of node selection, ignored pods, and retries.

use api::core::{Node, Pod};
use scheduler::Config;
use testkit::condition;

use crate::World;

#[tokio::test]
async fn a_pod_goes_where_it_fits_and_both_hear_of_it() {
    let world = World::start().await;
    world.create_node("small", "", r#""cpu":"1","pods":"10""#).await;
    world.create_node("large", "", r#""cpu":"4","pods":"10""#).await;
    world.pod("p", "2", "").await;
    let pod = world.until_placed("p", "large").await;
    assert_eq!(condition(&pod, "PodScheduled").map(|found| found.0).as_deref(), Some("True"));
    let event = world.until_event("p", "Scheduled").await;
    assert_eq!(event.message(), "Successfully assigned default/p to large");
    world.stop().await;
}

/// One pod for each field of a spec that restricts the nodes.
#[tokio::test]
async fn each_rule_leads_to_its_node() {
    let world = World::start().await;
    let nodes = [
        ("labelled", r#""disk":"ssd""#, "[]"),
        ("tainted", "", r#"[{"key":"only","value":"x","effect":"NoSchedule"}]"#),
        ("cordoned", "", r#"[{"key":"node.kubernetes.io/unschedulable","effect":"NoSchedule"}]"#),
    ];
    for (name, labels, taints) in nodes {
        world.create_node(name, labels, r#""cpu":"8","pods":"20""#).await;
        world.patch::<Node>(name, &format!(r#"{{"spec":{{"taints":{taints}}}}}"#)).await;
    }
    world.patch::<Node>("cordoned", r#"{"spec":{"unschedulable":true}}"#).await;
    let affinity = |operator: &str| {
        format!(
            r#""affinity":{{"nodeAffinity":{{"requiredDuringSchedulingIgnoredDuringExecution":
            {{"nodeSelectorTerms":[{{"matchExpressions":[{{"key":"disk","operator":"{operator}"}}]}}]}}}}}},"#
        )
    };
    let tolerates = |rest: &str| format!(r#""tolerations":[{{"operator":"Exists"}}],{rest}"#);
    let taint = r#""tolerations":[{"key":"only","operator":"Equal","value":"x"}],"#;
    let field = r#""affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":
        {"nodeSelectorTerms":[{"matchFields":[{"key":"metadata.name","operator":"In",
        "values":["cordoned"]}]}]}}},"#;
    let placed = [
        ("any", String::new(), "labelled"),
        ("selector", r#""nodeSelector":{"disk":"ssd"},"#.to_owned(), "labelled"),
        ("exists", tolerates(&affinity("Exists")), "labelled"),
        ("toleration", format!("{taint}{}", affinity("DoesNotExist")), "tainted"),
        ("field", tolerates(field), "cordoned"),
    ];
    for (name, spec, node) in &placed {
        world.pod(name, "100m", spec).await;
        world.until_placed(name, node).await;
    }
    world
        .pod(
            "wrong-value",
            "1",
            &format!("{}{}", taint.replace('x', "y"), affinity("DoesNotExist")),
        )
        .await;
    let message = "0/3 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, \
        1 node(s) had untolerated taint(s), 1 node(s) were unschedulable. preemption: 0/3 nodes are \
        available: 3 Preemption is not helpful for scheduling.";
    world.until_unschedulable("wrong-value", message).await;
    world.stop().await;
}

#[tokio::test]
async fn pods_of_others_and_gated_pods_are_left_alone() {
    let world =
        World::start_with(Config { scheduler_name: "ours".into(), ..Config::default() }).await;
    world.create_node("n", "", r#""cpu":"8","pods":"10""#).await;
    world.pod("theirs", "1", r#""schedulerName":"another","#).await;
    world.pod("usual", "1", "").await;
    let ours = r#""schedulerName":"ours","#;
    world
        .pod("gated", "1", &format!(r#"{ours}"schedulingGates":[{{"name":"example.com/wait"}}],"#))
        .await;
    // It was created last and is scheduled: the pods before it were seen and ignored.
    world.pod("ours", "1", ours).await;
    world.until_placed("ours", "n").await;
    for (name, expected) in [("theirs", None), ("usual", None), ("gated", Some("SchedulingGated"))]
    {
        let pod = world.get::<Pod>(name).await;
        assert_eq!(pod.spec().node_name(), "", "{name}");
        let reason = condition(&pod, "PodScheduled").map(|(_, reason, _)| reason);
        assert_eq!(reason.as_deref(), expected, "{name}");
    }
    world.patch::<Pod>("gated", r#"{"spec":{"schedulingGates":null}}"#).await;
    world.until_placed("gated", "n").await;
    assert_eq!(world.get::<Pod>("theirs").await.spec().node_name(), "");
    world.stop().await;
}

/// An unschedulable pod is scheduled as soon as a helpful change occurs.
#[tokio::test]
async fn what_changes_brings_pods_back() {
    let world = World::start().await;
    world.pod("first", "1", "").await;
    world.until_unschedulable("first", "no nodes available to schedule pods").await;
    let event = world.until_event("first", "FailedScheduling").await;
    assert_eq!(event.message(), "no nodes available to schedule pods");
    world.create_node("a", "", r#""cpu":"1","pods":"10""#).await;
    world.until_placed("first", "a").await;

    let full = "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: \
        1 No preemption victims found for incoming pod.";
    world.pod("second", "1", "").await;
    world.until_unschedulable("second", full).await;
    world.delete_now::<Pod>("first").await;
    world.until_placed("second", "a").await;

    world.pod("third", "1", "").await;
    world.until_unschedulable("third", full).await;
    world.patch_status::<Pod>("second", r#"{"status":{"phase":"Succeeded"}}"#).await;
    world.until_placed("third", "a").await;

    let none = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector. preemption: \
        0/1 nodes are available: 1 Preemption is not helpful for scheduling.";
    world.pod("fourth", "0", r#""nodeSelector":{"disk":"ssd"},"#).await;
    world.until_unschedulable("fourth", none).await;
    world.patch::<Node>("a", r#"{"metadata":{"labels":{"disk":"ssd"}}}"#).await;
    world.until_placed("fourth", "a").await;
    world.stop().await;
}
