//! Pods with environment files, restart rules and readiness gates, and pods that are not ready while they terminate.

mod files;

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{
    shell_image::{self, SHELL},
    world::{Running, World, run},
};

/// A pod that terminates soon after it is deleted.
fn pod(name: &str, spec: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, labels: {{app: {name}}}}}\n\
         spec: {{terminationGracePeriodSeconds: 2, {spec}}}\n"
    )
}

/// A container that runs a shell script.
fn container(name: &str, script: &str, more: &str) -> String {
    let script = script.replace('\'', "''");
    format!("{{name: {name}, image: '{SHELL}', command: [/bin/sh, -c, '{script}'], {more}}}")
}

/// A cluster for the tests of pods.
struct Cluster {
    world: World,
}

impl Cluster {
    fn up(name: &str) -> Self {
        let world = World::new(name);
        world.tiphys(&["up", "--node-name", "n1", "--disable", "dns"]);
        shell_image::import(&world);
        Self { world }
    }

    fn create(&self, objects: &[String]) {
        let file = self.world.file("pods.yaml", &objects.concat());
        self.world.kubectl(&["create", "-f", &file]);
    }

    fn get(&self, pod: &str, path: &str) -> String {
        self.world.try_kubectl(&["get", "pod", pod, "-o", &format!("jsonpath={path}")])
    }

    fn until(&self, pod: &str, path: &str, want: &str) {
        let what = format!("{pod}: {path} is {want}, but {}", self.get(pod, path));
        self.world.until(&what, || self.get(pod, path) == want);
    }

    fn logs(&self, pod: &str, container: &str) -> String {
        self.world.try_kubectl(&["logs", pod, "-c", container])
    }
}

const READY: &str = "{.status.conditions[?(@.type=='Ready')].status}";

/// An environment variable from the file `env` of the volume `config`.
fn from_file(name: &str, key: &str, optional: bool) -> String {
    let optional = if optional { ", optional: true" } else { "" };
    format!(
        "{{name: {name}, valueFrom: {{fileKeyRef: {{volumeName: config, path: env, key: {key}{optional}}}}}}}"
    )
}

fn env_files() -> String {
    let volume = "volumeMounts: [{name: config, mountPath: /data}]";
    let write =
        container("write", "echo \"ONE='first'\" > /data/env; ln -s env /data/link", volume);
    let env = |vars: &[String]| format!("env: [{}]", vars.join(", "));
    let one = env(&[from_file("A", "ONE", false), from_file("B", "TWO", true)]);
    let hook =
        "lifecycle: {postStart: {exec: {command: [/bin/sh, -c, 'echo \"hook $A\" > /tmp/hook']}}}";
    let missing = env(&[from_file("A", "TWO", false)]);
    let linked = missing.replace("path: env", "path: link");
    let show = container(
        "show",
        "env | grep -E '^[AB]='; until [ -s /tmp/hook ]; do sleep 0.1; done; cat /tmp/hook",
        &format!("{one}, {hook}"),
    );
    let restarts = "restartPolicy: Never, volumes: [{name: config, emptyDir: {}}]";
    let second = container("second", "echo init $A", &one);
    let with = |name: &str, containers: &str| {
        pod(
            name,
            &format!("{restarts}, initContainers: [{write}, {second}], containers: [{containers}]"),
        )
    };
    let sleeps = container("c", "sleep 3600", "");
    [
        with("env-file", &show),
        with("env-missing", &container("c", "true", &missing)),
        with("env-linked", &container("c", "true", &linked)),
        with("env-debug", &sleeps),
    ]
    .concat()
}

