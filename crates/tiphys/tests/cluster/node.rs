//! The kubelet's node-level features: admission of pods that do not fit, in-place resize, log rotation, metrics, and
//! eviction when the node runs out of a resource. Each flag for these has an effect.

use crate::world::{Running, World};

/// A pod that is bound to the node, without a scheduler.
fn pod(name: &str, more: &str, container: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{nodeName: n2, \
         terminationGracePeriodSeconds: 1, {more} containers: [{{name: c, \
         image: 'tiphys.local/hello:1', {container}}}]}}\n"
    )
}

#[test]
fn a_node_knows_its_limits() {
    let world = World::new("node");
    world.tiphys(&["up", "--node-name", "n1", "--disable", "kubelet,proxy,dns,scheduler"]);
    let get = |pod: &str, path: &str| {
        world.try_kubectl(&["get", "pod", pod, "-o", &format!("jsonpath={path}")])
    };
    let running = kubelet(
        &world,
        &[
            "--container-log-max-size",
            "10",
            "--image-gc-high-threshold",
            "1",
            "--image-gc-low-threshold",
            "0",
            "--oom-score-adj",
            "250",
        ],
    );
    world.until("the node is ready", || {
        let ready = "jsonpath={.status.conditions[?(@.type=='Ready')].status}";
        world.try_kubectl(&["get", "node", "n2", "-o", ready]) == "True"
    });
    let score = std::fs::read_to_string(format!("/proc/{}/oom_score_adj", running.pid()));
    assert_eq!(score.expect("it runs").trim(), "250");
    let amounts =
        "resources: {requests: {cpu: 100m, memory: 20Mi}, limits: {cpu: 200m, memory: 40Mi}}";
    let probe = "readinessProbe: {httpGet: {port: 80}, periodSeconds: 1}";
    let pods = [
        pod("greedy", "", "resources: {requests: {cpu: 1000}}"),
        pod("elsewhere", "nodeSelector: {disk: other},", ""),
        pod("kernel", "securityContext: {sysctls: [{name: kernel.msgmax, value: '1'}]},", ""),
        pod("web", "", &format!("{amounts}, {probe}")),
        pod("talker", "", "command: [/tiphys, etcd, --data-dir, /tmp/data]"),
    ];
    let file = world.file("pods.yaml", &pods.concat());
    world.kubectl(&["create", "-f", &file]);

    // a pod that does not fit is rejected, with the reason
    for (name, reason) in
        [("greedy", "OutOfcpu"), ("elsewhere", "NodeAffinity"), ("kernel", "SysctlForbidden")]
    {
        world.until(name, || {
            get(name, "{.status.phase} {.status.reason}") == format!("Failed {reason}")
        });
    }
    let message = get("greedy", "{.status.message}");
    let start =
        "Pod was rejected: Node didn't have enough resource: cpu, requested: 1000000, used: ";
    assert!(message.starts_with(start), "{message}");

    let ready = "{.status.conditions[?(@.type=='Ready')].status}";
    world.until("the others run", || {
        get("web", ready) == "True" && get("talker", "{.status.phase}") == "Running"
    });
    why_it_runs(&world);
    other_amounts(&world, &get);
    numbers(&world);

    // the container's log was rotated, and is still readable
    let logs = world.path().join("other-logs");
    world.until("a log was put aside", || {
        let pods = std::fs::read_dir(&logs).expect("logs").flatten();
        let mut talker = pods.filter(|pod| pod.file_name().to_string_lossy().contains("_talker_"));
        let files = talker.next().map(|pod| std::fs::read_dir(pod.path().join("c")).expect("logs"));
        files.is_some_and(|files| files.flatten().count() > 1)
    });
    world.until("images cannot be freed", || {
        let events =
            world.try_kubectl(&["get", "events", "-A", "-o", "jsonpath={.items[*].reason}"]);
        events.contains("ImageGCFailed")
    });

    drop(running);
    short_of_memory(&world, &get);
    world.tiphys(&["down", "--now"]);
    world.assert_nothing_left();
}

/// Starts a kubelet with an eviction threshold that is always met: pods are evicted, new ones are rejected.
fn short_of_memory(world: &World, get: &dyn Fn(&str, &str) -> String) {
    let _running = kubelet(world, &["--eviction-hard", "memory.available<1000Ti"]);
    for name in ["web", "talker"] {
        world.until("it has to go", || {
            get(name, "{.status.phase} {.status.reason}") == "Failed Evicted"
        });
        let why = get(name, "{.status.message}");
        assert!(
            why.starts_with("The node was low on resource: memory. Threshold quantity: 1000Ti"),
            "{why}"
        );
        let target = "{.status.conditions[?(@.type=='DisruptionTarget')].reason}";
        assert_eq!(get(name, target), "TerminationByKubelet");
    }
    let pressure = "jsonpath={.status.conditions[?(@.type=='MemoryPressure')].status}";
    assert_eq!(world.kubectl(&["get", "node", "n2", "-o", pressure]), "True");
    let late = world.file("late.yaml", &pod("late", "", ""));
    world.kubectl(&["create", "-f", &late]);
    world.until("the latecomer is refused", || {
        get("late", "{.status.reason}: {.status.message}")
            == "Evicted: Pod was rejected: The node had condition: [MemoryPressure]. "
    });
}

