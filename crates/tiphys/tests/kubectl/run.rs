//! `run` with attached streams: output, exit codes, and containers that exit before kubectl attaches.

use std::process::Output;

use crate::{
    cluster::{Cluster, code, stderr, stdout},
    image,
};

pub(crate) fn all(cluster: &Cluster) {
    short_ones(cluster);
    without_attaching(cluster);
    input_ends(cluster);
    input_stays_open(cluster);
}

fn run(cluster: &Cluster, name: &str, flags: &[&str], command: &[&str], input: &str) -> Output {
    let image = format!("--image={}", image::SHELL);
    let first = ["run", name, &image, "--image-pull-policy=Never", "--pod-running-timeout=2m"];
    cluster.with_input(&[&first, flags, &["--"], command].concat(), input.as_bytes())
}

/// The container has exited before the attach: kubectl prints its log.
fn short_ones(cluster: &Cluster) {
    let flags = ["--rm", "-i", "--restart=Never"];
    for at in 0..3 {
        let name = format!("short-{at}");
        let out = run(cluster, &name, &flags, &["echo", "hi"], "");
        let expected = format!("hi\npod \"{name}\" deleted from default namespace\n");
        assert_eq!((code(&out), stdout(&out)), (0, expected), "{}", stderr(&out));
    }
    let out = run(cluster, "fails", &flags, &["sh", "-c", "echo out; exit 5"], "");
    assert_eq!(code(&out), 5, "{}", stderr(&out));
    assert!(stdout(&out).starts_with("out\n"), "{}", stdout(&out));
    assert!(stderr(&out).contains("pod default/fails terminated (Error)\n"), "{}", stderr(&out));
    let out = run(
        cluster,
        "slow",
        &["--rm", "--attach", "--restart=Never", "-q"],
        &["sh", "-c", "sleep 2; echo done"],
        "",
    );
    assert_eq!((code(&out), &*stdout(&out), &*stderr(&out)), (0, "done\n", ""));
}

fn without_attaching(cluster: &Cluster) {
    let out = run(cluster, "apart", &["-i", "--attach=false", "--restart=Never"], &["cat"], "");
    assert_eq!((code(&out), &*stdout(&out)), (0, "pod/apart created\n"), "{}", stderr(&out));
    cluster.world().kubectl(&["delete", "pod", "apart", "--now"]);
}

fn input_ends(cluster: &Cluster) {
    let script = "echo -n read: && cat && echo 'stdin closed'";
    let flags = ["--restart=OnFailure", "--attach=true", "--stdin"];
    let out = run(cluster, "reads", &flags, &["sh", "-c", script], "value\nabcd1234");
    assert_eq!(code(&out), 0, "{}", stderr(&out));
    let log = cluster.world().kubectl(&["logs", "reads"]);
    assert_eq!(log, "read:value\nabcd1234stdin closed\n");

    // without --stdin the container's input is empty
    let flags = ["--restart=OnFailure", "--attach=true", "--leave-stdin-open=true"];
    let out =
        run(cluster, "empty", &flags, &["sh", "-c", "cat && echo 'stdin closed'"], "abcd1234");
    assert_eq!(code(&out), 0, "{}", stderr(&out));
    assert_eq!(stdout(&out), "stdin closed\n");
    cluster.world().kubectl(&["delete", "pod", "reads", "empty", "--now"]);
}

/// The end of our input does not close the container's: the command ends, the container keeps running.
fn input_stays_open(cluster: &Cluster) {
    let flags = ["--restart=OnFailure", "--attach=true", "--leave-stdin-open=true", "--stdin"];
    let out =
        run(cluster, "open", &flags, &["sh", "-c", "cat && echo 'stdin closed'"], "abcd1234\n");
    assert_eq!(code(&out), 0, "{}", stderr(&out));
    let world = cluster.world();
    world.until("the line arrives", || world.try_kubectl(&["logs", "open"]) == "abcd1234\n");
    let phase = world.kubectl(&["get", "pod", "open", "-o", "jsonpath={.status.phase}"]);
    assert_eq!(phase, "Running");
    world.kubectl(&["delete", "pod", "open", "--now"]);
}
