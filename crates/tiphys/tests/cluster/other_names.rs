//! The cluster DNS is an ordinary workload: it can be deleted, and another DNS server's manifest applied in its
//! place, with the same cluster IP.

use crate::world::{World, output, run};

/// A DNS server that a user installs: other names, another domain, another way of deployment; only the cluster IP is
/// the one that pods use.
const OTHER: &str = "
apiVersion: v1
kind: ServiceAccount
metadata: {name: names, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: names}
rules: [{apiGroups: [''], resources: [namespaces, pods, services], verbs: [list, watch]},
  {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: names}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: names}
subjects: [{kind: ServiceAccount, name: names, namespace: default}]
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: names, namespace: default}
spec:
  selector: {matchLabels: {app: names}}
  template:
    metadata: {labels: {app: names}}
    spec:
      serviceAccountName: names
      dnsPolicy: Default
      containers:
      - name: names
        image: IMAGE
        command: [/tiphys, dns, --domain=names.other.test]
        ports: [{containerPort: 53, protocol: UDP}]
---
apiVersion: v1
kind: Service
metadata: {name: names, namespace: default}
spec:
  clusterIP: ADDRESS
  selector: {app: names}
  ports: [{name: dns, port: 53, protocol: UDP}, {name: dns-tcp, port: 53}]
";

#[test]
fn another_name_server_takes_the_place_of_ours() {
    let world = World::new("names");
    world.tiphys(&["up", "--node-name", "n1", "--demo"]);
    let system = |args: &[&str]| world.kubectl(&[&["-n", "kube-system"], args].concat());
    let image = "jsonpath={.spec.template.spec.containers[0].image}";
    let image = system(&["get", "deploy", "coredns", "-o", image]);
    let address = system(&["get", "service", "kube-dns", "-o", "jsonpath={.spec.clusterIP}"]);
    let pod = world.kubectl(&["get", "pods", "-l", "app=hello", "-o", "name"]);
    let pod = pod.lines().next().expect("a pod");
    let answers = |domain: &str| {
        let url = format!("http://hello.default.svc.{domain}/");
        let fetch = ["exec", pod, "--", "/tiphys", "hello", "--fetch", &url];
        world.try_kubectl(&fetch).contains("Hello from hello-")
    };
    world.until("our server answers", || answers("cluster.local"));
    assert!(!answers("names.other.test"), "nobody serves that domain yet");

    system(&["delete", "deploy/coredns", "service/kube-dns", "serviceaccount/coredns"]);
    let other = OTHER.replace("IMAGE", &image).replace("ADDRESS", &address);
    let file = world.file("other.yaml", &other);
    world.until("the address is free", || {
        world.try_kubectl(&["apply", "-f", &file]).contains("service/names")
    });
    world.until("the other server answers", || answers("names.other.test"));

    // a restart does not recreate what was deleted
    world.kill("control");
    world.until("the node is ready again", || {
        world.try_kubectl(&["get", "nodes"]).contains(" Ready ")
    });
    assert_eq!(system(&["get", "deploy", "-o", "name"]), "");
    assert!(answers("names.other.test"));
}

/// Components that `--disable` leaves out work the same when the output of `manifest` is applied.
#[test]
fn what_is_left_out_can_be_applied() {
    let world = World::new("manifests");
    world.tiphys(&["up", "--node-name", "n1", "--disable", "proxy,dns"]);
    let apply = |name: &str, flags: &[&str]| {
        let manifest = run(&mut world.command(&[&["manifest", name], flags].concat()));
        let file = world.file(name, &manifest);
        world.kubectl(&["apply", "-f", &file]);
    };
    apply("kube-proxy", &["--server", "https://192.0.2.2:6443"]);
    apply("dns", &[]);
    world.kubectl(&["create", "deployment", "hello", "--image=tiphys.local/hello:1"]);
    world.kubectl(&["expose", "deployment", "hello", "--port=80", "--type=NodePort"]);
    let port = ["get", "service", "hello", "-o", "jsonpath={.spec.ports[0].nodePort}"];
    let url = format!("http://192.0.2.2:{}/", world.kubectl(&port));
    world.until("the proxy in its pod makes the service", || {
        let page = output(&mut world.command(&["hello", "--fetch", &url]));
        String::from_utf8_lossy(&page.stdout).contains("Hello from hello-")
    });
    world.until("the name server in its pod answers", || {
        let fetch = ["exec", "deploy/hello", "--", "/tiphys", "hello", "--fetch"];
        let fetch = [&fetch[..], &["http://hello.default.svc.cluster.local/"]].concat();
        world.try_kubectl(&fetch).contains("Hello from hello-")
    });
    world.tiphys(&["down", "--now"]);
    world.assert_nothing_left();
}