fn kubelet(world: &World, more: &[&str]) -> Running {
    let folder = |name: &str| world.path().join(name).to_str().expect("text").to_owned();
    let user = ["kubeconfig", "--user", "system:node:n2", "--group", "system:nodes"];
    let config = world.file("n2", &world.tiphys(&user));
    let (root, logs, authority) =
        (folder("other-root"), folder("other-logs"), folder("pki/ca.crt"));
    let socket = format!("unix://{}", folder("run/cri.sock"));
    let group = world.group("node");
    let flags = [
        ("--kubeconfig", config.as_str()),
        ("--hostname-override", "n2"),
        ("--node-ip", "192.0.2.2"),
        ("--container-runtime-endpoint", &socket),
        ("--root-dir", &root),
        ("--pod-logs-dir", &logs),
        ("--client-ca-file", &authority),
        ("--cgroup-root", &group),
        ("--port", "10252"),
    ];
    let mut command = world.command(&["kubelet"]);
    command.args(flags.iter().flat_map(|(flag, value)| [*flag, *value])).args(more);
    if !more.contains(&"--eviction-hard") {
        command.args(["--eviction-hard", "memory.available<1Mi"]);
    }
    Running::start(command)
}

/// The chain of causes contains the kubelet's own steps.
fn why_it_runs(world: &World) {
    let why = world.tiphys_at(&["history", "pod/web"], "--kubeconfig", "kubeconfig/admin");
    assert!(why.contains("container c runs"), "{why}");
    assert!(why.contains("system:node:n2"), "{why}");
}

fn other_amounts(world: &World, get: &dyn Fn(&str, &str) -> String) {
    let patch = |cpu: &str| {
        format!(
            r#"{{"spec": {{"containers": [{{"name": "c", "resources": {{"requests": {{"cpu": "{cpu}"}}, "limits": {{"cpu": "{cpu}"}}}}}}]}}}}"#
        )
    };
    let resize = ["patch", "pod", "web", "--subresource", "resize", "-p"];
    let resized = |cpu: &str| drop(world.kubectl(&[&resize[..], &[&patch(cpu)]].concat()));
    let status = "{.status.containerStatuses[0]";
    resized("300m");
    world.until("the container may use more", || {
        get("web", &format!("{status}.resources.limits.cpu}} {status}.allocatedResources.cpu}}"))
            == "300m 300m"
    });
    assert_eq!(get("web", &format!("{status}.restartCount}}")), "0");
    let pid = world.process("web");
    let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).expect("groups");
    let inside = format!(":{}/kubepods/burstable/pod", world.group("node"));
    assert!(groups.contains(&inside), "a pod's limits hold its containers: {groups}");
    let quota = groups.lines().find_map(|line| {
        let [_, names, path] = line.splitn(3, ':').collect::<Vec<_>>().try_into().ok()?;
        let file = match names.split(',').find(|name| *name == "cpu") {
            Some(_) => format!("/sys/fs/cgroup/cpu{path}/cpu.cfs_quota_us"),
            None => format!("/sys/fs/cgroup{path}/cpu.max"),
        };
        std::fs::read_to_string(file).ok()
    });
    let quota = quota.expect("a quota");
    assert_eq!(quota.split_whitespace().next(), Some("30000"), "{groups}");

    // a resize beyond the node's allocatable resources is rejected by the API server
    let refused = world.refused(&[&resize[..], &[&patch("1000")]].concat());
    assert!(refused.contains("node didn't have enough allocatable resources: cpu"), "{refused}");
    assert_eq!(get("web", &format!("{status}.resources.limits.cpu}}")), "300m");
    resized("200m");
    world.until("what fits is granted", || {
        get("web", &format!("{status}.resources.limits.cpu}}")) == "200m"
    });
}

fn numbers(world: &World) {
    let raw =
        |path: &str| world.kubectl(&["get", "--raw", &format!("/api/v1/nodes/n2/proxy/{path}")]);
    let labels = "{container=\"c\",namespace=\"default\",pod=\"web\"}";
    let resource = raw("metrics/resource");
    for name in [
        "container_cpu_usage_seconds_total",
        "container_memory_working_set_bytes",
        "container_start_time_seconds",
    ] {
        assert!(resource.contains(&format!("{name}{labels} ")), "{name}: {resource}");
    }
    assert!(resource.contains("\nresource_scrape_error 0\n"), "{resource}");
    let cadvisor = raw("metrics/cadvisor");
    for name in [
        "container_memory_rss{container=\"c\"",
        "container_network_receive_bytes_total{interface=\"eth0\"",
        "machine_cpu_cores{",
    ] {
        assert!(cadvisor.contains(name), "{name}: {cadvisor}");
    }
    let probes = raw("metrics/probes");
    let counted = "prober_probe_total{container=\"c\",namespace=\"default\",pod=\"web\",probe_type=\"Readiness\"";
    assert!(probes.contains(counted), "{probes}");
    let summary = raw("stats/summary");
    for part in [
        "\"nodeName\":\"n2\"",
        "\"workingSetBytes\":",
        "\"imageFs\":{",
        "\"process_stats\":{",
        "\"ephemeral-storage\":{",
    ] {
        assert!(summary.contains(part), "{part}: {summary}");
    }
}
