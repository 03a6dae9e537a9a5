//! A second host joins, runs its share of the pods, stops, and comes back.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use crate::world::{World, run};

/// An application whose tolerations evict its pods from an unreachable node sooner than after the default five
/// minutes.
const APPLICATION: &str = r"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 4
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      tolerations:
      - {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 1}
      - {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 1}
      containers:
      - name: hello
        image: tiphys.local/hello:1
        readinessProbe: {httpGet: {path: /, port: 80}, periodSeconds: 1}
";
/// Timeout for the node to become unreachable: a lease that is not renewed is noticed after 50 s.
const NOTICED: Duration = Duration::from_mins(2);

#[test]
fn pods_leave_a_node_that_stops_and_it_can_come_back() {
    let (first, second) = World::pair("join");
    let membership = two_nodes(&first, &second, APPLICATION);
    pods_reach_each_other(&first);

    // A container that is killed is restarted.
    kill_a_container(&first);
    first.until("the container is back", || restarts(&first) == 1 && ready(&first) == "4");

    second.kill("supervisor");
    second.kill("node");
    first.within(NOTICED, "all pods are ready on the node that is left", || {
        ready(&first) == "4" && !running_on(&first).contains("n2")
    });

    second.tiphys(&["join", "--kubeconfig", &membership]);
    first.until("the node is ready again", || {
        first.try_kubectl(&["get", "node", "n2"]).contains(" Ready ")
    });
    first.until("what it ran before has ended", || nodes_of(&first).split(' ').count() == 4);

    second.tiphys(&["down"]);
    second.assert_nothing_left();
    first.tiphys(&["down"]);
    first.assert_nothing_left();
}

/// A host joins with a token and the hash of the CA, and its certificate is renewed before it expires.
#[test]
fn a_node_joins_by_token_and_keeps_its_certificate_fresh() {
    let (first, second) = World::pair("token");
    let lives = "cluster-signing-duration=40s";
    first.tiphys(&["up", "--node-name", "n1", "--kube-controller-manager-arg", lives]);
    let command = first.tiphys(&["token", "create", "--ttl", "10m", "--description", "for n2"]);
    let words: Vec<&str> = command.split_whitespace().skip(1).collect();
    let [_, server, _, token, _, hash] = words[..] else { panic!("{command}") };
    let id = &token[..6];
    let listed = first.tiphys(&["token", "list"]);
    assert!(
        listed.contains(id) && listed.contains("for n2") && !listed.contains(&token[7..]),
        "{listed}"
    );

    // The wrong CA, the wrong secret, a name that is taken, a token that is none.
    let join = |token: &str, hash: &str, name: &str| {
        second.try_tiphys(&[
            "join",
            server,
            "--token",
            token,
            "--ca-hash",
            hash,
            "--node-name",
            name,
        ])
    };
    let other = format!("sha256:{}", "0".repeat(64));
    let refused = join(token, &other, "n2");
    assert!(refused.contains("is not the one of --ca-hash"), "{refused}");
    let refused = join(&format!("{id}.0000000000000000"), hash, "n2");
    assert!(refused.contains("not signed by this token"), "{refused}");
    let refused = join(token, hash, "n1");
    assert!(refused.contains("has a ready node called n1"), "{refused}");
    let refused = join("nonsense", hash, "n2");
    assert!(refused.contains("a token is six lower case letters"), "{refused}");

    let said = join(token, hash, "n2");
    assert!(said.contains("n2 has joined"), "{said}");
    let application = first.file("web.yaml", APPLICATION);
    first.kubectl(&["apply", "-f", &application]);
    first.until("all pods are ready", || ready(&first) == "4");
    assert!(nodes_of(&first).contains("n2"), "{}", nodes_of(&first));
    pods_reach_each_other(&first);

    // The first certificate lives for 40 s, and the node stays ready for longer than that.
    let file = second.path().join("pki/kubelet-client-current.pem");
    let original = std::fs::read(&file).expect("a certificate");
    first.until("the certificate is renewed", || {
        std::fs::read(&file).is_ok_and(|now| now != original)
    });
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(45) {
        assert!(first.try_kubectl(&["get", "node", "n2"]).contains(" Ready "), "the node is ready");
        std::thread::sleep(Duration::from_secs(1));
    }
    let pod = first.kubectl(&["get", "pods", "--field-selector", "spec.nodeName=n2", "-o", "name"]);
    let pod = pod.lines().next().expect("a pod on n2").to_owned();
    first.kubectl(&["exec", &pod, "--", "/tiphys", "version"]);
    first.tiphys(&["token", "delete", id]);
    assert!(!first.tiphys(&["token", "list"]).contains(id));

    second.tiphys(&["down"]);
    second.assert_nothing_left();
    first.tiphys(&["down"]);
    first.assert_nothing_left();
}

