//! `exec` through pipes: all data arrives, exit codes are returned, and a closed pipe is no failure.

use std::process::{Output, Stdio};

use crate::cluster::{Cluster, POD, code, stderr, stdout};

pub(crate) fn all(cluster: &Cluster) {
    exit_codes(cluster);
    big_streams(cluster);
    input_that_nobody_reads(cluster);
    closed_pipes(cluster);
    over_spdy(cluster);
}

/// Uses SPDY, as with servers that do not support WebSockets.
fn over_spdy(cluster: &Cluster) {
    let script = "head -c 2000000 /dev/urandom > $D/in && cat $D/in | kubectl exec -i $POD -- cat | cmp - $D/in && echo same
kubectl exec $POD -- sh -c 'echo out; echo err >&2; exit 5'; echo $?
head -c 4000000 /dev/zero | kubectl exec -i $POD -- head -c 3 | wc -c
kubectl exec $POD -- yes | head -1; echo ${PIPESTATUS[0]}";
    let folder = cluster.world().path().display();
    let out = cluster.bash(&format!(
        "export KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false POD={POD} D={folder}\n{script}"
    ));
    let (said, wrong) = (stdout(&out), stderr(&out));
    assert_eq!(said, "same\nout\n5\n3\ny\n141\n", "{wrong}");
    assert_eq!(wrong, "err\ncommand terminated with exit code 5\n");
}

fn exec(cluster: &Cluster, script: &str) -> Output {
    cluster.kubectl(&["exec", POD, "--", "sh", "-c", script])
}

fn exit_codes(cluster: &Cluster) {
    for wanted in [0, 1, 2, 126, 127, 200, 255] {
        let out = exec(cluster, &format!("echo out; echo err >&2; exit {wanted}"));
        assert_eq!((code(&out), &*stdout(&out)), (wanted, "out\n"), "{}", stderr(&out));
        let last = match wanted {
            0 => String::new(),
            wanted => format!("command terminated with exit code {wanted}\n"),
        };
        assert_eq!(stderr(&out), format!("err\n{last}"));
    }
    assert_eq!(code(&exec(cluster, "kill -TERM $$")), 143);
}

fn big_streams(cluster: &Cluster) {
    let input: Vec<u8> =
        (0..6_000_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let out = cluster.with_input(&["exec", "-i", POD, "--", "cat"], &input);
    assert_eq!(code(&out), 0, "{}", stderr(&out));
    assert!(out.stdout == input, "{} bytes came back", out.stdout.len());
}

fn input_that_nobody_reads(cluster: &Cluster) {
    let input = vec![b'x'; 4_000_000];
    let out = cluster.with_input(&["exec", "-i", POD, "--", "head", "-c", "3"], &input);
    assert_eq!((code(&out), &*stdout(&out)), (0, "xxx"), "{}", stderr(&out));
    let out = cluster.with_input(&["exec", "-i", POD, "--", "sh", "-c", "exit 9"], &input);
    assert_eq!(code(&out), 9, "{}", stderr(&out));
    // an input that stays open without data
    let mut command = cluster.command(&["exec", "-i", POD, "--", "sh", "-c", "exit 8"]);
    let mut child = command.stdin(Stdio::piped()).spawn().expect("the executable starts");
    let open = child.stdin.take();
    assert_eq!(child.wait().expect("it ends").code(), Some(8));
    drop(open);
}

/// A command whose output pipe is closed exits silently, as with SIGPIPE.
fn closed_pipes(cluster: &Cluster) {
    let endless = format!("kubectl exec {POD} -- yes | head -1; echo ${{PIPESTATUS[0]}}");
    let out = cluster.bash(&endless);
    assert_eq!((&*stdout(&out), &*stderr(&out)), ("y\n141\n", ""));
    let closed =
        "kubectl get pods -A | true; exec 3> >(sleep 0); wait $!; kubectl get pods -A >&3; echo $?";
    let out = cluster.bash(closed);
    assert_eq!((stdout(&out).trim(), &*stderr(&out)), ("141", ""));
    // the same for all other commands
    let closed = "exec 3> >(sleep 0); wait $!; for c in version help status 'up --help'; do $TIPHYS $c >&3; echo $?; done";
    let out = cluster.bash(closed);
    let wrong = stderr(&out);
    assert!(!wrong.contains("panicked"), "{wrong}");
    assert_eq!(stdout(&out).lines().take(3).collect::<Vec<_>>(), ["141", "141", "141"], "{wrong}");
}
