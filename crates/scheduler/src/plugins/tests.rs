//! Table-driven tests of all plugins: a cluster, a pod, and the expected result.

use std::sync::Arc;

use api::core::{Node, PersistentVolume, Pod};
use object::{NamespacedName, from_json};

use crate::{NodeInfo, PodInfo, PodVolumeClaims, Snapshot, schedule};

/// Two zones, three nodes; `c` has a PreferNoSchedule taint.
const NODES: [&str; 3] = [
    r#"{"metadata":{"name":"a","labels":{"kubernetes.io/hostname":"a","zone":"x","disk":"ssd"}},
        "status":{"allocatable":{"cpu":"4","memory":"8Gi","pods":"3","example.com/gpu":"1"},
        "images":[{"names":["big:1"],"sizeBytes":900000000}]}}"#,
    r#"{"metadata":{"name":"b","labels":{"kubernetes.io/hostname":"b","zone":"x"}},
        "status":{"allocatable":{"cpu":"4","memory":"8Gi","pods":"3"}}}"#,
    r#"{"metadata":{"name":"c","labels":{"kubernetes.io/hostname":"c","zone":"y"}},
        "spec":{"taints":[{"key":"soft","effect":"PreferNoSchedule"}]},
        "status":{"allocatable":{"cpu":"4","memory":"8Gi","pods":"3"}}}"#,
];

fn pod(json: &str) -> PodInfo {
    PodInfo::new(&Pod::from(from_json(json.as_bytes()).expect("a pod")))
}

/// The feasible nodes, or the failure message; `placed` lists nodes and the pods on them.
fn outcome(placed: &[(&str, &str)], wanted: &str) -> Result<Vec<String>, String> {
    nodes_for(placed, &pod(wanted))
}

fn nodes_for(placed: &[(&str, &str)], wanted: &PodInfo) -> Result<Vec<String>, String> {
    let mut all: Snapshot = NODES
        .iter()
        .map(|json| {
            let node = Node::from(from_json(json.as_bytes()).expect("a node"));
            let here = placed.iter().filter(|(on, _)| *on == node.metadata().name());
            NodeInfo::new(&node, here.map(|(_, json)| Arc::new(pod(json))))
        })
        .collect();
    let mut found = Vec::new();
    loop {
        match schedule(wanted, &all, 100, 0) {
            Ok(name) => {
                let name = name.to_owned();
                all.update_node(&name, |node| node.allocatable.pods = 0);
                found.push(name);
            }
            Err(_) if !found.is_empty() => return Ok(found),
            Err(none) => return Err(none.to_string()),
        }
    }
}

/// The feasible nodes, best first where the order is determined.
fn nodes(placed: &[(&str, &str)], wanted: &str) -> String {
    outcome(placed, wanted).unwrap_or_else(|why| vec![why]).join(" ")
}

const WEB: &str = r#"{"metadata":{"labels":{"app":"web"}}}"#;

