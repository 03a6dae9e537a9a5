//! Every setting can be changed by running `up` again, by flags or in the file; a change that is not possible is
//! rejected with the reason, and stops nothing.

use std::{fs, process::Command};

use crate::world::{World, output, run, said};

const POLICY: &str = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n";

#[test]
fn settings_change_by_running_up_again() {
    let world = World::new("settings");
    world.tiphys(&["up", "--node-name", "n1"]);
    world.kubectl(&["run", "web", "--image", "tiphys.local/hello:1"]);
    let of_pod = |path: &str| world.try_kubectl(&["get", "pod", "web", "-o", path]);
    world.until("the pod runs", || of_pod("jsonpath={.status.phase}") == "Running");
    let container = of_pod("jsonpath={.status.containerStatuses[0].containerID}");
    world.kubectl(&["config", "set-context", "--current", "--namespace=default"]);
    the_node_has_a_role_and_events(&world);

    let policy = format!("audit-policy-file={}", world.file("audit-policy.yaml", POLICY));
    let flags = [
        ("--port", "7443"),
        ("--tls-san", "api.example"),
        ("--service-node-port-range", "20000-20100"),
        ("--node-ip", "192.0.2.2"),
        ("--kube-apiserver-arg", &*policy),
        ("--kube-apiserver-arg", "event-ttl=2h"),
        ("--kube-controller-manager-arg", "terminated-pod-gc-threshold=3"),
        ("--kube-controller-manager-arg", "leader-elect"),
        ("--kube-scheduler-arg", "tls-min-version=VersionTLS13"),
        ("--kube-scheduler-arg", "leader-elect=true"),
        ("--kubelet-arg", "max-pods=7"),
        ("--kubelet-arg", "allowed-unsafe-sysctls=net.core.*"),
        ("--kube-proxy-arg", "proxy-mode=nftables"),
    ];
    let mut words = vec!["up"];
    words.extend(flags.iter().flat_map(|(flag, value)| [*flag, *value]));
    let printed = world.tiphys(&words);
    assert!(printed.contains("applying the changed settings"), "{printed}");
    let kubeconfig = fs::read_to_string(world.path().join("kubeconfig/admin")).expect("a file");
    assert!(kubeconfig.contains(":7443"), "{kubeconfig}");
    let namespace = ["config", "view", "--minify", "-o", "jsonpath={..namespace}"];
    assert_eq!(world.kubectl(&namespace), "default", "what the user set stays");
    let pods =
        || world.try_kubectl(&["get", "node", "n1", "-o", "jsonpath={.status.capacity.pods}"]);
    world.until("the kubelet has its flag", || pods() == "7");
    let now = of_pod("jsonpath={.status.containerStatuses[0].containerID}");
    assert_eq!(now, container, "pods go on");
    world.kubectl(&["create", "service", "nodeport", "web", "--tcp=80"]);
    let port = ["get", "service", "web", "-o", "jsonpath={.spec.ports[0].nodePort}"];
    let port: u16 = world.kubectl(&port).parse().expect("a port");
    assert!((20_000..=20_100).contains(&port), "{port}");
    let authority = world.path().join("pki/ca.crt");
    let resolve = ["--resolve", "api.example:7443:127.0.0.1", "--cacert"];
    let mut curl = world.inside("curl", &["-sS", "https://api.example:7443/healthz"]);
    assert_eq!(run(curl.args(resolve).arg(authority)), "ok");
    world.until("requests are audited", || {
        let log = fs::read_to_string(world.path().join("audit/audit.log")).unwrap_or_default();
        log.contains("\"requestURI\"")
    });

    for component in ["kube-controller-manager", "kube-scheduler"] {
        let holder = ["-n", "kube-system", "-o", "jsonpath={.spec.holderIdentity}"];
        let holder = [&["get", "lease", component][..], &holder].concat();
        world.until("a leader is elected", || !world.try_kubectl(&holder).is_empty());
    }
    sysctls(&world);

    let again = world.tiphys(&["up"]);
    assert!(again.contains("already runs") && again.contains("with these settings"), "{again}");
    refused_without_a_stop(&world);

    // the same change in the file
    let config = world.path().join("config.yaml");
    let text = fs::read_to_string(&config).expect("the settings");
    fs::write(&config, text.replace("max-pods=7", "max-pods=9")).expect("written");
    world.tiphys(&["up"]);
    world.until("the kubelet has its new flag", || pods() == "9");
    world.tiphys(&["down", "--now"]);
    world.assert_nothing_left();
}

