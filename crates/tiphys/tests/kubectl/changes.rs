//! Commands that change objects: exported objects, and manifests from other sources.

use std::{fs, process::Stdio};

use crate::{
    cluster::{Cluster, code, stderr, stdout},
    image,
    world::Running,
};

pub(crate) fn all(cluster: &Cluster) {
    exported_objects(cluster);
    replaces_nothing_that_it_cannot_create(cluster);
    from_a_web_server(cluster);
    flow_style(cluster);
    keeps_what_others_changed(cluster);
    events(cluster);
}

const OBJECTS: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: exported}
data: {a: b}
---
apiVersion: v1
kind: Service
metadata: {name: exported}
spec: {type: NodePort, selector: {app: x}, ports: [{port: 80}]}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: exported}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: exported}
spec:
  replicas: 0
  selector: {matchLabels: {app: exported}}
  template:
    metadata: {labels: {app: exported}}
    spec: {containers: [{name: c, image: IMAGE}]}
";

fn exported_objects(cluster: &Cluster) {
    cluster.create(&OBJECTS.replace("IMAGE", image::SHELL));
    let world = cluster.world();
    for kind in ["configmap", "service", "persistentvolumeclaim", "deployment.apps"] {
        let name = format!("{kind}/exported");
        let exported = world.kubectl(&["get", &name, "-o", "yaml"]);
        for field in ["resourceVersion", "uid", "creationTimestamp"] {
            assert!(exported.contains(field), "{exported}");
        }
        let uid = ["get", &name, "-o", "jsonpath={.metadata.uid} {.spec.clusterIP}"];
        let before = world.kubectl(&uid);
        let with = |args: &[&str]| {
            let out = cluster.with_input(args, exported.as_bytes());
            assert_eq!(code(&out), 0, "{name} {args:?}: {}", stderr(&out));
            stdout(&out)
        };
        assert_eq!(with(&["apply", "-f", "-"]), format!("{name} configured\n"));
        let replaced = with(&["replace", "--force", "--grace-period=0", "-f", "-"]);
        assert!(replaced.ends_with(&format!("{name} replaced\n")), "{replaced}");
        let after = world.kubectl(&uid);
        let (before, after) = (before.split_once(' '), after.split_once(' '));
        assert_ne!(before.map(|it| it.0), after.map(|it| it.0), "{name} is the old one");
        assert_eq!(before.map(|it| it.1), after.map(|it| it.1), "{name} has another address");
        world.kubectl(&["delete", &name]);
        assert_eq!(with(&["create", "-f", "-"]), format!("{name} created\n"));
        world.kubectl(&["delete", &name]);
        assert_eq!(with(&["apply", "-f", "-"]), format!("{name} created\n"));
        world.kubectl(&["delete", &name]);
    }
    // a pod, with all fields that the scheduler and the kubelet have written
    cluster.create(&crate::cluster::pod("exported", "sleep 100000", ""));
    cluster.until_running("exported");
    let exported = world.kubectl(&["get", "pod", "exported", "-o", "yaml"]);
    let args = ["replace", "--force", "--grace-period=0", "--timeout=2m", "-f", "-"];
    let out = cluster.with_input(&args, exported.as_bytes());
    assert_eq!(code(&out), 0, "{}", stderr(&out));
    cluster.until_running("exported");
    world.kubectl(&["delete", "pod", "exported", "--now"]);
}

fn replaces_nothing_that_it_cannot_create(cluster: &Cluster) {
    let world = cluster.world();
    world.kubectl(&["create", "configmap", "kept"]);
    let files = "{apiVersion: v1, kind: ConfigMap, metadata: {name: kept}}
---
{apiVersion: v1, kind: Service, metadata: {name: bad}, spec: {ports: [{port: 70000}]}}
";
    let out = cluster.with_input(&["replace", "--force", "-f", "-"], files.as_bytes());
    assert_eq!((code(&out), &*stdout(&out)), (1, ""), "{}", stderr(&out));
    assert!(stderr(&out).contains("spec.ports[0].port"), "{}", stderr(&out));
    world.kubectl(&["delete", "configmap", "kept"]);
}

fn from_a_web_server(cluster: &Cluster) {
    let world = cluster.world();
    let site = world.path().join("site");
    fs::create_dir_all(&site).expect("a folder");
    let object = "{apiVersion: v1, kind: ConfigMap, metadata: {name: from-the-web}}";
    fs::write(site.join("object.yaml"), object).expect("room");
    let site = site.to_str().expect("text");
    let server = world.inside("busybox", &["httpd", "-f", "-p", "127.0.0.1:8099", "-h", site]);
    let _server = Running::start(server);
    let url = "http://127.0.0.1:8099/object.yaml";
    world.until("the web server answers", || code(&cluster.kubectl(&["apply", "-f", url])) == 0);
    let out = cluster.kubectl(&["delete", "-f", url]);
    assert_eq!(stdout(&out), "configmap \"from-the-web\" deleted from default namespace\n");
    let out = cluster.kubectl(&["apply", "-f", "http://127.0.0.1:8099/nothing"]);
    let expected = "error: unable to read URL \"http://127.0.0.1:8099/nothing\", server reported 404 Not Found, status code=404\n";
    assert_eq!((code(&out), &*stderr(&out)), (1, expected));
}

/// YAML in flow style starts like JSON.
fn flow_style(cluster: &Cluster) {
    let object = "{apiVersion: v1, kind: ConfigMap, metadata: {name: flow}, data: {a: 'b'}}\n";
    let out = cluster.with_input(&["apply", "-f", "-"], object.as_bytes());
    assert_eq!(stdout(&out), "configmap/flow created\n", "{}", stderr(&out));
    cluster.world().kubectl(&["delete", "configmap", "flow"]);
}

fn keeps_what_others_changed(cluster: &Cluster) {
    let world = cluster.world();
    let apply = |value: &str, flags: &[&str]| {
        let object = format!(
            "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: shared}}, data: {{a: {value}, b: x}}}}"
        );
        cluster.with_input(&[&["apply", "-f", "-"], flags].concat(), object.as_bytes())
    };
    assert_eq!(code(&apply("ours", &[])), 0);
    world.kubectl(&["patch", "configmap", "shared", "-p", "{\"data\":{\"a\":\"theirs\"}}"]);
    let out = apply("new", &["--overwrite=false"]);
    assert_eq!(code(&out), 1);
    assert!(stderr(&out).contains("conflicts with changes made from original"), "{}", stderr(&out));
    assert_eq!(code(&apply("theirs", &["--overwrite=false"])), 0);
    assert_eq!(code(&apply("new", &[])), 0);
    world.kubectl(&["delete", "configmap", "shared"]);
}

/// `events --watch` prints existing events, then new ones.
fn events(cluster: &Cluster) {
    let events = ["events", "--watch", "--for", "pod/watched"];
    let mut command = cluster.command(&events);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("the executable starts");
    let mut lines =
        std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().expect("a pipe")));
    cluster.create(&crate::cluster::pod("watched", "sleep 100000", ""));
    let mut next = || lines.next().expect("a line").expect("text");
    assert!(next().starts_with("LAST SEEN   TYPE "));
    while !next().contains("Started ") {}
    child.kill().expect("ours");
    child.wait().expect("ours");
    cluster.world().kubectl(&["delete", "pod", "watched", "--now"]);
}
