//! Which cluster commands select, and `why` for a pod that is unschedulable.

use std::{
    fs,
    process::{Command, Stdio},
};

use crate::{
    cluster::{Cluster, POD, code, stderr, stdout},
    world::output,
};

pub(crate) fn all(cluster: &Cluster) {
    finds_the_cluster_of_this_machine(cluster);
    config_commands_use_the_same_file(cluster);
    request_timeout_ends_a_watch(cluster);
    wrong_files_are_named(cluster);
    reasons_of_each_node(cluster);
}

/// A command of a user without a kubeconfig.
fn bare(cluster: &Cluster, args: &[&str]) -> Command {
    let mut command = cluster.world().command(args);
    command.env_clear().env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin").env("HOME", "/nonexistent");
    command.env("TIPHYS_DATA_DIR", cluster.world().path()).stdin(Stdio::null());
    command
}

fn finds_the_cluster_of_this_machine(cluster: &Cluster) {
    for args in [&["kubectl", "get", "nodes", "-o", "name"][..], &["why", "node/n1"]] {
        let out = output(&mut bare(cluster, args));
        assert_eq!(code(&out), 0, "{args:?}: {}", stderr(&out));
        assert!(stdout(&out).contains("n1"), "{args:?}: {}", stdout(&out));
    }
    // a kubeconfig that the user names takes precedence
    let config = cluster.world().path().join("kubeconfig/admin");
    for args in [&["kubectl", "get", "pods", "-o", "name"][..], &["why", &format!("pod/{POD}")]] {
        let mut command = bare(cluster, args);
        let out = output(command.env("KUBECONFIG", &config).env("TIPHYS_DATA_DIR", "/nonexistent"));
        assert_eq!(code(&out), 0, "{args:?}: {}", stderr(&out));
        assert!(stdout(&out).contains(POD), "{args:?}: {}", stdout(&out));
    }
}

/// `config` shows and changes the kubeconfig that the other commands use.
fn config_commands_use_the_same_file(cluster: &Cluster) {
    let copy = tempfile::tempdir().expect("a folder");
    let admin = copy.path().join("kubeconfig/admin");
    fs::create_dir(copy.path().join("kubeconfig")).expect("a folder");
    fs::copy(cluster.world().path().join("kubeconfig/admin"), &admin).expect("a copy");
    let run = |args: &[&str]| {
        let mut command = bare(cluster, &[&["kubectl"], args].concat());
        let out = output(command.env("TIPHYS_DATA_DIR", copy.path()));
        assert_eq!(code(&out), 0, "{args:?}: {}", stderr(&out));
        stdout(&out)
    };
    assert!(run(&["config", "view"]).contains("current-context: kubernetes-admin@tiphys"));
    run(&["config", "set-context", "--current", "--namespace=kube-system"]);
    let namespace = ["config", "view", "--minify", "-o", "jsonpath={..namespace}"];
    assert_eq!(run(&namespace), "kube-system");
    let pods = run(&["get", "pods", "-o", "name"]);
    assert!(!pods.contains(POD), "the pod is in another namespace: {pods}");
}

fn request_timeout_ends_a_watch(cluster: &Cluster) {
    let args = ["kubectl", "get", "nodes", "-o", "name", "--watch", "--request-timeout=10s"];
    let out = output(&mut bare(cluster, &args));
    assert_eq!((code(&out), &*stderr(&out)), (0, ""));
    assert!(stdout(&out).contains("node/n1"), "{}", stdout(&out));
}

fn wrong_files_are_named(cluster: &Cluster) {
    let args = ["kubectl", "--kubeconfig", "/nonexistent/file", "get", "nodes"];
    let out = output(&mut bare(cluster, &args));
    let expected = "error: stat /nonexistent/file: no such file or directory\n";
    assert_eq!((code(&out), &*stderr(&out)), (1, expected));
    let out = output(&mut bare(cluster, &["why", "node/n1", "--kubeconfig", "/nonexistent/file"]));
    assert_eq!(code(&out), 1);
    assert!(stderr(&out).contains("/nonexistent/file"), "{}", stderr(&out));
    let mut command = bare(cluster, &["why", "node/n1"]);
    let out = output(command.env("KUBECONFIG", "/nonexistent/other"));
    assert_eq!(code(&out), 1);
    assert!(stderr(&out).contains("/nonexistent/other"), "{}", stderr(&out));
}

/// Two nodes that exist as API objects only, and the real one, which is too small.
fn reasons_of_each_node(cluster: &Cluster) {
    let world = cluster.world();
    for (node, cordoned) in [("paper-1", true), ("paper-2", false)] {
        cluster.create(&format!(
            "{{apiVersion: v1, kind: Node, metadata: {{name: {node}}}, spec: {{unschedulable: {cordoned}, taints: [{{key: paper, effect: NoSchedule}}]}}}}"
        ));
    }
    let big = crate::cluster::pod("big", "sleep 1", "    resources: {requests: {cpu: 1000}}");
    cluster.create(&big);
    let why = || {
        let config = world.path().join("kubeconfig/admin");
        let mut command = bare(cluster, &["why", "pod/big"]);
        stdout(&output(command.env("KUBECONFIG", config)))
    };
    let shown = |one: &str, other: &str| {
        let expected = format!("  n1: Insufficient cpu\n  paper-1: {one}\n  paper-2: {other}\n");
        world.until("the reasons of each node are shown", || {
            let text = why();
            text.starts_with("not scheduled: 0/3 nodes are available: ") && text.contains(&expected)
        });
    };
    let (cordoned, tainted) = ("node(s) were unschedulable", "node(s) had untolerated taint(s)");
    shown(cordoned, tainted);
    // the same reasons, but for other nodes
    world.kubectl(&["uncordon", "paper-1"]);
    world.kubectl(&["cordon", "paper-2"]);
    shown(tainted, cordoned);
    let text = why();
    let writes = text.lines().filter(|line| line.contains("by kubernetes-admin")).count();
    assert_eq!(writes, 1, "the pod's creation is shown once: {text}");
    world.kubectl(&["delete", "pod", "big"]);
    world.kubectl(&["delete", "node", "paper-1", "paper-2"]);
}
