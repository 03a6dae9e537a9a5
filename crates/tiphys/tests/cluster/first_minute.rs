//! The first minute of a user: one command from nothing to an application that responds, with real containers, in a
//! network namespace without external connectivity.

use std::{fs, path::PathBuf, thread::sleep, time::Duration};

use crate::world::World;

#[test]
fn up_runs_an_application_heals_and_leaves_nothing() {
    let world = World::new("story");
    let said = world.tiphys(&["up", "--node-name", "n1", "--demo"]);
    assert!(said.contains("Hello from hello-"), "{said}");
    let url = said.split_whitespace().find(|word| word.starts_with("http://")).expect("an address");

    let second = world.try_tiphys(&["up"]);
    assert!(second.contains("already runs"), "{second}");

    let nodes = world.kubectl(&["get", "nodes"]);
    assert!(nodes.contains("n1") && nodes.contains(" Ready "), "{nodes}");
    let pods = world.kubectl(&["get", "pods", "-l", "app=hello", "-o", "name"]);
    let pods: Vec<&str> = pods.lines().collect();
    assert_eq!(pods.len(), 3, "{pods:?}");

    // by DNS name, from inside a pod
    world.until("the name answers", || {
        let fetch = ["exec", pods[0], "--", "/tiphys", "hello", "--fetch"];
        let fetch = [&fetch[..], &["http://hello.default.svc.cluster.local/"]].concat();
        world.try_kubectl(&fetch).contains("Hello from hello-")
    });

    // a deleted pod is recreated
    world.kubectl(&["delete", pods[0]]);
    world.until("three pods are ready", || {
        let ready = ["get", "deploy", "hello", "-o", "jsonpath={.status.readyReplicas}"];
        world.try_kubectl(&ready) == "3"
    });

    // the chain of causes goes back to the Deployment
    let pod = world.kubectl(&["get", "pods", "-l", "app=hello", "-o", "name"]);
    let pod = pod.lines().next().expect("a pod");
    let why = world.tiphys_at(&["why", pod], "--kubeconfig", "kubeconfig/admin");
    assert!(why.contains("by system:kube-scheduler"), "{why}");
    assert!(why.contains("deployments/default/hello by kubernetes-admin"), "{why}");

    // the processes have names that administrators search for
    for (part, name) in [("control", "tiphys"), ("node", "kubelet")] {
        let pid = world.pid(part).expect("it runs");
        let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).expect("text");
        assert_eq!(read("comm").trim(), name);
        let program = read("cmdline").split('\0').next().map(PathBuf::from).expect("a program");
        assert_eq!(program.file_name().expect("a name"), name);
    }

    // control and node are killed; containers keep running, nothing is lost
    for part in ["control", "node"] {
        world.kill(part);
        assert!(world.fetch(url).contains("Hello from hello-"), "while {part} is away");
        world.until("the node is ready again", || {
            world.try_kubectl(&["get", "nodes"]).contains(" Ready ")
        });
    }
    sleep(Duration::from_secs(1));
    let restarts = ["get", "pods", "-l", "app=hello", "-o"];
    let restarts =
        [&restarts[..], &["jsonpath={.items[*].status.containerStatuses[*].restartCount}"]];
    assert_eq!(world.kubectl(&restarts.concat()), "0 0 0");

    world.tiphys(&["down"]);
    world.assert_nothing_left();
}

#[test]
fn wrong_commands_say_what_is_wrong() {
    let world = World::new("errors");
    for version in ["version", "--version"] {
        assert!(world.tiphys(&[version]).contains("Kubernetes v1.37.1"));
    }
    assert!(world.try_tiphys(&["up", "--disable", "nonsense"]).contains("the parts are"));
    assert!(world.try_tiphys(&["down"]).contains("there is no cluster"));
    assert!(
        world.try_tiphys(&["kube-apiserver", "--no-such-flag"]).contains("unexpected argument")
    );
}