fn check_env_files(cluster: &Cluster) {
    cluster.until("env-file", "{.status.phase}", "Succeeded");
    assert_eq!(cluster.logs("env-file", "show"), "A=first\nhook first\n");
    assert_eq!(cluster.logs("env-file", "second"), "init first\n");
    let waiting = "{.status.containerStatuses[0].state.waiting.reason}";
    for name in ["env-missing", "env-linked"] {
        cluster.until(name, waiting, "CreateContainerConfigError");
    }
    let message = "{.status.containerStatuses[0].state.waiting.message}";
    let missing = cluster.get("env-missing", message);
    assert!(
        missing.starts_with("environment variable key \"TWO\" not found in file \""),
        "{missing}"
    );
    assert_eq!(
        cluster.get("env-linked", message),
        "couldn't parse env file",
        "a link is not followed"
    );

    cluster.until("env-debug", "{.status.phase}", "Running");
    let debug =
        container("debug", "echo debug $A", &format!("env: [{}]", from_file("A", "ONE", false)));
    let patch = format!("{{spec: {{ephemeralContainers: [{debug}]}}}}");
    let patch = cluster.world.file("patch.yaml", &patch);
    cluster.world.kubectl(&[
        "patch",
        "pod",
        "env-debug",
        "--subresource=ephemeralcontainers",
        "--patch-file",
        &patch,
    ]);
    let ended = "{.status.ephemeralContainerStatuses[0].state.terminated.exitCode}";
    cluster.until("env-debug", ended, "0");
    assert_eq!(cluster.logs("env-debug", "debug"), "debug first\n");
}

fn restart_rules() -> String {
    let volume = "volumeMounts: [{name: work, mountPath: /state}]";
    let rule = |action: &str| {
        format!(
            "restartPolicy: Never, restartPolicyRules: [{{action: {action}, exitCodes: {{operator: In, values: [42]}}}}]"
        )
    };
    // fails only the first time
    let once = |code: u8, last: &str| {
        format!("if [ -f /state/done ]; then {last}; fi; touch /state/done; exit {code}")
    };
    let work = "volumes: [{name: work, emptyDir: {}}]";
    let sidecar = container("side", "sleep 3600", "restartPolicy: Always");
    let cause = container(
        "cause",
        &once(42, "sleep 3600"),
        &format!("{volume}, {}", rule("RestartAllContainers")),
    );
    let done = container("done", "exit 0", "");
    let init = container("init", "exit 0", "");
    [
        pod("own-never", &format!("restartPolicy: Always, containers: [{}]", container("c", "exit 1", "restartPolicy: Never"))),
        pod("own-rule", &format!("restartPolicy: Never, {work}, containers: [{}]",
            container("c", &once(42, "exit 0"), &format!("{volume}, {}", rule("Restart"))))),
        pod("all-again", &format!("restartPolicy: Never, {work}, initContainers: [{init}, {sidecar}], containers: [{cause}, {done}]")),
        format!("---\napiVersion: batch/v1\nkind: Job\nmetadata: {{name: once}}\nspec: {{backoffLimit: 1, \
                 podFailurePolicy: {{rules: [{{action: FailJob, onExitCodes: {{containerName: c, operator: In, values: [1]}}}}]}}, \
                 template: {{spec: {{restartPolicy: Never, {work}, containers: [{}]}}}}}}\n",
            container("c", &once(1, "exit 0"), &format!("{volume}, restartPolicy: OnFailure"))),
    ]
    .concat()
}

fn check_restart_rules(cluster: &Cluster) {
    let count = "{.status.phase} {.status.containerStatuses[0].restartCount}";
    cluster.until("own-never", count, "Failed 0");
    cluster.until("own-rule", count, "Succeeded 1");
    let counts = "{.status.initContainerStatuses[*].restartCount} {.status.containerStatuses[*].restartCount}";
    cluster.until("all-again", counts, "1 1 1 1");
    cluster.until("all-again", "{.status.phase}", "Running");
    let last = "{.status.containerStatuses[0].lastState.terminated.exitCode} {.status.initContainerStatuses[1].lastState.terminated.reason}";
    cluster.until("all-again", last, "42 RestartingAllContainers");
    let condition = "{.status.conditions[?(@.type=='AllContainersRestarting')].status}";
    cluster.until("all-again", condition, "False");
    cluster.world.until("the job completes", || {
        let path = "jsonpath={.status.conditions[?(@.type=='Complete')].status} {.status.failed}";
        cluster.world.try_kubectl(&["get", "job", "once", "-o", path]) == "True "
    });
}

fn gates() -> String {
    let gates =
        "readinessGates: [{conditionType: example.com/one}, {conditionType: example.com/two}]";
    pod("gated", &format!("{gates}, containers: [{}]", container("c", "sleep 3600", "")))
}

