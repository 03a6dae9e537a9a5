//! The components as separate processes under upstream's names: each flag has an effect.

use crate::world::{Running, World, output, run};

const STATIC: &str = r"
apiVersion: v1
kind: Pod
metadata: {name: fixed}
spec:
  dnsPolicy: ClusterFirst
  containers: [{name: hello, image: tiphys.local/hello:1}]
";
const WEB: &str = r"
apiVersion: v1
kind: Service
metadata: {name: fixed}
spec:
  type: NodePort
  ports: [{port: 80, nodePort: 30080}]
  selector: {app: other}
";

#[test]
fn a_kubelet_and_a_proxy_of_their_own() {
    let world = World::new("parts");
    world.tiphys(&["up", "--node-name", "n1", "--disable", "kubelet,proxy,dns,scheduler"]);
    let folder = |name: &str| world.path().join(name).to_str().expect("text").to_owned();
    let sign = |user: &str, group: &str| {
        world.file(
            user.rsplit(':').next().expect("a name"),
            &world.tiphys(&["kubeconfig", "--user", user, "--group", group]),
        )
    };
    let (root, logs, manifests) = (folder("other-root"), folder("other-logs"), folder("pods"));
    std::fs::create_dir(&manifests).expect("a folder");
    world.file("pods/fixed.yaml", STATIC);
    let pages = folder("pages");
    std::fs::create_dir(&pages).expect("a folder");
    world.file("pages/pod.yaml", &STATIC.replace("fixed", "paged"));
    let pages = ["httpd", "-f", "-p", "127.0.0.1:8099", "-h", &pages];
    let pages = Running::start(world.inside("busybox", &pages));
    let kubelet = sign("system:node:n2", "system:nodes");
    let socket = format!("unix://{}", folder("run/cri.sock"));
    let authority = folder("pki/ca.crt");
    let group = world.group("parts");
    let flags = [
        ("--kubeconfig", kubelet.as_str()),
        ("--hostname-override", "n2"),
        ("--node-ip", "192.0.2.2"),
        ("--container-runtime-endpoint", &socket),
        ("--root-dir", &root),
        ("--pod-logs-dir", &logs),
        ("--pod-manifest-path", &manifests),
        ("--manifest-url", "http://127.0.0.1:8099/pod.yaml"),
        ("--client-ca-file", &authority),
        ("--cluster-dns", "10.96.0.77"),
        ("--cluster-domain", "example.org"),
        ("--cgroup-root", &group),
        ("--port", "10251"),
        ("--max-pods", "17"),
        ("--eviction-hard", "memory.available<1Mi"), // the disk of the test host may be nearly full
    ];
    let mut command = world.command(&["kubelet"]);
    command.args(world.serving_flags("n2"));
    command.args(flags.iter().flat_map(|(flag, value)| [*flag, *value]));
    let running = Running::start(command);
    let node =
        |path: &str| world.try_kubectl(&["get", "node", "n2", "-o", &format!("jsonpath={path}")]);
    world.until("the node is ready", || {
        node("{.status.conditions[?(@.type=='Ready')].status}") == "True"
    });
    assert_eq!(node("{.status.capacity.pods}"), "17");
    assert_eq!(node("{.status.addresses[0].address}"), "192.0.2.2");
    assert_eq!(node("{.status.daemonEndpoints.kubeletEndpoint.Port}"), "10251");
    for pod in ["fixed-n2", "paged-n2"] {
        world.until("the static pod runs", || {
            world.try_kubectl(&["get", "pod", pod, "-o", "jsonpath={.status.phase}"]) == "Running"
        });
    }
    assert_eq!(std::fs::read_dir(&logs).expect("logs").count(), 2);
    assert_eq!(std::fs::read_dir(format!("{root}/pods")).expect("pods").count(), 2);
    // The API server calls the kubelet with a certificate of the CA in its --client-ca-file.
    let help = world.kubectl(&["exec", "fixed-n2", "--", "/tiphys", "hello", "--help"]);
    assert!(help.contains("--fetch"), "{help}");
    let pid = world.process("fixed-n2");
    let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).expect("groups");
    assert!(groups.contains(&format!(":{group}/kubepods/besteffort/pod")), "{groups}");
    let names = std::fs::read_to_string(format!("/proc/{pid}/root/etc/resolv.conf"));
    let names = names.expect("every container has one");
    assert!(names.contains("nameserver 10.96.0.77"), "{names}");
    assert!(names.contains("search default.svc.example.org"), "{names}");

    services_come_and_go(&world, &sign("system:kube-proxy", "system:node-proxier"));
    pods_are_placed(&world, &sign("system:kube-scheduler", "system:authenticated"));

    // Deleting the manifest deletes the static pod.
    std::fs::remove_file(format!("{manifests}/fixed.yaml")).expect("it was there");
    world.until("the static pod has gone", || {
        world.try_kubectl(&["get", "pod", "fixed-n2", "-o", "name"]).is_empty()
    });
    drop((running, pages));
    world.tiphys(&["down", "--now"]);
    world.assert_nothing_left();
}

fn services_come_and_go(world: &World, kubeconfig: &str) {
    let table = || run(&mut world.inside("nft", &["list", "ruleset"]));
    let service = world.file("service.yaml", WEB);
    world.kubectl(&["create", "-f", &service]);
    let proxy = ["kube-proxy", "--kubeconfig", kubeconfig, "--hostname-override", "n2"];
    let flags = ["--bind-address", "192.0.2.2", "--cluster-cidr", "10.244.0.0/16"];
    let running = Running::start(world.command(&[&proxy[..], &flags].concat()));
    world.until("the service is in the table", || table().contains("30080"));
    let rules = table();
    assert!(rules.contains("192.0.2.2"), "--bind-address: {rules}");
    assert!(rules.contains("10.244.0.0/16"), "--cluster-cidr: {rules}");
    drop(running);
    assert!(table().contains("30080"), "services outlive the proxy");
    run(&mut world.command(&["kube-proxy", "--cleanup"]));
    assert!(!table().contains("30080"), "--cleanup");
    let refused = output(&mut world.command(&[&proxy[..], &["--proxy-mode", "ipvs"]].concat()));
    assert!(!refused.status.success(), "--proxy-mode");
}

/// Runs the scheduler with and without leader election: both schedule pods, one of them holds a lease.
fn pods_are_placed(world: &World, kubeconfig: &str) {
    let scheduler = |more: &[&str]| {
        let flags = [&["kube-scheduler", "--kubeconfig", kubeconfig], more].concat();
        Running::start(world.command(&flags))
    };
    let placed = |name: &str| {
        world.kubectl(&["run", name, "--image", "tiphys.local/hello:1"]);
        world.until("the pod has a node", || {
            world.try_kubectl(&["get", "pod", name, "-o", "jsonpath={.spec.nodeName}"]) == "n2"
        });
    };
    let holder = || {
        let lease = ["get", "lease", "-n", "kube-system", "kube-scheduler"];
        let lease = [&lease[..], &["-o", "jsonpath={.spec.holderIdentity}"]].concat();
        world.try_kubectl(&lease)
    };
    let running = scheduler(&["--leader-elect=false"]);
    placed("alone");
    assert_eq!(holder(), "", "nobody leads");
    drop(running);

    let running = scheduler(&[]);
    placed("led");
    let first = holder();
    assert_ne!(first, "", "somebody leads");
    // a second scheduler waits, and takes over
    let other = scheduler(&["--leader-elect", "--secure-port", "10269"]);
    drop(running);
    placed("after");
    assert_ne!(holder(), first, "another leads");
    drop(other);
}