fn the_node_has_a_role_and_events(world: &World) {
    let role = || world.try_kubectl(&["get", "nodes", "--no-headers"]);
    world.until("the node has its role", || role().contains(" control-plane "));
    world.kubectl(&["cordon", "n1"]);
    let expected = [
        "kubelet/n1 Normal Starting: Starting kubelet.",
        "kubelet/n1 Normal NodeHasSufficientMemory: Node n1 status is now: NodeHasSufficientMemory",
        "kubelet/n1 Normal NodeHasNoDiskPressure: Node n1 status is now: NodeHasNoDiskPressure",
        "kubelet/n1 Normal NodeHasSufficientPID: Node n1 status is now: NodeHasSufficientPID",
        "kubelet/n1 Normal NodeReady: Node n1 status is now: NodeReady",
        "kubelet/n1 Normal NodeAllocatableEnforced: Updated Node Allocatable limit across pods",
        "kubelet/n1 Normal NodeNotSchedulable: Node n1 status is now: NodeNotSchedulable",
        "node-controller/ Normal RegisteredNode: Node n1 event: Registered Node n1 in Controller",
    ];
    let line = "{.source.component}/{.source.host} {.type} {.reason}: {.message}";
    let lines = format!("jsonpath={{range .items[*]}}{line}{{\"\\n\"}}{{end}}");
    let about = "--field-selector=involvedObject.kind=Node";
    let events = || world.try_kubectl(&["get", "events", "-A", about, "-o", &lines]);
    for event in expected {
        world.until(event, || events().lines().any(|own| own == event));
    }
    let described = world.kubectl(&["describe", "node", "n1"]);
    assert!(described.contains("NodeNotSchedulable"), "{described}");
    world.kubectl(&["uncordon", "n1"]);
}

/// A pod may set only those unsafe sysctls that the kubelet's flag allows.
fn sysctls(world: &World) {
    let pod = |name: &str, sysctl: &str| {
        let pod = format!(
            "apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  securityContext: {{sysctls: [{{name: {sysctl}, value: '1234'}}]}}
  containers: [{{name: c, image: 'tiphys.local/hello:1'}}]
"
        );
        world.kubectl(&["apply", "-f", &world.file(&format!("{name}.yaml"), &pod)]);
    };
    pod("tuned", "net.core.somaxconn");
    pod("refused", "kernel.msgmax");
    let status = |name: &str, field: &str| {
        world.try_kubectl(&["get", "pod", name, "-o", &format!("jsonpath={{.status.{field}}}")])
    };
    world.until("a pod with an allowed sysctl runs", || status("tuned", "phase") == "Running");
    let pid = world.process("tuned");
    let read = ["--target", &pid, "--net", "cat", "/proc/sys/net/core/somaxconn"];
    assert_eq!(run(Command::new("nsenter").args(read)), "1234\n");
    world.until("another is refused", || status("refused", "reason") == "SysctlForbidden");
    let message = status("refused", "message");
    assert!(message.contains("forbidden sysctl: \"kernel.msgmax\" not allowlisted"), "{message}");
    let refused =
        world.try_tiphys(&["up", "--kubelet-arg", "allowed-unsafe-sysctls=vm.swappiness"]);
    assert!(refused.contains("are not known to be namespaced"), "{refused}");
    world.kubectl(&["delete", "pod", "tuned", "refused", "--now"]);
}

/// An invalid setting is an error of one line, and the cluster keeps running unchanged.
fn refused_without_a_stop(world: &World) {
    let parts = || ["supervisor", "control", "node"].map(|part| world.pid(part));
    let before = parts();
    let config = world.path().join("config.yaml");
    let text = fs::read_to_string(&config).expect("the settings");
    let cases: &[(&[&str], &str)] = &[
        (&["--kubelet-arg", "max-pods=abc"], "up: --kubelet-arg: invalid value 'abc' for"),
        (&["--kubelet-arg", "node-ip=1.2.3.4"], "use --node-ip of `tiphys up`"),
        (
            &["--kube-scheduler-arg", "kubeconfig=/x"],
            "kubeconfig cannot be set: `tiphys up` decides",
        ),
        (&["--kube-scheduler-arg", "nonsense=1"], "up: --kube-scheduler-arg: unexpected argument"),
        (&["--kube-apiserver-arg", "feature-gates=Nonsense=true"], "Nonsense"),
        (&["--kube-proxy-arg", "proxy-mode=ipvs"], "up: --kube-proxy-arg: invalid value 'ipvs'"),
        (&["--node-name", "n2"], "this machine is the node n1"),
        (&["--node-name", "No_Name"], "up: --node-name \"No_Name\": a node's name has"),
        (&["--service-cluster-ip-range", "10.9.0.0/16"], "create a ServiceCIDR"),
        (&["--etcd-servers", "http://192.0.2.9:1"], "do not move to etcd by themselves"),
    ];
    for (flags, expected) in cases {
        let mut command = world.command(&["up"]);
        let out = output(command.args(*flags).arg("--data-dir").arg(world.path()));
        let printed = said(&out);
        assert_eq!(out.status.code(), Some(1), "{flags:?}: {printed}");
        assert!(printed.contains(expected), "{flags:?}: {printed}");
        assert_eq!(printed.trim().lines().count(), 1, "{flags:?}: {printed}");
    }
    fs::write(&config, format!("{text}tlsSan: [x]\n")).expect("written");
    let line = text.lines().count() + 1;
    let printed = world.try_tiphys(&["up"]);
    let expected =
        format!("line {line}, column 1: unknown key \"tlsSan\"; did you mean \"tlsSANs\"?");
    assert!(printed.contains(&expected) && printed.contains("config.yaml"), "{printed}");
    fs::write(&config, text).expect("written");
    assert_eq!(parts(), before, "nothing was stopped");
}