fn check_gates(cluster: &Cluster) {
    let set = |gate: &str, status: &str| {
        let patch = format!(
            r#"{{"status":{{"conditions":[{{"type":"example.com/{gate}","status":"{status}"}}]}}}}"#
        );
        cluster.world.kubectl(&[
            "patch",
            "pod",
            "gated",
            "--subresource=status",
            "--type=strategic",
            "-p",
            &patch,
        ]);
    };
    cluster.until("gated", "{.status.conditions[?(@.type=='ContainersReady')].status}", "True");
    set("one", "True");
    let message = "{.status.conditions[?(@.type=='Ready')].message}";
    let missing =
        "corresponding condition of pod readiness gate \"example.com/two\" does not exist.";
    cluster.until("gated", message, missing);
    set("two", "True");
    cluster.until("gated", READY, "True");
    set("one", "False");
    cluster.until("gated", READY, "False");
    let stays = "{.status.conditions[?(@.type=='example.com/one')].status}";
    assert_eq!(cluster.get("gated", stays), "False", "the kubelet leaves it as it was set");
}

/// A pod that takes long to terminate and is not ready meanwhile.
fn ends_slowly() -> String {
    let script = "trap 'rm /tmp/ready' TERM; touch /tmp/ready; while true; do sleep 0.1; done";
    // a busy host is slow: the other probes wait for the startup probe
    let probe = |kind: &str, failures: u32| {
        format!(
            "{kind}: {{exec: {{command: [/bin/sh, -c, 'test -f /tmp/ready']}}, periodSeconds: 1, \
             timeoutSeconds: 60, failureThreshold: {failures}}}"
        )
    };
    let probes =
        [probe("startupProbe", 600), probe("readinessProbe", 1), probe("livenessProbe", 1)];
    let probes = probes.join(", ");
    pod("slow", &format!("containers: [{}]", container("c", script, &probes)))
        .replace("terminationGracePeriodSeconds: 2", "terminationGracePeriodSeconds: 600")
}

fn check_ends_slowly(cluster: &Cluster) {
    cluster.until("slow", READY, "True");
    cluster.world.kubectl(&["delete", "pod", "slow", "--wait=false"]);
    cluster.until("slow", READY, "False");
    assert_eq!(cluster.get("slow", "{.status.phase}"), "Running");
    let events = cluster.world.kubectl(&[
        "get",
        "events",
        "--field-selector",
        "involvedObject.name=slow",
        "-o",
        "jsonpath={.items[*].message}",
    ]);
    assert!(!events.contains("Liveness"), "what ends is not killed for it: {events}");
    cluster.world.kubectl(&["delete", "pod", "slow", "--grace-period=0", "--force"]);
}

/// Pods whose image is in a registry that never responds, or in none.
fn without_images() -> String {
    let pull = |name: &str, image: &str| {
        pod(name, &format!("containers: [{{name: c, image: '{image}', imagePullPolicy: Always}}]"))
    };
    [pull("pulling", "127.0.0.1:5051/slow:1"), pull("no-image", "127.0.0.1:5052/none:1")].concat()
}

fn check_without_images(cluster: &Cluster) {
    let conditions = "{.status.phase} {.status.containerStatuses[0].state.waiting.reason} \
                      {range .status.conditions[*]}{.type}={.status} {end}";
    let want = "Pending ContainerCreating PodReadyToStartContainers=True Initialized=True Ready=False \
                ContainersReady=False PodScheduled=True ";
    cluster.until("pulling", conditions, want);
    let why = cluster.world.refused(&["logs", "pulling"]);
    assert!(
        why.contains("container \"c\" in pod \"pulling\" is waiting to start: ContainerCreating"),
        "{why}"
    );
    cluster.until(
        "no-image",
        "{.status.containerStatuses[0].state.waiting.reason}",
        "ImagePullBackOff",
    );
    let why = cluster.world.refused(&["logs", "no-image"]);
    assert!(why.contains("is waiting to start: trying and failing to pull image"), "{why}");
}