/// With the default tolerations.
#[test]
#[ignore = "takes more than six minutes"]
fn pods_stay_for_five_minutes_on_a_node_that_is_away() {
    let (first, second) = World::pair("patient");
    let is_toleration = |line: &&str| line.contains("tolerations") || line.contains("- {key");
    let usual: Vec<&str> = APPLICATION.lines().filter(|line| !is_toleration(line)).collect();
    two_nodes(&first, &second, &usual.join("\n"));
    second.kill("supervisor");
    second.kill("node");
    first.within(NOTICED, "the node is known to be away", || {
        let taints = "jsonpath={.spec.taints[?(@.effect=='NoExecute')].key}";
        first.try_kubectl(&["get", "node", "n2", "-o", taints]).contains("unreachable")
    });
    let began = Instant::now();
    first.within(Duration::from_mins(10), "all pods are ready on the node that is left", || {
        ready(&first) == "4" && !running_on(&first).contains("n2")
    });
    let stayed = began.elapsed();
    println!("pods left after {} s", stayed.as_secs());
    assert!(stayed > Duration::from_secs(280), "{stayed:?}");
}

/// Starts two nodes that share the pods of an application. Returns the membership file of the second.
fn two_nodes(first: &World, second: &World, application: &str) -> String {
    first.tiphys(&["up", "--node-name", "n1"]);
    let refused = first.try_tiphys(&["kubeconfig", "--node", "N_2"]);
    assert!(refused.contains("--node \"N_2\": a node's name has lower case"), "{refused}");
    let membership = second.file("membership", &first.tiphys(&["kubeconfig", "--node", "n2"]));
    let said = second.tiphys(&["join", "--kubeconfig", &membership]);
    assert!(said.contains("n2 has joined"), "{said}");
    let application = first.file("web.yaml", application);
    first.kubectl(&["apply", "-f", &application]);
    first.until("all pods are ready", || ready(first) == "4");
    assert!(nodes_of(first).contains("n1") && nodes_of(first).contains("n2"));
    membership
}

fn ready(world: &World) -> String {
    world.try_kubectl(&["get", "deploy", "web", "-o", "jsonpath={.status.readyReplicas}"])
}

fn nodes_of(world: &World) -> String {
    world.kubectl(&["get", "pods", "-o", "jsonpath={.items[*].spec.nodeName}"])
}

/// The nodes of the pods that are not terminating.
fn running_on(world: &World) -> String {
    let lines =
        "jsonpath={range .items[*]}{.spec.nodeName} {.metadata.deletionTimestamp}{\"\\n\"}{end}";
    let lines = world.kubectl(&["get", "pods", "-o", lines]);
    lines.lines().filter(|line| line.ends_with(' ')).collect()
}

fn restarts(world: &World) -> u32 {
    let counts = "jsonpath={.items[*].status.containerStatuses[*].restartCount}";
    let counts = world.kubectl(&["get", "pods", "-o", counts]);
    counts.split(' ').filter_map(|count| count.parse::<u32>().ok()).sum()
}

/// A pod on one node reaches a pod on the other by its IP.
fn pods_reach_each_other(world: &World) {
    let of = |node: &str, what: &str| {
        let selector = format!("spec.nodeName={node}");
        let path = format!("jsonpath={{.items[0].{what}}}");
        world.kubectl(&["get", "pods", "-l", "app=web", "--field-selector", &selector, "-o", &path])
    };
    for (from, to) in [("n1", "n2"), ("n2", "n1")] {
        let (pod, url) = (of(from, "metadata.name"), format!("http://{}/", of(to, "status.podIP")));
        let answer = world.kubectl(&["exec", &pod, "--", "/tiphys", "hello", "--fetch", &url]);
        assert!(answer.contains("Hello from web-"), "{from} to {to}: {answer}");
    }
}

fn kill_a_container(world: &World) {
    let pod = ["get", "pods", "-l", "app=web", "-o", "jsonpath={.items[0].metadata.name}"];
    let pid = world.process(&world.kubectl(&pod));
    run(Command::new("kill").args(["-9", &pid]));
}