#[test]
fn a_node_must_have_what_is_asked() {
    let asks = |what: &str| {
        format!(r#"{{"spec":{{"containers":[{{"resources":{{"requests":{{{what}}}}}}}]}}}}"#)
    };
    assert_eq!(nodes(&[], &asks(r#""example.com/gpu":"1""#)), "a");
    let none = "0/3 nodes are available: 3 Insufficient cpu, 3 Insufficient memory.";
    assert_eq!(nodes(&[], &asks(r#""cpu":"5","memory":"9Gi""#)), none);
    let half = asks(r#""cpu":"2""#);
    assert_eq!(nodes(&[("a", &half)], &half), "b a c");
    let full: Vec<_> =
        ["a", "b", "c"].iter().flat_map(|n| [(*n, WEB), (*n, WEB), (*n, WEB)]).collect();
    assert_eq!(nodes(&full, WEB), "0/3 nodes are available: 3 Too many pods.");
}

#[test]
fn labels_names_and_taints() {
    assert_eq!(nodes(&[], r#"{"spec":{"nodeSelector":{"disk":"ssd"}}}"#), "a");
    assert_eq!(nodes(&[], r#"{"spec":{"nodeName":"b"}}"#), "b");
    let preferred = |key: &str, value: &str| {
        format!(
            r#"{{"spec":{{"tolerations":[{{"operator":"Exists"}}],"affinity":{{"nodeAffinity":{{
            "preferredDuringSchedulingIgnoredDuringExecution":[{{"weight":9,"preference":{{
            "matchExpressions":[{{"key":"{key}","operator":"In","values":["{value}"]}}]}}}}]}}}}}}}}"#
        )
    };
    assert!(nodes(&[], &preferred("zone", "y")).starts_with('c'));
    assert!(nodes(&[], &preferred("disk", "ssd")).starts_with('a'));
    assert!(nodes(&[], WEB).ends_with('c'), "its taint makes it the last choice");
    let pod = r#"{"spec":{"containers":[{"image":"big:1"}]}}"#;
    assert!(nodes(&[], pod).starts_with('a'), "it has the image");
}

#[test]
fn near_and_apart() {
    let asks = |kind: &str, key: &str| {
        format!(
            r#"{{"metadata":{{"labels":{{"app":"web"}}}},"spec":{{"affinity":{{"{kind}":{{
            "requiredDuringSchedulingIgnoredDuringExecution":[{{"topologyKey":"{key}",
            "labelSelector":{{"matchLabels":{{"app":"web"}}}}}}]}}}}}}}}"#
        )
    };
    let (near, apart) = (asks("podAffinity", "zone"), asks("podAntiAffinity", "zone"));
    assert_eq!(nodes(&[("c", WEB)], &near), "c");
    assert_eq!(outcome(&[], &near).map(|all| all.len()), Ok(3), "the first of its kind");
    assert_eq!(nodes(&[("a", WEB)], &apart), "c");
    assert_eq!(nodes(&[("a", &apart)], WEB), "c", "the other one minds");
    assert_eq!(
        nodes(&[("a", WEB), ("c", WEB)], &apart),
        "0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules."
    );
    let other = near.replace(r#""matchLabels":{"app":"web"}"#, r#""matchLabels":{"app":"db"}"#);
    assert_eq!(
        nodes(&[("a", WEB)], &other),
        "0/3 nodes are available: 3 node(s) didn't match pod affinity rules."
    );
    assert_eq!(
        nodes(&[("a", &apart), ("c", &apart)], WEB),
        "0/3 nodes are available: 3 node(s) didn't satisfy existing pods anti-affinity rules."
    );
    let elsewhere = WEB.replace(r#""labels""#, r#""namespace":"other","labels""#);
    assert_eq!(outcome(&[("a", &elsewhere)], &apart).map(|all| all.len()), Ok(3));
    let soft = apart
        .replace("required", "preferred")
        .replace(r#"[{"topologyKey""#, r#"[{"weight":5,"podAffinityTerm":{"topologyKey""#)
        .replace(r#""web"}}}]"#, r#""web"}}}}]"#);
    assert_eq!(nodes(&[("a", WEB)], &soft).len(), 5, "all will do");
    assert!(
        nodes(
            &[("b", WEB), ("c", WEB), ("c", WEB)],
            &soft.replace("zone", "kubernetes.io/hostname")
        )
        .starts_with('a')
    );
}

#[test]
fn evenly_spread() {
    let asks = |when: &str, key: &str| {
        format!(
            r#"{{"metadata":{{"labels":{{"app":"web"}}}},"spec":{{"topologySpreadConstraints":[{{
            "maxSkew":1,"topologyKey":"{key}","whenUnsatisfiable":"{when}",
            "labelSelector":{{"matchLabels":{{"app":"web"}}}}}}]}}}}"#
        )
    };
    assert_eq!(nodes(&[("a", WEB)], &asks("DoNotSchedule", "zone")), "c");
    assert_eq!(
        nodes(&[], &asks("DoNotSchedule", "rack")),
        "0/3 nodes are available: 3 node(s) didn't match pod topology spread constraints \
         (missing required label)."
    );
    let wanted =
        asks("DoNotSchedule", "zone").replace(r#""maxSkew":1"#, r#""maxSkew":1,"minDomains":3"#);
    assert_eq!(
        nodes(&[("a", WEB), ("c", WEB)], &wanted),
        "0/3 nodes are available: 3 node(s) didn't match pod topology spread constraints."
    );
    let soft = asks("ScheduleAnyway", "kubernetes.io/hostname");
    assert!(nodes(&[("a", WEB)], &soft).starts_with('b'));
    assert!(nodes(&[("b", WEB)], &soft).starts_with('a'));
}

#[test]
fn volumes_are_reached_from_some_nodes() {
    let volume = r#"{"spec":{"nodeAffinity":{"required":{"nodeSelectorTerms":[{"matchExpressions":
        [{"key":"zone","operator":"In","values":["y"]}]}]}}}}"#;
    let volume = PersistentVolume::from(from_json(volume.as_bytes()).expect("a volume"));
    let bound = PodVolumeClaims { bound_volumes: vec![volume], ..PodVolumeClaims::default() };
    let unmade = PodVolumeClaims {
        unbound_delayed: vec![NamespacedName::new("", "c")],
        ..PodVolumeClaims::default()
    };
    let selected = PodVolumeClaims { selected_node: Some("b".into()), ..unmade.clone() };
    let by_hand = PodVolumeClaims { no_provisioner: true, ..unmade.clone() };
    let fits = |claimed: PodVolumeClaims| nodes_for(&[], &pod(WEB).with_claimed(claimed));
    assert_eq!(fits(bound), Ok(vec!["c".into()]));
    assert_eq!(fits(unmade).map(|all| all.len()), Ok(3));
    assert_eq!(fits(selected), Ok(vec!["b".into()]));
    let none =
        "0/3 nodes are available: 3 node(s) didn't find available persistent volumes to bind.";
    assert_eq!(fits(by_hand), Err(none.into()));
}