/// The kubelet's own port: which clients are authorized, and what it serves.
fn check_port(cluster: &Cluster) {
    let world = &cluster.world;
    let port = "jsonpath={.status.daemonEndpoints.kubeletEndpoint.Port}";
    assert_eq!(world.kubectl(&["get", "node", "n1", "-o", port]), "10250");
    for (name, resource) in
        [("healthz", "nodes/healthz"), ("proxy", "nodes/proxy"), ("configz", "nodes/configz")]
    {
        world.kubectl(&["create", "serviceaccount", name]);
        world.kubectl(&[
            "create",
            "clusterrole",
            name,
            "--verb=get",
            &format!("--resource={resource}"),
        ]);
        let account = format!("--serviceaccount=default:{name}");
        world.kubectl(&[
            "create",
            "clusterrolebinding",
            name,
            &format!("--clusterrole={name}"),
            &account,
        ]);
    }
    let status = |user: &str, path: &str| {
        let url = format!("https://192.0.2.2:10250{path}");
        let mut args = vec!["-sk", "-o", "/dev/null", "-w", "%{http_code}", &url];
        let header;
        if !user.is_empty() {
            let token = world.kubectl(&["create", "token", user]);
            header = format!("Authorization: Bearer {}", token.trim());
            args.extend(["-H", &header]);
        }
        run(&mut world.inside("curl", &args))
    };
    assert_eq!(status("", "/metrics"), "401");
    assert_eq!(status("default", "/metrics"), "403");
    world.until("rights are known", || status("healthz", "/healthz") == "200");
    world.until("rights are known", || status("proxy", "/healthz") == "200");
    world.until("rights are known", || status("configz", "/configz") == "200");
    assert_eq!(status("configz", "/healthz"), "403");
    assert_eq!(status("healthz", "/pods"), "403");

    for node in ["n1", "n1:10250"] {
        let path = format!("/api/v1/nodes/{node}/proxy/logs/");
        let listed = world.kubectl(&["get", "--raw", &path]);
        assert!(listed.contains("<a href=\"pods/\">pods/</a>"), "{listed}");
    }
    let metrics = || world.kubectl(&["get", "--raw", "/api/v1/nodes/n1/proxy/metrics"]);
    let ended = "kubelet_terminated_containers_total{container_type=\"container\",exit_code=\"42\",reason=\"Error\"} ";
    assert!(metrics().contains(ended), "{}", metrics());
}

/// Logs are in the directory that log collectors expect, and are deleted with their pod.
fn check_logs(cluster: &Cluster) -> PathBuf {
    let file = |pod: &str, container: &str| {
        let uid = cluster.get(pod, "{.metadata.uid}");
        Path::new("/var/log/pods").join(format!("default_{pod}_{uid}/{container}/0.log"))
    };
    let id = cluster.get("env-file", "{.status.containerStatuses[0].containerID}");
    let id = id.rsplit('/').next().expect("an id");
    let link = PathBuf::from(format!("/var/log/containers/env-file_default_show-{id}.log"));
    let log = file("env-file", "show");
    let text = fs::read_to_string(&log).expect("a log");
    assert!(text.contains(" stdout F A=first\n"), "{text}");
    assert_eq!(fs::read_to_string(&link).expect("a link"), text);
    let raw = format!("/api/v1/nodes/n1/proxy/logs/containers/env-file_default_show-{id}.log");
    assert_eq!(cluster.world.kubectl(&["get", "--raw", &raw]), text);
    let kept = file("gated", "c");
    cluster.world.kubectl(&["delete", "pod", "env-file"]);
    cluster.world.until("the logs go with the pod", || {
        fs::symlink_metadata(&link).is_err()
            && log.ancestors().nth(2).is_some_and(|folder| !folder.exists())
    });
    kept
}

#[test]
fn env_files_restart_rules_and_readiness_gates() {
    let cluster = Cluster::up("pods");
    // reads until the other side closes the connection
    let silent = ["nc", "-ll", "-p", "5051", "-e", "/bin/sh", "-c", "exec cat > /dev/null"];
    let _silent = Running::start(cluster.world.inside("busybox", &silent));
    cluster.create(&[
        without_images(),
        env_files(),
        restart_rules(),
        gates(),
        ends_slowly(),
        files::objects(&cluster),
    ]);
    check_without_images(&cluster);
    check_env_files(&cluster);
    check_gates(&cluster);
    check_ends_slowly(&cluster);
    check_restart_rules(&cluster);
    files::check(&cluster);
    check_port(&cluster);
    let log = check_logs(&cluster);
    cluster.world.tiphys(&["down"]);
    cluster.world.assert_nothing_left();
    assert!(log.exists(), "logs outlive the cluster until it is wiped");
    cluster.world.tiphys(&["down", "--wipe"]);
    assert!(!log.exists());
}
