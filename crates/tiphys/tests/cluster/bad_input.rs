//! Users' mistakes: each gets a precise error, nothing is lost and nothing hangs.

use std::process::Command;

use crate::world::{World, output, run, said};

const UNKNOWN_FIELD: &str = r"
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  nonsense: 1
  containers: [{name: c, image: tiphys.local/hello:1}]
";
const INVALID: &str = r"
apiVersion: v1
kind: Pod
metadata: {name: Not_a_name}
spec:
  restartPolicy: Sometimes
  containers: []
";
const UNKNOWN_KIND: &str = "apiVersion: example.org/v1\nkind: Nonsense\nmetadata: {name: thing}";
const BROKEN: &str = "apiVersion: v1\nkind: [\n";
/// A pod with an image in a registry where nothing listens.
const MISSING_IMAGE: &str = r"
apiVersion: v1
kind: Pod
metadata: {name: missing}
spec:
  containers: [{name: c, image: '127.0.0.1:1/none:1'}]
";

#[test]
fn bad_requests_get_upstreams_answers() {
    let world = World::new("bad");
    world.tiphys(&["up", "--node-name", "n1"]);
    let create = |name: &str, text: &str| {
        let path = world.file(name, text);
        world.refused(&["create", "-f", &path])
    };
    let answer = create("field.yaml", UNKNOWN_FIELD);
    assert!(answer.starts_with("Error from server (BadRequest): "), "{answer}");
    assert!(answer.contains("strict decoding error: unknown field \"spec.nonsense\""), "{answer}");
    let answer = create("invalid.yaml", INVALID);
    assert!(answer.contains("The Pod \"Not_a_name\" is invalid"), "{answer}");
    assert!(answer.contains("spec.containers: Required value"), "{answer}");
    assert!(answer.contains("Unsupported value: \"Sometimes\""), "{answer}");
    let answer = create("kind.yaml", UNKNOWN_KIND);
    assert!(
        answer.contains("no matches for kind \"Nonsense\" in version \"example.org/v1\""),
        "{answer}"
    );
    assert!(answer.contains("ensure CRDs are installed first"), "{answer}");
    let answer = create("broken.yaml", BROKEN);
    assert!(answer.contains("error parsing") && answer.contains("line"), "{answer}");
    assert_eq!(world.kubectl(&["get", "pods", "-o", "name"]), "");

    let stranger = [
        "kubectl",
        "--server=https://127.0.0.1:6443",
        "--insecure-skip-tls-verify",
        "--token=wrong",
        "get",
        "pods",
    ];
    let answer = said(&output(&mut world.command(&stranger)));
    assert!(answer.contains("You must be logged in to the server (Unauthorized)"), "{answer}");

    let path = world.file("missing.yaml", MISSING_IMAGE);
    world.kubectl(&["create", "-f", &path]);
    let reason = "jsonpath={.status.containerStatuses[0].state.waiting.reason}";
    world.until("the missing image is told", || {
        let reason = world.try_kubectl(&["get", "pod", "missing", "-o", reason]);
        reason == "ErrImagePull" || reason == "ImagePullBackOff"
    });
    world.until("it is told as an event", || {
        world.try_kubectl(&["describe", "pod", "missing"]).contains("Failed to pull image")
    });
    world.kubectl(&["delete", "pod", "missing", "--grace-period=1"]);
    world.tiphys(&["down", "--now"]);
    world.assert_nothing_left();
}

#[test]
fn a_full_disk_refuses_and_recovers() {
    let world = World::new("full");
    let store = world.path().join("store");
    std::fs::create_dir(&store).expect("a folder");
    run(Command::new("mount").args(["-t", "tmpfs", "-o", "size=96m", "tmpfs"]).arg(&store));
    world.tiphys(&["up", "--node-name", "n1", "--disable", "kubelet,proxy,dns,scheduler"]);
    let content = world.file("content", &"x".repeat(900_000));
    let create = |n: u32| {
        let from = format!("--from-file={content}");
        let command = ["create", "configmap", &format!("big-{n}"), &from];
        output(&mut world.kubectl_command(&command))
    };
    let refused = (0..200).find_map(|n| {
        let out = create(n);
        (!out.status.success()).then(|| (n, said(&out)))
    });
    let (refused, answer) = refused.expect("96 MB do not hold 200 objects of almost 1 MB");
    assert!(answer.contains("no space") || answer.contains("full"), "{answer}");
    let there = world.kubectl(&["get", "configmaps", "-o", "name"]);
    for n in 0..refused {
        assert!(there.contains(&format!("configmap/big-{n}\n")), "what was acknowledged: {there}");
        world.kubectl(&["delete", "configmap", &format!("big-{n}")]);
    }
    world.until("there is room again", || create(99).status.success());
    world.tiphys(&["down", "--now"]);
    world.assert_nothing_left();
}
