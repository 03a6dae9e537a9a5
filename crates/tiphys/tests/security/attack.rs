//! A cluster in which restricted pods attack the node, and checks that nothing was harmed.

use std::{fs, path::PathBuf};

use crate::{image, world::World};

/// A cluster with a namespace `attack` for restricted pods, and a host directory that they must not reach.
pub(crate) struct Attack {
    pub(crate) world: World,
    pub(crate) victim: PathBuf,
    node: String,
}

impl Attack {
    pub(crate) fn new(name: &str) -> Self {
        let world = World::new(name);
        world.tiphys(&["up", "--node-name", "n1", "--disable", "dns"]);
        image::import(&world);
        world.kubectl(&["create", "namespace", "attack"]);
        let level = "pod-security.kubernetes.io/enforce=restricted";
        world.kubectl(&["label", "namespace", "attack", level]);
        let victim = world.path().join("victim");
        fs::create_dir(&victim).expect("a folder");
        fs::write(victim.join("kept"), "host").expect("room");
        let node = world.pid("node").expect("the node runs");
        Self { world, victim, node }
    }

    pub(crate) fn kubectl(&self, args: &[&str]) -> String {
        self.world.try_kubectl(&[&["--namespace", "attack"], args].concat())
    }

    pub(crate) fn create(&self, yaml: &str) {
        let path = self.world.file("made.yaml", yaml);
        self.world.kubectl(&["--namespace", "attack", "create", "-f", &path]);
    }

    /// Creates a pod that runs a script; `container` and `spec` are further fields of its container and of its spec.
    pub(crate) fn pod(&self, name: &str, script: &str, container: &str, spec: &str) {
        let script = serde_json::to_string(script).expect("text");
        let image = image::SHELL;
        self.create(&format!(
            "apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  automountServiceAccountToken: false
  securityContext:
    {{runAsNonRoot: true, runAsUser: 1000, runAsGroup: 1000, seccompProfile: {{type: RuntimeDefault}}}}
  containers:
  - name: c
    image: {image}
    imagePullPolicy: Never
    command: [/bin/sh, -c, {script}]
    securityContext: {{allowPrivilegeEscalation: false, capabilities: {{drop: [ALL]}}}}
{container}
{spec}
"
        ));
    }

    pub(crate) fn get(&self, pod: &str, path: &str) -> String {
        self.kubectl(&["get", "pod", pod, "-o", &format!("jsonpath={{{path}}}")])
    }

    pub(crate) fn until(&self, what: &str, pod: &str, path: &str, expected: &str) {
        self.world.until(what, || self.get(pod, path) == expected);
    }

    pub(crate) fn exec(&self, pod: &str, script: &str) -> String {
        self.kubectl(&["exec", pod, "--", "/bin/sh", "-c", script])
    }

    /// Requires that the node has not restarted, is ready, and that the host directory is unchanged.
    pub(crate) fn assert_unharmed(&self) {
        assert_eq!(self.world.pid("node").as_deref(), Some(&*self.node), "the node has restarted");
        let kept = fs::read_to_string(self.victim.join("kept"));
        assert_eq!(kept.expect("the host's folder is there"), "host");
        assert_eq!(fs::read_dir(&self.victim).expect("a folder").count(), 1);
        let ready = "jsonpath={.status.conditions[?(@.type=='Ready')].status}";
        assert_eq!(self.world.kubectl(&["get", "node", "n1", "-o", ready]), "True");
        // another pod can still be started
        let neighbour = "neighbour";
        self.pod(neighbour, "echo well > /dev/termination-log", "", "");
        let said = ".status.containerStatuses[0].state.terminated.message";
        self.until("a neighbour runs", neighbour, said, "well\n");
    }

    /// Stops the cluster, and requires that nothing is left.
    pub(crate) fn end(self) {
        self.world.tiphys(&["down", "--now"]);
        self.world.assert_nothing_left();
    }
}
