//! `up` applies its flags, and reports what it cannot do.

use crate::world::{Running, World, output, run, said};

#[test]
fn up_applies_its_flags_and_outlives_its_supervisor() {
    let world = World::new("config-overrides");
    let mine = world.path().join("mine").to_str().expect("text").to_owned();
    let folder = world.path().to_str().expect("text");
    let flags = [
        ("--data-dir", folder),
        ("--node-name", "n1"),
        ("--port", "7443"),
        ("--kubeconfig", &mine),
        ("--cluster-cidr", "10.50.0.0/16"),
        ("--service-cluster-ip-range", "10.60.0.0/16"),
        ("--external", "network-policy"),
    ];
    let mut command = world.command(&["up", "--foreground"]);
    command.args(flags.iter().flat_map(|(flag, value)| [*flag, *value]));
    let running = Running::start(command);
    let kubectl = |args: &[&str]| {
        let own = ["kubectl", "--kubeconfig", &mine];
        said(&output(&mut world.command(&[&own[..], args].concat())))
    };
    world.until("the node is ready", || kubectl(&["get", "nodes"]).contains(" Ready "));
    assert!(std::fs::read_to_string(&mine).expect("a kubeconfig").contains(":7443"));
    let range = kubectl(&["get", "node", "n1", "-o", "jsonpath={.spec.podCIDR}"]);
    assert!(range.starts_with("10.50."), "{range}");
    world.until("the name server is there", || {
        let address = ["get", "service", "-n", "kube-system", "kube-dns"];
        let address = [&address[..], &["-o", "jsonpath={.spec.clusterIP}"]].concat();
        kubectl(&address) == "10.60.0.10"
    });

    // an object that no part of the cluster acts on is answered with a warning
    let policy = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\n\
                  metadata: {name: all}\nspec: {podSelector: {}}\n";
    let made = kubectl(&["create", "-f", &world.file("policy.yaml", policy)]);
    assert!(made.contains("all created") && !made.contains("Warning"), "{made}");
    let made = kubectl(&["create", "ingress", "web", "--rule=web.example/=web:80"]);
    assert!(made.contains("Warning: no ingress controller runs in this cluster"), "{made}");

    // changes that are not possible are errors
    let other = world.try_tiphys(&["up", "--cluster-cidr", "10.51.0.0/16"]);
    assert!(other.contains("nodes and pods have addresses of 10.50.0.0/16"), "{other}");
    let beside = world.path().join("beside");
    let mut beside =
        world.command(&["up", "--port", "7443", "--data-dir", &beside.to_string_lossy()]);
    let taken = said(&output(&mut beside));
    assert!(
        taken.contains("port 7443 is taken by another program: choose one with --port"),
        "{taken}"
    );
    let stranger = ["--reuid=65534", "--clear-groups", env!("CARGO_BIN_EXE_tiphys"), "up"];
    let refused = said(&output(&mut world.inside("setpriv", &stranger)));
    assert!(refused.contains("tiphys up needs root"), "{refused}");

    // processes that outlive their supervisor are stopped by `down`, with and without a pid file
    world.kill("supervisor");
    drop(running);
    assert!(world.runs("control") && world.runs("node"));
    std::fs::remove_file(world.path().join("run/node.pid")).expect("the note");
    world.tiphys(&["down", "--now"]);
    world.assert_nothing_left();
    let status = world.try_tiphys(&["status"]);
    assert!(status.contains("not running"), "{status}");
    assert!(run(&mut world.command(&["check"])).contains("ok"));
}
